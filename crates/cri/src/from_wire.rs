//! CRI messages as `core`'s observations. What lacks our labels is not ours and is passed over (RT-70); what is ours but
//! lacks something it must have is an error, never a guess.

mod container;
mod image;
mod marks;
mod sandbox;
mod summary;

use std::collections::BTreeMap;

use jiff::Timestamp;
use rubelet_core::id::PodRef;

pub(crate) use container::container_observation;
pub(crate) use image::image;
pub(crate) use sandbox::sandbox_observation;
pub(crate) use summary::pod_summaries;

/// Label with the pod's UID.
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Label with the container's name in the spec.
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

type Labels = BTreeMap<String, String>;

/// The pod that an object belongs to, if it is labelled with one.
pub(crate) fn pod_of(labels: &Labels) -> Option<PodRef> {
    let text = |key: &str| labels.get(key).map(String::as_str).unwrap_or_default();
    let uid = labels.get(POD_UID).filter(|uid| !uid.is_empty())?;
    Some(PodRef { namespace: text(POD_NAMESPACE).into(), name: text(POD_NAME).into(), uid: uid.as_str().into() })
}

/// The container's name in the spec, if it is labelled with one.
pub(crate) fn container_name(labels: &Labels) -> Option<&str> {
    labels.get(CONTAINER_NAME).map(String::as_str).filter(|name| !name.is_empty())
}

/// Nanoseconds since the epoch; "never" is zero, or before the epoch when a runtime sends Go's zero time.
fn timestamp(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanos.max(0))).unwrap_or(Timestamp::UNIX_EPOCH)
}
