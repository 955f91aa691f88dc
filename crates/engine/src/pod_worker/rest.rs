//! What a pod at rest rests on: all from which its status and its plan were decided, but for what was seen of it.
//!
//! Both are functions. As long as nothing of this has changed and a look shows what the one before showed, deciding again
//! gives what was decided, and need not be done: most looks at a node where nothing happens end here.

use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::plan::ProbeView;
use rubelet_core::resize::PodAllocation;

use super::PodMemory;

/// Known by identity: whoever changes one of these puts another in its place. Weak, so that nothing is kept for it; and an
/// address is not given to another while somebody holds it so.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pod: Weak<Pod>,
    status: Weak<PodStatus>,
    probes: Weak<ProbeView>,
    actuated: Weak<PodAllocation>,
    recursive_read_only: bool,
}

impl Rest {
    /// What `memory` rests on now; `None` while something is under way that may end without a sign.
    pub(super) fn on(pod: &Arc<Pod>, memory: &PodMemory, recursive_read_only: bool) -> Option<Self> {
        let PodMemory { failures, resize, progress, set_up, .. } = memory;
        let resizes = resize.pending.is_some() || progress.is_open(resize);
        let still = failures.is_empty() && !resizes && set_up.is_some();
        let actuated = memory.actuated.as_ref().filter(|_| still)?;
        Some(Self {
            pod: Arc::downgrade(pod),
            status: Arc::downgrade(&memory.status),
            probes: Arc::downgrade(&memory.probes),
            actuated: Arc::downgrade(actuated),
            recursive_read_only,
        })
    }

    /// Nothing of it has changed.
    pub(super) fn holds(&self, pod: &Arc<Pod>, memory: &PodMemory, recursive_read_only: bool) -> bool {
        Self::on(pod, memory, recursive_read_only).is_some_and(|now| {
            self.pod.ptr_eq(&now.pod)
                && self.status.ptr_eq(&now.status)
                && self.probes.ptr_eq(&now.probes)
                && self.actuated.ptr_eq(&now.actuated)
                && self.recursive_read_only == now.recursive_read_only
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rubelet_core::backoff::BackoffPolicy;
    use rubelet_core::reason::{StartFailure, WaitingReason};
    use rubelet_core::resize::{ResizeCondition, ResizeDecision, ResizeProgress};

    use super::*;

    fn settled() -> (Arc<Pod>, PodMemory) {
        let memory = PodMemory::new(PodStatus::default(), BackoffPolicy::image());
        (Arc::default(), PodMemory { set_up: Some(Arc::default()), actuated: Some(Arc::default()), ..memory })
    }

    #[test]
    fn it_holds_until_something_of_it_is_another() {
        let (pod, memory) = settled();
        let rest = Rest::on(&pod, &memory, false).expect("nothing is under way");
        assert!(rest.holds(&pod, &memory, false));
        assert!(rest.holds(&pod, &memory.clone(), false));
        // Equal, but others: whether they are equal in all that counts is not for this to find out.
        assert!(!rest.holds(&Arc::default(), &memory, false));
        assert!(!rest.holds(&pod, &PodMemory { status: Arc::default(), ..memory.clone() }, false));
        assert!(!rest.holds(&pod, &PodMemory { probes: Arc::default(), ..memory.clone() }, false));
        assert!(!rest.holds(&pod, &PodMemory { actuated: Some(Arc::default()), ..memory.clone() }, false));
        assert!(!rest.holds(&pod, &memory, true));
    }

    #[test]
    fn nothing_rests_on_what_is_under_way() {
        let (pod, memory) = settled();
        let failure = StartFailure { reason: WaitingReason::ErrImagePull, message: String::new() };
        let failures = BTreeMap::from([("app".to_owned(), failure)]);
        assert!(Rest::on(&pod, &PodMemory { failures, ..memory.clone() }, false).is_none());
        let mut progress = ResizeProgress::default();
        progress.go_on(1);
        assert!(Rest::on(&pod, &PodMemory { progress, ..memory.clone() }, false).is_none());
        let mut resize = ResizeDecision::default();
        resize.pending = Some(ResizeCondition::default());
        assert!(Rest::on(&pod, &PodMemory { resize: resize.clone(), ..memory.clone() }, false).is_none());
        resize.allocate(1);
        assert!(Rest::on(&pod, &PodMemory { resize, ..memory.clone() }, false).is_none());
        assert!(Rest::on(&pod, &PodMemory { set_up: None, ..memory }, false).is_none());
    }
}
