//! Connections through a proxy.

use rubelet_cluster::api::{Credentials, Endpoint, ProxyEnvironment, Roots, User};
use rubelet_engine::ports::ApiErrorKind;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::fake::{Fake, Reply};
use crate::pki::{Authority, Valid};

/// Accepts one connection, answers its CONNECT with `answer`, connects it to `fake`, and returns the CONNECT.
async fn proxy(listener: &TcpListener, answer: &str, fake: std::net::SocketAddr) -> String {
    let (mut near, _) = listener.accept().await.unwrap();
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        asked.push(near.read_u8().await.unwrap());
    }
    // A client that rejects the answer may close before it has read all of it.
    let _ = near.write_all(answer.as_bytes()).await;
    if answer.starts_with("HTTP/1.1 200") {
        let mut far = TcpStream::connect(fake).await.unwrap();
        tokio::io::copy_bidirectional(&mut near, &mut far).await.unwrap_or_default();
    }
    String::from_utf8(asked).unwrap()
}

/// A server at `api.test`, a name that only the proxy resolves, and the proxy that the environment names.
async fn rig() -> (Fake, Endpoint, TcpListener) {
    let authority = Authority::new();
    let server = authority.server("api.test", Valid::Now);
    let fake = Fake::with(authority, &server).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://me:secret@{}", listener.local_addr().unwrap());
    let environment = ProxyEnvironment::read(|name| (name == "HTTPS_PROXY").then(|| url.clone()));
    let endpoint = Endpoint::new("https://api.test:6443", Roots::Pem(fake.authority.pem())).unwrap();
    (fake, endpoint.with_environment(&environment).unwrap(), listener)
}

#[tokio::test]
async fn the_server_is_reached_through_the_proxy_that_the_environment_names() {
    let (mut fake, endpoint, listener) = rig().await;
    let client = fake.client_of(endpoint, Credentials::new(User::default()));
    fake.reply(Reply::ok("{}"));
    let address = fake.address;
    let asked = async {
        let asked = proxy(&listener, "HTTP/1.1 200 Connection established\r\n\r\n", address);
        let answer = async {
            let _: Value = client.get("/x").await.unwrap();
            fake.cut();
        };
        tokio::join!(asked, answer).0
    };
    assert_eq!(
        asked.await,
        "CONNECT api.test:6443 HTTP/1.1\r\nHost: api.test:6443\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n"
    );
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_password() {
    let (mut fake, endpoint, listener) = rig().await;
    let client = fake.client_of(endpoint, Credentials::new(User::default()));
    let refused = "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
    let (error, _) = tokio::join!(client.get::<Value>("/x"), proxy(&listener, refused, fake.address));
    let error = error.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Unavailable);
    assert!(error.detail.contains("407 Proxy Authentication Required"), "{error}");
    assert!(!error.detail.contains("secret") && !error.detail.contains("bWU6"), "{error}");
    // A response head that is too long is rejected.
    let endless = "HTTP/1.1 200 ".to_owned() + &"x".repeat(100 << 10);
    let (error, _) = tokio::join!(client.get::<Value>("/x"), proxy(&listener, &endless, fake.address));
    assert!(error.unwrap_err().detail.len() < 1_000);
}
