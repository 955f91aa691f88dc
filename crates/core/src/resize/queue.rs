//! Whose resize is decided first (RSZ-03).

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::pod::PodExt;
use crate::qos::{QosClass, qos_class};
use crate::resources::{CPU, MEMORY, pod_requests};

/// A pod that asks for other resources than it was given.
#[derive(Clone, Copy, Debug)]
pub struct Pending<'a> {
    /// As it asks.
    pub desired: &'a Pod,
    /// As it was given.
    pub allocated: &'a Pod,
    /// Since when it has been told to wait.
    pub deferred_since: Option<Timestamp>,
}

impl Pending<'_> {
    /// It asks for more CPU or memory than it has: it may not fit.
    #[doc(alias = "isResizeIncreasingRequests")]
    fn grows(&self) -> bool {
        let (old, new) = (pod_requests(self.allocated), pod_requests(self.desired));
        [CPU, MEMORY].into_iter().any(|name| {
            let of = |list: &crate::resources::Amounts| list.get(name).copied().unwrap_or_default();
            of(&new) > of(&old)
        })
    }
}

/// Whose turn is first: those that ask for no more than they have, then higher priority, then `Guaranteed`, then who has
/// waited longest.
#[doc(alias = "sortPendingResizes")]
pub fn by_turn(a: &Pending<'_>, b: &Pending<'_>) -> Ordering {
    let key = |p: &Pending<'_>| {
        let priority = p.desired.pod_spec().and_then(|spec| spec.priority).unwrap_or_default();
        let guaranteed = qos_class(p.desired) == QosClass::Guaranteed;
        // Who was never told to wait has waited least.
        let waits = p.deferred_since.unwrap_or(Timestamp::MAX);
        (p.grows(), Reverse(priority), !guaranteed, waits)
    };
    key(a).cmp(&key(b))
}
