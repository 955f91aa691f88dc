//! What a pod at rest rests on: all from which its status and its plan were decided, but for what was seen of it.
//!
//! Both are functions. As long as nothing of this has changed and a look shows what the one before showed, deciding again
//! gives what was decided, and need not be done: most looks at a node where nothing happens end here.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::plan::ProbeView;
use rubelet_core::resize::{PodAllocation, ResizeState};

use super::PodMemory;

/// Known by identity: whoever changes one of these puts another in its place. Weak, so that nothing is kept for it; and an
/// address is not given to another while somebody holds it so.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pod: Weak<Pod>,
    status: Weak<PodStatus>,
    probes: Weak<ProbeView>,
    told: Weak<PodAllocation>,
    node: OfNode,
}

/// What a status takes from the node as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfNode {
    /// The node's addresses.
    pub(super) host_ips: Arc<[IpAddr]>,
    /// The pod's runtime handler can make mounts read-only all the way down.
    pub(super) recursive_read_only: bool,
}

impl Rest {
    /// What `memory` rests on now; `None` while something is under way that may end without a sign.
    pub(super) fn on(pod: &Arc<Pod>, memory: &PodMemory, node: OfNode) -> Option<Self> {
        let PodMemory { failures, resize, set_up, .. } = memory;
        let still = failures.is_empty() && *resize == ResizeState::default() && set_up.is_some();
        let told = memory.told.as_ref().filter(|_| still)?;
        Some(Self {
            pod: Arc::downgrade(pod),
            status: Arc::downgrade(&memory.status),
            probes: Arc::downgrade(&memory.probes),
            told: Arc::downgrade(told),
            node,
        })
    }

    /// Nothing of it has changed.
    pub(super) fn holds(&self, pod: &Arc<Pod>, memory: &PodMemory, node: OfNode) -> bool {
        Self::on(pod, memory, node).is_some_and(|now| {
            self.pod.ptr_eq(&now.pod)
                && self.status.ptr_eq(&now.status)
                && self.probes.ptr_eq(&now.probes)
                && self.told.ptr_eq(&now.told)
                && self.node == now.node
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rubelet_core::backoff::BackoffPolicy;
    use rubelet_core::reason::{StartFailure, WaitingReason};
    use rubelet_core::resize::ResizeCondition;

    use super::*;

    fn settled() -> (Arc<Pod>, PodMemory) {
        let memory = PodMemory::new(PodStatus::default(), BackoffPolicy::image());
        (Arc::default(), PodMemory { set_up: Some(Arc::default()), told: Some(Arc::default()), ..memory })
    }

    #[test]
    fn it_holds_until_something_of_it_is_another() {
        let (pod, memory) = settled();
        let rest = Rest::on(&pod, &memory, OfNode::default()).expect("nothing is under way");
        assert!(rest.holds(&pod, &memory, OfNode::default()));
        assert!(rest.holds(&pod, &memory.clone(), OfNode::default()));
        // Equal, but others: whether they are equal in all that counts is not for this to find out.
        assert!(!rest.holds(&Arc::default(), &memory, OfNode::default()));
        assert!(!rest.holds(&pod, &PodMemory { status: Arc::default(), ..memory.clone() }, OfNode::default()));
        assert!(!rest.holds(&pod, &PodMemory { probes: Arc::default(), ..memory.clone() }, OfNode::default()));
        assert!(!rest.holds(&pod, &PodMemory { told: Some(Arc::default()), ..memory.clone() }, OfNode::default()));
        for node in [
            OfNode { recursive_read_only: true, ..OfNode::default() },
            OfNode { host_ips: Arc::new([[192, 0, 2, 1].into()]), ..OfNode::default() },
        ] {
            assert!(!rest.holds(&pod, &memory, node));
        }
    }

    #[test]
    fn nothing_rests_on_what_is_under_way() {
        let (pod, memory) = settled();
        let failure = StartFailure { reason: WaitingReason::ErrImagePull, message: String::new() };
        let failures = BTreeMap::from([("app".to_owned(), failure)]);
        assert!(Rest::on(&pod, &PodMemory { failures, ..memory.clone() }, OfNode::default()).is_none());
        let resize = ResizeState { progress: Some(ResizeCondition::default()), pending: None };
        assert!(Rest::on(&pod, &PodMemory { resize, ..memory.clone() }, OfNode::default()).is_none());
        assert!(Rest::on(&pod, &PodMemory { set_up: None, ..memory }, OfNode::default()).is_none());
    }
}
