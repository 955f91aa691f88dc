//! A node of a cluster with many fake pods, and engines on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::pod::{SEEN_ANNOTATION, SOURCE_ANNOTATION, Source};
use rubelet_core::resources::Amount;
use rubelet_engine::assemble::{EngineHandle, Parts, start};
use rubelet_engine::clock::Clock;
use rubelet_engine::images::PullLimits;
use rubelet_engine::node::Ports;
use rubelet_engine::ports::{Delivery, PodSource};
use rubelet_engine::task::TaskGroup;
use rubelet_testkit::{DEFAULT_IMAGE, FakeApi, pod};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::nobody::Nobody;
use crate::pods::typical;
use crate::sim::{NODE_IP, Sim, facts, is_ready, settings};

/// Virtual time in which all pods must have become ready.
const PATIENCE: Duration = Duration::from_secs(1200);
/// What the API's source lets pass after a delivery, for each pod in it.
const PAUSE_PER_POD: Duration = Duration::from_micros(1);

/// The world, and the engines on it.
pub(crate) struct Cluster {
    pub(crate) sim: Sim,
    pub(crate) api: FakeApi,
    engines: Vec<(TaskGroup, EngineHandle)>,
}

/// The fake API server as the real one's source shows it: pods are marked before they are shared, one that did not change
/// stays the same, and deliveries have a pause between them.
struct Marked(FakeApi);

#[async_trait]
impl PodSource for Marked {
    fn source(&self) -> Source {
        Source::Api
    }

    async fn run(&self, out: mpsc::Sender<Delivery>, cancel: CancellationToken) {
        let (deliver, mut seen) = mpsc::channel(1);
        let forward = async {
            // Each pod as the API server has it, and as it was delivered; both in the order of names.
            let mut held: Vec<(Arc<Pod>, Arc<Pod>)> = Vec::new();
            while let Some(delivery) = seen.recv().await {
                let Delivery { source, pods, bad } = delivery;
                let mut before = std::mem::take(&mut held).into_iter().peekable();
                for pod in pods {
                    while before.next_if(|(old, _)| name(old) < name(&pod)).is_some() {}
                    let same = before.next_if(|(old, _)| name(old) == name(&pod));
                    held.push(match same {
                        Some((old, marked)) if Arc::ptr_eq(&old, &pod) => (old, marked),
                        _ => (Arc::clone(&pod), mark(&pod)),
                    });
                }
                let pods: Vec<Arc<Pod>> = held.iter().map(|(_, marked)| Arc::clone(marked)).collect();
                let pause = PAUSE_PER_POD.saturating_mul(u32::try_from(pods.len()).unwrap_or(u32::MAX));
                if out.send(Delivery { source, pods, bad }).await.is_err() {
                    return;
                }
                tokio::time::sleep(pause).await;
            }
        };
        tokio::join!(self.0.run(deliver, cancel), forward);
    }
}

fn name(pod: &Pod) -> Option<&str> {
    pod.metadata.name.as_deref()
}

fn mark(pod: &Pod) -> Arc<Pod> {
    let mut pod = pod.clone();
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCE_ANNOTATION.to_owned(), Source::Api.as_str().to_owned());
    annotations.insert(SEEN_ANNOTATION.to_owned(), "1970-01-01T00:00:00Z".to_owned());
    Arc::new(pod)
}

impl Cluster {
    /// With pods that nobody runs yet. Must be called within a tokio runtime.
    pub(crate) fn with(pods: usize) -> Self {
        let mut sim = Sim::stopped(1);
        sim.runtime.add_image(DEFAULT_IMAGE);
        sim.runtime.set_latency(Duration::ZERO);
        sim.files.push([]);
        let api = FakeApi::seeded(sim.clock, 1);
        sim.api = Some(api.clone());
        for n in 0..pods {
            api.put(&new_pod(&format!("web-{n}")));
        }
        Self { sim, api, engines: Vec::new() }
    }

    /// Starts an engine, and waits until all pods are ready in its eyes. A second one finds what the first made.
    pub(crate) async fn start(&mut self) {
        let wanted = self.api.names().len();
        let ports = Ports { events: Arc::new(Nobody), ..self.sim.ports() };
        let mut settings = settings();
        // One more must have room.
        settings.admission.allocatable.insert("pods".to_owned(), Amount::parse("1M").expect("a quantity"));
        let (_changes, object_changes) = mpsc::channel(1);
        let parts = Parts {
            ports,
            facts: facts(),
            ips: vec![NODE_IP],
            settings,
            pulls: PullLimits { parallel: Some(1), per_second: 5.0, burst: 10.0 },
            status_observer: None,
            tracer: rubelet_engine::trace::Tracer::off(),
            clock: Clock::virtual_from(self.sim.clock.now().wall),
            sources: vec![Arc::new(self.sim.files.clone()), Arc::new(Marked(self.api.clone()))],
            node: None,
            object_changes: Some(object_changes),
            kernel_log: None,
            shutdown: None,
        };
        let (tasks, handle) = start(parts, &CancellationToken::new());
        let deadline = self.sim.clock.elapsed() + PATIENCE;
        loop {
            let view = handle.sync_loop.view().await.expect("the loop answers");
            let ready = view.pods.iter().filter(|pod| is_ready(&pod.status)).count();
            if ready == wanted {
                break;
            }
            assert!(self.sim.clock.elapsed() < deadline, "only {ready} of {wanted} pods are ready");
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        // Written statuses come back from the API server as deliveries, and are handled.
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(self.api.names().iter().all(|name| is_ready(&self.api.status(name))), "every pod is ready in the API");
        self.engines.push((tasks, handle));
    }
}

/// A pod as controllers make them.
pub(crate) fn new_pod(name: &str) -> Arc<Pod> {
    typical(pod(name), name)
}
