//! How many pods a node takes and what its configuration keeps from them (CG-20 … CG-23).

use std::collections::BTreeMap;

use super::resources::{Reservations, ThresholdError, node_capacity, pods_limit, quantity};
use super::view::{Machine, NodeSetup};
use crate::config::KubeletConfiguration;
use crate::resources::{Amount, Amounts, PIDS};

/// Why a configuration cannot keep what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReservedError {
    /// A quantity or threshold cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ThresholdError),
    /// More is reserved than the node has (CG-23).
    #[error("invalid node allocatable configuration: {}", .0.join("; "))]
    TooMuch(Vec<String>),
}

/// `maxPods`, or what `podsPerCore` leaves of it.
pub fn max_pods(config: &KubeletConfiguration, cpu_millis: i64) -> i64 {
    let most = i64::from(config.max_pods);
    match i64::from(config.pods_per_core) {
        0 => most,
        per_core => most.min(per_core.saturating_mul(cpu_millis / 1000)),
    }
}

/// What is kept from pods, eviction thresholds included unless `ignore_eviction` (CG-20, CG-23).
pub fn reserved(
    config: &KubeletConfiguration,
    ignore_eviction: bool,
    capacity: &Amounts,
) -> Result<Amounts, ReservedError> {
    let none = BTreeMap::new();
    let reservations = Reservations {
        system: &config.system_reserved,
        kube: &config.kube_reserved,
        eviction_hard: if ignore_eviction { &none } else { &config.eviction_hard },
    };
    let reserved = reservations.kept_from_pods(capacity)?;
    let too_much: Vec<String> = reserved
        .iter()
        .filter_map(|(name, kept)| {
            let all = capacity.get(name).copied().filter(|all| all < kept)?;
            let (kept, all) = (quantity(name, *kept).0, quantity(name, all).0);
            Some(format!("{kept} of {name} is reserved, but the node has only {all}"))
        })
        .collect();
    if too_much.is_empty() { Ok(reserved) } else { Err(ReservedError::TooMuch(too_much)) }
}

/// What all pods may use together (CG-21): without `pods` in `enforceNodeAllocatable` all that the node has, as a new
/// cgroup's share of the CPUs would starve them.
/// upstream: cm/node_container_manager_linux.go createNodeAllocatableCgroups (v1.36)
pub fn cgroup_limit(config: &KubeletConfiguration, setup: &NodeSetup) -> Result<Amounts, ThresholdError> {
    let machine = Machine { storage_bytes: None, ..setup.machine.clone() };
    let mut capacity = node_capacity(&machine, setup.pods);
    // The API shows no process IDs: they are counted for cgroups alone.
    capacity.extend(machine.process_ids.map(|ids| (PIDS.to_owned(), Amount::units(ids))));
    let none = BTreeMap::new();
    let reservations =
        Reservations { system: &config.system_reserved, kube: &config.kube_reserved, eviction_hard: &none };
    let enforced = config.enforce_node_allocatable.iter().any(|what| what == "pods");
    let kept = if enforced { reservations.for_daemons(&capacity)? } else { Amounts::default() };
    Ok(pods_limit(&capacity, &kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_per_core_lowers_the_number_of_pods() {
        for (max, per_core, cpu_millis, pods) in
            [(110, 0, 2000, 110), (110, 10, 2000, 20), (110, 100, 2000, 110), (110, 10, 500, 0)]
        {
            let config =
                KubeletConfiguration { max_pods: max, pods_per_core: per_core, ..KubeletConfiguration::default() };
            assert_eq!(max_pods(&config, cpu_millis), pods, "{per_core} on {cpu_millis}");
        }
    }

    fn amounts(list: &[(&str, i64)]) -> Amounts {
        list.iter().map(|(name, n)| ((*name).to_owned(), Amount::units(*n))).collect()
    }

    fn config(cpu: &str) -> KubeletConfiguration {
        KubeletConfiguration {
            system_reserved: BTreeMap::from([("cpu".to_owned(), cpu.to_owned())]),
            kube_reserved: BTreeMap::from([("memory".to_owned(), "100Mi".to_owned())]),
            eviction_hard: BTreeMap::from([("memory.available".to_owned(), "28Mi".to_owned())]),
            enforce_node_allocatable: vec!["pods".to_owned()],
            ..KubeletConfiguration::default()
        }
    }

    const MIB: i64 = 1 << 20;

    // CG-20, CG-23
    #[test]
    fn cg_23_all_that_the_node_has_may_be_reserved_but_no_more() {
        let capacity = amounts(&[("cpu", 2), ("memory", 1024 * MIB)]);
        let kept = |cpu: &str, ignore| reserved(&config(cpu), ignore, &capacity);
        assert_eq!(kept("1", false), Ok(amounts(&[("cpu", 1), ("memory", 128 * MIB)])));
        assert_eq!(kept("1", true), Ok(amounts(&[("cpu", 1), ("memory", 100 * MIB)])));
        assert_eq!(kept("2", false), Ok(amounts(&[("cpu", 2), ("memory", 128 * MIB)])));
        let too_much = vec!["3 of cpu is reserved, but the node has only 2".to_owned()];
        assert_eq!(kept("3", false), Err(ReservedError::TooMuch(too_much)));
    }

    // CG-21
    #[test]
    fn cg_21_pods_may_use_all_that_is_not_reserved_if_pods_are_enforced() {
        let machine = Machine { cpu_millis: 2000, memory_bytes: 1024 * MIB, ..Machine::default() };
        let setup = NodeSetup { machine, pods: 110, ..NodeSetup::default() };
        let limit = |enforced: &[&str]| {
            let enforce_node_allocatable = enforced.iter().map(|what| (*what).to_owned()).collect();
            let config = KubeletConfiguration { enforce_node_allocatable, ..config("1") };
            let limit = cgroup_limit(&config, &setup).expect("quantities");
            ["cpu", "memory"].map(|name| limit.get(name).copied())
        };
        let of = |cpu, memory| [Some(Amount::units(cpu)), Some(Amount::units(memory * MIB))];
        assert_eq!(limit(&["pods"]), of(1, 924));
        assert_eq!(limit(&["system-reserved", "pods"]), of(1, 924));
        assert_eq!(limit(&["system-reserved"]), of(2, 1024));
    }
}
