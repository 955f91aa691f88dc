//! The order in which pending resizes are decided (RSZ-03).

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::pod::PodExt;
use crate::qos::{QosClass, qos_class};
use crate::resources::{CPU, MEMORY, pod_requests};

/// A resize that is not allocated yet.
#[derive(Clone, Copy, Debug)]
pub struct PendingResize<'a> {
    /// The pod with the resources that its spec requests.
    pub desired: &'a Pod,
    /// The pod with its allocated resources.
    pub allocated: &'a Pod,
    /// Since when the status shows the resize as deferred.
    pub deferred_since: Option<Timestamp>,
}

impl PendingResize<'_> {
    /// The resize requests more CPU or memory than is allocated, so that it may not fit.
    #[doc(alias = "isResizeIncreasingRequests")]
    fn grows(&self) -> bool {
        let (old, new) = (pod_requests(self.allocated), pod_requests(self.desired));
        [CPU, MEMORY].into_iter().any(|name| {
            let of = |list: &crate::resources::Amounts| list.get(name).copied().unwrap_or_default();
            of(&new) > of(&old)
        })
    }
}

/// Orders pending resizes: first those that do not grow, then by priority, then `Guaranteed` pods, then by how long they
/// have been deferred.
#[doc(alias = "sortPendingResizes")]
pub fn by_turn(a: &PendingResize<'_>, b: &PendingResize<'_>) -> Ordering {
    let key = |p: &PendingResize<'_>| {
        let priority = p.desired.pod_spec().and_then(|spec| spec.priority).unwrap_or_default();
        let guaranteed = qos_class(p.desired) == QosClass::Guaranteed;
        // A resize that was never deferred has waited least.
        let waits = p.deferred_since.unwrap_or(Timestamp::MAX);
        (p.grows(), Reverse(priority), !guaranteed, waits)
    };
    key(a).cmp(&key(b))
}
