//! A node of many fake pods, and an engine on it that nobody listens to.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::pod::Source;
use rubelet_engine::assemble::{EngineHandle, Parts, start};
use rubelet_engine::clock::Clock;
use rubelet_engine::images::PullLimits;
use rubelet_engine::node::Ports;
use rubelet_engine::task::TaskGroup;
use rubelet_testkit::{DEFAULT_IMAGE, FakeSource};
use tokio_util::sync::CancellationToken;

use crate::nobody::Nobody;
use crate::pods::typical;
use crate::sim::{NODE_IP, Sim, facts, is_ready, settings, static_pod};

/// Virtual time in which a thousand pods must have become ready.
const PATIENCE: Duration = Duration::from_secs(600);

/// An engine and its world.
pub(crate) struct World {
    pub(crate) sim: Sim,
    engines: Vec<(TaskGroup, EngineHandle)>,
}

impl World {
    /// Nothing runs on it. Must be called within a tokio runtime.
    pub(crate) fn new() -> Self {
        let sim = Sim::stopped(1);
        sim.runtime.add_image(DEFAULT_IMAGE);
        sim.runtime.set_latency(Duration::ZERO);
        Self { sim, engines: Vec::new() }
    }

    /// Starts an engine that wants these pods, and waits until all are ready. A second one finds what the first made.
    pub(crate) async fn start(&mut self, pods: Vec<Arc<Pod>>) {
        let wanted = pods.len();
        let source = FakeSource::new(Source::File);
        source.push(pods);
        let ports = Ports { events: Arc::new(Nobody), ..self.sim.ports() };
        let parts = Parts {
            ports,
            facts: facts(),
            ips: vec![NODE_IP],
            settings: settings(),
            pulls: PullLimits { parallel: Some(1), per_second: 5.0, burst: 10.0 },
            status_observer: None,
            tracer: rubelet_engine::trace::Tracer::off(),
            clock: Clock::virtual_from(self.sim.clock.now().wall),
            sources: vec![Arc::new(source)],
            node: None,
            object_changes: None,
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
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.engines.push((tasks, handle));
    }
}

/// A pod of one container that is asked every second whether it is ready.
pub(crate) fn probed_pod(port: u16) -> Arc<Pod> {
    static_pod(&format!("probed-{port}")).http_probe(|c| &mut c.readiness_probe, port, 1, |_| {}).build()
}

/// That many pods of a file, numbered.
pub(crate) fn typical_pods(count: usize) -> Vec<Arc<Pod>> {
    (0..count).map(|n| typical_pod(&format!("web-{n}"))).collect()
}

/// One of them.
pub(crate) fn typical_pod(name: &str) -> Arc<Pod> {
    typical(static_pod(name), name)
}
