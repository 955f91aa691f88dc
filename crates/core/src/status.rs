//! The API's status of a pod, decided from what was seen (section 11).

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use crate::observe::PodObservation;
use crate::plan::ProbeView;
use crate::reason::StartFailure;

/// What a status is made from, besides what was seen.
#[derive(Clone, Copy, Debug)]
pub struct StatusView<'a> {
    /// The pod as desired.
    pub pod: &'a Pod,
    /// The status last decided here, or read from the API after a restart.
    pub previous: &'a PodStatus,
    /// Why containers could not be started, by name.
    pub failures: &'a BTreeMap<String, StartFailure>,
    /// What probes say.
    pub probes: &'a ProbeView,
    /// Scheme of container ids: the runtime's name.
    pub runtime_name: &'a str,
    /// Addresses of the node, primary family first.
    pub host_ips: &'a [IpAddr],
    /// How far the pod's end has come.
    pub ending: Ending,
    /// The wall clock.
    pub now: Timestamp,
}

/// How far a pod's end has come, for its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is to run.
    No,
    /// It is being stopped.
    Terminating,
    /// No container runs, nor will one: the phase becomes final (TERM-06).
    Terminal,
}

/// The status of `view.pod`.
#[doc(alias = "generateAPIPodStatus")]
pub fn pod_status(view: &StatusView<'_>, seen: &PodObservation) -> PodStatus {
    let _ = (view, seen);
    PodStatus::default()
}
