use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use rubelet_engine::task::TaskGroup;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{Health, Healthz};
use crate::testing::{FakeNode, node};

const QUIET: Duration = Duration::from_secs(301);

fn health(view: bool, quiet_for: Duration) -> Health {
    let node = FakeNode { view: view.then(|| node(Vec::new())), quiet_for };
    Health::new(Arc::new(node), Duration::from_secs(60))
}

/// What the server sends for `request`, without the date.
async fn exchange(health: Health, request: &[u8]) -> String {
    let server = Healthz::bind((Ipv4Addr::LOCALHOST, 0).into(), health).await.expect("a free port");
    let address = server.address().expect("an address");
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    tasks.start("healthz", server.run(tasks.cancel_token()));
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let mut answer = Vec::new();
    stream.write_all(request).await.expect("it reads");
    stream.read_to_end(&mut answer).await.expect("it answers");
    tasks.stop().await;
    let answer = String::from_utf8(answer).expect("text").replace('\r', "");
    answer.lines().filter(|line| !line.starts_with("date:")).map(|line| format!("{line}\n")).collect()
}

async fn get(health: Health, path: &str, expected: Expect) {
    let answer = exchange(health, format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").as_bytes()).await;
    expected.assert_eq(&answer);
}

/// Status line and body only.
async fn short(health: Health, path: &str, expected: Expect) {
    let answer = exchange(health, format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").as_bytes()).await;
    let (head, body) = answer.split_once("\n\n").expect("a head and a body");
    expected.assert_eq(&format!("{}\n{body}", head.lines().next().unwrap_or_default()));
}

#[tokio::test]
async fn healthz_says_ok() {
    get(health(true, Duration::ZERO), "/healthz", expect![[r#"
        HTTP/1.1 200 OK
        content-type: text/plain; charset=utf-8
        x-content-type-options: nosniff
        connection: close
        content-length: 2

        ok
    "#]]).await;
}

// upstream: apiserver/pkg/server/healthz/healthz.go handleRootHealth, adaptCheckToHandler (v1.36)
#[tokio::test]
async fn single_checks_and_verbose_answers_are_upstreams() {
    let well = || health(true, Duration::ZERO);
    short(well(), "/healthz/ping", expect![[r#"
        HTTP/1.1 200 OK
        ok
    "#]]).await;
    short(well(), "/healthz/syncloop", expect![[r#"
        HTTP/1.1 200 OK
        ok
    "#]]).await;
    short(well(), "/healthz?verbose", expect![[r#"
        HTTP/1.1 200 OK
        [+]ping ok
        [+]syncloop ok
        healthz check passed
    "#]]).await;
    short(well(), "/healthz?verbose=1&exclude=syncloop&exclude=etcd", expect![[r#"
        HTTP/1.1 200 OK
        [+]ping ok
        [+]syncloop excluded: ok
        warn: some health checks cannot be excluded: no matches for "etcd"
        healthz check passed
    "#]]).await;
}

// LOOP-03
#[tokio::test(start_paused = true)]
async fn a_loop_that_hangs_is_ill() {
    let ill = || health(false, QUIET);
    short(ill(), "/healthz", expect![[r#"
        HTTP/1.1 500 Internal Server Error
        [+]ping ok
        [-]syncloop failed: reason withheld
        healthz check failed
    "#]]).await;
    short(ill(), "/healthz/syncloop", expect![[r#"
        HTTP/1.1 500 Internal Server Error
        internal server error: sync Loop took longer than expected
    "#]]).await;
    short(ill(), "/healthz/ping", expect![[r#"
        HTTP/1.1 200 OK
        ok
    "#]]).await;
    short(ill(), "/healthz?exclude=syncloop", expect![[r#"
        HTTP/1.1 200 OK
        ok
    "#]]).await;
}

#[tokio::test]
async fn a_loop_that_was_only_quiet_is_well() {
    short(health(true, QUIET), "/healthz", expect![[r#"
        HTTP/1.1 200 OK
        ok
    "#]]).await;
    short(health(false, Duration::from_secs(300)), "/healthz", expect![[r#"
        HTTP/1.1 200 OK
        ok
    "#]]).await;
}

// TRAP-16, CVE-2019-11248
#[tokio::test]
async fn nothing_else_is_served() {
    for path in
        ["/", "/metrics", "/debug/pprof/", "/debug/pprof/heap", "/healthz/", "/healthz/log", "/healthzz", "/pods"]
    {
        short(health(true, Duration::ZERO), path, expect![[r#"
            HTTP/1.1 404 Not Found
            404 page not found
        "#]          HTTP/1.1 404 Not Found
            404 page not found
        "#]          HTTP/1.1 404 Not Found
            404 page not found
        "#]          HTTP/1.1 404 Not Found
            404 page not found
        "#]          HTTP/1.1 404 Not Found
            404 page not found
        "#]          HTTP/1.1 404 Not Found
            404 page not found
        "#]          HTTP/1.1 404 Not Found
            404 page not found
        "#]          HTTP/1.1 404 Not Found
            404 page not found
        "#]]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_slow_or_large_is_sent_away() {
    let well = || health(true, Duration::ZERO);
    let silent = exchange(well(), b"GET /healthz HTTP/1.1\r\nHost:").await;
    expect![[r#""#]].assert_eq(&silent);
    let mut large = b"GET /healthz HTTP/1.1\r\n".to_vec();
    large.extend_from_slice(format!("A: {}\r\n\r\n", "a".repeat(9000)).as_bytes());
    let large = exchange(well(), &large).await;
    expect![[r#"
        HTTP/1.1 431 Request Header Fields Too Large
        connection: close
        content-length: 0

    "#]].assert_eq(&large);
    let garbage = exchange(well(), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n").await;
    expect![[r#"
        HTTP/1.1 400 Bad Request
        connection: close
        content-length: 0

    "#]].assert_eq(&garbage);
}
