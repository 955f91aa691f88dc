//! Mirror pods: the API's picture of this node's static pods (SRC-11, SRC-12).
//!
//! A level, not a queue: the sync loop says which static pods there are and which mirrors the API shows; one task makes the
//! second like the first, and tries again with longer and longer pauses. Deleting a mirror never ends its pod: it is made
//! anew.

mod task;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::{FullName, PodRef};
use rubelet_core::pod::{HASH_ANNOTATION, MIRROR_ANNOTATION, PodExt};

pub use task::MirrorPods;

/// The static pods of this node and their mirrors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mirrors {
    /// By name of the pod.
    pub by_name: BTreeMap<FullName, Mirrored>,
    /// The API has been read: a mirror that is not here is not there.
    pub api_seen: bool,
}

/// A static pod, its mirror, or both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mirrored {
    /// The static pod; of several versions the one that has not ended yet. A mirror without one is removed.
    pub pod: Option<Arc<Pod>>,
    /// Its mirror, as the API last showed it.
    pub mirror: Option<Arc<Pod>>,
}

impl Mirrors {
    /// The mirror of `pod`, if it shows this version of it.
    pub fn mirror_of(&self, pod: &Pod) -> Option<&Arc<Pod>> {
        let mirrored = self.by_name.get(&PodRef::of(pod).full_name())?;
        mirrored.mirror.as_ref().filter(|mirror| shows(mirror, pod))
    }
}

/// `mirror` shows this very version of `pod`.
#[doc(alias = "IsMirrorPodOf")]
pub(crate) fn shows(mirror: &Pod, pod: &Pod) -> bool {
    PodRef::of(mirror).full_name() == PodRef::of(pod).full_name()
        && mirror.annotation(MIRROR_ANNOTATION) == Some(pod.annotation(HASH_ANNOTATION).unwrap_or_default())
}
