//! Sessions, with a scripted streaming server.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use rubelet_core::config::AuthorizationMode;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::RpcErrorKind;
use rubelet_engine::trace::Tracer;
use rubelet_testkit::SeededRng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::rig::{Rig, send, settings, whole};
use crate::api::ApiSettings;
use crate::testing::ago;

async fn open_rig() -> Rig {
    Rig::with(ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }).await
}

/// A streaming server: it reads a request head, sends `answer`, and then echoes its input until it reads `bye`.
struct Streaming {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

async fn streaming(answer: &'static str) -> Streaming {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let url = format!("http://{}/exec/token?x=y", listener.local_addr().expect("an address"));
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let (received, mut task) = (Arc::clone(&heads), JoinSet::new());
    task.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("a head"));
            }
            received.lock().unwrap().push(String::from_utf8(head).expect("text"));
            stream.write_all(answer.as_bytes()).await.expect("read");
            let mut piece = [0; 1024];
            while let Ok(size @ 1..) = stream.read(&mut piece).await {
                if &piece[..size] == b"bye" {
                    break;
                }
                stream.write_all(&piece[..size]).await.expect("read");
            }
        }
    });
    Streaming { url, heads, _task: task }
}

fn upgrade(method: &str, path: &str, protocol: &str) -> Request<Empty<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("host", "node");
    let request = request.header("connection", "Upgrade").header("upgrade", protocol);
    let request = request.header("x-stream-protocol-version", "v4.channel.k8s.io").header("authorization", "Bearer s");
    request.body(Empty::new()).expect("a request")
}

const AGREED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                      X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\nhello ";

async fn begin(rig: &Rig, request: Request<Empty<Bytes>>) -> http::Response<hyper::body::Incoming> {
    let stream = rig.dial(Some(rig.authority.client("admin", "ops")), "http/1.1").await.expect("a connection");
    send(TokioIo::new(stream), request).await
}

#[tokio::test]
async fn http_03_a_session_is_proxied_in_both_directions() {
    let rig = open_rig().await;
    let server = streaming(AGREED).await;
    *rig.world.sessions.lock().unwrap() = Ok(server.url.clone());
    for (method, path, protocol) in [
        (
            "POST",
            "/exec/ns/web/app?command=sh&command=-c&command=echo+a%20b&input=1&output=1&tty=1&error=1",
            "SPDY/3.1",
        ),
        ("GET", "/attach/ns/web/app?output=1&error=1&tty=1", "SPDY/3.1"),
        ("POST", "/portForward/ns/web", "SPDY/3.1"),
        ("GET", "/portForward/ns/web?port=80,443", "websocket"),
    ] {
        let mut response = begin(&rig, upgrade(method, path, protocol)).await;
        assert_eq!(response.status(), 101, "{path}");
        assert_eq!(response.headers()["x-stream-protocol-version"], "v4.channel.k8s.io");
        let mut session = TokioIo::new(hyper::upgrade::on(&mut response).await.expect("a session"));
        let mut said = [0; 6];
        session.read_exact(&mut said).await.expect("what came with the head");
        assert_eq!(&said, b"hello ");
        let (_, page) = rig.get("/metrics").await;
        let root = path.split(['/', '?']).nth(1).unwrap_or_default();
        let line = format!(
            "inflight_requests{{long_running=\"{}\",method=\"{method}\",path=\"{root}\",server_type=\"readwrite\"}} 1",
            root != "portForward"
        );
        assert!(page.contains(&line), "{line} in\n{page}");
        let long = vec![7_u8; 300_000];
        session.write_all(b"ping").await.expect("carried");
        let mut said = [0; 4];
        session.read_exact(&mut said).await.expect("carried back");
        assert_eq!(&said, b"ping");
        let (mut read, mut write) = tokio::io::split(session);
        let mut back = vec![0; long.len()];
        let (wrote, got) = tokio::join!(write.write_all(&long), read.read_exact(&mut back));
        wrote.and(got).expect("carried both ways at once");
        assert_eq!(back, long);
        write.write_all(b"bye").await.expect("carried");
        assert_eq!(read.read(&mut back).await.expect("an end"), 0, "the end of one side ends the other");
    }
    assert_eq!(
        *rig.world.asked.lock().unwrap(),
        [
            "exec c-app [\"sh\", \"-c\", \"echo a b\"] StdStreams { stdin: true, stdout: true, stderr: false, tty: true }",
            "attach c-app StdStreams { stdin: false, stdout: true, stderr: false, tty: false }",
            "port_forward s-web []",
            "port_forward s-web [80, 443]",
        ]
    );
    for head in server.heads.lock().unwrap().iter() {
        assert!(head.contains(" /exec/token?x=y HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("x-stream-protocol-version: v4.channel.k8s.io\r\n"), "{head}");
        assert!(!head.contains("authorization"), "the runtime does not get the caller's credentials: {head}");
    }
}

#[tokio::test]
async fn trc_01_the_span_of_a_session_ends_with_the_session() {
    let clock = Clock::virtual_from(ago(0));
    let (tracer, mut spans) = Tracer::new(1_000_000, Arc::new(SeededRng::new(1)), clock);
    let open = ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() };
    let rig = Rig::made_from(open, |parts| parts.tracer = tracer).await;
    let server = streaming(AGREED).await;
    *rig.world.sessions.lock().unwrap() = Ok(server.url.clone());
    let mut response = begin(&rig, upgrade("POST", "/exec/ns/web/app?command=sh&input=1", "SPDY/3.1")).await;
    let mut session = TokioIo::new(hyper::upgrade::on(&mut response).await.expect("a session"));
    let mut said = [0; 6];
    session.read_exact(&mut said).await.expect("what came with the head");
    let mut all = Vec::new();
    spans.take(&mut all, 10);
    assert!(all.is_empty(), "the session goes on: {all:?}");
    session.write_all(b"bye").await.expect("carried");
    assert_eq!(session.read(&mut said).await.expect("an end"), 0);
    spans.next(&mut all, 10).await;
    let names: Vec<&str> = all.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(names, ["/exec/{podNamespace}/{podID}/{containerName}"]);
}

#[tokio::test]
async fn http_03_without_a_successful_upgrade_there_is_no_session() {
    let rig = open_rig().await;
    let path = "/exec/ns/web/app?command=true&output=1";
    for (said, status, words) in [
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n", 403, "no\n"),
        (
            "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
            500,
            "invalid upgrade response: status code 302\n",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 500, "invalid upgrade response: status code 200\n"),
    ] {
        let server = streaming(said).await;
        *rig.world.sessions.lock().unwrap() = Ok(server.url.clone());
        let found = whole(begin(&rig, upgrade("POST", path, "SPDY/3.1")).await).await;
        assert_eq!(found, (status, words.to_owned()));
    }
    for (session, path, status, words) in [
        (Err(RpcErrorKind::NotFound), path, 404, "no session for you"),
        (Err(RpcErrorKind::Failed), path, 500, "no session for you"),
        (
            Ok("https://127.0.0.1/".to_owned()),
            path,
            500,
            "the runtime returned an unusable streaming address: \"https://127.0.0.1/\"\n",
        ),
        (Ok(String::new()), "/exec/ns/gone/app?output=1", 404, "pod does not exist"),
        (Ok(String::new()), "/exec/ns/web/gone?output=1", 500, "container not found (\"gone\")"),
        (Ok(String::new()), "/exec/ns/web/app", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        (Ok(String::new()), "/attach/ns/web/gone?output=1", 500, "container gone not found in pod web_ns"),
        (Ok(String::new()), "/attach/ns/web/other-uid/app?output=1", 500, "pod web_ns not found"),
        (Ok(String::new()), "/portForward/ns/gone", 404, "pod does not exist"),
        (Ok(String::new()), "/portForward/ns/web/other-uid", 404, "pod not found"),
    ] {
        *rig.world.sessions.lock().unwrap() = session;
        let found = whole(begin(&rig, upgrade("POST", path, "SPDY/3.1")).await).await;
        assert_eq!(found, (status, words.to_owned()), "{path}");
    }
    assert_eq!(rig.get(path).await, (500, "Upgrade request required\n".to_owned()));
}

#[tokio::test]
async fn run_returns_the_output_of_a_command() {
    let rig = open_rig().await;
    let run = |path: &'static str| rig.ask(Some(rig.authority.client("admin", "ops")), "POST", path, None);
    assert_eq!(run("/run/ns/web/app?cmd=echo+hi").await, (200, "out\nerr\n".to_owned()));
    let failed = "command 'false' exited with 1: err\n";
    assert_eq!(run("/run/ns/web/app?cmd=false").await, (500, failed.to_owned()));
    assert_eq!(run("/run/ns/web/gone?cmd=true").await, (500, "container not found (\"gone\")".to_owned()));
    assert_eq!(rig.world.asked.lock().unwrap()[0], "run c-app [\"echo\", \"hi\"] 0ns");
}
