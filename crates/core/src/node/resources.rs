//! Capacity and allocatable resources of the node, and their notation (19.3, NODE-13).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::view::Machine;
use crate::config::Gate;
use crate::resources::{Amount, Amounts, CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, PODS};

/// A threshold or reservation that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}[{name}]: {text:?} is not a quantity or percentage")]
pub struct ThresholdError {
    /// Which field of the configuration.
    pub field: &'static str,
    /// Which resource or signal.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Reservations of the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservations<'a> {
    /// `systemReserved`.
    pub(super) system: &'a BTreeMap<String, String>,
    /// `kubeReserved`.
    pub(super) kube: &'a BTreeMap<String, String>,
    /// `evictionHard`.
    pub(super) eviction_hard: &'a BTreeMap<String, String>,
}

/// The capacity of the machine, and of pods.
/// upstream: cadvisor/util.go CapacityFromMachineInfo; nodestatus/setters.go MachineInfo (v1.36)
pub fn node_capacity(machine: &Machine, pods: i64) -> Amounts {
    let mut capacity = Amounts::new();
    capacity.insert(CPU.to_owned(), Amount::from_millis(machine.cpu_millis));
    capacity.insert(MEMORY.to_owned(), Amount::units(machine.memory_bytes));
    capacity.insert(PODS.to_owned(), Amount::units(pods));
    if let Some(bytes) = machine.storage_bytes {
        capacity.insert(EPHEMERAL_STORAGE.to_owned(), Amount::units(bytes));
    }
    for (size, count) in &machine.hugepages {
        let name = format!("{HUGEPAGES_PREFIX}{}", binary(i64::try_from(*size).unwrap_or(i64::MAX)));
        let bytes = i64::try_from(size.saturating_mul(*count)).unwrap_or(i64::MAX);
        capacity.insert(name, Amount::units(bytes));
    }
    capacity
}

impl Reservations<'_> {
    /// What is kept for the system and for us, by resource (CG-21).
    pub(super) fn for_daemons(&self, capacity: &Amounts) -> Result<Amounts, ThresholdError> {
        let mut sum = Amounts::new();
        for (field, reserved) in [("systemReserved", self.system), ("kubeReserved", self.kube)] {
            for (name, text) in reserved.iter().filter(|(name, _)| capacity.contains_key(*name)) {
                let amount = Amount::parse(text).map_err(|_| error(field, name, text))?;
                let entry = sum.entry(name.clone()).or_default();
                *entry = *entry + amount;
            }
        }
        Ok(sum)
    }

    /// All reservations: system, kube and hard eviction thresholds (CG-20).
    /// upstream: cm/node_container_manager_linux.go GetNodeAllocatableReservation, cm/helpers.go
    /// hardEvictionReservation (v1.36)
    pub(super) fn kept_from_pods(&self, capacity: &Amounts) -> Result<Amounts, ThresholdError> {
        let mut sum = self.for_daemons(capacity)?;
        for (signal, resource) in [("memory.available", MEMORY), ("nodefs.available", EPHEMERAL_STORAGE)] {
            let Some(text) = self.eviction_hard.get(signal) else { continue };
            let Some(all) = capacity.get(resource).copied() else { continue };
            let kept = threshold(text, all).ok_or_else(|| error("evictionHard", signal, text))?;
            let entry = sum.entry(resource.to_owned()).or_default();
            *entry = *entry + kept;
        }
        Ok(sum)
    }
}

fn error(field: &'static str, name: &str, text: &str) -> ThresholdError {
    ThresholdError { field, name: name.to_owned(), text: text.to_owned() }
}

/// `100Mi`, or a share such as `10%`. No threshold at all at `0%` and `100%`.
/// upstream: eviction/helpers.go parseThresholdStatement, eviction/api/types.go GetThresholdQuantity (v1.36)
fn threshold(text: &str, all: Amount) -> Option<Amount> {
    let Some(percent) = text.strip_suffix('%') else { return Amount::parse(text).ok() };
    if matches!(text, "0%" | "100%") {
        return Some(Amount::ZERO);
    }
    // In single precision, as upstream: the share of a disk would else differ in its last digits.
    let share = f64::from(percent.parse::<f32>().ok()? / 100.0);
    if !(0.0..=1.0).contains(&share) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "as upstream: figures beyond 2^53 bytes lose their last digits")]
    let bytes = all.value() as f64 * share;
    #[expect(clippy::cast_possible_truncation, reason = "cut to whole bytes, as upstream")]
    let bytes = bytes as i64;
    Some(Amount::units(bytes))
}

/// What pods may request: capacity less what is reserved, and memory also less its huge pages. Never below nothing.
/// upstream: nodestatus/setters.go MachineInfo (v1.36)
pub fn node_allocatable(capacity: &Amounts, reserved: &Amounts) -> Amounts {
    let less =
        |name: &String, amount: Amount| (amount - reserved.get(name).copied().unwrap_or_default()).not_negative();
    let mut left: Amounts = capacity.iter().map(|(name, amount)| (name.clone(), less(name, *amount))).collect();
    let pages = capacity.iter().filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX));
    let pages = pages.fold(Amount::ZERO, |sum, (_, amount)| sum + *amount);
    if let Some(memory) = left.get_mut(MEMORY) {
        *memory = (*memory - pages).not_negative();
    }
    left
}

/// The limit on all pods together: capacity less what is kept for daemons, with no eviction threshold (CG-21).
/// upstream: cm/node_container_manager_linux.go getNodeAllocatableInternalAbsolute (v1.36)
pub(super) fn pods_limit(capacity: &Amounts, for_daemons: &Amounts) -> Amounts {
    let less =
        |name: &String, amount: Amount| (amount - for_daemons.get(name).copied().unwrap_or_default()).not_negative();
    capacity.iter().map(|(name, amount)| (name.clone(), less(name, *amount))).collect()
}

/// The amount as the API shows that resource: bytes in powers of 1024, all else in powers of 1000.
/// upstream: apimachinery/pkg/api/resource/quantity.go CanonicalizeBytes (v1.36)
pub(super) fn quantity(resource: &str, amount: Amount) -> Quantity {
    let bytes = matches!(resource, MEMORY | EPHEMERAL_STORAGE) || resource.starts_with(HUGEPAGES_PREFIX);
    match (bytes, amount == Amount::units(amount.value())) {
        (true, true) => Quantity(binary(amount.value())),
        (false, true) => Quantity(scaled(amount.value(), 1000, &["k", "M", "G", "T", "P", "E"])),
        (true | false, false) => Quantity::from(amount),
    }
}

fn binary(bytes: i64) -> String {
    scaled(bytes, 1024, &["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

/// With the greatest suffix that is exact.
fn scaled(value: i64, base: i64, suffixes: &[&str]) -> String {
    let mut value = value;
    let mut suffix = "";
    for next in suffixes {
        if value == 0 || value % base != 0 {
            break;
        }
        value /= base;
        suffix = next;
    }
    format!("{value}{suffix}")
}

/// Features that this node declares, in order of name. Each is on with its gate; the one for user namespaces on the
/// host's network also needs support of the runtime, which none has yet.
/// upstream: component-helpers/nodedeclaredfeatures/features (v1.36)
pub fn declared_features(enabled: impl Fn(Gate) -> bool) -> Option<Vec<String>> {
    if !enabled(Gate::NodeDeclaredFeatures) {
        return None;
    }
    // ExtendWebSocketsToKubelet is not among them: sessions are carried to the runtime as they come, and runtimes do not
    // speak the newest WebSocket protocol. Undeclared, the API server translates (HTTP-03).
    let gates = [
        Gate::InPlacePodLevelResourcesVerticalScaling,
        Gate::InPlacePodVerticalScalingInitContainers,
        Gate::RestartAllContainersOnContainerExits,
    ];
    Some(gates.into_iter().filter(|gate| enabled(*gate)).map(|gate| gate.as_str().to_owned()).collect())
}
