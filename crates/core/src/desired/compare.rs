//! Whether a delivered pod differs from the one that is held, in something that the node acts on (SRC-08).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use crate::pod::{MIRROR_ANNOTATION, SEEN_ANNOTATION, SOURCE_ANNOTATION};

/// In what a delivered pod differs from the one that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// In nothing that matters here: resource versions and field managers do not.
    None,
    /// In its status alone.
    Status,
    /// In what is wanted of the node.
    Desire,
}

/// upstream: config.go checkAndUpdatePod, podsDifferSemantically (v1.36).
#[doc(alias = "podsDifferSemantically")]
pub(super) fn difference(held: &Pod, delivered: &Pod) -> Difference {
    let (a, b) = (&held.metadata, &delivered.metadata);
    let same = held.spec == delivered.spec
        && a.labels == b.labels
        && a.deletion_timestamp == b.deletion_timestamp
        && a.deletion_grace_period_seconds == b.deletion_grace_period_seconds
        && foreign(a.annotations.as_ref()).eq(foreign(b.annotations.as_ref()));
    match (same, held.status == delivered.status) {
        (false, _) => Difference::Desire,
        (true, false) => Difference::Status,
        (true, true) => Difference::None,
    }
}

/// Annotations that are not the kubelet's own.
fn foreign(annotations: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = (&String, &String)> {
    let local = [SOURCE_ANNOTATION, MIRROR_ANNOTATION, SEEN_ANNOTATION];
    annotations.into_iter().flatten().filter(move |(key, _)| !local.contains(&key.as_str()))
}
