//! CRI messages as `core`'s observations. An object without our labels belongs to another client and is skipped
//! (RT-70). An object of ours that lacks a required field is an error, never a guess.

mod container;
mod image;
mod marks;
mod sandbox;
mod summary;

use std::collections::BTreeMap;

use jiff::Timestamp;
use rubelet_core::id::PodRef;
use rubelet_core::launch::{CONTAINER_NAME_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL};

pub(crate) use container::container_observation;
pub(crate) use image::image;
pub(crate) use sandbox::sandbox_observation;
pub(crate) use summary::pod_summaries;

type Labels = BTreeMap<String, String>;

/// The pod that an object belongs to, from its labels.
pub(crate) fn pod_of(labels: &Labels) -> Option<PodRef> {
    let text = |key: &str| labels.get(key).map(String::as_str).unwrap_or_default();
    let uid = labels.get(POD_UID_LABEL).filter(|uid| !uid.is_empty())?;
    Some(PodRef {
        namespace: text(POD_NAMESPACE_LABEL).into(),
        name: text(POD_NAME_LABEL).into(),
        uid: uid.as_str().into(),
    })
}

/// The container's name in the spec, from its labels.
pub(crate) fn container_name(labels: &Labels) -> Option<&str> {
    labels.get(CONTAINER_NAME_LABEL).map(String::as_str).filter(|name| !name.is_empty())
}

/// Nanoseconds since the epoch; "never" is zero, or negative when a runtime sends Go's zero time.
pub(crate) fn timestamp(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanos.max(0))).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
