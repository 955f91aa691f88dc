//! The CPU time that the API takes from the thread of the pods.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

use super::certificates::on_cpu;
use super::rig::{Authority, World, parts, settings};
use crate::api::{TlsParts, run};

/// Concurrent connections, as an attacker or a restarted API server makes them.
const HANDSHAKES: usize = 200;

/// Makes handshakes on a thread of its own; returns how many succeeded.
fn storm(address: SocketAddr, authority: &Authority) -> usize {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut clients = JoinSet::new();
            for n in 0..HANDSHAKES {
                let connector = connector.clone();
                // From many addresses, so that no connection is closed in favour of another.
                let from = Ipv4Addr::new(127, 0, 2, u8::try_from(n % 20).expect("small"));
                clients.spawn(async move {
                    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
                    socket.bind((from, 0).into()).expect("an address");
                    let stream: TcpStream = socket.connect(address).await.expect("a connection");
                    connector.connect(ServerName::try_from("node").expect("a name"), stream).await.is_ok()
                });
            }
            clients.join_all().await.into_iter().filter(|good| *good).count()
        })
    };
    std::thread::spawn(work).join().expect("no panic")
}

#[tokio::test]
async fn two_hundred_handshakes_take_no_time_of_the_pods_thread() {
    let authority = Authority::new();
    let certificate = watch::Sender::new(Some(authority.server()));
    let tls = TlsParts {
        certificate: certificate.subscribe(),
        client_ca: None,
        cipher_suites: Vec::new(),
        min_version: String::new(),
    };
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let cancel = CancellationToken::new();
    let mut server = JoinSet::new();
    server.spawn(run(address, parts(&World::new(), settings()), Some(tls), cancel.clone()));
    let up = async {
        while TcpStream::connect(address).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), up).await.expect("it listens");
    let began = on_cpu();
    let (finished, done) = tokio::sync::oneshot::channel();
    let attacker = std::thread::spawn(move || finished.send(storm(address, &authority)));
    let done = done.await.expect("the storm ends");
    attacker.join().expect("no panic").expect("the test waits for it");
    let held = on_cpu() - began;
    assert_eq!(done, HANDSHAKES);
    assert!(held < Duration::from_millis(20), "{held:?} of the thread of the pods");
    cancel.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(5), server.join_next()).await.expect("it ends");
    ended.expect("a task").expect("no panic");
}
