//! A scripted node, its API, and clients.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rubelet_core::id::{ContainerId, PodUid, SandboxId};
use rubelet_core::launch::{ContainerConfig, LinuxResources, NamespaceMode, SandboxConfig};
use rubelet_core::observe::{
    ContainerObservation, ContainerState, Hint, PodObservation, PodSummary, SandboxObservation, SandboxState,
};
use rubelet_core::time::Instant;
use rubelet_engine::ports::*;
use rubelet_engine::sync_loop::{KnownPod, NodeView};
use rubelet_testkit::pod;
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

use crate::api::{ApiParts, ApiSettings, MetricsPage, NodePages, NodeServer, TlsParts, Verbosity};
use crate::healthz::Health;
use crate::testing::{NOW, ago, ended, find, node, running, status, worker};
use crate::watched::WatchedNode;

pub(super) const UID: &str = "uid-web";
pub(super) const CONTAINER: &str = "c-app";

/// A certificate authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
    pub(super) der: CertificateDer<'static>,
}

pub(super) type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { pem: pem(certificate.der()), der: certificate.der().clone(), issuer: Issuer::new(params, key) }
    }

    pub(super) fn client(&self, name: &str, group: &str) -> Pair {
        self.client_with(name, group, |_| {})
    }

    /// A client certificate with edited parameters.
    pub(super) fn client_with(&self, name: &str, group: &str, edit: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        edit(&mut params);
        self.sign(params)
    }

    pub(super) fn server(&self) -> Arc<ServingCert> {
        let (certificate, key) = self.sign(CertificateParams::new(vec!["node".to_owned()]).expect("a name"));
        Arc::new(ServingCert { chain: vec![certificate.to_vec()], key: key.secret_der().to_vec(), renewal: None })
    }

    fn sign(&self, params: CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
    }
}

/// A certificate in PEM.
fn pem(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in der.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, at| bits << 8 | usize::from(chunk.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = char::from(DIGITS[bits >> (18 - 6 * at) & 63]);
            text.push(if at <= chunk.len() { digit } else { '=' });
        }
    }
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

/// The node: a pod `ns/web` whose container `app` runs until the test ends it, and `done`, whose container has ended.
pub(super) struct World {
    runs: Mutex<bool>,
    news: watch::Sender<Instant>,
    /// URL of the runtime's streaming server.
    pub(super) sessions: Mutex<Result<String, RpcErrorKind>>,
    /// The calls to the runtime.
    pub(super) asked: Mutex<Vec<String>>,
    /// The content of the log; it ends with the sender, or when the reader finishes it.
    log: Mutex<Option<mpsc::Receiver<Vec<u8>>>>,
    /// `verb subresource` pairs that users are allowed.
    pub(super) allowed: Mutex<BTreeSet<String>>,
    pub(super) reviews_fail: Mutex<bool>,
    /// The API server does not respond to reviews.
    pub(super) reviews_hang: Mutex<bool>,
    /// Number of requested views of all pods.
    pub(super) views: AtomicUsize,
    /// Number of reviewed tokens.
    pub(super) reviewed: AtomicUsize,
    /// Why checkpoints fail, what the next one waits for, and how many are on the disk.
    pub(super) checkpoint_fails: Mutex<Option<RpcErrorKind>>,
    pub(super) checkpoint_ends: Mutex<Option<oneshot::Receiver<()>>>,
    pub(super) checkpoints: Mutex<usize>,
    /// The node log `huge`.
    pub(super) huge: Huge,
    /// Endless logs instead, and the number of bytes read from them.
    pub(super) endless: Mutex<Option<Arc<watch::Sender<u64>>>>,
}

impl World {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            runs: Mutex::new(true),
            news: watch::Sender::new(NOW),
            sessions: Mutex::new(Err(RpcErrorKind::Failed)),
            asked: Mutex::default(),
            log: Mutex::default(),
            allowed: Mutex::default(),
            reviews_fail: Mutex::default(),
            reviews_hang: Mutex::default(),
            views: AtomicUsize::new(0),
            reviewed: AtomicUsize::new(0),
            checkpoint_fails: Mutex::default(),
            checkpoint_ends: Mutex::default(),
            checkpoints: Mutex::default(),
            huge: Huge::default(),
            endless: Mutex::default(),
        })
    }

    pub(super) fn end_container(&self) {
        *self.runs.lock().unwrap() = false;
        self.news.send_replace(Instant::from_secs(4000));
    }

    /// The sender of the log.
    pub(super) fn log(&self) -> mpsc::Sender<Vec<u8>> {
        let (write, read) = mpsc::channel(8);
        *self.log.lock().unwrap() = Some(read);
        write
    }

    fn ask(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }

    fn session(&self, operation: &'static str, what: String) -> Result<Session, RpcError> {
        self.ask(what);
        let session = self.sessions.lock().unwrap().clone();
        session.map(Session::Url).map_err(|kind| RpcError { operation, kind, detail: "no session for you".into() })
    }
}

impl World {
    fn all(&self) -> NodeView {
        let mut app =
            if *self.runs.lock().unwrap() { running("app", 60, true) } else { ended("app", 0, "Completed", 1) };
        app.container_id = Some(format!("containerd://{CONTAINER}"));
        if let Some(ended) = app.state.as_mut().and_then(|state| state.terminated.as_mut()) {
            ended.container_id = Some(format!("containerd://{CONTAINER}"));
        }
        let web = pod("web").ns("ns").uid(UID).container("app").container("late").build();
        node(vec![worker(web, status("Running", vec![app]))])
    }
}

#[async_trait]
impl WatchedNode for World {
    async fn view(&self) -> Option<NodeView> {
        self.views.fetch_add(1, Ordering::Relaxed);
        Some(self.all())
    }

    async fn pod(&self, uid: &PodUid) -> Option<Option<KnownPod>> {
        Some(find(&self.all(), |pod| pod.uid == *uid))
    }

    async fn pod_named(&self, namespace: &str, name: &str) -> Option<Option<KnownPod>> {
        Some(find(&self.all(), |pod| *pod.namespace == *namespace && *pod.name == *name))
    }

    fn quiet_for(&self) -> Duration {
        Duration::ZERO
    }

    fn news(&self) -> watch::Receiver<Instant> {
        self.news.subscribe()
    }
}

fn no<T>(operation: &'static str) -> Result<T, RpcError> {
    Err(RpcError { operation, kind: RpcErrorKind::Unimplemented, detail: String::new() })
}

#[async_trait]
impl RuntimeInfo for World {
    async fn version(&self) -> Result<RuntimeVersion, RpcError> {
        no("version")
    }
    async fn status(&self) -> Result<RuntimeStatus, RpcError> {
        no("status")
    }
    async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, RpcError> {
        no("runtime_config")
    }
}

#[async_trait]
impl RuntimeView for World {
    async fn list(&self) -> Result<Vec<PodSummary>, RpcError> {
        Ok(Vec::new())
    }
    async fn inspect(&self, uid: &PodUid, at: Instant) -> Result<PodObservation, RpcError> {
        let reference = rubelet_core::id::PodRef { namespace: "ns".into(), name: "web".into(), uid: uid.clone() };
        let mut seen = PodObservation::nothing(reference, at);
        if uid.as_str() == UID && *self.runs.lock().unwrap() {
            seen.sandboxes.push(SandboxObservation {
                id: "s-web".into(),
                attempt: 0,
                state: SandboxState::Ready,
                created_at: ago(60),
                network: NamespaceMode::Pod,
                ips: Vec::new(),
                runtime_handler: String::new(),
            });
            seen.containers.push(ContainerObservation {
                id: CONTAINER.into(),
                sandbox: "s-web".into(),
                name: "app".into(),
                state: ContainerState::Running { started_at: ago(60) },
                created_at: ago(60),
                image: "app".into(),
                image_id: "app".into(),
                marks: Default::default(),
                log_path: "/var/log/pods/ns_web_uid-web/app/0.log".into(),
                resources: None,
                user: None,
            });
        }
        Ok(seen)
    }
    async fn hints(&self) -> Result<BoxStream<'static, Result<Hint, RpcError>>, RpcError> {
        no("get_container_events")
    }
}

#[async_trait]
impl Sandboxes for World {
    async fn run_sandbox(&self, _config: &SandboxConfig) -> Result<SandboxId, RpcError> {
        no("run_podsandbox")
    }
    async fn stop_sandbox(&self, _id: &SandboxId) -> Result<(), RpcError> {
        no("stop_podsandbox")
    }
    async fn remove_sandbox(&self, _id: &SandboxId) -> Result<(), RpcError> {
        no("remove_podsandbox")
    }
}

#[async_trait]
impl Containers for World {
    async fn create_container(
        &self,
        _sandbox: &SandboxId,
        _config: &ContainerConfig,
        _sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RpcError> {
        no("create_container")
    }
    async fn start_container(&self, _id: &ContainerId) -> Result<(), RpcError> {
        no("start_container")
    }
    async fn stop_container(&self, _id: &ContainerId, _grace: Duration) -> Result<(), RpcError> {
        no("stop_container")
    }
    async fn remove_container(&self, _id: &ContainerId) -> Result<(), RpcError> {
        no("remove_container")
    }
    async fn exec_sync(&self, id: &ContainerId, words: &[String], time: Duration) -> Result<ExecOutput, RpcError> {
        self.ask(format!("run {id} {words:?} {time:?}"));
        let exit_code = i32::from(words.first().is_some_and(|word| word == "false"));
        Ok(ExecOutput { exit_code, stdout: b"out\n".to_vec(), stderr: b"err\n".to_vec() })
    }
    async fn reopen_log(&self, _id: &ContainerId) -> Result<(), RpcError> {
        no("reopen_container_log")
    }
}

#[async_trait]
impl Resizes for World {
    async fn resize_container(&self, _id: &ContainerId, _resources: &LinuxResources) -> Result<(), RpcError> {
        Ok(())
    }
    async fn resize_sandbox(&self, _id: &SandboxId, _resources: &LinuxResources) -> Result<(), RpcError> {
        Ok(())
    }
}

#[async_trait]
impl Streams for World {
    async fn exec(&self, id: &ContainerId, command: &[String], wanted: StdStreams) -> Result<Session, RpcError> {
        self.session("exec", format!("exec {id} {command:?} {wanted:?}"))
    }
    async fn attach(&self, id: &ContainerId, wanted: StdStreams) -> Result<Session, RpcError> {
        self.session("attach", format!("attach {id} {wanted:?}"))
    }
    async fn port_forward(&self, id: &SandboxId, ports: &[u16]) -> Result<Session, RpcError> {
        self.session("port_forward", format!("port_forward {id} {ports:?}"))
    }
}

#[async_trait]
impl ContainerCheckpoints for World {
    async fn checkpoint(&self, id: &ContainerId, location: &Path, timeout: Duration) -> Result<(), RpcError> {
        self.ask(format!("checkpoint {id} {} {timeout:?}", location.display()));
        let hold = self.checkpoint_ends.lock().unwrap().take();
        if let Some(end) = hold {
            let _dropped = end.await;
        }
        match *self.checkpoint_fails.lock().unwrap() {
            None => Ok(()),
            Some(kind) => {
                let detail = "method CheckpointContainer not implemented".to_owned();
                Err(RpcError { operation: "checkpoint_container", kind, detail })
            }
        }
    }
}

#[async_trait]
impl CheckpointFiles for World {
    async fn place(&self, name: &str) -> Result<(PathBuf, usize), FileError> {
        Ok((PathBuf::from("/checkpoints").join(name), *self.checkpoints.lock().unwrap()))
    }
}

/// A log directory with the files `syslog` and `pods/<log>`; everything else is missing, and `out` leads out.
#[async_trait]
impl NodeLogs for World {
    async fn open(&self, path: &str) -> Result<NodeLog, FileError> {
        self.ask(format!("open {path:?}"));
        let entry = |name: &str, is_directory| NodeLogEntry { name: name.into(), is_directory };
        let kind = match path.trim_matches('/') {
            "" => {
                let entries = vec![entry("<b>.log", false), entry("pods", true), entry("syslog", false)];
                return Ok(NodeLog::Directory { entries, more: false });
            }
            "pods" => return Ok(NodeLog::Directory { entries: vec![entry("0.log", false)], more: true }),
            "syslog" | "cron.log" => {
                return Ok(NodeLog::File { size: 10, modified: ago(0), content: Box::new(TenBytes) });
            }
            "huge" => {
                return Ok(NodeLog::File { size: 1 << 40, modified: ago(0), content: Box::new(self.huge.clone()) });
            }
            "out" => std::io::ErrorKind::PermissionDenied,
            _ => std::io::ErrorKind::NotFound,
        };
        Err(FileError { action: "open", path: path.into(), source: kind.into() })
    }

    async fn in_journal(&self, services: &[String]) -> Vec<bool> {
        services.iter().map(|service| service == "kubelet").collect()
    }

    async fn journal(&self, query: &JournalQuery) -> Result<Box<dyn JournalText>, JournalError> {
        self.ask(format!("journal {query:?}"));
        Ok(Box::new(OneEntry(Some(b"an entry\n".to_vec()))))
    }
}

struct TenBytes;

#[async_trait]
impl NodeLogFile for TenBytes {
    async fn read(&self, offset: u64, most: usize) -> std::io::Result<Vec<u8>> {
        let offset = usize::try_from(offset).expect("small");
        Ok(b"0123456789".iter().copied().skip(offset).take(most).collect())
    }
}

/// A file without an end, which counts what was read of it.
#[derive(Clone, Default)]
pub(super) struct Huge(pub(super) Arc<AtomicUsize>);

#[async_trait]
impl NodeLogFile for Huge {
    async fn read(&self, _offset: u64, most: usize) -> std::io::Result<Vec<u8>> {
        self.0.fetch_add(most, Ordering::Relaxed);
        tokio::task::yield_now().await;
        Ok(vec![b'x'; most])
    }
}

struct OneEntry(Option<Vec<u8>>);

#[async_trait]
impl JournalText for OneEntry {
    async fn next(&mut self) -> Option<Vec<u8>> {
        self.0.take()
    }
}

impl Verbosity for World {
    fn set(&self, verbosity: u32) {
        self.ask(format!("verbosity {verbosity}"));
    }
}

#[async_trait]
impl LogReader for World {
    async fn open(&self, path: &str, wish: &LogWish) -> Result<Box<dyn LogText>, FileError> {
        self.ask(format!("log {path} follow={}", wish.follow));
        if let Some(read) = self.endless.lock().unwrap().clone() {
            return Ok(Box::new(EndlessLog(read)));
        }
        match self.log.lock().unwrap().take() {
            Some(read) => Ok(Box::new(FakeLog { read, finished: false })),
            None => {
                Err(FileError { action: "open log", path: path.into(), source: std::io::ErrorKind::NotFound.into() })
            }
        }
    }
}

struct EndlessLog(Arc<watch::Sender<u64>>);

#[async_trait]
impl LogText for EndlessLog {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let piece = vec![b'x'; 64 * 1024];
        self.0.send_modify(|read| *read += piece.len() as u64);
        tokio::task::yield_now().await;
        Ok(Some(piece))
    }
    fn finish(&mut self) {}
}

struct FakeLog {
    read: mpsc::Receiver<Vec<u8>>,
    finished: bool,
}

#[async_trait]
impl LogText for FakeLog {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        if self.finished { Ok(self.read.try_recv().ok()) } else { Ok(self.read.recv().await) }
    }
    fn finish(&mut self) {
        self.finished = true;
    }
}

#[async_trait]
impl Reviews for World {
    async fn who_is(&self, token: &str) -> Result<Option<Caller>, ApiError> {
        self.reviewed.fetch_add(1, Ordering::Relaxed);
        if *self.reviews_hang.lock().unwrap() {
            std::future::pending::<()>().await;
        }
        if *self.reviews_fail.lock().unwrap() {
            return Err(ApiError { kind: ApiErrorKind::Unavailable, detail: "away".into() });
        }
        let caller = || Caller { name: "prometheus".into(), ..Caller::default() };
        Ok((token == "good").then(caller))
    }
    async fn may(&self, caller: &Caller, access: &NodeAccess) -> Result<bool, ApiError> {
        if *self.reviews_fail.lock().unwrap() {
            return Err(ApiError { kind: ApiErrorKind::Unavailable, detail: "away".into() });
        }
        self.ask(format!("may {} [{}] {} {}", caller.name, caller.groups.join(" "), access.verb, access.subresource));
        Ok(self.allowed.lock().unwrap().contains(&format!("{} {}", access.verb, access.subresource)))
    }
}

struct OneMetric;

#[async_trait]
impl MetricsPage for OneMetric {
    async fn write(&self, out: &mut String) {
        out.push_str("kubelet_one 1\n");
    }
}

struct OneProbe;

#[async_trait]
impl MetricsPage for OneProbe {
    async fn write(&self, out: &mut String) {
        out.push_str("prober_one 1\n");
    }
}

/// A running server and its test clients.
pub(super) struct Rig {
    pub(super) world: Arc<World>,
    pub(super) authority: Authority,
    pub(super) certificate: watch::Sender<Option<Arc<ServingCert>>>,
    pub(super) address: std::net::SocketAddr,
    pub(super) settings: ApiSettings,
    tasks: JoinSet<()>,
    _dir: TempDir,
}

pub(super) fn settings() -> ApiSettings {
    let config = rubelet_core::config::KubeletConfiguration::default();
    ApiSettings::new(&config, &rubelet_core::config::FeatureGates::default())
}

pub(super) fn parts(world: &Arc<World>, settings: ApiSettings) -> ApiParts {
    let node: Arc<dyn WatchedNode> = world.clone();
    ApiParts {
        health: Health::new(Arc::clone(&node), Duration::from_secs(60)),
        node,
        runtime: world.clone(),
        logs: world.clone(),
        reviews: Some(world.clone()),
        clock: rubelet_engine::clock::Clock::virtual_from(ago(0)),
        node_name: "node-1".into(),
        configz: Bytes::from_static(b"{\"kubeletconfig\":{}}"),
        metrics: vec![Arc::new(OneMetric)],
        probe_metrics: Arc::new(OneProbe),
        usage: None,
        tracer: rubelet_engine::trace::Tracer::off(),
        node_pages: NodePages {
            logs: world.clone(),
            checkpoints: world.clone(),
            verbosity: world.clone(),
            flags: Arc::new(BTreeMap::from([("v".to_owned(), "2".to_owned())])),
            command_line: Bytes::from_static(b"rubelet\0--v=2"),
            profiler: None,
            version: "1.36.4",
        },
        settings,
    }
}

impl Rig {
    pub(super) async fn new() -> Self {
        Self::with(settings()).await
    }

    pub(super) async fn with(settings: ApiSettings) -> Self {
        Self::made_from(settings, |_| {}).await
    }

    /// With edited parts.
    pub(super) async fn made_from(settings: ApiSettings, edit: impl FnOnce(&mut ApiParts)) -> Self {
        let (world, authority, dir) = (World::new(), Authority::new(), tempfile::tempdir().expect("a directory"));
        let client_ca: PathBuf = dir.path().join("ca.crt");
        std::fs::write(&client_ca, &authority.pem).expect("written");
        let certificate = watch::Sender::new(Some(authority.server()));
        let tls = TlsParts {
            certificate: certificate.subscribe(),
            client_ca: Some(client_ca),
            cipher_suites: Vec::new(),
            min_version: String::new(),
        };
        let mut parts = parts(&world, settings.clone());
        edit(&mut parts);
        let server = NodeServer::bind((Ipv4Addr::LOCALHOST, 0).into(), parts, tls).await;
        let server = server.expect("a free port");
        let address = server.address().expect("an address");
        let mut tasks = JoinSet::new();
        tasks.spawn(server.run(CancellationToken::new()));
        Self { world, authority, certificate, address, settings, tasks, _dir: dir }
    }

    /// The read-only port of the same node.
    pub(super) async fn read_only(&mut self) -> std::net::SocketAddr {
        let parts = parts(&self.world, self.settings.clone());
        let server = NodeServer::bind_read_only((Ipv4Addr::LOCALHOST, 0).into(), parts).await.expect("a free port");
        let address = server.address().expect("an address");
        self.tasks.spawn(server.run(CancellationToken::new()));
        address
    }

    pub(super) async fn dial(&self, pair: Option<Pair>, protocol: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let client = pair.map(|(certificate, key)| (vec![certificate], key));
        self.dial_from(Ipv4Addr::LOCALHOST, client, protocol).await
    }

    /// A TCP connection from this address, with nothing sent.
    pub(super) async fn tcp(&self, from: Ipv4Addr) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        socket.connect(self.address).await
    }

    /// A TLS connection from this address, with a certificate chain.
    pub(super) async fn dial_from(
        &self,
        from: Ipv4Addr,
        client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
        protocol: &str,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der.clone()).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match client {
            Some((chain, key)) => config.with_client_auth_cert(chain, key).expect("a pair"),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = self.tcp(from).await?;
        let name = ServerName::try_from("node").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// The response to an administrator's GET.
    pub(super) async fn get(&self, path: &str) -> (u16, String) {
        self.ask(Some(self.authority.client("admin", "ops")), "GET", path, None).await
    }

    pub(super) async fn ask(&self, pair: Option<Pair>, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
        let client = pair.map(|(certificate, key)| (vec![certificate], key));
        let stream = self.dial_from(Ipv4Addr::LOCALHOST, client, "http/1.1").await.expect("a connection");
        Self::ask_on(stream, method, path, token).await
    }

    /// The response on an existing connection.
    pub(super) async fn ask_on(
        stream: TlsStream<TcpStream>,
        method: &str,
        path: &str,
        token: Option<&str>,
    ) -> (u16, String) {
        let mut request = Request::builder().method(method).uri(path).header("host", "node");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Empty::<Bytes>::new()).expect("a request");
        whole(send(TokioIo::new(stream), request).await).await
    }
}

/// Sends a request; the connection lives as long as its response is read.
pub(super) async fn send<S>(stream: S, request: Request<Empty<Bytes>>) -> Response<Incoming>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(stream).await.expect("a handshake");
    let mut task = JoinSet::new();
    task.spawn(async move {
        let _over = connection.with_upgrades().await;
    });
    task.detach_all();
    sender.send_request(request).await.expect("an answer")
}

pub(super) async fn whole(response: Response<Incoming>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}
