//! A CRI runtime within the test process, on a real socket. Its answers are set per test, and it can be stopped and
//! started again like containerd.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rubelet_core::time::Instant;
use rubelet_cri::{
    Connection, ConnectionOptions, CriImages, CriRuntime, CriStats, Endpoint, ListMode, OperationMetrics,
};
use rubelet_engine::trace::Tracer;
use rubelet_proto::cri;
use rubelet_proto::cri::image_service_server::{ImageService, ImageServiceServer};
use rubelet_proto::cri::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};
use tower::Service as _;

pub(crate) type Labels = BTreeMap<String, String>;

/// The fake's objects and behaviour. A call that is not set up here is `Unimplemented`, as in an old runtime.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) sandboxes: Vec<cri::PodSandbox>,
    pub(crate) containers: Vec<cri::Container>,
    pub(crate) sandbox_statuses: BTreeMap<String, cri::PodSandboxStatus>,
    pub(crate) container_statuses: BTreeMap<String, cri::ContainerStatus>,
    pub(crate) images: Vec<cri::Image>,
    /// `None`: the call is unimplemented. Otherwise these events, then silence.
    pub(crate) events: Option<Vec<cri::ContainerEventResponse>>,
    /// Lists can be streamed; a stream sends one item per message.
    pub(crate) streams_lists: bool,
    /// The answer to `Version`.
    pub(crate) api_version: String,
    pub(crate) cgroup_driver: Option<i32>,
    pub(crate) conditions: Vec<cri::RuntimeCondition>,
    /// Calls by name that fail with this status.
    pub(crate) failing: BTreeMap<&'static str, Status>,
    /// Calls by name that never answer.
    pub(crate) hanging: Vec<&'static str>,
    /// Names of the calls made, in order, with the relevant part of the request.
    pub(crate) calls: Vec<String>,
    /// `grpc-timeout` of the last call.
    pub(crate) deadline: Option<String>,
    /// The traces that the calls belong to.
    pub(crate) traceparents: Vec<(&'static str, Option<String>)>,
    pub(crate) image_status: Option<cri::Image>,
    pub(crate) stats: Vec<cri::ContainerStats>,
    pub(crate) image_fs: cri::ImageFsInfoResponse,
    pub(crate) exec: cri::ExecSyncResponse,
    /// The URL of the streaming server.
    pub(crate) session: String,
}

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) world: Arc<Mutex<World>>,
}

impl Fake {
    /// Records the call, then hangs, fails or continues.
    async fn enter<T>(&self, name: &'static str, request: &Request<T>, note: &str) -> Result<(), Status> {
        let hangs = {
            let mut world = self.world.lock().expect("not poisoned");
            world.calls.push(format!("{name} {note}").trim_end().to_owned());
            world.deadline =
                request.metadata().get("grpc-timeout").map(|value| value.to_str().expect("a text").to_owned());
            let trace = request.metadata().get("traceparent");
            let trace = trace.map(|value| value.to_str().expect("a text").to_owned());
            world.traceparents.push((name, trace));
            if let Some(status) = world.failing.get(name) {
                return Err(status.clone());
            }
            world.hanging.contains(&name)
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    fn read<T>(&self, read: impl FnOnce(&World) -> T) -> T {
        read(&self.world.lock().expect("not poisoned"))
    }
}

fn matches(labels: &Labels, selector: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn one_by_one<T: Send + 'static>(items: Vec<T>) -> BoxStream<T> {
    Box::pin(tokio_stream::iter(items.into_iter().map(Ok)))
}

#[tonic::async_trait]
impl RuntimeService for Fake {
    async fn version(&self, r: Request<cri::VersionRequest>) -> Result<Response<cri::VersionResponse>, Status> {
        self.enter("version", &r, &r.get_ref().version).await?;
        Ok(Response::new(cri::VersionResponse {
            version: self.read(|world| world.api_version.clone()),
            runtime_name: "fake".to_owned(),
            runtime_version: "v1.2.3".to_owned(),
            runtime_api_version: "v1".to_owned(),
        }))
    }

    async fn status(&self, r: Request<cri::StatusRequest>) -> Result<Response<cri::StatusResponse>, Status> {
        self.enter("status", &r, "").await?;
        let conditions = self.read(|world| world.conditions.clone());
        Ok(Response::new(cri::StatusResponse { status: Some(cri::RuntimeStatus { conditions }), ..Default::default() }))
    }

    async fn runtime_config(
        &self,
        r: Request<cri::RuntimeConfigRequest>,
    ) -> Result<Response<cri::RuntimeConfigResponse>, Status> {
        self.enter("runtime_config", &r, "").await?;
        let driver = self.read(|world| world.cgroup_driver).ok_or_else(|| Status::unimplemented("unknown method"))?;
        let linux = Some(cri::LinuxRuntimeConfiguration { cgroup_driver: driver });
        Ok(Response::new(cri::RuntimeConfigResponse { linux }))
    }

    async fn update_runtime_config(
        &self,
        r: Request<cri::UpdateRuntimeConfigRequest>,
    ) -> Result<Response<cri::UpdateRuntimeConfigResponse>, Status> {
        let network = r.get_ref().runtime_config.as_ref().and_then(|config| config.network_config.clone());
        let cidr = network.map(|network| network.pod_cidr).unwrap_or_default();
        self.enter("update_runtime_config", &r, &cidr).await?;
        Ok(Response::new(cri::UpdateRuntimeConfigResponse {}))
    }

    async fn list_pod_sandbox(
        &self,
        r: Request<cri::ListPodSandboxRequest>,
    ) -> Result<Response<cri::ListPodSandboxResponse>, Status> {
        self.enter("list_pod_sandbox", &r, "").await?;
        let selector = r.into_inner().filter.unwrap_or_default().label_selector;
        let mut items = self.read(|world| world.sandboxes.clone());
        items.retain(|item| matches(&item.labels, &selector));
        Ok(Response::new(cri::ListPodSandboxResponse { items }))
    }

    async fn stream_pod_sandboxes(
        &self,
        r: Request<cri::StreamPodSandboxesRequest>,
    ) -> Result<Response<BoxStream<cri::StreamPodSandboxesResponse>>, Status> {
        self.enter("stream_pod_sandboxes", &r, "").await?;
        if !self.read(|world| world.streams_lists) {
            return Err(Status::unimplemented("unknown method StreamPodSandboxes"));
        }
        let items = self.read(|world| world.sandboxes.clone());
        let wrap = |item| cri::StreamPodSandboxesResponse { pod_sandboxes: vec![item] };
        Ok(Response::new(one_by_one(items.into_iter().map(wrap).collect())))
    }

    async fn list_containers(
        &self,
        r: Request<cri::ListContainersRequest>,
    ) -> Result<Response<cri::ListContainersResponse>, Status> {
        self.enter("list_containers", &r, "").await?;
        let selector = r.into_inner().filter.unwrap_or_default().label_selector;
        let mut containers = self.read(|world| world.containers.clone());
        containers.retain(|item| matches(&item.labels, &selector));
        Ok(Response::new(cri::ListContainersResponse { containers }))
    }

    async fn stream_containers(
        &self,
        r: Request<cri::StreamContainersRequest>,
    ) -> Result<Response<BoxStream<cri::StreamContainersResponse>>, Status> {
        self.enter("stream_containers", &r, "").await?;
        if !self.read(|world| world.streams_lists) {
            return Err(Status::unimplemented("unknown method StreamContainers"));
        }
        let items = self.read(|world| world.containers.clone());
        let wrap = |item| cri::StreamContainersResponse { containers: vec![item] };
        Ok(Response::new(one_by_one(items.into_iter().map(wrap).collect())))
    }

    async fn pod_sandbox_status(
        &self,
        r: Request<cri::PodSandboxStatusRequest>,
    ) -> Result<Response<cri::PodSandboxStatusResponse>, Status> {
        self.enter("pod_sandbox_status", &r, &r.get_ref().pod_sandbox_id).await?;
        let status = self.read(|world| world.sandbox_statuses.get(&r.get_ref().pod_sandbox_id).cloned());
        let status = Some(status.ok_or_else(|| Status::not_found("no such sandbox"))?);
        Ok(Response::new(cri::PodSandboxStatusResponse { status, ..Default::default() }))
    }

    async fn container_status(
        &self,
        r: Request<cri::ContainerStatusRequest>,
    ) -> Result<Response<cri::ContainerStatusResponse>, Status> {
        self.enter("container_status", &r, &r.get_ref().container_id).await?;
        let status = self.read(|world| world.container_statuses.get(&r.get_ref().container_id).cloned());
        let status = Some(status.ok_or_else(|| Status::not_found("no such container"))?);
        Ok(Response::new(cri::ContainerStatusResponse { status, ..Default::default() }))
    }

    async fn run_pod_sandbox(
        &self,
        r: Request<cri::RunPodSandboxRequest>,
    ) -> Result<Response<cri::RunPodSandboxResponse>, Status> {
        self.enter("run_pod_sandbox", &r, &format!("handler={:?}", r.get_ref().runtime_handler)).await?;
        Ok(Response::new(cri::RunPodSandboxResponse { pod_sandbox_id: "s1".to_owned() }))
    }

    async fn stop_pod_sandbox(
        &self,
        r: Request<cri::StopPodSandboxRequest>,
    ) -> Result<Response<cri::StopPodSandboxResponse>, Status> {
        self.enter("stop_pod_sandbox", &r, &r.get_ref().pod_sandbox_id).await?;
        Ok(Response::new(Default::default()))
    }

    async fn remove_pod_sandbox(
        &self,
        r: Request<cri::RemovePodSandboxRequest>,
    ) -> Result<Response<cri::RemovePodSandboxResponse>, Status> {
        self.enter("remove_pod_sandbox", &r, &r.get_ref().pod_sandbox_id).await?;
        Ok(Response::new(Default::default()))
    }

    async fn create_container(
        &self,
        r: Request<cri::CreateContainerRequest>,
    ) -> Result<Response<cri::CreateContainerResponse>, Status> {
        self.enter("create_container", &r, &r.get_ref().pod_sandbox_id).await?;
        // An empty answer.
        Ok(Response::new(Default::default()))
    }

    async fn start_container(
        &self,
        r: Request<cri::StartContainerRequest>,
    ) -> Result<Response<cri::StartContainerResponse>, Status> {
        self.enter("start_container", &r, &r.get_ref().container_id).await?;
        Ok(Response::new(Default::default()))
    }

    async fn stop_container(
        &self,
        r: Request<cri::StopContainerRequest>,
    ) -> Result<Response<cri::StopContainerResponse>, Status> {
        self.enter("stop_container", &r, &format!("{} {}", r.get_ref().container_id, r.get_ref().timeout)).await?;
        Ok(Response::new(Default::default()))
    }

    async fn remove_container(
        &self,
        r: Request<cri::RemoveContainerRequest>,
    ) -> Result<Response<cri::RemoveContainerResponse>, Status> {
        self.enter("remove_container", &r, &r.get_ref().container_id).await?;
        Ok(Response::new(Default::default()))
    }

    async fn exec_sync(&self, r: Request<cri::ExecSyncRequest>) -> Result<Response<cri::ExecSyncResponse>, Status> {
        self.enter("exec_sync", &r, &format!("{:?} {}", r.get_ref().cmd, r.get_ref().timeout)).await?;
        Ok(Response::new(self.read(|world| world.exec.clone())))
    }

    async fn exec(&self, r: Request<cri::ExecRequest>) -> Result<Response<cri::ExecResponse>, Status> {
        self.enter("exec", &r, &format!("{:?}", r.get_ref())).await?;
        Ok(Response::new(cri::ExecResponse { url: self.read(|world| world.session.clone()) }))
    }

    async fn attach(&self, r: Request<cri::AttachRequest>) -> Result<Response<cri::AttachResponse>, Status> {
        self.enter("attach", &r, &format!("{:?}", r.get_ref())).await?;
        Ok(Response::new(cri::AttachResponse { url: self.read(|world| world.session.clone()) }))
    }

    async fn port_forward(
        &self,
        r: Request<cri::PortForwardRequest>,
    ) -> Result<Response<cri::PortForwardResponse>, Status> {
        self.enter("port_forward", &r, &format!("{:?}", r.get_ref())).await?;
        Ok(Response::new(cri::PortForwardResponse { url: self.read(|world| world.session.clone()) }))
    }

    async fn list_container_stats(
        &self,
        r: Request<cri::ListContainerStatsRequest>,
    ) -> Result<Response<cri::ListContainerStatsResponse>, Status> {
        self.enter("list_container_stats", &r, "").await?;
        Ok(Response::new(cri::ListContainerStatsResponse { stats: self.read(|world| world.stats.clone()) }))
    }

    async fn get_container_events(
        &self,
        r: Request<cri::GetEventsRequest>,
    ) -> Result<Response<BoxStream<cri::ContainerEventResponse>>, Status> {
        self.enter("get_container_events", &r, "").await?;
        let events = self.read(|world| world.events.clone());
        let events = events.ok_or_else(|| Status::unimplemented("unknown method GetContainerEvents"))?;
        Ok(Response::new(Box::pin(tokio_stream::StreamExt::chain(one_by_one(events), tokio_stream::pending()))))
    }
}

#[tonic::async_trait]
impl ImageService for Fake {
    async fn image_status(
        &self,
        r: Request<cri::ImageStatusRequest>,
    ) -> Result<Response<cri::ImageStatusResponse>, Status> {
        self.enter("image_status", &r, "").await?;
        let image = self.read(|world| world.image_status.clone());
        Ok(Response::new(cri::ImageStatusResponse { image, ..Default::default() }))
    }

    async fn list_images(
        &self,
        r: Request<cri::ListImagesRequest>,
    ) -> Result<Response<cri::ListImagesResponse>, Status> {
        self.enter("list_images", &r, "").await?;
        Ok(Response::new(cri::ListImagesResponse { images: self.read(|world| world.images.clone()) }))
    }

    async fn image_fs_info(
        &self,
        r: Request<cri::ImageFsInfoRequest>,
    ) -> Result<Response<cri::ImageFsInfoResponse>, Status> {
        self.enter("image_fs_info", &r, "").await?;
        Ok(Response::new(self.read(|world| world.image_fs.clone())))
    }

    async fn pull_image(&self, r: Request<cri::PullImageRequest>) -> Result<Response<cri::PullImageResponse>, Status> {
        let request = r.get_ref();
        let user = request.auth.as_ref().map(|auth| auth.username.clone());
        let sandbox = request.sandbox_config.as_ref().and_then(|config| config.metadata.as_ref());
        let pod = sandbox.map(|metadata| metadata.uid.clone());
        let annotations = request.image.as_ref().map(|image| image.annotations.clone()).unwrap_or_default();
        let what = format!("as {user:?} for pod {pod:?} with {annotations:?}");
        self.enter("pull_image", &r, &what).await?;
        Ok(Response::new(cri::PullImageResponse { image_ref: "sha256:1".to_owned() }))
    }

    async fn remove_image(
        &self,
        r: Request<cri::RemoveImageRequest>,
    ) -> Result<Response<cri::RemoveImageResponse>, Status> {
        self.enter("remove_image", &r, "").await?;
        Ok(Response::new(Default::default()))
    }
}

/// A listening fake. Dropping it breaks every connection and leaves the socket's file behind, as a killed runtime does.
pub(crate) struct Server {
    _tasks: JoinSet<()>,
}

pub(crate) fn serve(path: &Path, fake: &Fake) -> Server {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).expect("bind the fake's socket");
    let fake = fake.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve_one(stream, fake.clone()));
        }
    });
    Server { _tasks: tasks }
}

async fn serve_one(stream: UnixStream, fake: Fake) {
    let runtime = RuntimeServiceServer::new(fake.clone());
    let images = ImageServiceServer::new(fake);
    let service = tower::service_fn(move |request: http::Request<Incoming>| {
        let (mut runtime, mut images) = (runtime.clone(), images.clone());
        async move {
            if request.uri().path().starts_with("/runtime.v1.ImageService/") {
                images.call(request).await
            } else {
                runtime.call(request).await
            }
            .map_err(|never: Infallible| never)
        }
    });
    let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    // A connection that breaks is part of the tests.
    let _ = served.await;
}

/// A fake, its socket and both clients of it.
pub(crate) struct Setup {
    pub(crate) fake: Fake,
    pub(crate) server: Option<Server>,
    pub(crate) path: PathBuf,
    pub(crate) runtime: CriRuntime,
    pub(crate) images: CriImages,
    pub(crate) stats: CriStats,
    pub(crate) metrics: Arc<OperationMetrics>,
    /// The clients' clock, in milliseconds.
    pub(crate) millis: Arc<std::sync::atomic::AtomicU64>,
    _dir: tempfile::TempDir,
}

impl Setup {
    /// A running fake, with a deadline that no call comes near.
    pub(crate) fn up() -> Self {
        Self::with(Duration::from_secs(60), ListMode::Whole)
    }

    pub(crate) fn with(request_timeout: Duration, list_mode: ListMode) -> Self {
        let mut setup = Self::down(request_timeout, list_mode);
        setup.start();
        setup
    }

    /// A fake that is not running: its socket does not exist.
    pub(crate) fn down(request_timeout: Duration, list_mode: ListMode) -> Self {
        Self::traced(request_timeout, list_mode, Tracer::off())
    }

    /// The same, with spans of the calls.
    pub(crate) fn traced(request_timeout: Duration, list_mode: ListMode, tracer: Tracer) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("cri.sock");
        let fake = Fake { world: Arc::default() };
        fake.world.lock().expect("not poisoned").api_version = "0.1.0".to_owned();
        let metrics = Arc::<OperationMetrics>::default();
        let millis = Arc::<std::sync::atomic::AtomicU64>::default();
        let clock = Arc::clone(&millis);
        let options = ConnectionOptions {
            request_timeout,
            list_mode,
            metrics: Arc::clone(&metrics),
            now: Arc::new(move || Instant::from_millis(clock.load(std::sync::atomic::Ordering::Relaxed))),
            tracer,
            kept: None,
        };
        let endpoint: Endpoint = path.to_str().expect("a text").parse().expect("an endpoint");
        let connection = Connection::lazy(&endpoint, options);
        Self {
            fake,
            server: None,
            path,
            runtime: CriRuntime::new(connection.clone()),
            images: CriImages::new(connection.clone()),
            stats: CriStats::new(connection),
            metrics,
            millis,
            _dir: dir,
        }
    }

    pub(crate) fn start(&mut self) {
        self.server = Some(serve(&self.path, &self.fake));
    }

    /// Kills the runtime: its tasks end with the set they are in.
    pub(crate) fn kill(&mut self) {
        self.server = None;
    }

    pub(crate) fn pass(&self, millis: u64) {
        self.millis.fetch_add(millis, std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.fake.world.lock().expect("not poisoned"));
    }

    pub(crate) fn calls(&self) -> String {
        std::mem::take(&mut self.fake.world.lock().expect("not poisoned").calls).join("\n")
    }
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The labels of an object of pod `web` with this UID; with a name, of a container.
pub(crate) fn pod_labels(uid: &str, container: Option<&str>) -> Labels {
    let mut all = labels(&[
        ("io.kubernetes.pod.uid", uid),
        ("io.kubernetes.pod.name", "web"),
        ("io.kubernetes.pod.namespace", "default"),
    ]);
    all.extend(container.map(|name| ("io.kubernetes.container.name".to_owned(), name.to_owned())));
    all
}
