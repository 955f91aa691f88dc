//! `/metrics`: the server's own metrics, the number of running pods, and the pages of other crates; `/metrics/probes`. Names
//! and labels are upstream's (HTTP-06, section 28.1).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use http::Method;
use jiff::Timestamp;
use rubelet_core::observe::{ContainerStateKind, PodSummary, SandboxState};
use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;
use rubelet_engine::metrics::{
    Histogram, Metrics, USUAL, counted, head, label, number, observed, sample, write_probes,
};
use rubelet_engine::prober::ProberHandle;
use rubelet_engine::sync_loop::SyncLoopHandle;
use rubelet_engine::trace::Span;

/// Metrics of another component.
#[async_trait]
pub trait MetricsPage: Send + Sync {
    /// Writes the metrics in Prometheus' text format, each with `HELP`, `TYPE` and samples. May wait as long as the component
    /// hangs.
    async fn write(&self, out: &mut String);
}

/// The engine's metrics, and the number of pods of each kind.
#[derive(Clone, Debug)]
pub struct EnginePage {
    /// The engine's counters.
    pub metrics: Arc<Metrics>,
    /// The sync loop, for the number of pods.
    pub sync_loop: SyncLoopHandle,
}

#[async_trait]
impl MetricsPage for EnginePage {
    async fn write(&self, out: &mut String) {
        self.metrics.write(out);
        if let Some(census) = self.sync_loop.census().await {
            census.write(out);
        }
    }
}

/// Probe results (PRB-15).
#[derive(Clone, Debug)]
pub struct ProbePage {
    /// The prober.
    pub prober: ProberHandle,
}

#[async_trait]
impl MetricsPage for ProbePage {
    async fn write(&self, out: &mut String) {
        if let Some(counts) = self.prober.counts().await {
            write_probes(out, &counts);
        }
    }
}

/// Request metrics of the server.
#[derive(Debug, Default)]
pub(super) struct Requests {
    counts: Mutex<BTreeMap<Labels, Count>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    method: &'static str,
    path: &'static str,
    long_running: bool,
}

#[derive(Debug)]
struct Count {
    total: u64,
    inflight: u64,
    /// Finished requests.
    took: Histogram,
}

impl Default for Count {
    fn default() -> Self {
        Self { total: 0, inflight: 0, took: Histogram::new(&USUAL) }
    }
}

/// A request being served, until dropped.
pub(super) struct InFlight {
    requests: Arc<Requests>,
    labels: Labels,
    clock: Clock,
    since: Instant,
    /// The span of the request, which ends with it: that of a session lasts as long as the session.
    span: Mutex<Option<Span>>,
}

impl InFlight {
    /// Keeps the span of the request.
    pub(super) fn keep(&self, span: Option<Span>) {
        *self.span.lock().unwrap_or_else(PoisonError::into_inner) = span;
    }

    /// Adds facts to the span.
    pub(super) fn trace(&self, facts: impl FnOnce(&mut Span)) {
        if let Some(span) = &mut *self.span.lock().unwrap_or_else(PoisonError::into_inner) {
            facts(span);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(count) = self.requests.counts().get_mut(&self.labels) {
            let took = self.clock.mono().since(self.since);
            count.inflight = count.inflight.saturating_sub(1);
            count.took.took(took);
        }
    }
}

impl Requests {
    pub(super) fn enter(
        self: &Arc<Self>,
        method: &Method,
        path: &'static str,
        long_running: bool,
        clock: &Clock,
    ) -> InFlight {
        const KNOWN: [&str; 8] = ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"];
        let method = KNOWN.into_iter().find(|known| method == known).unwrap_or("other");
        let labels = Labels { method, path, long_running };
        let mut counts = self.counts();
        let count = counts.entry(labels.clone()).or_default();
        count.total += 1;
        count.inflight += 1;
        let (since, span) = (clock.mono(), Mutex::default());
        InFlight { requests: Arc::clone(self), labels, since, clock: clock.clone(), span }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Labels, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self, out: &mut String, server_type: &str) {
        let counts = self.counts();
        let labelled = |labels: &Labels| {
            let Labels { method, path, long_running } = labels;
            format!("long_running=\"{long_running}\",method=\"{method}\",path=\"{path}\",server_type=\"{server_type}\"")
        };
        let name = "kubelet_http_inflight_requests";
        head(out, name, "gauge", "Requests that are being answered.");
        for (labels, count) in &*counts {
            sample(out, name, &labelled(labels), count.inflight);
        }
        let took = counts.iter().map(|(labels, count)| (labelled(labels), &count.took));
        observed(out, "kubelet_http_requests_duration_seconds", "How long answers took, in seconds.", took);
        let total = counts.iter().map(|(labels, count)| (labelled(labels), count.total));
        counted(out, "kubelet_http_requests_total", "Requests since the start.", total);
    }
}

/// Metrics of the node and of the runtime's pods.
pub(super) fn write_node(out: &mut String, node: &str, since: Timestamp, pods: Option<&[PodSummary]>) {
    head(out, "kubelet_node_name", "gauge", "The node's name; always 1.");
    sample(out, "kubelet_node_name", &label("node", node), 1);
    if let Some(pods) = pods {
        let ready = |pod: &&PodSummary| pod.sandboxes.values().any(|sandbox| sandbox.state == SandboxState::Ready);
        let running = pods.iter().filter(ready).count();
        number(out, ("kubelet_running_pods", "gauge"), "Pods that have a running sandbox.", running);
        head(out, "kubelet_running_containers", "gauge", "Containers, by their state.");
        for (state, kind) in [
            ("created", ContainerStateKind::Created),
            ("exited", ContainerStateKind::Exited),
            ("running", ContainerStateKind::Running),
            ("unknown", ContainerStateKind::Unknown),
        ] {
            let containers = pods.iter().flat_map(|pod| pod.containers.values());
            let count = containers.filter(|container| container.state == kind).count();
            sample(out, "kubelet_running_containers", &label("container_state", state), count);
        }
    }
    write_start(out, since);
}

/// The start time, which every page has.
pub(super) fn write_start(out: &mut String, since: Timestamp) {
    let help = "When the process was started, in seconds since 1970.";
    number(out, ("process_start_time_seconds", "gauge"), help, since.as_second());
}
