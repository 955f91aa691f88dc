use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use rubelet_engine::chain::Chain;
use rubelet_engine::ports::{EventKind, Events, NodeEvent};
use rubelet_engine::sync_loop::NodeView;
use rubelet_engine::task::TaskGroup;
use rubelet_testkit::pod;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;

use super::ui::LocalUi;
use super::{Agent, Client, LocalServer, OwnedSocket};
use crate::documents::{LogAsk, PodState};
use crate::testing::{FakeNode, FakeUsage, agent, insight, node, running, status, usage, worker};

struct Rig {
    dir: TempDir,
    tasks: TaskGroup,
}

impl Rig {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), tasks: TaskGroup::new(&CancellationToken::new()) }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("rubelet.sock")
    }

    /// The user that runs the test.
    fn me(&self) -> u32 {
        self.dir.path().metadata().expect("it is there").uid()
    }

    fn start(&mut self, view: Option<NodeView>, user: u32) {
        let node = Arc::new(FakeNode { view, quiet_for: Duration::ZERO });
        let socket = OwnedSocket::bind(&self.path()).expect("it binds");
        let server = LocalServer::new(socket, node, agent(), user);
        self.tasks.start("local", server.run(self.tasks.cancel_token()));
    }

    /// Compares after replacing the temporary path.
    fn check(&self, text: &str, expected: Expect) {
        expected.assert_eq(&text.replace(self.dir.path().to_str().expect("text"), "ROOT"));
    }
}

fn web() -> NodeView {
    node(vec![worker(pod("web").build(), status("Running", vec![running("app", 500, true)]))])
}

fn bind_error(path: &Path) -> String {
    OwnedSocket::bind(path).err().map_or_else(|| "bound".to_owned(), |err| Chain(&err).to_string())
}

#[tokio::test]
async fn queries_are_answered() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me());
    let client = Client::new(&rig.path());
    let node = client.pods().await.expect("an answer");
    assert_eq!(node.pods.iter().map(|p| (p.name.as_str(), p.state)).collect::<Vec<_>>(), [("web", PodState::Running)]);
    let story = client.story("default/web").await.expect("an answer");
    assert_eq!(story.line.uid, "web-uid");
    let status = client.status().await.expect("an answer");
    assert_eq!((status.node.as_str(), status.pods.running, status.api_server), ("node-1", 1, None));
    let miss = client.story("a b%/ü").await.expect_err("no such pod");
    rig.check(&miss.to_string(), expect![[r#"no pod "a b%/ü" on this node; rubelet pods lists all"#]]);
    rig.tasks.stop().await;
}

#[tokio::test]
async fn the_socket_is_private_and_removed_with_its_server() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me());
    let file = rig.path().symlink_metadata().expect("it is there");
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let (path, tasks) = (rig.path(), rig.tasks);
    tasks.stop().await;
    assert!(!path.exists(), "the socket is left behind");
}

#[tokio::test]
async fn another_user_is_rejected() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me() + 1);
    let err = Client::new(&rig.path()).pods().await.expect_err("not allowed");
    rig.check(&err.to_string(), expect!["only root may ask the rubelet on ROOT/rubelet.sock: try sudo"]);
    rig.tasks.stop().await;
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let mut rig = Rig::new();
    drop(std::os::unix::net::UnixListener::bind(rig.path()).expect("it binds"));
    assert!(rig.path().exists(), "a dropped listener leaves its file, as a killed process does");
    rig.start(Some(web()), rig.me());
    Client::new(&rig.path()).pods().await.expect("the new one answers");
    rig.check(
        &bind_error(&rig.path()),
        expect!["another rubelet answers on ROOT/rubelet.sock: stop it, or give this one another --root-dir"],
    );
    Client::new(&rig.path()).pods().await.expect("it still answers");
    rig.tasks.stop().await;
}

#[tokio::test]
async fn bind_errors_name_the_path() {
    let rig = Rig::new();
    std::fs::write(rig.path(), "precious").expect("it writes");
    rig.check(&bind_error(&rig.path()), expect!["ROOT/rubelet.sock is there and is not a socket: move it away"]);
    assert_eq!(std::fs::read_to_string(rig.path()).expect("it reads"), "precious");
    rig.check(
        &bind_error(&rig.dir.path().join("none/rubelet.sock")),
        expect!["open the socket ROOT/none/rubelet.sock: No such file or directory (os error 2)"],
    );
    rig.check(
        &bind_error(&Path::new("/").join("a".repeat(107))).replace("aaaa", ""),
        expect!["/aaa is longer than the 107 bytes of a socket's path: choose a shorter --root-dir"],
    );
}

#[tokio::test]
async fn a_file_of_another_process_is_not_removed() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me());
    std::fs::remove_file(rig.path()).expect("it is there");
    std::fs::write(rig.path(), "new").expect("it writes");
    let (dir, tasks) = (rig.dir, rig.tasks);
    tasks.stop().await;
    assert!(dir.path().join("rubelet.sock").exists());
}

#[tokio::test(start_paused = true)]
async fn errors_tell_what_to_do() {
    let mut rig = Rig::new();
    let client = Client::new(&rig.path());
    let err = client.pods().await.expect_err("no server");
    rig.check(&Chain(&err).to_string(), expect!["no rubelet answers on ROOT/rubelet.sock: is it running, and with this --root-dir?: No such file or directory (os error 2)"]);
    rig.start(None, rig.me());
    let err = client.pods().await.expect_err("the loop hangs");
    rig.check(&err.to_string(), expect!["the sync loop does not answer: this is a bug, its log may tell more"]);
    rig.tasks.stop().await;
}

#[tokio::test]
async fn a_server_that_is_not_rubelet_is_recognized() {
    let rig = Rig::new();
    let listener = tokio::net::UnixListener::bind(rig.path()).expect("it binds");
    for (sent, expected) in [
        (
            &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"[..],
            expect!["what answers on ROOT/rubelet.sock is no rubelet of this version"],
        ),
        (
            b"SSH-2.0-OpenSSH_9.2\r\n",
            expect!["the rubelet on ROOT/rubelet.sock went away while it answered: ask again"],
        ),
        (b"", expect!["the rubelet on ROOT/rubelet.sock went away while it answered: ask again"]),
    ] {
        let other = async {
            let (mut stream, _) = listener.accept().await.expect("it comes");
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).await;
            stream.write_all(sent).await.expect("it is sent");
        };
        let client = Client::new(&rig.path());
        let ((), answer) = tokio::join!(other, client.pods());
        rig.check(&answer.expect_err("no sense").to_string(), expected);
    }
}

#[tokio::test]
async fn only_get_is_supported() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me());
    let mut answers = String::new();
    for request in
        ["DELETE /v1/pods/web", "POST /v1/pods", "GET /nothing", "GET /v1/podsx", "GET /v1/statusx", "GET /v1/pods/"]
    {
        let mut stream = UnixStream::connect(rig.path()).await.expect("it listens");
        stream.write_all(format!("{request} HTTP/1.1\r\nHost: rubelet\r\n\r\n").as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers");
        let (first, last) = (answer.lines().next().unwrap_or_default(), answer.lines().last().unwrap_or_default());
        answers.push_str(&format!("{request}: {first} {last}\n"));
    }
    rig.check(&answers, expect![[r#"
        DELETE /v1/pods/web: HTTP/1.1 405 Method Not Allowed {"error":"only GET is known"}
        POST /v1/pods: HTTP/1.1 405 Method Not Allowed {"error":"only GET is known"}
        GET /nothing: HTTP/1.1 404 Not Found {"error":"no such path"}
        GET /v1/podsx: HTTP/1.1 404 Not Found {"error":"no such path"}
        GET /v1/statusx: HTTP/1.1 404 Not Found {"error":"no such path"}
        GET /v1/pods/: HTTP/1.1 404 Not Found {"error":"no pod \"\" on this node; rubelet pods lists all","miss":{"miss":"unknown","word":"","nearest":[]}}
    "#]]);
    rig.tasks.stop().await;
}

/// The page's server with a pod whose name is markup, and its address.
async fn page(rig: &mut Rig) -> std::net::SocketAddr {
    let named = pod("<img src=x onerror=alert(1)>").build();
    let view = node(vec![worker(named, status("Running", vec![running("app", 500, true)]))]);
    let node = Arc::new(FakeNode { view: Some(view), quiet_for: Duration::ZERO });
    let agent = Agent { insight: insight(Some(Arc::new(FakeUsage(usage())))), ..agent() };
    let ui = LocalUi::bind(0, node, agent).await.expect("it binds");
    let address = ui.address().expect("it has one");
    rig.tasks.start("local-ui", ui.run(rig.tasks.cancel_token()));
    address
}

/// The whole answer to a request whose lines after the first are `headers`.
async fn fetch(address: std::net::SocketAddr, line: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("{line} HTTP/1.1\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("it answers");
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn the_page_is_on_loopback_and_answers_its_own_browser_alone() {
    let mut rig = Rig::new();
    let address = page(&mut rig).await;
    assert!(address.ip().is_loopback());
    let own = format!("Host: {address}\r\n");
    let html = fetch(address, "GET /", &own).await;
    assert!(html.starts_with("HTTP/1.1 200 OK") && html.contains("<!doctype html>"), "{html}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self';",
        "x-frame-options: DENY",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(html.to_lowercase().contains(&header.to_lowercase()), "{header}: {html}");
    }
    let head = fetch(address, "HEAD /", &own).await;
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
    for path in ["/page.css", "/page.js", "/icon.svg", "/v1/page", "/v1/node", "/v1/top", "/v1/pods"] {
        let answer = fetch(address, &format!("GET {path}"), &own).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{path}: {answer}");
    }
    // What only root may read is on the socket alone.
    for path in ["/v1/logs/web", "/v1/events", "/v1/status", "/v1/pagex", "/../etc/passwd", "//"] {
        let answer = fetch(address, &format!("GET {path}"), &own).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    for (line, headers, status) in [
        ("POST /v1/page", own.clone(), 405),
        ("DELETE /v1/pods/web", own.clone(), 405),
        ("GET /v1/page", "Host: node.evil.example\r\n".to_owned(), 403),
        ("GET /v1/page", format!("{own}Origin: http://evil.example\r\n"), 403),
        ("GET /page.js", format!("{own}Sec-Fetch-Site: cross-site\r\n"), 403),
    ] {
        let answer = fetch(address, line, &headers).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line} {headers}: {answer}");
    }
    rig.tasks.stop().await;
}

#[tokio::test]
async fn a_name_with_markup_in_it_is_text_in_the_data() {
    let mut rig = Rig::new();
    let address = page(&mut rig).await;
    let answer = fetch(address, "GET /v1/page", &format!("Host: {address}\r\n")).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("application/json"), "{head}");
    let data: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let pod = &data["pods"][0];
    assert_eq!((&pod["name"], &pod["state"]), (&"<img src=x onerror=alert(1)>".into(), &"Running".into()));
    assert_eq!(
        (&data["used"]["cpu_nanocores"], &data["node"]["disks"][0]["name"]),
        (&300_000_000.into(), &"nodefs, imagefs".into())
    );
    rig.tasks.stop().await;
}

#[tokio::test]
async fn connections_to_the_page_are_bounded_and_silent_ones_keep_nobody_out() {
    let mut rig = Rig::new();
    let address = page(&mut rig).await;
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(TcpStream::connect(address).await.expect("it listens"));
    }
    let answer = fetch(address, "GET /", &format!("Host: {address}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let endless = format!("Host: {address}\r\nX: {}\r\n", "x".repeat(64 * 1024));
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    // The server may close before it has read all.
    let _closed = stream.write_all(format!("GET / HTTP/1.1\r\n{endless}\r\n").as_bytes()).await;
    let mut answer = Vec::new();
    let _closed = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "a head of any length is read");
    rig.tasks.stop().await;
}

#[tokio::test]
async fn commands_ask_for_usage_events_and_logs() {
    let mut rig = Rig::new();
    let node = Arc::new(FakeNode { view: Some(web()), quiet_for: Duration::ZERO });
    let agent = Agent { insight: insight(Some(Arc::new(FakeUsage(usage())))), ..agent() };
    let events = Arc::clone(&agent.insight.events);
    let socket = OwnedSocket::bind(&rig.path()).expect("it binds");
    let server = LocalServer::new(socket, node, agent, rig.me());
    rig.tasks.start("local", server.run(rig.tasks.cancel_token()));
    let client = Client::new(&rig.path());
    assert_eq!(client.top().await.expect("an answer").pods.len(), 1);
    assert_eq!(client.node().await.expect("an answer").node, "node-1");
    assert_eq!(client.events(0).await.expect("an answer").events, []);
    let (news, ()) = tokio::join!(client.next_events(0), async {
        tokio::task::yield_now().await;
        events.record_node(NodeEvent { kind: EventKind::Normal, reason: "NodeReady".into(), message: "ready".into() });
    });
    assert_eq!(
        news.expect("an answer").events.iter().map(|event| event.reason.as_str()).collect::<Vec<_>>(),
        ["NodeReady"]
    );
    let ask = LogAsk { pod: "web".into(), container: Some("a b".into()), ..LogAsk::default() };
    let miss = client.log(&ask).await.expect_err("no such container");
    assert_eq!(miss.to_string(), "pod web has no container \"a b\"; it has app");
    rig.tasks.stop().await;
}

#[tokio::test]
async fn a_node_that_measures_nothing_says_so() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me());
    let err = Client::new(&rig.path()).top().await.expect_err("no usage");
    assert_eq!(err.to_string(), "this node does not measure usage");
    let story = Client::new(&rig.path()).node().await.expect("an answer");
    assert_eq!(story.usage_problem.as_deref(), Some("this node does not measure usage"));
    rig.tasks.stop().await;
}
