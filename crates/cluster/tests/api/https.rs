//! Manifests from a URL over TLS (SRC-03).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rubelet_cluster::api::Roots;
use rubelet_cluster::{Decode, Decoded, HttpSource, Origin};
use rubelet_engine::ports::PodSource as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_util::sync::CancellationToken;

use crate::fake::PATIENCE;
use crate::pki::{Authority, Signed, Valid};

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#;

fn decode() -> Arc<dyn Decode> {
    Arc::new(|raw: &Value, _: &Origin| Ok(Decoded { pod: serde_json::from_value(raw.clone())?, warnings: Vec::new() }))
}

/// Serves `POD` over TLS, for one connection after the other.
async fn serve(listener: TcpListener, server: &Signed) {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![server.certificate.clone()], server.key()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let Ok(mut tls) = acceptor.accept(tcp).await else { continue };
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            let Ok(byte) = tls.read_u8().await else { break };
            seen.push(byte);
        }
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{POD}", POD.len());
        let _ = tls.write_all(answer.as_bytes()).await;
        let _ = tls.shutdown().await;
    }
}

#[tokio::test]
async fn src_03_a_url_is_read_over_tls_only_from_a_trusted_server() {
    let authority = Authority::new();
    let server = authority.server("127.0.0.1", Valid::Now);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/pods", listener.local_addr().unwrap());
    let read = |roots: Roots| {
        let source = HttpSource::new(&url, &BTreeMap::new(), Duration::from_millis(10), decode());
        let source = source.unwrap().trusting(roots);
        async move {
            let (out, mut deliveries) = mpsc::channel(1);
            tokio::select! {
                () = source.run(out, CancellationToken::new()) => None,
                delivery = deliveries.recv() => delivery,
            }
        }
    };
    let (trusted, untrusted) = (read(Roots::Pem(authority.pem())), read(Roots::Pem(Authority::new().pem())));
    tokio::select! {
        () = serve(listener, &server) => {}
        delivery = tokio::time::timeout(PATIENCE, trusted) => {
            assert_eq!(delivery.expect("it is read in time").unwrap().pods.len(), 1);
        }
        _ = untrusted => panic!("pods from an untrusted server"),
    }
}
