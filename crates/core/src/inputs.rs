//! The inputs of the two decisions about a pod: its plan and its status.
//!
//! Both [`plan_pod`](crate::plan::plan_pod) and [`pod_status`](crate::status::pod_status) are made from [`PodInputs`]. Code
//! that compares the inputs of two decisions takes the struct apart without `..`, so a new field here cannot be forgotten
//! there.

mod rest;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

pub use rest::Rest;

use crate::plan::{PlanGates, ProbeView};
use crate::reason::StartFailure;
use crate::resize::{PodAllocation, ResizeCondition};
use crate::status::{EndProgress, EndReason};

/// The inputs of a pod's plan and of its status, besides the look at the runtime, the previous status and the time.
#[derive(Clone, Copy, Debug)]
pub struct PodInputs<'a> {
    /// The pod as desired, with its allocated resources. Its own `status` is the one that the API server last showed.
    pub pod: &'a Arc<Pod>,
    /// The results of its probes.
    pub probes: &'a Arc<ProbeView>,
    /// Why containers could not be started, by name.
    pub failures: &'a BTreeMap<String, StartFailure>,
    /// The resources that its containers were last started or resized with; `None` if that is not known, and then nothing
    /// is resized.
    pub actuated: Option<&'a Arc<PodAllocation>>,
    /// A resize that has not been allocated.
    pub resize_pending: Option<&'a ResizeCondition>,
    /// A resize that has been allocated and is not actuated everywhere.
    pub resize_progress: Option<&'a ResizeCondition>,
    /// How far its end has come.
    pub end: EndProgress,
    /// Why the node ends it, if the status has to say so.
    pub end_reason: Option<&'a EndReason>,
    /// The inputs that all pods of the node share.
    pub node: NodeInputs<'a>,
}

/// The inputs that all pods of a node share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInputs<'a> {
    /// Scheme of container ids: the runtime's name.
    pub runtime_name: &'a str,
    /// Addresses of the node, primary family first.
    pub host_ips: &'a [IpAddr],
    /// The pod's runtime handler can make mounts read-only all the way down.
    pub recursive_read_only: bool,
    /// Feature gates that matter here.
    pub gates: PlanGates,
}

static NO_FAILURES: BTreeMap<String, StartFailure> = BTreeMap::new();

impl<'a> PodInputs<'a> {
    /// The inputs of a pod that is to run and of which nothing but its probes is known.
    pub fn new(pod: &'a Arc<Pod>, probes: &'a Arc<ProbeView>, node: NodeInputs<'a>) -> Self {
        Self {
            pod,
            probes,
            failures: &NO_FAILURES,
            actuated: None,
            resize_pending: None,
            resize_progress: None,
            end: EndProgress::MayRun,
            end_reason: None,
            node,
        }
    }
}
