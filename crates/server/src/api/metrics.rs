//! `/metrics`: the server's own metrics, the number of running pods, and the pages of other crates; `/metrics/probes`. Names
//! and labels are upstream's (HTTP-06, section 28.1).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use jiff::Timestamp;
use rubelet_core::observe::{ContainerStateKind, PodSummary, SandboxState};
use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;
use rubelet_engine::metrics::{Metrics, write_probes};
use rubelet_engine::prober::ProberHandle;
use rubelet_engine::sync_loop::SyncLoopHandle;

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

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    total: u64,
    inflight: u64,
    /// Requests that took no longer than each of [`BUCKETS`].
    within: [u64; BUCKETS.len()],
    /// Finished requests, and their total duration.
    done: u64,
    took: Duration,
}

/// Upper bounds of the duration buckets, with their labels. upstream: kubelet/server/metrics HTTPRequestsDuration (v1.36)
const BUCKETS: [(Duration, &str); 11] = [
    (Duration::from_millis(5), "0.005"),
    (Duration::from_millis(10), "0.01"),
    (Duration::from_millis(25), "0.025"),
    (Duration::from_millis(50), "0.05"),
    (Duration::from_millis(100), "0.1"),
    (Duration::from_millis(250), "0.25"),
    (Duration::from_millis(500), "0.5"),
    (Duration::from_secs(1), "1"),
    (Duration::from_millis(2500), "2.5"),
    (Duration::from_secs(5), "5"),
    (Duration::from_secs(10), "10"),
];

/// A request being served, until dropped.
pub(super) struct InFlight {
    requests: Arc<Requests>,
    labels: Labels,
    clock: Clock,
    since: Instant,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(count) = self.requests.counts().get_mut(&self.labels) {
            let took = self.clock.mono().since(self.since);
            count.inflight = count.inflight.saturating_sub(1);
            count.done += 1;
            count.took = count.took.saturating_add(took);
            for (within, _) in count.within.iter_mut().zip(BUCKETS).filter(|(_, (bound, _))| took <= *bound) {
                *within += 1;
            }
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
        InFlight { requests: Arc::clone(self), labels, since: clock.mono(), clock: clock.clone() }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Labels, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writing to a string cannot fail.
    pub(super) fn write(&self, out: &mut String, server_type: &str) {
        let counts = self.counts().clone();
        let samples: Vec<(String, Count)> = counts
            .iter()
            .map(|(Labels { method, path, long_running }, count)| {
                let labels = format!(
                    "long_running=\"{long_running}\",method=\"{method}\",path=\"{path}\",server_type=\"{server_type}\""
                );
                (labels, *count)
            })
            .collect();
        head(out, "kubelet_http_inflight_requests", "gauge", "Requests that are being answered.");
        for (labels, count) in &samples {
            let _ = writeln!(out, "kubelet_http_inflight_requests{{{labels}}} {}", count.inflight);
        }
        head(out, DURATION, "histogram", "How long answers took, in seconds.");
        for (labels, count) in &samples {
            for (within, (_, bound)) in count.within.iter().zip(BUCKETS) {
                let _ = writeln!(out, "{DURATION}_bucket{{{labels},le=\"{bound}\"}} {within}");
            }
            let _ = writeln!(out, "{DURATION}_bucket{{{labels},le=\"+Inf\"}} {}", count.done);
            let _ = writeln!(out, "{DURATION}_sum{{{labels}}} {}", count.took.as_secs_f64());
            let _ = writeln!(out, "{DURATION}_count{{{labels}}} {}", count.done);
        }
        head(out, "kubelet_http_requests_total", "counter", "Requests since the start.");
        for (labels, count) in &samples {
            let _ = writeln!(out, "kubelet_http_requests_total{{{labels}}} {}", count.total);
        }
    }
}

const DURATION: &str = "kubelet_http_requests_duration_seconds";

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Metrics of the node and of the runtime's pods.
pub(super) fn write_node(out: &mut String, node: &str, since: Timestamp, pods: Option<&[PodSummary]>) {
    head(out, "kubelet_node_name", "gauge", "The node's name; always 1.");
    let _ = writeln!(out, "kubelet_node_name{{node=\"{}\"}} 1", node.replace(['\\', '"', '\n'], "_"));
    if let Some(pods) = pods {
        let ready = |pod: &&PodSummary| pod.sandboxes.values().any(|sandbox| sandbox.state == SandboxState::Ready);
        head(out, "kubelet_running_pods", "gauge", "Pods that have a running sandbox.");
        let _ = writeln!(out, "kubelet_running_pods {}", pods.iter().filter(ready).count());
        head(out, "kubelet_running_containers", "gauge", "Containers, by their state.");
        for (state, kind) in [
            ("created", ContainerStateKind::Created),
            ("exited", ContainerStateKind::Exited),
            ("running", ContainerStateKind::Running),
            ("unknown", ContainerStateKind::Unknown),
        ] {
            let containers = pods.iter().flat_map(|pod| pod.containers.values());
            let count = containers.filter(|container| container.state == kind).count();
            let _ = writeln!(out, "kubelet_running_containers{{container_state=\"{state}\"}} {count}");
        }
    }
    write_start(out, since);
}

/// The start time, which every page has.
pub(super) fn write_start(out: &mut String, since: Timestamp) {
    head(out, "process_start_time_seconds", "gauge", "When the process was started, in seconds since 1970.");
    let _ = writeln!(out, "process_start_time_seconds {}", since.as_second());
}
