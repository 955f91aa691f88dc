use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use http_body_util::BodyExt;
use rubelet_engine::task::TaskGroup;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{CHECKS, Health, Healthz, SLOTS};
use crate::testing::{FakeNode, node};

const QUIET: Duration = Duration::from_secs(301);

fn health(view: bool, quiet_for: Duration) -> Health {
    let node = FakeNode { view: view.then(|| node(Vec::new())), quiet_for };
    Health::new(Arc::new(node), Duration::from_secs(60))
}

/// The server's response to `request`, without the date.
async fn exchange(health: Health, request: &[u8]) -> String {
    let server = Healthz::bind((Ipv4Addr::LOCALHOST, 0).into(), health).await.expect("a free port");
    let address = server.address().expect("an address");
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    tasks.start("healthz", server.run(tasks.cancel_token()));
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let mut answer = Vec::new();
    stream.write_all(request).await.expect("it reads");
    // A client that is disconnected with unread bytes sees a reset after the response.
    let _reset = stream.read_to_end(&mut answer).await;
    tasks.stop().await;
    let answer = String::from_utf8(answer).expect("text").replace('\r', "");
    answer.lines().filter(|line| !line.starts_with("date:")).map(|line| format!("{line}\n")).collect()
}

async fn get(health: Health, path: &str, expected: Expect) {
    let answer = exchange(health, format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").as_bytes()).await;
    expected.assert_eq(&answer);
}

/// Status and body, without a socket.
async fn short(health: Health, path: &str, expected: Expect) {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let answer = health.answer(CHECKS, path, query).await;
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("it is all there").to_bytes();
    expected.assert_eq(&format!("{status}\n{}", String::from_utf8_lossy(&body)));
}

#[tokio::test]
async fn healthz_returns_ok() {
    get(
        health(true, Duration::ZERO),
        "/healthz",
        expect![[r#"
        HTTP/1.1 200 OK
        content-type: text/plain; charset=utf-8
        x-content-type-options: nosniff
        connection: close
        content-length: 2

        ok
    "#]],
    )
    .await;
}

// upstream: apiserver/pkg/server/healthz/healthz.go handleRootHealth, adaptCheckToHandler (v1.36)
#[tokio::test]
async fn single_checks_and_verbose_responses_are_upstreams() {
    let well = || health(true, Duration::ZERO);
    short(
        well(),
        "/healthz/ping",
        expect![[r#"
            200 OK
            ok"#]],
    )
    .await;
    short(
        well(),
        "/healthz/syncloop",
        expect![[r#"
            200 OK
            ok"#]],
    )
    .await;
    short(
        well(),
        "/healthz?verbose",
        expect![[r#"
            200 OK
            [+]ping ok
            [+]syncloop ok
            healthz check passed
        "#]],
    )
    .await;
    short(
        well(),
        "/healthz?verbose=1&exclude=syncloop&exclude=etcd",
        expect![[r#"
            200 OK
            [+]ping ok
            [+]syncloop excluded: ok
            warn: some health checks cannot be excluded: no matches for "etcd"
            healthz check passed
        "#]],
    )
    .await;
}

// LOOP-03
#[tokio::test(start_paused = true)]
async fn a_hanging_sync_loop_is_unhealthy() {
    let ill = || health(false, QUIET);
    short(
        ill(),
        "/healthz",
        expect![[r#"
            500 Internal Server Error
            [+]ping ok
            [-]syncloop failed: reason withheld
            healthz check failed
        "#]],
    )
    .await;
    short(
        ill(),
        "/healthz/syncloop",
        expect![[r#"
            500 Internal Server Error
            internal server error: sync Loop took longer than expected
        "#]],
    )
    .await;
    short(
        ill(),
        "/healthz/ping",
        expect![[r#"
            200 OK
            ok"#]],
    )
    .await;
    short(
        ill(),
        "/healthz?exclude=syncloop",
        expect![[r#"
            200 OK
            ok"#]],
    )
    .await;
}

#[tokio::test]
async fn an_idle_sync_loop_is_healthy() {
    short(
        health(true, QUIET),
        "/healthz",
        expect![[r#"
            200 OK
            ok"#]],
    )
    .await;
    short(
        health(false, Duration::from_secs(300)),
        "/healthz",
        expect![[r#"
            200 OK
            ok"#]],
    )
    .await;
}

// TRAP-16, CVE-2019-11248
#[tokio::test]
async fn nothing_else_is_served() {
    for path in
        ["/", "/metrics", "/debug/pprof/", "/debug/pprof/heap", "/healthz/", "/healthz/log", "/healthzz", "/pods"]
    {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        let answer = exchange(health(true, Duration::ZERO), request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 404 Not Found\n"), "{path}: {answer}");
        assert!(answer.ends_with("\n\n404 page not found\n"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_sends_too_much_or_no_request_is_disconnected() {
    let well = || health(true, Duration::ZERO);
    let large = format!("GET /healthz HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(9000));
    expect![[r#"
        HTTP/1.1 431 Request Header Fields Too Large
        connection: close
        content-length: 0

    "#]]
    .assert_eq(&exchange(well(), large.as_bytes()).await);
    expect![[r#"
        HTTP/1.1 400 Bad Request
        connection: close
        content-length: 0

    "#]]
    .assert_eq(&exchange(well(), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n").await);
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_disconnected() {
    assert_eq!(exchange(health(true, Duration::ZERO), b"GET /healthz HTTP/1.1\r\nHost:").await, "");
    assert_eq!(exchange(health(true, Duration::ZERO), b"").await, "");
}

#[tokio::test]
async fn silent_clients_do_not_delay_a_health_check() {
    let server = Healthz::bind((Ipv4Addr::LOCALHOST, 0).into(), health(true, Duration::ZERO)).await;
    let server = server.expect("a free port");
    let address = server.address().expect("an address");
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    tasks.start("healthz", server.run(tasks.cancel_token()));
    let mut silent = Vec::new();
    let asked = async {
        for n in 0..10 * SLOTS {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            if n % 2 == 0 {
                stream.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await.expect("half a head");
            }
            silent.push(stream);
        }
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n").await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("text");
        answer
    };
    // Waiting for all of them to time out, a slot at a time, would take 20 seconds.
    let answer = tokio::time::timeout(Duration::from_secs(10), asked).await.expect("an answer at once");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(silent[0].read(&mut [0; 1]).await.unwrap_or(0), 0, "the oldest was closed");
    tasks.stop().await;
}

#[tokio::test]
async fn a_connection_whose_request_is_being_served_is_not_closed() {
    // The sync loop does not respond, so each request takes two seconds.
    let server = Healthz::bind((Ipv4Addr::LOCALHOST, 0).into(), health(false, QUIET)).await.expect("a free port");
    let address = server.address().expect("an address");
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    tasks.start("healthz", server.run(tasks.cancel_token()));
    let mut asked = Vec::new();
    for _ in 0..2 * SLOTS {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n").await.expect("it reads");
        asked.push(stream);
    }
    for mut stream in asked {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("text");
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer:?}");
    }
    tasks.stop().await;
}
