//! Resources in a status: what was allocated, corrected by what the runtime says is in force (PST-05, RSZ-10).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::observe::{ContainerObservation, ObservedResources};
use crate::resize::{PodAllocation, with_allocation};
use crate::resources::{Amount, Amounts, pod_limits, pod_requests};

/// The fewest shares that the kernel has. A request that comes to fewer is shown as in the spec.
const MIN_SHARES: i64 = 2;
/// The smallest quota that the kernel has. A limit that comes to less is shown as in the spec.
const MIN_MILLI_CPU_LIMIT: i64 = 10;

/// Resources of one container. `old` is the status before of the same instance.
pub(super) fn of_container(
    spec: &Container,
    seen: &ContainerObservation,
    old: Option<&ContainerStatus>,
) -> ResourceRequirements {
    let mut resources = spec.resources.clone().unwrap_or_default();
    if !seen.state.is_running() {
        return resources;
    }
    let was_running = |old: &&ContainerStatus| old.state.as_ref().is_some_and(|s| s.running.is_some());
    let before = old.filter(was_running).and_then(|old| old.resources.as_ref());
    let actual = seen.resources.as_ref();
    if let Some(limits) = resources.limits.as_mut() {
        let old = before.and_then(|r| r.limits.as_ref());
        correct_cpu(limits, actual.and_then(cpu_limit), MIN_MILLI_CPU_LIMIT, old);
        match actual.and_then(|a| a.memory_limit).filter(|bytes| *bytes > 0) {
            Some(bytes) => put(limits, "memory", Amount::units(bytes), binary),
            None => keep(limits, "memory", old),
        }
    }
    if let Some(requests) = resources.requests.as_mut() {
        let old = before.and_then(|r| r.requests.as_ref());
        correct_cpu(requests, actual.and_then(cpu_request), MIN_SHARES, old);
        keep(requests, "memory", old);
    }
    resources
}

type List = BTreeMap<String, Quantity>;

fn correct_cpu(list: &mut List, actual: Option<i64>, floor: i64, old: Option<&List>) {
    let asked = list.get("cpu").map_or(0, |q| Amount::of(q).millis());
    match actual {
        Some(millis) if millis > floor || asked > floor => {
            put(list, "cpu", Amount::from_millis(millis), |a| a.to_string());
        }
        Some(_) => {}
        None => keep(list, "cpu", old),
    }
}

/// Writes an amount, leaving the text alone if it says the same already.
fn put(list: &mut List, name: &str, amount: Amount, text: impl Fn(Amount) -> String) {
    if list.get(name).map(Amount::of) != Some(amount) {
        list.insert(name.to_owned(), Quantity(text(amount)));
    }
}

/// Keeps the amount of the status before, for a resource that the runtime does not report.
fn keep(list: &mut List, name: &str, old: Option<&List>) {
    if let Some(quantity) = old.and_then(|old| old.get(name)) {
        list.insert(name.to_owned(), quantity.clone());
    }
}

/// Thousandths of a CPU that the quota allows; without a quota (-1) there are none.
#[doc(alias = "QuotaToMilliCPU")]
fn cpu_limit(actual: &ObservedResources) -> Option<i64> {
    let period = actual.cpu_period.filter(|period| *period > 0)?;
    let millis = actual.cpu_quota?.saturating_mul(1000) / period;
    (millis > 0).then_some(millis)
}

/// Thousandths of a CPU that the shares stand for, rounded up.
#[doc(alias = "SharesToMilliCPU")]
fn cpu_request(actual: &ObservedResources) -> Option<i64> {
    let shares = actual.cpu_shares.filter(|shares| *shares >= MIN_SHARES)?;
    Some(shares.saturating_mul(1000).saturating_add(1023) / 1024)
}

/// Bytes in the largest binary unit that is exact: `128Mi`.
fn binary(amount: Amount) -> String {
    let mut value = amount.value();
    if value == 0 || Amount::units(value) != amount {
        return amount.to_string();
    }
    let mut suffix = "";
    for next in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if value % 1024 != 0 {
            break;
        }
        value /= 1024;
        suffix = next;
    }
    format!("{value}{suffix}")
}

/// Resources of the whole pod, as its cgroup has them: as allocated, or, while a resize is under way, as they were set last.
#[doc(alias = "convertToAPIPodLevelResourcesStatus")]
pub(super) fn of_pod(pod: &Pod, actuated: Option<&PodAllocation>) -> ResourceRequirements {
    // A record without the pod's own resources may be of one who did not keep them.
    let has_own = pod.spec.as_ref().is_some_and(|spec| spec.resources.is_some());
    let actuated = actuated.filter(|actuated| actuated.pod.is_some() || !has_own);
    let before = actuated.and_then(|actuated| with_allocation(pod, actuated));
    let pod = before.as_deref().unwrap_or(pod);
    let own = pod.spec.as_ref().and_then(|s| s.resources.as_ref());
    ResourceRequirements {
        requests: quantities(&pod_requests(pod)),
        limits: quantities(&pod_limits(pod)),
        claims: own.and_then(|own| own.claims.clone()),
    }
}

/// What the whole pod has been given.
pub(super) fn requested_by_pod(pod: &Pod) -> Option<List> {
    quantities(&pod_requests(pod))
}

fn quantities(amounts: &Amounts) -> Option<List> {
    let text = |name: &str, amount: Amount| if name == "cpu" { amount.to_string() } else { binary(amount) };
    let list: List = amounts.iter().map(|(name, amount)| (name.clone(), Quantity(text(name, *amount)))).collect();
    Some(list).filter(|list| !list.is_empty())
}
