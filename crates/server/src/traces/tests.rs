//! The exporter, with a collector on a socket.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use rubelet_engine::ports::Rng;
use rubelet_engine::trace::{Tracer, within};
use rubelet_proto::otlp::trace_service_server::{TraceService, TraceServiceServer};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::{Request, Response, Status};

use super::*;

#[derive(Default)]
struct Counter(AtomicU64);

impl Rng for Counter {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Takes batches and hands them to the test.
struct Receiver(mpsc::Sender<otlp::ExportTraceServiceRequest>);

#[async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<otlp::ExportTraceServiceRequest>,
    ) -> Result<Response<otlp::ExportTraceServiceResponse>, Status> {
        self.0.send(request.into_inner()).await.map_err(|_| Status::unavailable("gone"))?;
        Ok(Response::new(otlp::ExportTraceServiceResponse {}))
    }
}

fn collector(path: &Path, tasks: &mut JoinSet<()>) -> mpsc::Receiver<otlp::ExportTraceServiceRequest> {
    let (send, received) = mpsc::channel(16);
    let listener = UnixListener::bind(path).expect("a socket");
    let service = TraceServiceServer::from_arc(Arc::new(Receiver(send)));
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            connections.spawn(async move {
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _over = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    received
}

fn exporter(path: &Path) -> (Tracer, Exporter) {
    let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
    let (tracer, spans) = Tracer::new(1_000_000, Arc::new(Counter::default()), clock.clone());
    let at = format!("unix://{}", path.display()).parse().expect("an endpoint");
    (tracer, Exporter::new(spans, &at, "node-1".to_owned(), clock))
}

#[tokio::test]
async fn trc_01_a_pods_start_arrives_at_a_collector_as_one_trace() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("otlp.sock");
    let mut tasks = JoinSet::new();
    let mut received = collector(&path, &mut tasks);
    let (tracer, exporter) = exporter(&path);
    let cancel = CancellationToken::new();
    tasks.spawn(exporter.run(cancel.clone()));

    let mut job = tracer.start("syncPod", SpanKind::Internal, None).expect("on");
    job.set("k8s.pod.name", "web");
    let work = async {
        for call in ["RunPodSandbox", "CreateContainer", "StartContainer"] {
            let name = format!("runtime.v1.RuntimeService/{call}");
            let mut span = tracer.start(name, SpanKind::Client, rubelet_engine::trace::current()).expect("on");
            if call == "StartContainer" {
                span.fail(&"x".repeat(5000));
            }
        }
    };
    within(Some(job.context()), work).await;
    drop(job);
    cancel.cancel();

    let request = received.recv().await.expect("a batch");
    let [resource] = request.resource_spans.as_slice() else { panic!("{request:?}") };
    let attributes = &resource.resource.as_ref().expect("a resource").attributes;
    assert_eq!(*attributes, [key_value("service.name", "kubelet".into()), key_value("host.name", "node-1".into())]);
    let spans = &resource.scope_spans[0].spans;
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let calls =
        ["RunPodSandbox", "CreateContainer", "StartContainer"].map(|name| format!("runtime.v1.RuntimeService/{name}"));
    assert_eq!(names, [calls[0].as_str(), &calls[1], &calls[2], "syncPod"]);
    let job = &spans[3];
    assert_eq!((job.trace_id.len(), job.span_id.len(), job.parent_span_id.len()), (16, 8, 0));
    assert_eq!(job.attributes, [key_value("k8s.pod.name", "web".into())]);
    assert!(spans[..3].iter().all(|call| call.trace_id == job.trace_id && call.parent_span_id == job.span_id));
    assert!(spans[..3].iter().all(|call| call.kind() == otlp::SpanKind::Client));
    let status = spans[2].status.clone().expect("a failure");
    assert_eq!((status.code(), status.message.len()), (otlp::StatusCode::Error, LONGEST_TEXT));
}

#[tokio::test(start_paused = true)]
async fn trc_01_a_collector_that_is_away_holds_up_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("nobody.sock");
    let (tracer, exporter) = exporter(&path);
    let cancel = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(exporter.run(cancel.clone()));
    for _ in 0..10_000 {
        drop(tracer.start("a", SpanKind::Internal, None));
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop(tracer.start("b", SpanKind::Internal, None));
    cancel.cancel();
    tasks.join_next().await.expect("a task").expect("it ends");

    // A collector that takes connections and never answers.
    let (tracer, exporter) = self::exporter(&path);
    let _listener = UnixListener::bind(&path).expect("a socket");
    tasks.spawn(exporter.run(CancellationToken::new()));
    drop(tracer.start("a", SpanKind::Internal, None));
    drop(tracer);
    tasks.join_next().await.expect("a task").expect("it ends with the last tracer");
}
