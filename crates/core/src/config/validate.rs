//! Validates a configuration and returns all findings at once: each names the field, its value and what would be valid.
//!
//! Upstream makes some of these checks when a subsystem starts (eviction thresholds, reservations, TLS names). They are
//! made here instead, so that a node that cannot start reports every reason at once.
//!
//! upstream: apis/config/validation/validation.go ValidateKubeletConfiguration (v1.36); behaviours: CFG-07, BOOT-08.

mod amounts;
mod limits;
mod node;
mod pairs;
mod shutdown;
mod tls;

#[cfg(test)]
mod tests;

use std::fmt;

use super::gates::FeatureGates;
use super::kubelet::KubeletConfiguration;
pub use crate::qos::CgroupVersion;

pub use pairs::{ParsePairError, parse_reserved_memory, parse_taints};

/// One error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}{}: {rule}", .value.as_ref().map(|value| format!(" {value}")).unwrap_or_default())]
pub struct Invalid {
    /// The field, as a dotted path in the file's spelling, with its flag if it has one.
    pub field: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// What would be valid.
    pub rule: String,
}

/// All errors of a configuration on this kind of host; empty if it is valid.
#[must_use]
#[doc(alias = "ValidateKubeletConfiguration")]
pub fn validate(config: &KubeletConfiguration, host: CgroupVersion) -> Vec<Invalid> {
    let mut found = Findings::default();
    let gates = match FeatureGates::new(&config.feature_gates) {
        Ok(gates) => gates,
        Err(errors) => {
            for error in errors {
                found.say("featureGates (--feature-gates)", error);
            }
            FeatureGates::lenient(&config.feature_gates)
        }
    };
    limits::check(config, &gates, &mut found);
    node::check(config, &gates, host, &mut found);
    shutdown::check(config, &gates, &mut found);
    amounts::check(config, &mut found);
    tls::check(config, &mut found);
    found.0
}

/// Collects findings.
#[derive(Default)]
struct Findings(Vec<Invalid>);

impl Findings {
    /// A field whose value breaks a rule.
    fn value(&mut self, field: &str, value: impl fmt::Display, rule: impl fmt::Display) {
        self.0.push(Invalid { field: field.to_owned(), value: Some(value.to_string()), rule: rule.to_string() });
    }

    /// A field that breaks a rule, without its value.
    fn say(&mut self, field: &str, rule: impl fmt::Display) {
        self.0.push(Invalid { field: field.to_owned(), value: None, rule: rule.to_string() });
    }

    /// A number that must lie between two others.
    fn range(&mut self, field: &str, value: i64, low: i64, high: i64) {
        if !(low..=high).contains(&value) {
            self.value(field, value, format_args!("must be between {low} and {high}"));
        }
    }

    /// A number that must not lie below another.
    fn at_least(&mut self, field: &str, value: i64, low: i64) {
        if value < low {
            self.value(field, value, format_args!("must be {low} or more"));
        }
    }
}
