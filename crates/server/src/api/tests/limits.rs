//! Slow, silent, excessive or many clients; and changing certificate authorities.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use http_body_util::BodyExt;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use rubelet_core::config::AuthorizationMode;
use rubelet_engine::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::rig::{Authority, Pair, Rig, UID, World, parts, send, settings};
use crate::api::connection::{Peer, Protocol, TurnRefused, serve_connection};
use crate::api::handler::Handler;
use crate::api::log_options::LogOptions;
use crate::api::logs::{Logs, MOST_READERS};
use crate::api::routes::Offers;
use crate::api::table::{MOST_WAITING, MOST_WAITING_OF_ONE, Origin, Table};
use crate::api::tls::{PresentedChain, Tls};
use crate::api::{ApiSettings, TlsParts};
use crate::testing::ago;
use crate::watched::WatchedNode;

/// Default of `streamingConnectionIdleTimeout`.
const STALL: Duration = Duration::from_secs(14_400);

fn handler(world: &Arc<World>, offers: Offers) -> Arc<Handler> {
    Arc::new(Handler::new(parts(world, settings()), offers, None))
}

fn peer() -> Arc<Peer> {
    Peer::new(PresentedChain::default(), Arc::new(Table::default()).enter(Origin::of([127, 0, 0, 1].into())))
}

/// How long a client that sends this and then nothing stays connected, and the status line that it gets.
async fn patience(sends: &[u8]) -> (u64, String) {
    let (mut ours, theirs) = tokio::io::duplex(1024 * 1024);
    let clock = Clock::virtual_from(ago(0));
    let talking = async {
        serve_connection(theirs, Protocol::Http1, peer(), &handler(&World::new(), Offers::ReadOnly), STALL).await;
        clock.mono().since_start().as_secs()
    };
    let peering = async {
        ours.write_all(sends).await.expect("taken");
        let mut received = Vec::new();
        let _reset = ours.read_to_end(&mut received).await;
        String::from_utf8(received).expect("text").lines().next().unwrap_or_default().to_owned()
    };
    tokio::join!(talking, peering)
}

#[tokio::test(start_paused = true)]
async fn a_slow_or_silent_client_is_disconnected() {
    assert_eq!(patience(b"").await, (10, String::new()), "silent");
    assert_eq!(patience(b"GET /pods HT").await, (10, String::new()), "half a head");
    let refused = patience(b"GET /nothing HTTP/1.1\r\n\r\n").await;
    assert_eq!(refused, (30, "HTTP/1.1 404 Not Found".into()), "without an authorized request");
    let known = patience(b"GET /pods HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(known, (90, "HTTP/1.1 200 OK".into()), "an admitted connection may be idle for longer");
    let half = patience(b"GET /pods HTTP/1.1\r\nHost: a\r\n\r\nGET /pods HT").await;
    assert_eq!(half, (90, "HTTP/1.1 200 OK".into()), "half a head on an admitted connection");
    let body = patience(b"POST /pods HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nhalf").await;
    assert_eq!(body, (0, "HTTP/1.1 405 Method Not Allowed".into()), "half a body, which is never read");
}

#[tokio::test(start_paused = true)]
async fn a_head_sent_byte_by_byte_times_out() {
    let (mut ours, theirs) = tokio::io::duplex(1024);
    let clock = Clock::virtual_from(ago(0));
    let handler = handler(&World::new(), Offers::ReadOnly);
    let talking = serve_connection(theirs, Protocol::Http1, peer(), &handler, STALL);
    let dripping = async {
        for byte in b"GET /pods HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'x')) {
            tokio::time::advance(Duration::from_secs(1)).await;
            if ours.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(talking, dripping);
    assert!(clock.mono().since_start() <= Duration::from_secs(12), "{:?}", clock.mono());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected_and_uses_little_memory() {
    let world = World::new();
    let read = Arc::new(watch::Sender::new(0));
    *world.endless.lock().unwrap() = Some(Arc::clone(&read));
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    ours.write_all(b"GET /containerLogs/ns/web/app?follow=true HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("taken");
    let clock = Clock::virtual_from(ago(0));
    let handler = handler(&world, Offers::Everything);
    let talking = serve_connection(theirs, Protocol::Http1, peer(), &handler, STALL);
    tokio::time::timeout(2 * STALL, talking).await.expect("it is cut off");
    assert_eq!(clock.mono().since_start().as_secs(), STALL.as_secs());
    assert!((1..1024 * 1024).contains(&*read.borrow()), "{} bytes of the log were read in vain", *read.borrow());
}

#[tokio::test(start_paused = true)]
async fn a_request_head_that_is_too_large_is_rejected_at_once() {
    let large = format!("GET /pods HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(300_000));
    let many = format!("GET /pods HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(200));
    for request in [large, many] {
        let expected = "HTTP/1.1 431 Request Header Fields Too Large".to_owned();
        assert_eq!(patience(request.as_bytes()).await, (0, expected));
    }
    let line = format!("GET /pods?{} HTTP/1.1\r\n\r\n", "x".repeat(300_000));
    let (after, status) = patience(line.as_bytes()).await;
    assert!(after == 0 && (status.contains(" 414 ") || status.contains(" 431 ")), "{after} {status}");
    assert_eq!(patience(b"\x16\x03\x01 is not HTTP\r\n\r\n").await, (0, "HTTP/1.1 400 Bad Request".into()));
}

#[tokio::test]
async fn long_or_encoded_names_match_no_pod() {
    let rig = Rig::with(ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }).await;
    let long = "%61".repeat(10_000);
    for path in [
        format!("/containerLogs/ns/{long}/app"),
        format!("/containerLogs/{long}/web/app"),
        format!("/containerLogs/ns/web/{long}"),
        format!("/exec/ns/{long}/app?output=1&command={long}"),
    ] {
        let (status, _) = rig.ask(Some(rig.authority.client("admin", "ops")), "GET", &path, None).await;
        assert_eq!(status, 404, "{path:.40}");
    }
    let most = i64::MAX;
    for query in [format!("tailLines={most}"), format!("limitBytes={most}"), format!("sinceSeconds={most}")] {
        drop(rig.world.log());
        let path = format!("/containerLogs/ns/web/app?{query}");
        assert_eq!(rig.get(&path).await, (200, String::new()), "{query}");
    }
}

const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Checks that an admitted client is still served.
async fn still_served(friend: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) {
    let mut said = [0; 1024];
    friend.write_all(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n").await.expect("sent");
    let answer = tokio::time::timeout(Duration::from_secs(5), friend.read(&mut said)).await;
    assert!(answer.expect("an answer in time").expect("an answer") > 0);
}

#[tokio::test]
async fn silent_connections_do_not_lock_out_other_clients() {
    let rig = Rig::with(ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }).await;
    let admin = || Some(rig.authority.client("admin", "ops"));
    let mut friend = rig.dial(admin(), "http/1.1").await.expect("a connection");
    still_served(&mut friend).await;
    let mut silent = Vec::new();
    for n in 0..MOST_WAITING + MOST_WAITING_OF_ONE {
        let from = Ipv4Addr::new(127, 0, 1, u8::try_from(n % 8).expect("small"));
        silent.push(rig.tcp(if n % 2 == 0 { Ipv4Addr::LOCALHOST } else { from }).await.expect("taken"));
    }
    still_served(&mut friend).await;
    // From the address of most of them, and from another.
    for from in [Ipv4Addr::LOCALHOST, OTHER] {
        let client = rig.authority.client("admin", "ops");
        let asked = async {
            let stream = rig.dial_from(from, Some((vec![client.0], client.1)), "http/1.1").await.expect("served");
            Rig::ask_on(stream, "GET", "/healthz", None).await
        };
        let answer = tokio::time::timeout(Duration::from_secs(5), asked).await.expect("at once");
        assert_eq!(answer, (200, "ok".to_owned()), "{from}");
    }
    // The oldest was closed, the newest is still open.
    let ended = tokio::time::timeout(Duration::from_secs(5), silent[0].read_u8()).await.expect("it was closed");
    assert!(ended.is_err());
    let newest = silent.last_mut().expect("many");
    assert!(tokio::time::timeout(Duration::from_millis(50), newest.read_u8()).await.is_err(), "it gets no data");
    still_served(&mut friend).await;
}

#[tokio::test]
async fn http_02_a_connection_is_closed_after_its_first_401() {
    let rig = Rig::new().await;
    let mut stream = rig.dial(None, "http/1.1").await.expect("a connection");
    let ask = |n: u32| format!("GET /pods HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer bad-{n}\r\n\r\n");
    let all: String = (0..50).map(ask).collect();
    stream.write_all(all.as_bytes()).await.expect("sent");
    let mut said = Vec::new();
    let _reset = tokio::time::timeout(Duration::from_secs(4), stream.read_to_end(&mut said)).await.expect("it ends");
    let said = String::from_utf8(said).expect("text");
    assert_eq!((said.matches("HTTP/1.1 ").count(), said.matches("401 Unauthorized").count()), (1, 1), "{said}");
    assert_eq!(rig.world.reviewed.load(Ordering::Relaxed), 1);

    // The same with HTTP/2, where all requests arrive at once.
    let stream = rig.dial(None, "h2").await.expect("a connection");
    let executor = hyper_util::rt::TokioExecutor::new();
    let shaken = hyper::client::conn::http2::handshake(executor, TokioIo::new(stream)).await;
    let (sender, connection) = shaken.expect("a handshake");
    let mut task = tokio::task::JoinSet::new();
    task.spawn(connection);
    let asked = (0..50).map(|n| {
        let request = http::Request::get("https://node/pods").header("authorization", format!("Bearer worse-{n}"));
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).expect("a request");
        let mut sender = sender.clone();
        async move { sender.send_request(request).await.map(|answer| answer.status().as_u16()) }
    });
    let answers = futures_util::future::join_all(asked).await;
    assert!(answers.iter().flatten().all(|status| *status == 401), "{answers:?}");
    drop(sender);
    let end = tokio::time::timeout(Duration::from_secs(4), task.join_next()).await;
    assert!(end.is_ok(), "the connection ends");
    assert_eq!(rig.world.reviewed.load(Ordering::Relaxed), 2, "one more for the second connection");
}

#[tokio::test]
async fn http_02_random_tokens_of_one_address_cause_few_reviews() {
    let rig = Rig::new().await;
    rig.world.allowed.lock().unwrap().insert("get metrics".into());
    let mut answers = std::collections::BTreeMap::new();
    for n in 0..40 {
        let (status, _) = rig.ask(None, "GET", "/metrics", Some(&format!("random-{n}"))).await;
        *answers.entry(status).or_insert(0_usize) += 1;
    }
    let reviewed = rig.world.reviewed.load(Ordering::Relaxed);
    assert_eq!(answers[&401], reviewed);
    assert!(answers[&429] > 5, "{answers:?}");
    // Other addresses, and certificates from the same one, are not affected.
    let stream = rig.dial_from(OTHER, None, "http/1.1").await.expect("a connection");
    assert_eq!(Rig::ask_on(stream, "GET", "/metrics", Some("good")).await.0, 200);
    assert_eq!(rig.get("/metrics").await.0, 200);
}

#[tokio::test]
async fn an_http_2_head_that_is_too_large_is_rejected() {
    let rig = Rig::with(ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }).await;
    for (size, status) in [(30 * 1024, 200), (100 * 1024, 431)] {
        let mut sender = h2(&rig, Some(rig.authority.client("admin", "ops"))).await;
        let request = http::Request::get("https://node/healthz").header("x", "x".repeat(size));
        let answer = sender.send_request(request.body(Default::default()).expect("a request")).await;
        assert_eq!(answer.map(|answer| answer.status().as_u16()).ok(), Some(status), "{size}");
    }
}

#[tokio::test]
async fn large_heads_that_wait_for_the_first_review_are_rejected() {
    let rig = Rig::new().await;
    *rig.world.reviews_hang.lock().unwrap() = true;
    let sender = h2(&rig, None).await;
    let mut asked: futures_util::stream::FuturesUnordered<_> = (0..20)
        .map(|n| {
            let request = http::Request::get("https://node/pods").header("authorization", format!("Bearer {n}"));
            let request = request.header("x", "x".repeat(30 * 1024)).body(Default::default()).expect("a request");
            let mut sender = sender.clone();
            async move { sender.send_request(request).await.map(|answer| answer.status().as_u16()) }
        })
        .collect();
    let first = tokio::time::timeout(Duration::from_secs(10), asked.next()).await.expect("one is refused");
    assert_eq!(first.expect("twenty").expect("an answer"), 429);
    assert_eq!(rig.world.reviewed.load(Ordering::Relaxed), 1);
}

/// An HTTP/2 client with a connection of its own.
async fn h2(rig: &Rig, pair: Option<Pair>) -> http2::SendRequest<http_body_util::Empty<bytes::Bytes>> {
    let stream = rig.dial(pair, "h2").await.expect("a connection");
    let executor = hyper_util::rt::TokioExecutor::new();
    let (sender, connection) = http2::handshake(executor, TokioIo::new(stream)).await.expect("a handshake");
    let mut task = tokio::task::JoinSet::new();
    task.spawn(connection);
    task.detach_all();
    sender
}

#[tokio::test(start_paused = true)]
async fn concurrent_log_readers_are_bounded() {
    let world = World::new();
    *world.endless.lock().unwrap() = Some(Arc::default());
    let clock = Clock::virtual_from(ago(0));
    let logs = Logs::new(world.clone(), world.clone(), world.clone(), clock.clone());
    let pod = world.pod(&UID.into()).await.flatten().expect("it is known");
    let options = LogOptions::parse(Some("follow=true"), clock.wall(), false).expect("good options");
    let mut held = Vec::new();
    for n in 0..MOST_READERS {
        let answer = logs.answer(&pod, "app", &options).await;
        assert_eq!(answer.status(), 200, "{n}");
        held.push(answer);
    }
    assert_eq!(logs.answer(&pod, "app", &options).await.status(), 503);
    let opened = world.asked.lock().unwrap().iter().filter(|asked| asked.starts_with("log ")).count();
    assert_eq!(opened, MOST_READERS, "no file was opened for the rejected reader");
    held.truncate(MOST_READERS - 1);
    assert_eq!(logs.answer(&pod, "app", &options).await.status(), 200, "a reader that left makes room");
}

#[tokio::test]
async fn logs_and_sessions_query_one_pod_and_never_all() {
    let rig = Rig::with(ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }).await;
    let log = rig.world.log();
    let stream = rig.dial(Some(rig.authority.client("admin", "ops")), "http/1.1").await.expect("a connection");
    let request = http::Request::get("/containerLogs/ns/web/app?follow=true").header("host", "node");
    let mut body = send(TokioIo::new(stream), request.body(Default::default()).expect("a request")).await.into_body();
    log.send(b"one\n".to_vec()).await.expect("read");
    assert!(body.frame().await.expect("a piece").is_ok());
    // The follower checks its container when the sync loop has done something.
    rig.world.end_container();
    body.collect().await.expect("it ends");
    for path in ["/exec/ns/web/app?output=1", "/attach/ns/web/app?output=1", "/portForward/ns/web", "/run/ns/web/app"] {
        rig.ask(Some(rig.authority.client("admin", "ops")), "POST", path, None).await;
    }
    assert_eq!(rig.world.views.load(Ordering::Relaxed), 0);
    assert_eq!(rig.get("/pods").await.0, 200);
    assert_eq!(rig.world.views.load(Ordering::Relaxed), 1, "/pods does");
}

/// Polls a future once.
pub(super) fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[tokio::test]
async fn request_heads_that_wait_for_the_first_response_are_bounded() {
    let peer = peer();
    let first = peer.turn(1000).await;
    assert!(matches!(first, Ok(Some(_))), "the first request has its turn");
    let mut waiting: Vec<_> = (0..9).map(|_| Box::pin(peer.turn(30 * 1024))).collect();
    let mut outcomes = Vec::new();
    for head in &mut waiting {
        outcomes.push(poll_once(head.as_mut()));
    }
    let (last, rest) = outcomes.split_last().expect("nine");
    assert!(rest.iter().all(std::task::Poll::is_pending));
    assert!(matches!(last, std::task::Poll::Ready(Err(TurnRefused::TooMany))));
    drop(waiting);
    let mut late = Box::pin(peer.turn(30 * 1024));
    assert!(poll_once(late.as_mut()).is_pending(), "requests that left make room");
    peer.close_after_responses();
    drop(first);
    assert!(matches!(late.await, Err(TurnRefused::Closing)), "a rejected first request rejects all");
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    text.split(' ').nth(1).expect("a field").parse::<u64>().expect("a number") * 4096
}

#[tokio::test]
async fn followers_and_sessions_whose_clients_do_not_read_use_little_memory() {
    let rig = Rig::with(ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }).await;
    let moved = Arc::new(watch::Sender::new(0));
    *rig.world.endless.lock().unwrap() = Some(Arc::clone(&moved));
    // A streaming server that accepts every session and then sends without end.
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    *rig.world.sessions.lock().unwrap() = Ok(format!("http://{}/", listener.local_addr().expect("an address")));
    let (mut servers, said) = (tokio::task::JoinSet::new(), Arc::clone(&moved));
    servers.spawn(async move {
        let mut sessions = tokio::task::JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let said = Arc::clone(&said);
            sessions.spawn(async move {
                let agreed = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
                stream.write_all(agreed).await.expect("read");
                while stream.write_all(&[7; 16 * 1024]).await.is_ok() {
                    said.send_modify(|said| *said += 16 * 1024);
                }
            });
        }
    });
    let admin = || Some(rig.authority.client("admin", "ops"));
    let follow = b"GET /containerLogs/ns/web/app?follow=true HTTP/1.1\r\nHost: a\r\n\r\n".as_slice();
    let exec = b"POST /exec/ns/web/app?output=1&command=yes HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
                 Upgrade: SPDY/3.1\r\n\r\n"
        .as_slice();
    let mut clients = Vec::new();
    let mut before = 0;
    for n in 0..71 {
        let mut stream = rig.dial(admin(), "http/1.1").await.expect("a connection");
        stream.write_all(if n > 50 { exec } else { follow }).await.expect("sent");
        clients.push(stream);
        if n == 0 {
            before = resident();
        }
    }
    // Until no data moves any more: every buffer is full.
    let mut news = moved.subscribe();
    while tokio::time::timeout(Duration::from_millis(500), news.changed()).await.is_ok() {}
    let grown = resident().saturating_sub(before) / 1024;
    println!("{} MiB moved, {grown} KiB more memory", *moved.borrow() / 1024 / 1024);
    assert!(grown < 70 * 512, "{grown} KiB for 70 clients, ours and theirs");
}

pub(super) fn tls_parts(path: &std::path::Path) -> TlsParts {
    TlsParts {
        certificate: watch::Sender::new(None).subscribe(),
        client_ca: Some(path.to_owned()),
        cipher_suites: Vec::new(),
        min_version: String::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn http_02_certificate_authorities_are_reloaded_when_the_file_changes() {
    let (old, new, dir) = (Authority::new(), Authority::new(), tempfile::tempdir().expect("a directory"));
    let path = dir.path().join("ca.crt");
    std::fs::write(&path, &old.pem).expect("written");
    let tls = Tls::new(tls_parts(&path), Clock::virtual_from(ago(0))).expect("TLS");
    let (by_old, by_new) = (old.client("a", "b").0, new.client("a", "b").0);
    let (by_old, by_new) = (PresentedChain::new(vec![by_old]), PresentedChain::new(vec![by_new]));
    let believed = async |shown: &PresentedChain| tls.verify(shown).await.expect("asked for").is_ok();
    assert_eq!((believed(&by_old).await, believed(&by_new).await), (true, false));
    std::fs::write(&path, format!("{}{}", old.pem, new.pem)).expect("written");
    assert!(!believed(&by_new).await, "not before the file is checked");
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!((believed(&by_old).await, believed(&by_new).await), (true, true));
    // A broken or missing file leaves the old authorities in use.
    for broken in [Some("-----BEGIN CERTIFICATE-----\nxx\n"), Some(""), None] {
        match broken {
            Some(text) => std::fs::write(&path, text).expect("written"),
            None => std::fs::remove_file(&path).expect("removed"),
        }
        tokio::time::advance(Duration::from_secs(6)).await;
        assert!(believed(&by_new).await, "{broken:?}");
    }
    std::fs::write(&path, &new.pem).expect("written");
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!((believed(&by_old).await, believed(&by_new).await), (false, true));
}

#[tokio::test]
async fn unusable_tls_settings_are_rejected() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ca.crt");
    let make =
        |parts: TlsParts| Tls::new(parts, Clock::virtual_from(ago(0))).map(|_| ()).map_err(|err| err.to_string());
    assert!(make(tls_parts(&path)).is_err_and(|err| err.contains("read the client certificate authorities")));
    std::fs::write(&path, "").expect("written");
    assert!(make(tls_parts(&path)).is_err_and(|err| err.contains("holds no certificate")));
    std::fs::write(&path, Authority::new().pem).expect("written");
    for (suites, version) in [
        (vec![], ""),
        (vec![], "VersionTLS13"),
        (vec!["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"], "VersionTLS12"),
        // No supported suite: TLS 1.3 remains.
        (vec!["TLS_RSA_WITH_3DES_EDE_CBC_SHA"], "VersionTLS12"),
    ] {
        let cipher_suites = suites.into_iter().map(str::to_owned).collect();
        assert_eq!(make(TlsParts { cipher_suites, min_version: version.into(), ..tls_parts(&path) }), Ok(()));
    }
}
