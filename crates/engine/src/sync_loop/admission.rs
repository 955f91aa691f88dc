//! The door: who is let in, who is refused, who makes room (sections 3 and 15).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::admit::{Admitted, PREEMPTED, PREEMPTING, Rejection, admit, victims};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::{Arrival, Stage};
use rubelet_core::pod::{PodExt, Source};
use rubelet_core::status::rejected;
use rubelet_core::time::Instant;
use tracing::{info, warn};

use super::{Rejected, SyncLoop};
use crate::node_now::NodeNow;
use crate::pod_worker::Outcome;
use crate::ports::{EndProgress, EventKind, PodEvent, StatusReport};

/// What admission counts, carried from one addition of a delivery to the next: with a thousand pods at once, to sum them
/// all up for each would hold up the loop for a second.
#[derive(Default)]
pub(super) struct Door {
    others: Option<Vec<Admitted>>,
    node: Option<Arc<NodeNow>>,
}

/// How long the watch of the node is given to catch up with that of pods: a pod may have been sent here for a label that
/// we do not see yet. Upstream asks the API server for the node instead, and the loop waits for the answer.
const CATCH_UP: Duration = Duration::from_secs(1);

/// A pod that waits at the door.
pub(super) struct Waiter {
    pub(super) pod: Arc<Pod>,
    why: Wait,
}

enum Wait {
    /// Others make room for it. These have not stopped yet.
    Room(BTreeSet<PodUid>),
    /// What the API says of the node may be old. It is let in or refused at this time.
    Node(Instant),
}

impl SyncLoop {
    #[doc(alias = "HandlePodAdditions")]
    pub(super) fn add(&mut self, desired: Arc<Pod>, door: &mut Door) {
        let uid = PodRef::of(&desired).uid;
        // What it was given before a restart is what it has (ADM-09).
        let pod = self.resizes.given(&desired);
        self.rejected.remove(&uid);
        if matches!(self.waiters.get(&uid), Some(Waiter { why: Wait::Room(_), .. })) {
            self.waiters.remove(&uid);
        }
        let is_new = !self.workers.knows(&uid);
        if !is_new {
            // It is here already and may be among them: it does not stand in its own way.
            door.others = None;
        }
        let admitted = if pod.is_terminal() || pod.is_deleted() {
            None
        } else {
            let node = door.node.get_or_insert_with(|| self.node.now());
            let beside = door.others.get_or_insert_with(|| self.counted(&uid));
            match admit(&self.node.admit_view(node), &pod, beside) {
                Ok(()) => Some(Admitted::new(Arc::clone(&pod))),
                Err(rejection) => {
                    match victims_of(&pod, beside, &rejection) {
                        Some(victims) => self.preempt(desired, victims),
                        None if self.may_be_old_news(&pod, &rejection) => self.wait_for_node(desired),
                        None => self.reject(desired, rejection),
                    }
                    door.others = None;
                    return;
                }
            }
        };
        if admitted.is_some() {
            self.allocated(&desired, &pod);
        }
        self.waiters.remove(&uid);
        // Before its first job begins: one that did not know would take what runs to be as it should.
        if let Some(told) = self.resizes.told_before(&uid) {
            self.workers.remember_told(&uid, told);
        }
        self.workers.desired(pod, Arrival::Added);
        match (door.others.as_mut(), admitted) {
            (Some(others), Some(admitted)) if is_new => others.push(admitted),
            // Whoever was known before may count otherwise now: sum up anew for the next.
            _ => door.others = None,
        }
    }

    /// Pods that use the node's resources, other than `uid`: also those on their way out, until they have stopped. What no
    /// source asks for any more does not count, as with upstream.
    ///
    /// Neither does a pod that is terminal in the API and of which nothing is listed as running: after a restart the pods
    /// that ended long ago come in one delivery with those that were bound meanwhile, and must not take their room
    /// (WORK-09).
    #[doc(alias = "filterOutInactivePods")]
    pub(super) fn counted(&self, uid: &PodUid) -> Vec<Admitted> {
        let using = self.workers.using_resources().filter(|(other, pod)| {
            *other != uid && self.is_wanted(other) && (!pod.is_terminal() || self.is_listed_as_running(other))
        });
        using.map(|(_, pod)| Admitted::new(Arc::clone(pod))).collect()
    }

    /// The last list of the runtime shows something of this pod that runs.
    pub(super) fn is_listed_as_running(&self, uid: &PodUid) -> bool {
        self.listing.as_ref().and_then(|listing| listing.get(uid)).is_some_and(|pod| pod.is_running())
    }

    #[doc(alias = "HandlePodUpdates")]
    pub(super) fn update(&mut self, pod: Arc<Pod>) {
        let uid = PodRef::of(&pod).uid;
        if self.rejected.contains_key(&uid) {
            self.report_rejected(&uid, Some(pod));
        } else if self.waiters.contains_key(&uid) {
            self.add(pod, &mut Door::default());
        } else {
            let given = self.resized(&pod);
            // One that asks for other resources is shown to its worker when that is decided: a status that knows of the
            // new spec must know what has become of the resize.
            if !self.resizes.hold(&uid, &given) {
                self.workers.desired(given, Arrival::Updated);
            }
        }
    }

    /// The API server shows a status that is not ours: ours is told again (SRC-08).
    #[doc(alias = "HandlePodReconcile")]
    pub(super) fn reconcile(&mut self, pod: Arc<Pod>) {
        let uid = PodRef::of(&pod).uid;
        if self.rejected.contains_key(&uid) {
            self.report_rejected(&uid, Some(pod));
        } else if let Some(waiter) = self.waiters.get_mut(&uid) {
            waiter.pod = pod;
        } else {
            let given = self.resized(&pod);
            self.workers.reconcile(given);
        }
    }

    #[doc(alias = "HandlePodRemoves")]
    pub(super) fn remove(&mut self, pod: &Pod) {
        let uid = PodRef::of(pod).uid;
        // Another source may have asked for the same UID in vain so far.
        let heir = self.desired.get(&uid).filter(|heir| heir.source() != pod.source()).cloned();
        if heir.as_ref().is_some_and(|heir| heir.source() < pod.source()) {
            return;
        }
        self.waiters.remove(&uid);
        if self.rejected.remove(&uid).is_some() && !self.workers.knows(&uid) {
            self.node.status.forget(&uid);
        }
        // Before every source has been read, a pod that one of them no longer has may be another's (LOOP-07);
        // housekeeping ends it when that is known.
        if heir.is_none() && !self.desired.all_sources_seen() {
            return;
        }
        if let Outcome::Forgotten(_) = self.workers.removed(&uid) {
            self.housekeeping.soon(self.node.clock.mono());
        }
        if let Some(heir) = heir {
            self.add(heir, &mut Door::default());
        }
    }

    /// Refuses a pod at the door: it is `Failed`, and people are told why (LOOP-05).
    #[doc(alias = "rejectPod")]
    fn reject(&mut self, pod: Arc<Pod>, rejection: Rejection) {
        let message = format!("Pod was rejected: {}", rejection.message);
        warn!(pod = %PodRef::of(&pod), reason = %rejection.reason, "{message}");
        self.record(&pod, EventKind::Warning, rejection.reason.clone(), rejection.message);
        let status = Arc::new(rejected(&pod, &rejection.reason, &message, self.node.clock.wall()));
        let uid = PodRef::of(&pod).uid;
        self.waiters.remove(&uid);
        self.rejected.insert(uid.clone(), Rejected { pod, status });
        // It may run already: a definition that no longer fits, or another configuration of the node. Then it ends.
        self.workers.removed(&uid);
        self.report_rejected(&uid, None);
        self.housekeeping.soon(self.node.clock.mono());
    }

    /// Tells that a pod was refused. While something of it may run, its end is not shown (TRAP-01).
    pub(super) fn report_rejected(&mut self, uid: &PodUid, newer: Option<Arc<Pod>>) {
        let runs = self.is_listed_as_running(uid);
        // Of a pod that was ended here, the list may be older than its end.
        let known = self.workers.stage(uid).is_some_and(|stage| *stage != Stage::Finished);
        let Some(rejected) = self.rejected.get_mut(uid) else { return };
        if let Some(pod) = newer {
            rejected.pod = pod;
        }
        let progress = if known || runs { EndProgress::MayRun } else { EndProgress::Finished };
        let (pod, status) = (Arc::clone(&rejected.pod), Arc::clone(&rejected.status));
        self.node.status.report(StatusReport { pod, status, progress });
    }

    /// Ends the victims; the pod is looked at again when they have stopped (ADM-31).
    #[doc(alias = "evictPodsToFreeRequests")]
    fn preempt(&mut self, pod: Arc<Pod>, victims: Vec<Arc<Pod>>) {
        let mut waits_for = BTreeSet::new();
        for victim in victims {
            let name = PodRef::of(&victim);
            info!(pod = %name, critical = %PodRef::of(&pod), "Ending a pod to make room for a critical one");
            self.record(&victim, EventKind::Warning, PREEMPTING, PREEMPTED.to_owned());
            self.workers.preempt(&name.uid);
            waits_for.insert(name.uid);
        }
        self.waiters.insert(PodRef::of(&pod).uid, Waiter { pod, why: Wait::Room(waits_for) });
    }

    /// The pod does not match the node as we see it, and has not waited for a newer view yet (ADM-05).
    fn may_be_old_news(&self, pod: &Pod, rejection: &Rejection) -> bool {
        let waited = match self.waiters.get(&PodRef::of(pod).uid) {
            Some(Waiter { why: Wait::Node(due), .. }) => *due <= self.node.clock.mono(),
            Some(_) | None => false,
        };
        rejection.reason == "NodeAffinity" && pod.source() == Some(Source::Api) && !waited
    }

    fn wait_for_node(&mut self, pod: Arc<Pod>) {
        let due = self.node.clock.mono() + CATCH_UP;
        let uid = PodRef::of(&pod).uid;
        let why = match self.waiters.remove(&uid) {
            Some(Waiter { why: why @ Wait::Node(_), .. }) => why,
            Some(_) | None => Wait::Node(due),
        };
        self.waiters.insert(uid, Waiter { pod, why });
    }

    /// When the next pod has waited long enough.
    pub(super) fn door_due(&self) -> Option<Instant> {
        let due = |waiter: &Waiter| match waiter.why {
            Wait::Node(due) => Some(due),
            Wait::Room(_) => None,
        };
        self.waiters.values().filter_map(due).min()
    }

    /// Lets in, or refuses, those who have waited for what has come to pass.
    pub(super) fn open_door(&mut self) {
        let now = self.node.clock.mono();
        let stopped = |uid: &PodUid| {
            self.workers.stage(uid).is_none_or(|stage| matches!(stage, Stage::Terminated { .. } | Stage::Finished))
        };
        let over = |waiter: &&Waiter| match &waiter.why {
            Wait::Room(victims) => victims.iter().all(stopped),
            Wait::Node(due) => *due <= now,
        };
        let free: Vec<Arc<Pod>> = self.waiters.values().filter(over).map(|waiter| Arc::clone(&waiter.pod)).collect();
        let mut door = Door::default();
        let some = !free.is_empty();
        for pod in free {
            self.add(pod, &mut door);
        }
        if some {
            self.housekeeping.pods_changed(&self.node, &self.workers);
        }
    }

    pub(super) fn record(
        &self,
        pod: &Arc<Pod>,
        kind: EventKind,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) {
        let (pod, reason) = (Arc::clone(pod), reason.into());
        self.node.ports.events.record(PodEvent { pod, field_path: None, kind, reason, message });
    }
}

/// Who can make room for `pod`, if room is all that it lacks.
fn victims_of(pod: &Pod, others: &[Admitted], rejection: &Rejection) -> Option<Vec<Arc<Pod>>> {
    let victims = victims(pod, others, &rejection.shortages).filter(|_| !rejection.shortages.is_empty());
    victims.filter(|victims| !victims.is_empty())
}
