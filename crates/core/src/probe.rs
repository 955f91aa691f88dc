//! Probes: when each runs, what its answers mean, and the result for the container (section 13).
//!
//! [`ContainerProbes`] holds the probes of one container; each is a [`ProbeState`]:
//!
//! ```text
//!  Idle ──runs, gate open──► Due ──begin──► Asking ──answer──► Due …
//!    ▲                                        └──liveness fails, startup decided──► OnHold
//!    └───────────────── not running, or another instance ──────────────────────────────┘
//! ```
//!
//! The machine has no clock and does no I/O: the engine runs the probes that are due and hands back the [`Answer`]. A result
//! belongs to one instance of the container; a new instance begins without one. An instance that is not listed in the
//! `ProbeView` has upstream's initial result: not ready, alive, not started (PRB-03).
//! upstream: `prober/worker.go` `doProbe`, `prober/prober.go` `runProbe` (v1.36)

mod answer;
mod redirect;
mod state;
mod target;

#[cfg(test)]
mod tests;

pub use answer::{
    Answer, ExecFault, ExecResult, GrpcError, HttpReply, MAX_OUTPUT, NetError, Serving, exec_answer, grpc_answer,
    http_answer, tcp_answer, unresolved,
};
pub use redirect::{Hop, MAX_REDIRECTS, next_hop};
pub use state::{ContainerProbes, ProbeState, Sight};
pub use target::{
    GrpcTarget, HttpTarget, LIFECYCLE_AGENT, PROBE_AGENT, ProbeAction, Scheme, TargetError, TcpTarget, http_target,
    resolve,
};

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, Probe};

use crate::pod::{PodExt, is_sidecar};

/// The kind of a probe.
#[doc(alias = "probeType")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Whether the container has started: until it has, the other two do not run.
    Startup,
    /// Whether the container can serve.
    Readiness,
    /// Whether the container works: if not, it is restarted.
    Liveness,
}

impl ProbeKind {
    /// All kinds, the one that gates the others first.
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// The first word of event messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }

    /// The probe of this kind, if the container has one.
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
        }
    }
}

/// When a probe runs, and its thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the container's start to the first run.
    pub initial_delay: Duration,
    /// From run to run.
    pub period: Duration,
    /// The timeout of one run.
    pub timeout: Duration,
    /// Passes in a row that count.
    pub success_threshold: u32,
    /// Failures in a row that count.
    pub failure_threshold: u32,
}

impl Timing {
    /// The values of `probe`, with the API's defaults (PRB-01).
    pub fn of(probe: &Probe) -> Self {
        let secs = |value: Option<i32>, default: u64| {
            let given = value.filter(|v| *v > 0).and_then(|v| u64::try_from(v).ok());
            Duration::from_secs(given.unwrap_or(default))
        };
        let times = |value: Option<i32>, default: u32| {
            value.filter(|v| *v > 0).and_then(|v| u32::try_from(v).ok()).unwrap_or(default)
        };
        Self {
            initial_delay: secs(probe.initial_delay_seconds, 0),
            period: secs(probe.period_seconds, 10),
            timeout: secs(probe.timeout_seconds, 1),
            success_threshold: times(probe.success_threshold, 1),
            failure_threshold: times(probe.failure_threshold, 3),
        }
    }
}

/// Containers of `pod` that may be probed: regular ones and sidecars.
pub fn probed(pod: &Pod) -> impl Iterator<Item = &Container> {
    let staying = pod.init().iter().filter(|c| is_sidecar(c));
    pod.regular().iter().chain(staying).filter(|c| has_probe(c))
}

/// The container has a probe of some kind.
pub fn has_probe(container: &Container) -> bool {
    ProbeKind::ALL.into_iter().any(|kind| kind.of(container).is_some())
}
