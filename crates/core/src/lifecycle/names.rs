//! Which pod may use a name. Static pods of the same name run one after another (WORK-08), and a static pod does not start
//! while an unknown pod of its name runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::{FullName, PodRef, PodUid};

/// The pods that queue for each name. Decides; starts nothing.
#[doc(alias = "waitingToStartStaticPodsByFullname")]
#[derive(Debug, Default)]
pub struct Names {
    /// Pods by name, in order of arrival. The first in a queue has the name.
    queues: BTreeMap<FullName, VecDeque<PodUid>>,
    /// Running pods in the runtime's last list that had no worker at that time.
    unknown: BTreeMap<PodUid, PodRef>,
    /// The unknown pods by name.
    taken: BTreeMap<FullName, BTreeSet<PodUid>>,
}

impl Names {
    /// Adds the pod to the queue for the name. A pod that runs already goes first.
    pub fn join(&mut self, name: &FullName, uid: &PodUid) {
        let queue = self.queues.entry(name.clone()).or_default();
        if self.taken.get(name).is_some_and(|owners| owners.contains(uid)) {
            queue.push_front(uid.clone());
        } else {
            queue.push_back(uid.clone());
        }
    }

    /// Puts the pod at the front of the queue: an orphan has its name until it has ended.
    pub fn hold(&mut self, name: &FullName, uid: &PodUid) {
        self.queues.entry(name.clone()).or_default().push_front(uid.clone());
    }

    /// Takes the pod out of the queue. Returns the pod that is first now.
    pub fn leave(&mut self, name: &FullName, uid: &PodUid) -> Option<PodUid> {
        self.forget_unknown(uid);
        let queue = self.queues.get_mut(name)?;
        queue.retain(|other| other != uid);
        let first = queue.front().cloned();
        if first.is_none() {
            self.queues.remove(name);
        }
        first
    }

    /// The pod that has the name, or the first that waits for it.
    pub fn holder(&self, name: &FullName) -> Option<&PodUid> {
        self.queues.get(name).and_then(VecDeque::front)
    }

    /// Why `uid` may not use the name yet, as `rubelet explain` shows it.
    pub fn blocks(&self, name: &FullName, uid: &PodUid) -> Option<&'static str> {
        if self.holder(name).is_some_and(|first| first != uid) {
            return Some("an older pod of the same name to leave");
        }
        let others = self.taken.get(name).into_iter().flatten();
        let blocked = others.into_iter().any(|owner| owner != uid);
        blocked.then_some("a pod of the same name, which no source asks for, to be ended")
    }

    /// The unknown pod with this UID and another name. It has to end before the pod of this name can start.
    pub fn other_pod(&self, name: &FullName, uid: &PodUid) -> Option<&PodRef> {
        self.unknown.get(uid).filter(|pod| pod.full_name() != *name)
    }

    /// Replaces the unknown pods by those of the runtime's newest list.
    pub fn set_unknown(&mut self, pods: impl IntoIterator<Item = PodRef>) {
        self.unknown = pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
        self.taken.clear();
        for (uid, pod) in &self.unknown {
            self.taken.entry(pod.full_name()).or_default().insert(uid.clone());
        }
    }

    fn forget_unknown(&mut self, uid: &PodUid) {
        let Some(name) = self.unknown.remove(uid).map(|pod| pod.full_name()) else { return };
        if let Some(owners) = self.taken.get_mut(&name) {
            owners.remove(uid);
            if owners.is_empty() {
                self.taken.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str) -> PodRef {
        PodRef { namespace: "ns".into(), name: name.into(), uid: uid.into() }
    }

    fn name() -> FullName {
        pod("web", "").full_name()
    }

    #[test]
    fn a_name_goes_from_one_to_the_next_and_then_to_nobody_work_08() {
        let mut names = Names::default();
        for uid in ["a", "b", "c"] {
            names.join(&name(), &uid.into());
        }
        assert!(names.blocks(&name(), &"a".into()).is_none());
        assert!(names.blocks(&name(), &"b".into()).is_some());
        // One that gives up waiting is no longer waited for.
        assert_eq!(names.leave(&name(), &"b".into()), Some("a".into()));
        assert_eq!(names.leave(&name(), &"a".into()), Some("c".into()));
        assert_eq!(names.leave(&name(), &"c".into()), None);
        assert!(names.queues.is_empty(), "a name that nobody wants costs nothing");
    }

    #[test]
    fn an_orphan_has_its_name_until_it_has_ended() {
        let mut names = Names::default();
        names.join(&name(), &"new".into());
        names.hold(&name(), &"orphan".into());
        assert!(names.blocks(&name(), &"new".into()).is_some());
        assert!(names.blocks(&name(), &"orphan".into()).is_none());
        assert_eq!(names.leave(&name(), &"orphan".into()), Some("new".into()));
    }

    #[test]
    fn a_pod_that_runs_already_goes_first_and_unknown_pods_block() {
        let mut names = Names::default();
        names.set_unknown([pod("web", "old"), pod("web", "older"), pod("shop", "moved")]);
        names.join(&name(), &"new".into());
        assert!(names.blocks(&name(), &"new".into()).is_some());
        names.join(&name(), &"old".into());
        assert!(names.blocks(&name(), &"old".into()).is_some(), "the other unknown pod has to end");
        names.hold(&name(), &"older".into());
        assert_eq!(names.leave(&name(), &"older".into()), Some("old".into()));
        assert!(names.blocks(&name(), &"old".into()).is_none());
        assert_eq!(names.leave(&name(), &"old".into()), Some("new".into()));
        assert!(names.blocks(&name(), &"new".into()).is_none());
        assert_eq!(names.other_pod(&name(), &"moved".into()), Some(&pod("shop", "moved")));
        assert_eq!(names.other_pod(&pod("shop", "").full_name(), &"moved".into()), None);
        names.set_unknown([]);
        assert!(names.taken.is_empty() && names.unknown.is_empty());
    }
}
