//! Pods from a URL (SRC-03), from a server on loopback.
#![expect(clippy::unwrap_used, reason = "a test whose server cannot be set up has failed")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use expect_test::expect;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rubelet_cluster::{HttpSource, MAX_MANIFEST, Origin};
use rubelet_testkit::TestClock;
use serde_json::Value;
use support::{Running, manifest, node};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

mod support;

const OFTEN: Duration = Duration::from_millis(10);

/// A scripted manifest server that records its requests.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    answer: Arc<Mutex<Response<Bytes>>>,
    asked: Arc<tokio::sync::watch::Sender<Vec<String>>>,
}

impl Server {
    async fn start(tasks: &mut JoinSet<()>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            answer: Arc::default(),
            asked: Arc::new(tokio::sync::watch::Sender::default()),
        };
        let shared = server.clone();
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(shared.handle(&request))));
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // A client may close early.
                connection.await.ok();
            }
        });
        server
    }

    fn handle(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let header =
            |name: &str| request.headers().get_all(name).iter().map(|v| v.to_str().unwrap()).collect::<Vec<_>>();
        let line = format!("{} {:?} {:?}", request.uri(), header("x-token"), header("authorization"));
        self.asked.send_modify(|asked| asked.push(line));
        if request.uri().path() == "/old" {
            let moved = Response::builder().status(StatusCode::FOUND).header("location", "pods?x=1");
            return moved.body(Full::default()).unwrap();
        }
        if request.uri().path() == "/loop" {
            let moved = Response::builder().status(StatusCode::FOUND).header("location", "/loop");
            return moved.body(Full::default()).unwrap();
        }
        self.answer.lock().unwrap().clone().map(Full::new)
    }

    fn serves(&self, body: impl Into<Bytes>) {
        *self.answer.lock().unwrap() = Response::new(body.into());
    }

    fn fails(&self, status: StatusCode) {
        *self.answer.lock().unwrap() = Response::builder().status(status).body("no".into()).unwrap();
    }

    /// Waits for `more` further requests.
    async fn rounds(&self, more: usize) {
        let mut asked = self.asked.subscribe();
        let goal = asked.borrow().len() + more;
        let enough = asked.wait_for(|asked| asked.len() >= goal);
        tokio::time::timeout(Duration::from_secs(20), enough).await.expect("the source asks on").unwrap();
    }

    fn source(&self, path: &str, headers: &[(&str, &str)]) -> Running {
        let mut map: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            map.entry((*name).into()).or_default().push((*value).into());
        }
        let url = format!("http://{}{path}", self.address);
        Running::start(HttpSource::new(&url, &map, OFTEN, node()).unwrap())
    }
}

/// A pod in a list, without `kind` and `apiVersion`.
fn item(name: &str, image: &str) -> String {
    format!("{{metadata: {{name: {name}}}, spec: {{containers: [{{name: app, image: 'i:{image}'}}]}}}}")
}

fn list(items: &[String]) -> String {
    format!("apiVersion: v1\nkind: PodList\nitems: [{}]\n", items.join(", "))
}

#[tokio::test]
async fn src_03_a_pod_or_a_pod_list_is_read_and_only_changes_are_delivered() {
    let mut tasks = JoinSet::new();
    let server = Server::start(&mut tasks).await;
    server.serves(manifest("web", "1"));
    let mut running = server.source("/pods", &[]);
    assert_eq!(running.next().await, "[web=1]");
    server.rounds(3).await;
    assert!(running.nothing_waits(), "an unchanged body is not delivered again");
    server.serves(list(&[item("a", "1"), item("b", "2")]));
    assert_eq!(running.next().await, "[a=1 b=2]");
    server.serves("apiVersion: v1\nkind: PodList\n");
    assert_eq!(running.next().await, "[]");
    running.stop().await;
}

#[tokio::test]
async fn an_empty_body_is_an_empty_set_and_the_old_body_is_delivered_again() {
    let mut tasks = JoinSet::new();
    let server = Server::start(&mut tasks).await;
    let mut running = server.source("/pods", &[]);
    assert_eq!(running.next().await, "[]", "the source is ready");
    server.serves(manifest("web", "1"));
    running.until("[web=1]").await;
    server.serves("");
    running.until("[]").await;
    server.serves(manifest("web", "1"));
    running.until("[web=1]").await;
    running.stop().await;
}

#[tokio::test]
async fn a_failed_read_leaves_the_pods_as_they_were() {
    let mut tasks = JoinSet::new();
    let server = Server::start(&mut tasks).await;
    server.fails(StatusCode::NOT_FOUND);
    let mut running = server.source("/pods", &[]);
    server.rounds(5).await;
    assert!(running.nothing_waits(), "a source that was never read is not ready");
    server.serves(manifest("web", "1"));
    assert_eq!(running.next().await, "[web=1]");
    server.fails(StatusCode::INTERNAL_SERVER_ERROR);
    server.rounds(3).await;
    server.serves("kind: [");
    server.rounds(3).await;
    server.serves(vec![b'#'; MAX_MANIFEST + 1]);
    server.rounds(3).await;
    assert!(running.nothing_waits());
    server.serves(manifest("web", "2"));
    assert_eq!(running.next().await, "[web=2]");
    running.stop().await;
}

/// Difference: upstream rejects the whole list.
#[tokio::test]
async fn a_bad_pod_of_a_list_stays_as_it_was_and_does_not_block_others() {
    let bad = |name: &str| format!("{{kind: Service, metadata: {{name: {name}, namespace: ns}}}}");
    let mut tasks = JoinSet::new();
    let server = Server::start(&mut tasks).await;
    let text = |seen: String| seen.replace(&server.address.to_string(), "SERVER");
    server.serves(list(&[item("a", "1"), bad("b")]));
    let mut running = server.source("/pods", &[]);
    expect![[r#"
        [a=1]
        http://SERVER/pods: pod b of namespace ns: expected apiVersion: v1, kind: Pod, found apiVersion: v1, kind: Service"#]]
    .assert_eq(&text(running.next().await));
    server.serves(list(&["{kind: Service, metadata: {name: a}}".to_owned(), item("c", "1"), "{}".to_owned()]));
    expect![[r#"
        [a=1 c=1]
        http://SERVER/pods: pod a: expected apiVersion: v1, kind: Pod, found apiVersion: v1, kind: Service; it goes on as it was last read
        http://SERVER/pods: pod 2, counted from 0: invalid pod: metadata.name: Required value"#]]
    .assert_eq(&text(running.next().await));
    running.stop().await;
}

#[tokio::test]
async fn headers_are_sent_and_redirects_followed() {
    let mut tasks = JoinSet::new();
    let server = Server::start(&mut tasks).await;
    server.serves(manifest("web", "1"));
    let headers = [("X-Token", "one"), ("X-Token", "two"), ("Authorization", "Bearer t")];
    let mut running = server.source("/old", &headers);
    assert_eq!(running.next().await, "[web=1]");
    running.stop().await;
    let asked = server.asked.borrow().clone();
    assert_eq!(asked[0], r#"/old ["one", "two"] ["Bearer t"]"#);
    assert_eq!(asked[1], r#"/pods?x=1 ["one", "two"] ["Bearer t"]"#);
}

#[tokio::test]
async fn endless_redirects_are_given_up() {
    let mut tasks = JoinSet::new();
    let server = Server::start(&mut tasks).await;
    let mut running = server.source("/loop", &[]);
    server.rounds(25).await;
    assert!(running.nothing_waits());
    running.stop().await;
}

/// All tasks of this test share its thread: decoding a manifest on it would block all of them.
#[tokio::test]
async fn large_manifests_are_decoded_off_the_async_thread() {
    let mut tasks = JoinSet::new();
    let server = Server::start(&mut tasks).await;
    server.serves(manifest("web", "1"));
    let (reads, read) = std::sync::mpsc::channel();
    let decode = move |raw: &Value, origin: &Origin| {
        reads.send(std::thread::current().id())?;
        node().decode(raw, origin)
    };
    let url = format!("http://{}/pods", server.address);
    let source = HttpSource::new(&url, &BTreeMap::new(), OFTEN, Arc::new(decode)).unwrap();
    let mut running = Running::start(source);
    assert_eq!(running.next().await, "[web=1]");
    let reader = read.try_recv().expect("the pod was decoded");
    assert_ne!(reader, std::thread::current().id());
    running.stop().await;
}

/// The next round reads the body again.
#[tokio::test]
async fn a_decoder_that_panics_leaves_the_pods_as_they_were() {
    let mut tasks = JoinSet::new();
    let server = Server::start(&mut tasks).await;
    server.serves(manifest("web", "1"));
    let decode = |raw: &Value, origin: &Origin| {
        let decoded = node().decode(raw, origin)?;
        assert_ne!(decoded.pod.metadata.name.as_deref(), Some("panics-n"), "on purpose");
        Ok(decoded)
    };
    let url = format!("http://{}/pods", server.address);
    let mut running = Running::start(HttpSource::new(&url, &BTreeMap::new(), OFTEN, Arc::new(decode)).unwrap());
    assert_eq!(running.next().await, "[web=1]");
    server.serves(manifest("panics", "1"));
    server.rounds(3).await;
    assert!(running.nothing_waits());
    server.serves(manifest("web", "2"));
    assert_eq!(running.next().await, "[web=2]");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_respond_times_out_after_ten_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut running = Running::start(HttpSource::new(&url, &BTreeMap::new(), OFTEN, node()).unwrap());
    let clock = TestClock::start();
    let _silent = listener.accept().await.unwrap();
    let _again = listener.accept().await.unwrap();
    assert_eq!(clock.elapsed().as_secs(), 10);
    assert!(running.nothing_waits());
    running.stop().await;
}

#[tokio::test]
async fn an_unusable_url_is_rejected_at_startup() {
    let check = |url: &str, header: &str| {
        let headers = BTreeMap::from([(header.to_owned(), vec!["x".to_owned()])]);
        match HttpSource::new(url, &headers, OFTEN, node()) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    expect!["ok"].assert_eq(&check("http://localhost:8080/pods?x=y", "X-Token"));
    expect!["ok"].assert_eq(&check("http://[::1]/", "X-Token"));
    expect!["ok"].assert_eq(&check("https://localhost/pods", "X-Token"));
    expect![[r#""ftp://localhost/pods" is not of the form http://host[:port]/path or https://host[:port]/path"#]]
        .assert_eq(&check("ftp://localhost/pods", "X-Token"));
    expect![[r#""/etc/pods" is not of the form http://host[:port]/path or https://host[:port]/path"#]]
        .assert_eq(&check("/etc/pods", "X-Token"));
    expect!["the manifest URL holds credentials: put them in a header (staticPodURLHeader)"]
        .assert_eq(&check("http://user:secret@localhost/", "X-Token"));
    expect![[r#""http://local host/" is not a URL"#]].assert_eq(&check("http://local host/", "X-Token"));
    expect![[r#""X Token" is not a valid header, or its value is not"#]]
        .assert_eq(&check("http://localhost/", "X Token"));
}
