//! The node's configuration as a value: its fields, their defaults, the feature gates, and their validation. The binary
//! reads files and flags; their meaning is decided here, where it can be tested in tables.
//!
//! A [`KubeletConfiguration`] goes through three steps: it is read (missing fields hold their defaults), completed by
//! [`KubeletConfiguration::set_defaults`], and checked by [`validate()`]. Only a valid configuration is used.

mod choices;
mod defaults;
mod duration;
mod gates;
mod given;
mod kubelet;
mod logging;
mod missing;
mod names;
mod nearest;
mod node_ip;
mod parts;
mod quantity;
mod unacted;
mod validate;

#[cfg(test)]
mod tests;

pub use choices::{
    AuthorizationMode, CgroupDriver, ChangeDetection, Choice, CpuManagerPolicy, HairpinMode, ImageCredentialPolicy,
    LogFormat, MemoryManagerPolicy, MemoryReservationPolicy, SwapBehavior, TopologyPolicy, TopologyScope, WordError,
};
pub use defaults::{API_VERSION, DEFAULT_EVICTION_HARD, KIND};
pub use duration::{DurationError, GoDuration};
pub use gates::{FeatureGates, Gate, GateError, GateStage, gate_warnings, known_features};
pub use given::Given;
pub use kubelet::KubeletConfiguration;
pub use logging::{FlushFrequency, FormatOptions, Logging, OutputRouting, SizeError, VModule, parse_buffer_size};
pub use missing::{MISSING, Missing, WITHOUT_EFFECT_UPSTREAM, When, missing_by_default};
pub use names::{NODE_LABEL_NAMESPACES, NODE_LABELS, NoNodeName, NodeLabelError, check_node_labels, node_name};
pub use nearest::{distance, nearest};
pub use node_ip::{NodeIpError, NodeIps, node_ips};
pub use parts::{
    AnonymousAuthentication, Authentication, Authorization, CrashLoopBackOff, MemoryReservation, MemorySwap,
    ShutdownGracePeriodByPodPriority, Taint, Tracing, UserNamespaces, WebhookAuthentication, WebhookAuthorization,
    X509Authentication,
};
pub use unacted::{ACTED_FIELDS, ACTED_GATES, unacted};
pub use validate::{CgroupVersion, Invalid, ParsePairError, parse_reserved_memory, parse_taints, validate};

/// The document of `/configz` (CFG-05): the configuration in effect under the name of its component.
#[must_use]
#[doc(alias = "initConfigz")]
pub fn configz(config: &KubeletConfiguration) -> serde_json::Value {
    serde_json::json!({ "kubeletconfig": config })
}
