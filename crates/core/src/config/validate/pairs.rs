//! Flags whose value is a structure: `--register-with-taints` and `--reserved-memory`.
//!
//! upstream: pkg/util/flag/flags.go, pkg/util/taints/taints.go ParseTaints (v1.36).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::super::names::{is_label_value, is_qualified_name};
use super::super::parts::{MemoryReservation, Taint};
use super::super::quantity;

/// A part of such a value that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part:?} is not valid: {rule}")]
pub struct ParsePairError {
    /// The part.
    pub part: String,
    /// What would be valid.
    pub rule: &'static str,
}

/// Reads `key=value:Effect,key:Effect`. Empty means no taints. Taints to be removed (`key-`) are for kubectl and are
/// dropped, as upstream does.
///
/// # Errors
/// The first part that is not a taint, or that repeats key and effect of another.
pub fn parse_taints(text: &str) -> Result<Vec<Taint>, ParsePairError> {
    const RULE: &str = "write key=value:Effect or key:Effect, with Effect NoSchedule, PreferNoSchedule or NoExecute";
    let mut taints = Vec::new();
    let mut seen = BTreeSet::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let wrong = |rule| ParsePairError { part: part.to_owned(), rule };
        if part.ends_with('-') {
            continue;
        }
        let (pair, effect) = part.split_once(':').ok_or_else(|| wrong(RULE))?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let effect_ok = matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute");
        if !effect_ok || !is_qualified_name(key) || !is_label_value(value) {
            return Err(wrong(RULE));
        }
        if !seen.insert((effect, key)) {
            return Err(wrong("another taint has the same key and effect"));
        }
        taints.push(Taint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
            time_added: None,
        });
    }
    Ok(taints)
}

/// Reads `0:memory=1Gi,hugepages-1M=2Gi;1:memory=2Gi`. Empty means nothing reserved.
///
/// # Errors
/// The first part that is not a reservation.
pub fn parse_reserved_memory(text: &str) -> Result<Vec<MemoryReservation>, ParsePairError> {
    const RULE: &str = "write NUMA:memory=1Gi,hugepages-2Mi=1Gi, and ';' before the next NUMA node";
    let one = |part: &str| {
        let wrong = || ParsePairError { part: part.to_owned(), rule: RULE };
        let (numa, amounts) = part.split_once(':').ok_or_else(wrong)?;
        let mut limits = BTreeMap::new();
        for amount in amounts.split(',') {
            let (kind, amount) = amount.split_once('=').ok_or_else(wrong)?;
            let known = kind == "memory" || kind.starts_with("hugepages-");
            if !known || quantity::sign(amount).is_none() {
                return Err(wrong());
            }
            limits.insert(kind.to_owned(), Quantity(amount.to_owned()));
        }
        Ok(MemoryReservation { numa_node: numa.parse().map_err(|_| wrong())?, limits })
    };
    text.split(';').filter(|_| !text.is_empty()).map(one).collect()
}
