//! `/metrics`: what this server counts, what the runtime runs, and the pages of others. Names and labels are upstream's
//! (HTTP-06, section 28.1).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Method;
use jiff::Timestamp;
use rubelet_core::observe::{ContainerStateKind, PodSummary, SandboxState};

/// Metrics that somebody else keeps.
pub trait MetricsPage: Send + Sync {
    /// Writes them in Prometheus' text form: for each its `HELP` and `TYPE`, then its samples.
    fn write(&self, out: &mut String);
}

/// What has been asked of the server.
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
}

/// A request that is being answered, until dropped.
pub(super) struct InFlight {
    requests: Arc<Requests>,
    labels: Labels,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(count) = self.requests.counts().get_mut(&self.labels) {
            count.inflight = count.inflight.saturating_sub(1);
        }
    }
}

impl Requests {
    pub(super) fn enter(self: &Arc<Self>, method: &Method, path: &'static str, long_running: bool) -> InFlight {
        const KNOWN: [&str; 8] = ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"];
        let method = KNOWN.into_iter().find(|known| method == known).unwrap_or("other");
        let labels = Labels { method, path, long_running };
        let mut counts = self.counts();
        let count = counts.entry(labels.clone()).or_default();
        count.total += 1;
        count.inflight += 1;
        InFlight { requests: Arc::clone(self), labels }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Labels, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writing to a string cannot fail.
    pub(super) fn write(&self, out: &mut String, server_type: &str) {
        let counts = self.counts().clone();
        let mut family = |name: &str, kind: &str, help: &str, value: fn(&Count) -> u64| {
            head(out, name, kind, help);
            for (Labels { method, path, long_running }, count) in &counts {
                let _ = writeln!(
                    out,
                    "{name}{{long_running=\"{long_running}\",method=\"{method}\",path=\"{path}\",\
                     server_type=\"{server_type}\"}} {}",
                    value(count)
                );
            }
        };
        let help = "Requests that are being answered.";
        family("kubelet_http_inflight_requests", "gauge", help, |count| count.inflight);
        family("kubelet_http_requests_total", "counter", "Requests since the start.", |count| count.total);
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// The node, and what the runtime runs on it.
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
    head(out, "process_start_time_seconds", "gauge", "When the process was started, in seconds since 1970.");
    let _ = writeln!(out, "process_start_time_seconds {}", since.as_second());
}
