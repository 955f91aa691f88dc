//! A scripted server: HTTP/2 over TLS, on loopback.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response, StatusCode};
use rubelet_cluster::api::{Client, Credentials, Endpoint, Heartbeat, Options, Roots, User};
use rubelet_engine::clock::Clock;
use rubelet_engine::task::TaskGroup;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_util::sync::CancellationToken;

use crate::pki::{Authority, Signed, Valid};

/// Longer than anything here takes; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// The connection it came on, counted from 1.
    pub(crate) connection: usize,
    /// The client's certificate.
    pub(crate) certificate: Option<Vec<u8>>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A scripted response.
pub(crate) enum Reply {
    /// A complete response.
    Whole(u16, Vec<(&'static str, &'static str)>, String),
    /// A body sent in pieces, until the sender is dropped.
    Stream(mpsc::Receiver<String>),
    /// No response.
    Silence,
    /// The stream is reset as refused, before it is processed.
    Refused,
}

impl Reply {
    pub(crate) fn ok(body: impl Into<String>) -> Self {
        Self::Whole(200, Vec::new(), body.into())
    }

    pub(crate) fn status(code: u16, reason: &str, message: &str) -> Self {
        Self::Whole(code, Vec::new(), status(code, reason, message))
    }
}

/// A Status object.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> String {
    let object = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    object.to_string()
}

/// The state of all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Fine,
    /// Connections up to this number are neither read nor written any more, and stay open.
    Frozen(usize),
    /// Cut for the n-th time.
    Cut(usize),
    /// Sent GOAWAY for the n-th time.
    GoAway(usize),
}

struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    /// Responses for requests to one path.
    replies_to: Mutex<Vec<(String, Reply)>>,
    seen: mpsc::Sender<Seen>,
    weather: watch::Receiver<Weather>,
    connections: AtomicUsize,
}

impl Shared {
    fn reply(&self, path: &str) -> Option<Reply> {
        let mut own = self.replies_to.lock().unwrap();
        match own.iter().position(|(of, _)| of == path) {
            Some(index) => Some(own.remove(index).1),
            None => self.replies.lock().unwrap().pop_front(),
        }
    }
}

pub(crate) struct Fake {
    pub(crate) authority: Authority,
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    seen: mpsc::Receiver<Seen>,
    weather: watch::Sender<Weather>,
    _tasks: JoinSet<()>,
    pub(crate) group: TaskGroup,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let authority = Authority::new();
        let server = authority.server("127.0.0.1", Valid::Now);
        Self::with(authority, &server).await
    }

    /// A server that, like the API server, does not verify client certificates in the handshake.
    pub(crate) async fn start_blind() -> Self {
        let authority = Authority::new();
        let server = authority.server("127.0.0.1", Valid::Now);
        Self::listening(authority, |_| acceptor(None, &server)).await
    }

    /// A server with this certificate. It accepts clients without a certificate and those of `authority`.
    pub(crate) async fn with(authority: Authority, server: &Signed) -> Self {
        Self::listening(authority, |authority| acceptor(Some(authority), server)).await
    }

    async fn listening(authority: Authority, acceptor: impl FnOnce(&Authority) -> TlsAcceptor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen_in, seen) = mpsc::channel(1_000);
        let (weather, weather_out) = watch::channel(Weather::Fine);
        let shared = Arc::new(Shared {
            replies: Mutex::default(),
            replies_to: Mutex::default(),
            seen: seen_in,
            weather: weather_out,
            connections: AtomicUsize::new(0),
        });
        let acceptor = acceptor(&authority);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, Arc::clone(&shared)));
        let group = TaskGroup::new(&CancellationToken::new());
        Self { authority, address, shared, seen, weather, _tasks: tasks, group }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::new(&format!("https://{}", self.address), Roots::Pem(self.authority.pem())).unwrap()
    }

    pub(crate) fn client(&mut self) -> Client {
        self.client_as(Credentials::new(User::default()))
    }

    pub(crate) fn client_as(&mut self, credentials: Credentials) -> Client {
        let endpoint = self.endpoint();
        self.client_of(endpoint, credentials)
    }

    pub(crate) fn client_of(&mut self, endpoint: Endpoint, credentials: Credentials) -> Client {
        let heartbeat = Heartbeat { every: Duration::from_millis(100), patience: Duration::from_millis(200) };
        let options = Options { heartbeat, ..Options::default() };
        Client::new(endpoint, credentials, &options, Clock::real(), &mut self.group)
    }

    /// Queues a response for the next request without one.
    pub(crate) fn reply(&self, reply: Reply) {
        self.shared.replies.lock().unwrap().push_back(reply);
    }

    /// Sets the response for the next request to `path`.
    pub(crate) fn reply_to(&self, path: &str, reply: Reply) {
        self.shared.replies_to.lock().unwrap().push((path.to_owned(), reply));
    }

    /// Queues a streamed response for the next request without one.
    pub(crate) fn stream(&self) -> mpsc::Sender<String> {
        let (out, pieces) = mpsc::channel(1_000);
        self.reply(Reply::Stream(pieces));
        out
    }

    pub(crate) async fn seen(&mut self) -> Seen {
        let seen = tokio::time::timeout(PATIENCE, self.seen.recv()).await;
        seen.expect("a request comes in time").expect("the server runs")
    }

    /// Stalls every open connection.
    pub(crate) fn freeze(&self) {
        self.weather.send_replace(Weather::Frozen(self.shared.connections.load(Ordering::Relaxed)));
    }

    /// Resumes stalled connections.
    pub(crate) fn thaw(&self) {
        self.weather.send_replace(Weather::Fine);
    }

    /// Cuts every connection.
    pub(crate) fn cut(&self) {
        let times = if let Weather::Cut(times) = *self.weather.borrow() { times } else { 0 };
        self.weather.send_replace(Weather::Cut(times + 1));
    }

    /// Sends GOAWAY on every connection.
    pub(crate) fn go_away(&self) {
        self.weather.send_replace(Weather::GoAway(1));
    }
}

fn acceptor(clients: Option<&Authority>, server: &Signed) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let config = config.unwrap();
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.certificate.clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
        }
    };
    let mut config = config.with_single_cert(vec![server.certificate.clone()], server.key()).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let connection = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        connections.spawn(serve(tcp, acceptor.clone(), Arc::clone(&shared), connection));
    }
}

async fn serve(tcp: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>, connection: usize) {
    let Ok(tls) = acceptor.accept(tcp).await else { return };
    let certificate = tls.get_ref().1.peer_certificates().and_then(|chain| Some(chain.first()?.to_vec()));
    // As many streams as the API server allows.
    let handshake = h2::server::Builder::new().max_concurrent_streams(100).handshake(tls).await;
    let Ok(mut http) = handshake else { return };
    let mut streams = JoinSet::new();
    let mut weather = shared.weather.clone();
    weather.mark_unchanged();
    loop {
        tokio::select! {
            biased;
            _ = weather.changed() => {
                let now = *weather.borrow_and_update();
                match now {
                    Weather::Cut(_) => return,
                    Weather::GoAway(_) => http.graceful_shutdown(),
                    Weather::Frozen(last) if connection <= last => {
                        let thawed = weather.wait_for(|weather| !matches!(weather, Weather::Frozen(_))).await;
                        assert_eq!(*thawed.unwrap(), Weather::Fine);
                    }
                    Weather::Fine | Weather::Frozen(_) => {}
                }
            }
            stream = http.accept() => {
                let Some(Ok((request, respond))) = stream else { return };
                streams.spawn(exchange(request, respond, Arc::clone(&shared), connection, certificate.clone()));
            }
        }
    }
}

async fn exchange(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
    connection: usize,
    certificate: Option<Vec<u8>>,
) {
    let (head, mut body) = request.into_parts();
    let mut text = Vec::new();
    while let Some(Ok(piece)) = body.data().await {
        body.flow_control().release_capacity(piece.len()).unwrap();
        text.extend_from_slice(&piece);
    }
    let path = head.uri.path_and_query().unwrap().to_string();
    let body = String::from_utf8(text).unwrap();
    let method = head.method.to_string();
    let reply = shared.reply(&path);
    shared.seen.send(Seen { method, path, headers: head.headers, body, connection, certificate }).await.unwrap();
    let ok = |status: u16| Response::builder().status(StatusCode::from_u16(status).unwrap());
    match reply.unwrap_or(Reply::Silence) {
        Reply::Whole(status, headers, body) => {
            let mut response = ok(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            if let Ok(mut out) = respond.send_response(response.body(()).unwrap(), false) {
                let _ = out.send_data(body.into(), true);
            }
        }
        Reply::Stream(mut pieces) => {
            let mut out = respond.send_response(ok(200).body(()).unwrap(), false).unwrap();
            while let Some(piece) = pieces.recv().await {
                if out.send_data(piece.into(), false).is_err() {
                    return;
                }
            }
            let _ = out.send_data(Bytes::new(), true);
        }
        Reply::Silence => std::future::pending().await,
        Reply::Refused => respond.send_reset(Reason::REFUSED_STREAM),
    }
}
