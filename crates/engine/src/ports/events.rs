//! Events that people read with `kubectl describe`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

/// Takes events. Never waits: what cannot be queued is dropped and counted.
pub trait Events: Send + Sync {
    /// Takes one about a pod.
    fn record(&self, event: PodEvent);
    /// Takes one about this node.
    fn record_node(&self, event: NodeEvent);
}

/// An event about this node.
#[derive(Clone, Debug)]
pub struct NodeEvent {
    /// Severity.
    pub kind: EventKind,
    /// Upstream's word, such as `NodeReady`.
    pub reason: Cow<'static, str>,
    /// The sentence.
    pub message: String,
}

/// An event about a pod, or about one of its containers.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The pod.
    pub pod: Arc<Pod>,
    /// `spec.containers{name}` and its like, if it is about a container (RT-51).
    pub field_path: Option<String>,
    /// Severity.
    pub kind: EventKind,
    /// Upstream's word, such as `BackOff`.
    pub reason: Cow<'static, str>,
    /// The sentence.
    pub message: String,
    /// Annotations of the event, for programs that read it.
    pub annotations: BTreeMap<String, String>,
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// As it should be.
    Normal,
    /// Someone may have to act.
    Warning,
}
