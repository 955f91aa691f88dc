//! Feature gates: their defaults, which are on, and the validation of changes.
//!
//! `FeatureGates` is a value, built once from flags and file and passed as an argument. Code that depends on a gate gets a
//! policy that was derived from it at start-up.
//!
//! upstream: component-base/featuregate/feature_gate.go (v1.36); behaviours: GATE-01.

use std::collections::{BTreeMap, BTreeSet};

use super::nearest::nearest;

/// How mature a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateStage {
    /// Off by default; may be removed.
    Alpha,
    /// Mostly on; may still change.
    Beta,
    /// Done; the gate will be removed.
    Ga,
    /// An escape hatch back to old behaviour; the gate will be removed.
    Deprecated,
}

impl GateStage {
    /// The spelling in help texts and in the label of `kubernetes_feature_enabled`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// Defines the enum of all gates and its table from one list.
macro_rules! gates {
    (@locked) => { false };
    (@locked locked) => { true };
    ($($name:ident: $stage:ident, $default:literal $(, $locked:ident)?;)+) => {
        /// A feature gate by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Gate {
            $(
                #[doc = concat!("`", stringify!($name), "`, as spelled in files and flags.")]
                $name,
            )+
        }

        impl Gate {
            /// Every gate, in the order of its name.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The name in files, flags and metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// How mature the feature is.
            #[must_use]
            pub const fn stage(self) -> GateStage {
                match self { $(Self::$name => GateStage::$stage,)+ }
            }

            /// Whether the feature is on by default.
            #[must_use]
            pub const fn on_by_default(self) -> bool {
                match self { $(Self::$name => $default,)+ }
            }

            /// Whether the default is the only value.
            #[must_use]
            pub const fn locked(self) -> bool {
                match self { $(Self::$name => gates!(@locked $($locked)?),)+ }
            }
        }
    };
}

mod table;
#[cfg(test)]
mod tests;

use table::DEPENDENCIES;
pub use table::Gate;

/// Sets every alpha gate that is not set by name.
const ALL_ALPHA: &str = "AllAlpha";
/// Sets every beta gate that is not set by name.
const ALL_BETA: &str = "AllBeta";

impl Gate {
    /// The gate of this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.binary_search_by(|gate| gate.as_str().cmp(name)).ok().and_then(|at| Self::ALL.get(at).copied())
    }
}

/// Why a gate cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// There is no such gate.
    #[error("unrecognized feature gate: {name}{}", .nearest.map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    Unknown {
        /// The name given.
        name: String,
        /// The gate it was probably meant to be.
        nearest: Option<&'static str>,
    },
    /// The gate is locked to its default.
    #[error("cannot set feature gate {} to {value}, feature is locked to {}", .gate.as_str(), .gate.on_by_default())]
    Locked {
        /// The gate.
        gate: Gate,
        /// The requested value.
        value: bool,
    },
    /// The gate is on while one that it needs is off.
    #[error("{} is enabled, but depends on features that are disabled: {}", .gate.as_str(), names(.off))]
    NeedsOthers {
        /// The gate that is on.
        gate: Gate,
        /// Those it needs that are off.
        off: Vec<Gate>,
    },
}

fn names(gates: &[Gate]) -> String {
    gates.iter().map(|gate| gate.as_str()).collect::<Vec<_>>().join(", ")
}

/// Which features are on, for every gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// Only the gates that were set, by name or through `AllAlpha` and `AllBeta`.
    set: BTreeMap<Gate, bool>,
    umbrellas: BTreeSet<&'static str>,
}

impl FeatureGates {
    /// The gates as set in a file and flags, or all errors.
    ///
    /// # Errors
    /// Every unknown name, every locked gate, and, if there are none of those, every unmet dependency.
    pub fn new(wishes: &BTreeMap<String, bool>) -> Result<Self, Vec<GateError>> {
        let mut errors = Vec::new();
        for (name, &value) in wishes {
            match Gate::from_name(name) {
                Some(gate) if gate.locked() && value != gate.on_by_default() => {
                    errors.push(GateError::Locked { gate, value });
                }
                None if name != ALL_ALPHA && name != ALL_BETA => {
                    let known = Gate::ALL.iter().map(|gate| gate.as_str()).chain([ALL_ALPHA, ALL_BETA]);
                    errors.push(GateError::Unknown { name: name.clone(), nearest: nearest(name, known) });
                }
                Some(_) | None => {}
            }
        }
        let gates = Self::lenient(wishes);
        if errors.is_empty() {
            errors = gates.unmet_dependencies();
        }
        if errors.is_empty() { Ok(gates) } else { Err(errors) }
    }

    /// The gates as set, ignoring invalid settings. For defaults that depend on gates before these are validated.
    #[must_use]
    pub fn lenient(wishes: &BTreeMap<String, bool>) -> Self {
        let mut gates = Self::default();
        for (umbrella, stage) in [(ALL_ALPHA, GateStage::Alpha), (ALL_BETA, GateStage::Beta)] {
            if let Some(&value) = wishes.get(umbrella) {
                gates.set.extend(Gate::ALL.iter().filter(|gate| gate.stage() == stage).map(|gate| (*gate, value)));
                if value {
                    gates.umbrellas.insert(umbrella);
                }
            }
        }
        let named = wishes.iter().filter_map(|(name, &value)| Gate::from_name(name).map(|gate| (gate, value)));
        gates.set.extend(named.filter(|(gate, _)| !gate.locked()));
        gates
    }

    /// Whether the feature is on.
    #[must_use]
    pub fn enabled(&self, gate: Gate) -> bool {
        self.set.get(&gate).copied().unwrap_or(gate.on_by_default())
    }

    /// Every gate for the metric `kubernetes_feature_enabled`: name, stage, on. It includes the two umbrella keys, as
    /// upstream.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, GateStage, bool)> + '_ {
        let umbrellas = [(ALL_ALPHA, GateStage::Alpha), (ALL_BETA, GateStage::Beta)];
        let umbrellas = umbrellas.into_iter().map(|(name, stage)| (name, stage, self.umbrellas.contains(name)));
        umbrellas.chain(Gate::ALL.iter().map(|gate| (gate.as_str(), gate.stage(), self.enabled(*gate))))
    }

    fn unmet_dependencies(&self) -> Vec<GateError> {
        let unmet = |&(gate, needs): &(Gate, &[Gate])| {
            let off: Vec<Gate> = needs.iter().copied().filter(|need| !self.enabled(*need)).collect();
            (self.enabled(gate) && !off.is_empty()).then_some(GateError::NeedsOthers { gate, off })
        };
        DEPENDENCIES.iter().filter_map(unmet).collect()
    }
}

/// Warnings about gates that will be removed: one line per gate that is set and is GA or deprecated.
#[must_use]
pub fn gate_warnings(wishes: &BTreeMap<String, bool>) -> Vec<String> {
    let line = |(name, value): (&String, &bool)| {
        let stage = match Gate::from_name(name)?.stage() {
            GateStage::Ga => "GA",
            GateStage::Deprecated => "deprecated",
            GateStage::Alpha | GateStage::Beta => return None,
        };
        Some(format!("setting {stage} feature gate {name}={value}; the gate will be removed in a future release"))
    };
    wishes.iter().filter_map(line).collect()
}

/// The gates in the help text: those that are alpha or beta.
#[doc(alias = "KnownFeatures")]
pub fn known_features() -> impl Iterator<Item = String> {
    let umbrellas = [(ALL_ALPHA, GateStage::Alpha, false), (ALL_BETA, GateStage::Beta, false)];
    let gates = Gate::ALL.iter().map(|gate| (gate.as_str(), gate.stage(), gate.on_by_default()));
    umbrellas
        .into_iter()
        .chain(gates)
        .filter(|(_, stage, _)| matches!(stage, GateStage::Alpha | GateStage::Beta))
        .map(|(name, stage, default)| format!("{name}=true|false ({} - default={default})", stage.as_str()))
}
