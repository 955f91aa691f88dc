//! The ledger of what is allocated to each pod on this node.
//!
//! ```text
//!   add ──► admit ──► allocated ──► released, once, when the pod is down and gone
//!             │  ▲        │  ▲
//!             ▼  │        ▼  │
//!           pending      pending
//!          admission     resize
//! ```
//!
//! Workers see a pod with its allocated resources, not with those that its spec requests; the two differ while a resize is
//! pending. The sync loop decides by `core::admit` and `core::resize`, and enters each decision here. Both checkpoints are
//! written by a task of their own: [`CheckpointWriter`].

mod checkpoint;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::admit::Allocation;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::resize::{PodAllocation, with_allocation};
use rubelet_core::time::Instant;
use tokio::sync::watch;

use crate::ports::Checkpoints;
use checkpoint::{Changes, File, read};
pub(crate) use checkpoint::{CheckpointWriter, PodResources};

/// The ledger.
#[doc(alias = "allocationManager")]
#[derive(Default)]
pub(crate) struct Allocations {
    allocated: PodResources,
    admissions: BTreeMap<PodUid, PendingAdmission>,
    /// Pods, as desired, whose resize is not allocated and may be.
    resizes: BTreeMap<PodUid, Arc<Pod>>,
    /// Updates of pods with a pending resize, with allocated resources, that the workers have not seen yet.
    held: BTreeMap<PodUid, Arc<Pod>>,
    /// When pending resizes are tried again.
    pub(crate) retry_at: Option<Instant>,
    changes: watch::Sender<Changes>,
}

/// A pod whose admission waits.
pub(crate) struct PendingAdmission {
    /// The pod as desired.
    pub(crate) pod: Arc<Pod>,
    /// What has to happen before admission is tried again.
    pub(crate) wait: Wait,
}

/// What a pending admission waits for.
pub(crate) enum Wait {
    /// These pods were preempted, and have not all stopped.
    Preemption(BTreeSet<PodUid>),
    /// The labels of the node may be older than the pod. Admission is decided at this time.
    Node(Instant),
}

impl Wait {
    /// When the wait is over by itself.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self {
            Self::Node(due) => Some(*due),
            Self::Preemption(_) => None,
        }
    }
}

impl Allocations {
    /// The ledger of the process before this one, the resources that it had actuated, and the task that writes both.
    /// A checkpoint that cannot be read counts as empty: pods get what their specs request, and running containers are
    /// taken to have it (upstream does not start then, CKP-05).
    pub(crate) async fn load(checkpoints: Arc<dyn Checkpoints>) -> (Self, PodResources, CheckpointWriter) {
        let allocated = read(&*checkpoints, File::Allocated).await;
        let mut actuated = read(&*checkpoints, File::Actuated).await;
        for (uid, resources) in &mut actuated {
            share(allocated.get(uid), resources);
        }
        let changes = watch::Sender::new(Changes::new());
        let content = BTreeMap::from([(File::Allocated, allocated.clone()), (File::Actuated, actuated.clone())]);
        let writer = CheckpointWriter::new(checkpoints, content, changes.clone());
        (Self { allocated, changes, ..Self::default() }, actuated, writer)
    }

    /// Enters an allocation: of a pod that was admitted, or of a resize in place of the allocation before.
    pub(crate) fn allocate(&mut self, uid: &PodUid, allocation: &Allocation) {
        self.admissions.remove(uid);
        self.resizes.remove(uid);
        self.held.remove(uid);
        let resources = allocation.resources();
        if self.allocated.get(uid).is_some_and(|before| **before == resources) {
            return;
        }
        let resources = Arc::new(resources);
        self.allocated.insert(uid.clone(), Arc::clone(&resources));
        self.change(File::Allocated, uid, Some(resources));
    }

    /// The pod is down and gone: its allocation is released, and nothing of it is pending.
    pub(crate) fn release(&mut self, uid: &PodUid) {
        self.admissions.remove(uid);
        self.resizes.remove(uid);
        self.held.remove(uid);
        self.allocated.remove(uid);
        self.change(File::Allocated, uid, None);
        self.change(File::Actuated, uid, None);
    }

    /// Pods that have an allocation.
    pub(crate) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.allocated.keys()
    }

    /// The pod was admitted, by this process or by one before it, and its allocation is not released.
    pub(crate) fn has(&self, uid: &PodUid) -> bool {
        self.allocated.contains_key(uid)
    }

    /// `pod` with its allocated resources.
    pub(crate) fn apply(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        let allocated = self.allocated.get(&PodRef::of(pod).uid);
        allocated.and_then(|allocated| with_allocation(pod, allocated)).unwrap_or_else(|| Arc::clone(pod))
    }

    /// Records resources that the pod's job has actuated. Mostly they are those allocated, and become the same object.
    pub(crate) fn actuated(&self, uid: &PodUid, resources: &mut Arc<PodAllocation>) {
        share(self.allocated.get(uid), resources);
        self.change(File::Actuated, uid, Some(Arc::clone(resources)));
    }

    fn change(&self, file: File, uid: &PodUid, resources: Option<Arc<PodAllocation>>) {
        self.changes.send_modify(|changes| {
            changes.insert((file, uid.clone()), resources);
        });
    }

    /// Admission of the pod waits.
    pub(crate) fn wait(&mut self, pod: Arc<Pod>, wait: Wait) {
        self.admissions.insert(PodRef::of(&pod).uid, PendingAdmission { pod, wait });
    }

    /// Admission of the pod is decided, or no longer asked for.
    pub(crate) fn stop_waiting(&mut self, uid: &PodUid) {
        self.admissions.remove(uid);
    }

    /// The pending admission of this pod.
    pub(crate) fn pending_admission(&mut self, uid: &PodUid) -> Option<&mut PendingAdmission> {
        self.admissions.get_mut(uid)
    }

    /// All pending admissions.
    pub(crate) fn pending_admissions(&self) -> impl Iterator<Item = &PendingAdmission> {
        self.admissions.values()
    }

    /// The resize that `desired` requests is pending.
    pub(crate) fn request_resize(&mut self, desired: &Arc<Pod>) {
        self.resizes.insert(PodRef::of(desired).uid, Arc::clone(desired));
    }

    /// No resize of the pod is pending: it is infeasible, or no longer requested.
    pub(crate) fn drop_resize(&mut self, uid: &PodUid) {
        self.resizes.remove(uid);
    }

    /// The pod as desired, if its resize is pending.
    pub(crate) fn requested(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.resizes.get(uid)
    }

    /// Pods with a pending resize, as desired.
    pub(crate) fn pending_resizes(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        self.resizes.iter()
    }

    /// Keeps back an update until the pending resize of its pod is decided. Returns whether there is one.
    pub(crate) fn hold(&mut self, uid: &PodUid, update: &Arc<Pod>) -> bool {
        let pending = self.resizes.contains_key(uid);
        if pending {
            self.held.insert(uid.clone(), Arc::clone(update));
        }
        pending
    }

    /// The updates kept back.
    pub(crate) fn take_held(&mut self) -> impl Iterator<Item = Arc<Pod>> + use<> {
        std::mem::take(&mut self.held).into_values()
    }

    /// When pending resizes are tried again, if there are any.
    pub(crate) fn resizes_due(&self) -> Option<Instant> {
        self.retry_at.filter(|_| !self.resizes.is_empty())
    }
}

/// Makes equal resources one object.
fn share(allocated: Option<&Arc<PodAllocation>>, resources: &mut Arc<PodAllocation>) {
    if let Some(allocated) = allocated.filter(|allocated| *allocated == resources) {
        *resources = Arc::clone(allocated);
    }
}
