//! The recent events of the node, for `rubelet events`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The recent events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsDocument {
    /// The number of the newest event since the start; a later request may ask for what came after it.
    pub newest: u64,
    /// Number of older events that are no longer kept.
    pub dropped: u64,
    /// The events, ordered by their last occurrence.
    pub events: Vec<EventDocument>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventDocument {
    /// Its number; an event that repeats gets a new one.
    pub number: u64,
    /// Last occurrence.
    pub at: Timestamp,
    /// First occurrence.
    pub first: Timestamp,
    /// Number of occurrences.
    pub times: u32,
    /// It is a warning.
    pub warning: bool,
    /// Upstream's word, such as `BackOff`.
    pub reason: String,
    /// The sentence.
    pub message: String,
    /// Namespace of the pod; `None` for an event of the node.
    pub namespace: Option<String>,
    /// Name of the pod; `None` for an event of the node.
    pub pod: Option<String>,
    /// UID of the pod.
    pub uid: Option<String>,
    /// The container, if it is about one: `spec.containers{name}`.
    pub part: Option<String>,
}
