//! Preemption: which pods end so that a critical pod is admitted (section 15.3).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::Allocation;
use super::fit::{Shortage, can_preempt, request};
use crate::qos::{QosClass, qos_class};
use crate::resources::{CPU, MEMORY};

/// How much of each resource is missing.
type Missing = Vec<(String, i64)>;

/// The pods to preempt for `pod`; `None` if all that it may preempt together do not free enough.
///
/// Guaranteed pods are spared first, then burstable ones. Of each class as few pods as possible are taken, and of those
/// that free enough the smallest. upstream: preemption/preemption.go getPodsToPreempt (v1.36)
#[doc(alias = "getPodsToPreempt")]
pub fn victims(pod: &Pod, others: &[Allocation], shortages: &[Shortage]) -> Option<Vec<Arc<Pod>>> {
    let missing: Missing = shortages.iter().map(|s| (s.resource.clone(), s.missing())).collect();
    let class = |class: QosClass| -> Vec<&Allocation> {
        others.iter().filter(|o| can_preempt(pod, &o.pod) && qos_class(&o.pod) == class).collect()
    };
    let best_effort = class(QosClass::BestEffort);
    let burstable = class(QosClass::Burstable);
    let guaranteed = class(QosClass::Guaranteed);
    let without = |missing: &Missing, groups: [&[&Allocation]; 2]| less(missing, groups.into_iter().flatten());
    let guaranteed = nearest(guaranteed, without(&missing, [&best_effort, &burstable]))?;
    let burstable = nearest(burstable, without(&missing, [&best_effort, &guaranteed]))?;
    let best_effort = nearest(best_effort, without(&missing, [&burstable, &guaranteed]))?;
    let all = best_effort.into_iter().chain(burstable).chain(guaranteed);
    Some(all.map(|victim| Arc::clone(&victim.pod)).collect())
}

/// Takes from `pods`, one by one, the pod whose requests are nearest to the missing amounts.
#[doc(alias = "getPodsToPreemptByDistance")]
fn nearest(mut pods: Vec<&Allocation>, mut missing: Missing) -> Option<Vec<&Allocation>> {
    let mut taken = Vec::new();
    while !missing.is_empty() {
        let best = pods.iter().enumerate().reduce(|best, next| {
            let (a, b) = (distance(&missing, best.1), distance(&missing, next.1));
            if b < a || (b == a && size(next.1) <= size(best.1)) { next } else { best }
        });
        let (index, _) = best?;
        let victim = pods.swap_remove(index);
        missing = less(&missing, [&victim]);
        taken.push(victim);
    }
    Some(taken)
}

/// How far the requests of the pod are from the missing amounts, with equal weights.
fn distance(missing: &Missing, pod: &Allocation) -> f64 {
    let part = |(name, amount): &(String, i64)| {
        #[expect(clippy::cast_precision_loss, reason = "a distance to compare; the last digits do not matter")]
        let (left, all) = (amount.saturating_sub(request(&pod.requests, name)).max(0) as f64, *amount as f64);
        (left / all).powi(2)
    };
    missing.iter().map(part).sum()
}

fn size(pod: &Allocation) -> [i64; 2] {
    [MEMORY, CPU].map(|name| request(&pod.requests, name))
}

/// The missing amounts after `pods` have ended.
fn less<'a>(missing: &Missing, pods: impl IntoIterator<Item = &'a &'a Allocation>) -> Missing {
    let pods: Vec<&&Allocation> = pods.into_iter().collect();
    let left = |(name, amount): &(String, i64)| {
        let freed = pods.iter().map(|pod| request(&pod.requests, name)).fold(0, i64::saturating_add);
        let left = amount.saturating_sub(freed);
        (left > 0).then(|| (name.clone(), left))
    };
    missing.iter().filter_map(left).collect()
}
