//! What makes the node ready or not (NODE-20).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::config::GoDuration;

/// PLEG is unhealthy if its last list is older than this. upstream: kubelet.go genericPlegRelistThreshold (v1.36)
pub const PLEG_THRESHOLD: Duration = Duration::from_secs(3 * 60);

/// When the runtime last reported that it is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "lastBaseRuntimeSync")]
pub enum RuntimeContact {
    /// Never yet.
    #[default]
    Never,
    /// Within the last 30 seconds.
    Recent,
    /// Before that.
    Long,
}

/// Whether pods can have a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkState {
    /// The runtime has not reported it.
    #[default]
    Unknown,
    /// They can.
    Ready,
    /// They cannot: the runtime's condition as text.
    NotReady(String),
}

/// The state of PLEG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlegState {
    /// It has listed nothing yet.
    #[default]
    Never,
    /// Its last good list began this long ago.
    Listed(Duration),
}

/// The inputs of the node's readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "runtimeState")]
pub struct NodeHealth {
    /// When the runtime was last ready.
    pub contact: RuntimeContact,
    /// The runtime's condition as text, if it reports that it is not ready.
    pub runtime: Option<String>,
    /// The network.
    pub network: NetworkState,
    /// PLEG.
    pub pleg: PlegState,
    /// What is wrong with storage.
    pub storage: Option<String>,
    /// Why the node is going down.
    pub shutdown: Option<String>,
    /// Features that the machine lacks and pods may need: shown in the message, but the node is ready.
    #[doc(alias = "SoftRequirements")]
    pub warning: Option<String>,
}

/// A condition of the runtime as upstream writes it.
/// upstream: container/runtime.go RuntimeCondition.String (v1.36)
pub fn condition_text(name: &str, ready: bool, reason: &str, message: &str) -> String {
    format!("{name}={ready} reason:{reason} message:{message}")
}

impl PlegState {
    /// Whether it is healthy.
    pub fn is_well(self) -> bool {
        matches!(self, Self::Listed(ago) if ago <= PLEG_THRESHOLD)
    }

    fn problem(self) -> Option<String> {
        let why = match self {
            Self::Never => "pleg has yet to be successful".to_owned(),
            Self::Listed(ago) if ago > PLEG_THRESHOLD => {
                let threshold = go(PLEG_THRESHOLD);
                // Whole seconds: a finer figure would make each report a change.
                format!("pleg was last seen active {} ago; threshold is {threshold}", go(whole_seconds(ago)))
            }
            Self::Listed(_) => return None,
        };
        Some(format!("PLEG is not healthy: {why}"))
    }
}

impl NodeHealth {
    /// Why the node is not ready, each reason once; empty if it is. `missing` are resources whose capacity is unknown.
    /// upstream: runtime.go runtimeErrors, networkErrors; nodestatus/setters.go ReadyCondition (v1.36)
    pub(super) fn problems(&self, missing: &[&str]) -> Vec<String> {
        let contact = match self.contact {
            RuntimeContact::Never => Some("container runtime status check may not have completed yet".to_owned()),
            RuntimeContact::Recent => None,
            RuntimeContact::Long => Some("container runtime is down".to_owned()),
        };
        let runtime = self.runtime.as_ref().map(|text| format!("container runtime not ready: {text}"));
        let network = match &self.network {
            NetworkState::Unknown => Some("network state unknown".to_owned()),
            NetworkState::Ready => None,
            NetworkState::NotReady(text) => Some(format!("container runtime network not ready: {text}")),
        };
        let missing =
            (!missing.is_empty()).then(|| format!("missing node capacity for resources: {}", missing.join(", ")));
        let all =
            [contact, self.pleg.problem(), runtime, network, self.storage.clone(), self.shutdown.clone(), missing];
        let mut seen = BTreeSet::new();
        all.into_iter().flatten().filter(|problem| seen.insert(problem.clone())).collect()
    }
}

/// Several errors in one line, in the format of Go's aggregate.
/// upstream: apimachinery/pkg/util/errors/errors.go aggregate.Error (v1.36)
#[doc(alias = "NewAggregate")]
pub(super) fn aggregate(problems: &[String]) -> Option<String> {
    match problems {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

fn whole_seconds(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs())
}

fn go(span: Duration) -> GoDuration {
    GoDuration::nanos(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}
