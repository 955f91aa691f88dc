//! Probes over real sockets on loopback: what is sent, and the result for each kind of server.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use rubelet_core::probe::{HttpTarget, MAX_OUTPUT, Scheme, TcpTarget};
use rubelet_engine::ports::{GrpcError, GrpcTarget, NetError, Probes, Serving};
use rubelet_probe::NetworkProbes;
use rubelet_proto::health::{HealthCheckRequest, HealthCheckResponse};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

/// A server on loopback that answers each connection with the next of `answers`, then hangs.
struct Server {
    port: u16,
    requests: mpsc::Receiver<String>,
    _task: JoinSet<()>,
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.is_ok_and(|n| n == 1) {
        head.extend(byte);
    }
    String::from_utf8_lossy(&head).into_owned()
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &[u8]) -> String {
    let head = read_head(&mut stream).await;
    let _gone = stream.write_all(answer).await;
    let _gone = stream.flush().await;
    if answer.is_empty() {
        std::future::pending::<()>().await;
    }
    let _gone = stream.shutdown().await;
    head
}

async fn server<const N: usize>(answers: [&'static [u8]; N], tls: Option<TlsAcceptor>) -> Server {
    let (listener, port) = listen().await;
    let (sender, requests) = mpsc::channel(32);
    let mut task = JoinSet::new();
    task.spawn(async move {
        for answer in answers {
            let Ok((stream, _)) = listener.accept().await else { return };
            let head = match &tls {
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => serve(stream, answer).await,
                    Err(_) => continue,
                },
                None => serve(stream, answer).await,
            };
            let _gone = sender.send(head).await;
        }
        std::future::pending::<()>().await;
    });
    Server { port, requests, _task: task }
}

fn target(scheme: Scheme, port: u16) -> HttpTarget {
    HttpTarget {
        scheme,
        host: IpAddr::V4(Ipv4Addr::LOCALHOST).to_string(),
        port,
        path: "/healthz?full".into(),
        headers: vec![("User-Agent".into(), "kube-probe/1.36".into()), ("Accept".into(), "*/*".into())],
        host_header: None,
    }
}

fn probes() -> NetworkProbes {
    NetworkProbes::new().expect("TLS")
}

#[tokio::test]
async fn a_request_has_upstreams_headers_and_the_answer_is_read() {
    let mut server = server([b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno"], None).await;
    let reply = probes().http(&target(Scheme::Http, server.port), Some(PATIENCE)).await.expect("an answer");
    assert_eq!((reply.status, reply.body.as_str()), (503, "no"));
    let head = server.requests.recv().await.expect("asked");
    let port = server.port;
    assert_eq!(
        head.replace(&port.to_string(), "PORT"),
        "GET /healthz?full HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nUser-Agent: kube-probe/1.36\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n"
    );
}

#[tokio::test]
async fn a_host_header_is_sent_as_given() {
    let mut server = server([b"HTTP/1.1 200 OK\r\n\r\n"], None).await;
    let asked = HttpTarget { host_header: Some("a.example".into()), ..target(Scheme::Http, server.port) };
    probes().http(&asked, Some(PATIENCE)).await.expect("an answer");
    let head = server.requests.recv().await.expect("asked");
    assert!(head.contains("\r\nHost: a.example\r\n"), "{head}");
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_only() {
    let there: &[u8] = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n";
    let mut server = server([there, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], None).await;
    let reply = probes().http(&target(Scheme::Http, server.port), Some(PATIENCE)).await.expect("an answer");
    assert_eq!(reply.status, 200);
    let _first = server.requests.recv().await;
    assert!(server.requests.recv().await.expect("followed").starts_with("GET /there HTTP/1.1"));

    let away: &[u8] = b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n";
    let server = self::server([away], None).await;
    let reply = probes().http(&target(Scheme::Http, server.port), Some(PATIENCE)).await.expect("an answer");
    assert_eq!(reply.status, 302);
}

#[tokio::test]
async fn a_redirect_loop_ends_after_ten_requests() {
    let round: &[u8] = b"HTTP/1.1 302 Found\r\nLocation: /healthz?full\r\nContent-Length: 0\r\n\r\n";
    let mut server = server([round; 20], None).await;
    let got = probes().http(&target(Scheme::Http, server.port), Some(PATIENCE)).await;
    assert_eq!(got, Err(NetError::TooManyRedirects));
    for _ in 0..10 {
        server.requests.recv().await.expect("asked ten times");
    }
    assert!(server.requests.try_recv().is_err(), "and not once more");
}

#[tokio::test]
async fn an_answer_without_end_is_read_in_part() {
    let (listener, port) = listen().await;
    let mut task = JoinSet::new();
    task.spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        read_head(&mut stream).await;
        let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n").await;
        let chunk = vec![b'x'; 4096];
        // Ends when the client has read enough and closes the connection.
        while stream.write_all(&chunk).await.is_ok() {}
    });
    let reply = probes().http(&target(Scheme::Http, port), Some(PATIENCE)).await.expect("an answer");
    assert_eq!(reply.body.len(), MAX_OUTPUT);
    let ended = tokio::time::timeout(PATIENCE, task.join_next()).await;
    assert!(ended.is_ok(), "the connection was closed");
}

#[tokio::test]
async fn a_broken_answer_is_an_error_with_upstreams_text() {
    let hangs = server([b""], None).await;
    let asked = target(Scheme::Http, hangs.port);
    assert_eq!(probes().http(&asked, Some(SHORT)).await, Err(NetError::Timeout));

    let closes = server([b"\r\n"], None).await;
    let broken = probes().http(&target(Scheme::Http, closes.port), Some(PATIENCE)).await;
    assert!(matches!(broken, Err(NetError::Broken(_))), "{broken:?}");

    let short = server([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"], None).await;
    let cut = probes().http(&target(Scheme::Http, short.port), Some(PATIENCE)).await;
    assert!(matches!(cut, Err(NetError::Body(_))), "{cut:?}");

    let (listener, port) = listen().await;
    drop(listener);
    let refused = probes().http(&target(Scheme::Http, port), Some(PATIENCE)).await;
    let text = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(refused, Err(NetError::Connect(text.clone())));
    let at = TcpTarget { host: "127.0.0.1".into(), port };
    assert_eq!(probes().tcp(&at, PATIENCE).await, Err(NetError::Connect(text)));
}

#[tokio::test]
async fn a_connection_is_enough_for_tcp() {
    let (_listener, port) = listen().await;
    assert_eq!(probes().tcp(&TcpTarget { host: "127.0.0.1".into(), port }, PATIENCE).await, Ok(()));
}

fn acceptor() -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(vec!["wrong.example".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a key pair");
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn tls_accepts_any_certificate_and_plain_http_is_recognised() {
    let server = server([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], Some(acceptor())).await;
    let reply = probes().http(&target(Scheme::Https, server.port), Some(PATIENCE)).await.expect("an answer");
    assert_eq!(reply.status, 200);

    let (listener, port) = listen().await;
    let mut task = JoinSet::new();
    task.spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        std::future::pending::<()>().await;
    });
    assert_eq!(probes().http(&target(Scheme::Https, port), Some(PATIENCE)).await, Err(NetError::PlainHttp));
}

/// A gRPC server that answers one health check: with a status, or with an error.
async fn health_server(answer: Result<i32, (i32, &'static str)>) -> (u16, JoinSet<String>) {
    let (listener, port) = listen().await;
    let mut task = JoinSet::new();
    task.spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        let (request, mut respond) = connection.accept().await.expect("a request").expect("a request");
        let path = request.uri().path().to_owned();
        let agent = request.headers().get("user-agent").and_then(|a| a.to_str().ok()).unwrap_or_default().to_owned();
        let mut body = request.into_body();
        let work = async move {
            let data = body.data().await.expect("data").expect("data");
            let asked = HealthCheckRequest::decode(data.get(5..).unwrap_or_default()).expect("a message");
            let head = http::Response::builder().header("content-type", "application/grpc");
            match answer {
                Ok(status) => {
                    let message = HealthCheckResponse { status }.encode_to_vec();
                    let mut framed = vec![0, 0, 0, 0, u8::try_from(message.len()).expect("short")];
                    framed.extend(message);
                    let mut stream = respond.send_response(head.body(()).expect("head"), false).expect("sent");
                    stream.send_data(Bytes::from(framed), false).expect("sent");
                    let mut trailers = http::HeaderMap::new();
                    trailers.insert("grpc-status", "0".parse().expect("a value"));
                    stream.send_trailers(trailers).expect("sent");
                }
                Err((code, text)) => {
                    let head = head.header("grpc-status", code).header("grpc-message", text);
                    respond.send_response(head.body(()).expect("head"), true).expect("sent");
                }
            }
            asked.service
        };
        let drive = async { while connection.accept().await.is_some() {} };
        let (service, ()) = tokio::join!(work, drive);
        format!("{path} {service} {agent}")
    });
    (port, task)
}

#[tokio::test]
async fn a_grpc_server_is_asked_for_its_health() {
    for (answer, want) in [
        (Ok(1), Ok(Serving::Serving)),
        (Ok(2), Ok(Serving::Not(2))),
        (Err((12, "no%20such")), Err(GrpcError::Status { code: 12, message: "no such".into() })),
    ] {
        let (port, mut task) = health_server(answer).await;
        let at = GrpcTarget { host: "127.0.0.1".into(), port, service: "shop".into() };
        assert_eq!(probes().grpc(&at, PATIENCE).await, want);
        let asked = tokio::time::timeout(PATIENCE, task.join_next()).await.expect("it ends").expect("one").expect("ok");
        assert_eq!(asked, "/grpc.health.v1.Health/Check shop kube-probe/1.36");
    }
    let (_listener, port) = listen().await;
    let silent = GrpcTarget { host: "127.0.0.1".into(), port, service: String::new() };
    assert_eq!(probes().grpc(&silent, SHORT).await, Err(GrpcError::Timeout));
}

/// A server that speaks HTTP/2 with one client and leaves the answer to `answer`.
async fn http2_server<A, F>(tls: Option<TlsAcceptor>, answer: A) -> (u16, JoinSet<()>)
where
    A: FnOnce(http::Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    async fn serve<S, A, F>(stream: S, answer: A)
    where
        S: AsyncRead + AsyncWrite + Unpin,
        A: FnOnce(http::Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) -> F,
        F: Future<Output = ()>,
    {
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        let Some(Ok((request, respond))) = connection.accept().await else { return };
        let answer = async {
            answer(request, respond).await;
            std::future::pending().await
        };
        // Ends with the connection, which the client closes.
        tokio::select! {
            () = async { while connection.accept().await.is_some_and(|next| next.is_ok()) {} } => {}
            () = answer => {}
        }
    }
    let (listener, port) = listen().await;
    let mut task = JoinSet::new();
    task.spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        match tls {
            Some(tls) => serve(tls.accept(stream).await.expect("TLS"), answer).await,
            None => serve(stream, answer).await,
        }
    });
    (port, task)
}

fn only_http2() -> TlsAcceptor {
    let mut config = (**acceptor().config()).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

// PRB-12
#[tokio::test]
async fn a_server_that_speaks_only_http2_is_asked_in_http2() {
    let (port, mut task) = http2_server(Some(only_http2()), |request, mut respond| async move {
        let head = |name: &str| request.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        assert_eq!(request.uri().path_and_query().map(ToString::to_string).as_deref(), Some("/healthz?full"));
        assert_eq!(request.uri().authority().map(ToString::to_string).as_deref(), Some("a.example"));
        assert_eq!((head("user-agent").as_deref(), head("connection")), (Some("kube-probe/1.36"), None));
        let response = http::Response::builder().status(503).body(()).expect("head");
        let mut stream = respond.send_response(response, false).expect("sent");
        stream.send_data(Bytes::from_static(b"not yet"), true).expect("sent");
    })
    .await;
    let asked = HttpTarget { host_header: Some("a.example".into()), ..target(Scheme::Https, port) };
    let reply = probes().http(&asked, Some(PATIENCE)).await.expect("an answer");
    assert_eq!((reply.status, reply.body.as_str()), (503, "not yet"));
    task.join_next().await.expect("one").expect("as it should be asked");
}

#[tokio::test]
async fn hostile_an_http2_answer_without_end_is_read_in_part() {
    let (port, mut task) = http2_server(Some(only_http2()), |_, mut respond| async move {
        let response = http::Response::builder().body(()).expect("head");
        let mut stream = respond.send_response(response, false).expect("sent");
        without_end(&mut stream, b"x").await;
    })
    .await;
    let reply = probes().http(&target(Scheme::Https, port), Some(PATIENCE)).await.expect("an answer");
    assert_eq!((reply.status, reply.body.len()), (200, MAX_OUTPUT));
    assert!(tokio::time::timeout(PATIENCE, task.join_next()).await.is_ok(), "the connection was closed");
}

/// Sends `data` over and over until the client resets the stream.
async fn without_end(stream: &mut h2::SendStream<Bytes>, data: &'static [u8]) {
    let piece = Bytes::from(data.repeat(1024));
    loop {
        stream.reserve_capacity(piece.len());
        match std::future::poll_fn(|cx| stream.poll_capacity(cx)).await {
            Some(Ok(room)) => {
                let sent = stream.send_data(piece.slice(..room.min(piece.len())), false);
                if sent.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

fn grpc_target(port: u16) -> GrpcTarget {
    GrpcTarget { host: "127.0.0.1".into(), port, service: String::new() }
}

#[tokio::test]
async fn hostile_grpc_headers_of_megabytes_are_not_taken() {
    // The first size is far below the limit of bytes per connection.
    for bytes in [32 << 10, 8 << 20] {
        let (port, _task) = http2_server(None, move |_, mut respond| async move {
            let head = http::Response::builder().header("content-type", "application/grpc").header("grpc-status", 2);
            let head = head.header("grpc-message", "x".repeat(bytes));
            let _refused = respond.send_response(head.body(()).expect("head"), true);
            std::future::pending::<()>().await;
        })
        .await;
        match probes().grpc(&grpc_target(port), PATIENCE).await {
            Err(GrpcError::Broken(text)) => assert!(text.len() < 1024, "{}", text.len()),
            other => panic!("{bytes}: {:.200}", format!("{other:?}")),
        }
    }
}

#[tokio::test]
async fn hostile_http2_headers_of_megabytes_are_not_taken() {
    for (bytes, taken) in [(32 << 10, true), (256 << 10, false), (8 << 20, false)] {
        let (port, _task) = http2_server(Some(only_http2()), move |_, mut respond| async move {
            let head = http::Response::builder().header("x", "x".repeat(bytes));
            let _refused = respond.send_response(head.body(()).expect("head"), true);
            std::future::pending::<()>().await;
        })
        .await;
        let answer = probes().http(&target(Scheme::Https, port), Some(PATIENCE)).await;
        assert_eq!(answer.is_ok(), taken, "{bytes}: {answer:?}");
        assert!(taken || matches!(answer, Err(NetError::Broken(_))), "{bytes}: {answer:?}");
    }
}

#[tokio::test]
async fn hostile_grpc_data_without_end_is_left_at_once() {
    for (data, code) in [(&b"\0\xff\xff\xff\xff"[..], 8), (&b"\0\0\0\0\x02\x08\x01"[..], 13)] {
        let (port, mut task) = http2_server(None, move |_, mut respond| async move {
            let head = http::Response::builder().header("content-type", "application/grpc");
            let mut stream = respond.send_response(head.body(()).expect("head"), false).expect("sent");
            without_end(&mut stream, data).await;
        })
        .await;
        let answer = probes().grpc(&grpc_target(port), PATIENCE).await;
        assert!(matches!(&answer, Err(GrpcError::Status { code: found, .. }) if *found == code), "{answer:?}");
        assert!(tokio::time::timeout(PATIENCE, task.join_next()).await.is_ok(), "the connection was closed");
    }
}

/// A server that does not answer and sends an HTTP/2 frame over and over.
#[tokio::test]
async fn hostile_a_server_that_only_pings_is_left_after_a_megabyte() {
    let (listener, port) = listen().await;
    let mut task = JoinSet::new();
    task.spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        // An unsolicited acknowledgement: the client has nothing to answer.
        let ping = [&[0, 0, 8, 6, 1, 0, 0, 0, 0][..], &[7; 8]].concat();
        let _gone = stream.write_all(&settings).await;
        let pings = ping.repeat(512);
        let (mut read, mut write) = stream.split();
        let write = async { while write.write_all(&pings).await.is_ok() {} };
        let read = async { while read.read(&mut [0; 4096]).await.is_ok_and(|n| n > 0) {} };
        tokio::join!(write, read);
    });
    let answer = probes().grpc(&grpc_target(port), PATIENCE).await;
    assert!(matches!(&answer, Err(GrpcError::Broken(_))), "{answer:?}");
    assert!(tokio::time::timeout(PATIENCE, task.join_next()).await.is_ok(), "the connection was closed");
}

#[tokio::test]
async fn hostile_http_headers_without_end_are_not_taken() {
    let one_long = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(256 << 10));
    let many = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{}\r\n", "X: y\r\n".repeat(600));
    let informs = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100_000);
    for answer in [one_long, many, informs] {
        let server = server([answer.leak().as_bytes()], None).await;
        let broken = probes().http(&target(Scheme::Http, server.port), Some(PATIENCE)).await;
        assert!(matches!(broken, Err(NetError::Broken(_))), "{broken:?}");
    }
    // Four times as many as hyper accepts by default: upstream accepts them.
    let fine = format!("HTTP/1.1 204 No Content\r\n{}\r\n", "X: y\r\n".repeat(400));
    let server = server([fine.leak().as_bytes()], None).await;
    let reply = probes().http(&target(Scheme::Http, server.port), Some(PATIENCE)).await.expect("an answer");
    assert_eq!(reply.status, 204);
}
