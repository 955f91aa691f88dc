//! Peers that are slow, silent, loud or many; and authorities that change.

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::config::AuthorizationMode;
use rubelet_engine::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::rig::{Authority, Rig, World, parts, settings};
use crate::api::connection::{Peer, Protocol, STRANGERS, talk};
use crate::api::handler::Handler;
use crate::api::routes::Offers;
use crate::api::tls::Tls;
use crate::api::{ApiSettings, TlsParts};
use crate::testing::ago;

fn handler() -> Arc<Handler> {
    Arc::new(Handler::new(parts(&World::new(), settings()), Offers::ReadOnly, None))
}

/// How long a peer that sends this and then nothing is borne with, and what it is told.
async fn patience(sends: &[u8]) -> (u64, String) {
    let (mut ours, theirs) = tokio::io::duplex(1024 * 1024);
    let peer = Peer::stranger();
    let clock = Clock::virtual_from(ago(0));
    let talking = async {
        talk(theirs, Protocol::Http1, peer, &handler()).await;
        clock.mono().since_start().as_secs()
    };
    let peering = async {
        ours.write_all(sends).await.expect("taken");
        let mut told = Vec::new();
        let _reset = ours.read_to_end(&mut told).await;
        String::from_utf8(told).expect("text").lines().next().unwrap_or_default().to_owned()
    };
    tokio::join!(talking, peering)
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_slow_or_silent_is_sent_away() {
    assert_eq!(patience(b"").await, (30, String::new()), "silent");
    assert_eq!(patience(b"GET /pods HT").await, (30, String::new()), "half a head");
    assert_eq!(patience(b"GET /nothing HTTP/1.1\r\n\r\n").await, (30, "HTTP/1.1 404 Not Found".into()), "a stranger");
    let known = patience(b"GET /pods HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(known, (90, "HTTP/1.1 200 OK".into()), "one that was let in may lie idle for longer");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_sends_too_much_is_sent_away_at_once() {
    let large = format!("GET /pods HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(300_000));
    let many = format!("GET /pods HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(200));
    for request in [large, many] {
        let told = "HTTP/1.1 431 Request Header Fields Too Large".to_owned();
        assert_eq!(patience(request.as_bytes()).await, (0, told));
    }
    assert_eq!(patience(b"\x16\x03\x01 is not HTTP\r\n\r\n").await, (0, "HTTP/1.1 400 Bad Request".into()));
}

#[tokio::test]
async fn strangers_hold_up_nobody_who_was_let_in() {
    let rig = Rig::with(ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }).await;
    let admin = rig.authority.client("admin", "ops");
    let mut friend = rig.dial(Some(admin), "http/1.1").await.expect("a connection");
    let ask = b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n";
    let mut said = [0; 1024];
    friend.write_all(ask).await.expect("sent");
    assert!(friend.read(&mut said).await.expect("an answer") > 0);
    // Each of them holds a slot, and one more waits.
    let mut strangers = Vec::new();
    for _ in 0..=STRANGERS {
        strangers.push(tokio::net::TcpStream::connect(rig.address).await.expect("queued"));
    }
    let late = tokio::time::timeout(Duration::from_millis(200), rig.dial(None, "http/1.1")).await;
    assert!(late.is_err(), "a stranger more is not served");
    friend.write_all(ask).await.expect("sent");
    assert!(friend.read(&mut said).await.expect("an answer") > 0, "a friend is");
    strangers.clear();
    rig.dial(None, "http/1.1").await.expect("room again");
}

fn tls_parts(path: &std::path::Path) -> TlsParts {
    TlsParts {
        certificate: watch::Sender::new(None).subscribe(),
        client_ca: Some(path.to_owned()),
        cipher_suites: Vec::new(),
        min_version: String::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn http_02_authorities_are_read_again_when_they_have_changed() {
    let (old, new, dir) = (Authority::new(), Authority::new(), tempfile::tempdir().expect("a directory"));
    let path = dir.path().join("ca.crt");
    std::fs::write(&path, &old.pem).expect("written");
    let tls = Tls::new(tls_parts(&path), Clock::virtual_from(ago(0))).expect("TLS");
    let (by_old, by_new) = (old.client("a", "b").0, new.client("a", "b").0);
    let believed = async |leaf: &tokio_rustls::rustls::pki_types::CertificateDer<'static>| {
        tls.verify(std::slice::from_ref(leaf)).await.expect("asked for").is_ok()
    };
    assert_eq!((believed(&by_old).await, believed(&by_new).await), (true, false));
    std::fs::write(&path, format!("{}{}", old.pem, new.pem)).expect("written");
    assert!(!believed(&by_new).await, "not before it is looked at");
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!((believed(&by_old).await, believed(&by_new).await), (true, true));
    // A file that is broken or gone takes nobody's belief away.
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
async fn tls_is_refused_where_it_cannot_be_what_is_asked_for() {
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
        // None that we have: TLS 1.3 is left.
        (vec!["TLS_RSA_WITH_3DES_EDE_CBC_SHA"], "VersionTLS12"),
    ] {
        let cipher_suites = suites.into_iter().map(str::to_owned).collect();
        assert_eq!(make(TlsParts { cipher_suites, min_version: version.into(), ..tls_parts(&path) }), Ok(()));
    }
}
