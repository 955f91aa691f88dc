//! Maps from a name to an amount: reservations and eviction thresholds. Upstream parses them when the subsystems start; an
//! invalid one stops the node there too.
//!
//! upstream: cmd/kubelet/app/server.go parseResourceList, cm/container_manager.go ParseQOSReserved,
//! eviction/helpers.go ParseThresholdConfig, validation_reserved_memory.go (v1.36).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::super::duration::GoDuration;
use super::super::kubelet::KubeletConfiguration;
use super::super::nearest::nearest;
use super::super::quantity;
use super::Findings;

/// The eviction signals.
const SIGNALS: [&str; 9] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "allocatableMemory.available",
    "pid.available",
];

const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

pub(super) fn check(config: &KubeletConfiguration, found: &mut Findings) {
    reserved("systemReserved (--system-reserved)", &config.system_reserved, found);
    reserved("kubeReserved (--kube-reserved)", &config.kube_reserved, found);
    reserved_memory(config, found);
    for (resource, share) in &config.qos_reserved {
        let field = format!("qosReserved (--qos-reserved) {resource}");
        let percent = share.strip_suffix('%').and_then(|number| number.parse::<u8>().ok());
        if resource != "memory" {
            found.value(&field, share, "only memory can be reserved by QoS class");
        } else if percent.is_none_or(|percent| percent > 100) {
            found.value(&field, share, "must be between 0% and 100%");
        }
    }
    thresholds("evictionHard (--eviction-hard)", &config.eviction_hard, found);
    thresholds("evictionSoft (--eviction-soft)", &config.eviction_soft, found);
    grace_periods(config, found);
    reclaims(config, found);
    if quantity::sign(&config.container_log_max_size).is_none() {
        let rule = "must be a size, like 10Mi";
        let shown = format!("{:?}", config.container_log_max_size);
        found.value("containerLogMaxSize (--container-log-max-size)", shown, rule);
    }
}

fn reserved(field: &str, amounts: &BTreeMap<String, String>, found: &mut Findings) {
    for (resource, amount) in amounts {
        let field = format!("{field} {resource}");
        if !RESERVABLE.contains(&resource.as_str()) {
            found.value(&field, amount, format_args!("only {} can be reserved", RESERVABLE.join(", ")));
            continue;
        }
        match quantity::sign(amount) {
            None => found.value(&field, format_args!("{amount:?}"), "must be a quantity, like 500m or 1Gi"),
            Some(Ordering::Less) => found.value(&field, amount, "must not be negative"),
            Some(Ordering::Equal | Ordering::Greater) => {}
        }
    }
}

fn reserved_memory(config: &KubeletConfiguration, found: &mut Findings) {
    const FIELD: &str = "reservedMemory (--reserved-memory)";
    let mut seen = BTreeSet::new();
    for reservation in &config.reserved_memory {
        for (kind, amount) in &reservation.limits {
            let shown = format!("{}:{kind}={}", reservation.numa_node, amount.0);
            if kind != "memory" && !kind.starts_with("hugepages-") {
                found.value(FIELD, &shown, "only memory and hugepages-<size> can be reserved");
            }
            match quantity::sign(&amount.0) {
                None => found.value(FIELD, &shown, "must be a quantity, like 1Gi"),
                Some(Ordering::Equal) => found.value(FIELD, &shown, "must not be zero"),
                Some(Ordering::Less | Ordering::Greater) => {}
            }
            if !seen.insert((reservation.numa_node, kind)) {
                found.value(FIELD, &shown, "is set twice for this NUMA node");
            }
        }
    }
}

/// Whether the name is a signal; adds a finding if not.
fn is_signal(field: &str, signal: &str, found: &mut Findings) -> bool {
    let known = SIGNALS.contains(&signal);
    if !known {
        let guess = nearest(signal, SIGNALS).map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        found.value(field, signal, format_args!("is no eviction signal; there are {}{guess}", SIGNALS.join(", ")));
    }
    known
}

fn thresholds(field: &str, amounts: &BTreeMap<String, String>, found: &mut Findings) {
    for (signal, amount) in amounts {
        if !is_signal(field, signal, found) {
            continue;
        }
        let shown = format!("{signal} {amount:?}");
        if let Some(percent) = amount.strip_suffix('%') {
            if !percent.parse::<f32>().is_ok_and(|percent| (0.0..=100.0).contains(&percent)) {
                found.value(field, shown, "must be between 0% and 100%");
            }
        } else if quantity::sign(amount) != Some(Ordering::Greater) {
            found.value(field, shown, "must be a quantity above zero, like 100Mi, or a share, like 10%");
        }
    }
}

fn grace_periods(config: &KubeletConfiguration, found: &mut Findings) {
    const FIELD: &str = "evictionSoftGracePeriod (--eviction-soft-grace-period)";
    for (signal, period) in &config.eviction_soft_grace_period {
        let known = is_signal(FIELD, signal, found);
        if known && !period.parse::<GoDuration>().is_ok_and(|period| !period.is_negative()) {
            found.value(
                FIELD,
                format_args!("{signal} {period:?}"),
                "must be a duration that is not negative, like 1m30s",
            );
        }
    }
    // 0% and 100% switch a threshold off, so they need no grace period.
    let off = |amount: &str| matches!(amount, "0%" | "100%");
    for (signal, _) in config.eviction_soft.iter().filter(|(_, amount)| !off(amount)) {
        if !config.eviction_soft_grace_period.contains_key(signal) {
            found.value("evictionSoft (--eviction-soft)", signal, format_args!("needs its grace period in {FIELD}"));
        }
    }
}

fn reclaims(config: &KubeletConfiguration, found: &mut Findings) {
    const FIELD: &str = "evictionMinimumReclaim (--eviction-minimum-reclaim)";
    for (signal, amount) in &config.eviction_minimum_reclaim {
        if !is_signal(FIELD, signal, found) {
            continue;
        }
        let valid = match amount.strip_suffix('%') {
            Some(percent) => percent.parse::<f32>().is_ok_and(|percent| percent > 0.0),
            None => matches!(quantity::sign(amount), Some(Ordering::Equal | Ordering::Greater)),
        };
        if !valid {
            let rule = "must be a quantity that is not negative, like 500Mi, or a share above 0%";
            found.value(FIELD, format_args!("{signal} {amount:?}"), rule);
        }
    }
}
