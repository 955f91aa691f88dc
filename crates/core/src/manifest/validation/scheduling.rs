//! Where a pod may run. A static pod is never scheduled, but what it says must be sound all the same.
//!
//! upstream: core/validation/validation.go ValidateTolerations, validateAffinity, validateTopologySpreadConstraints (v1.36)

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, Toleration, TopologySpreadConstraint,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::faults::Faults;
use super::{Context, meta, names, text};
use crate::manifest::field::Path;
use crate::manifest::gates::{Gate, Gates};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn tolerations(tolerations: &[Toleration], gates: &Gates, at: &Path, faults: &mut Faults) {
    for (index, toleration) in tolerations.iter().enumerate() {
        self::toleration(toleration, gates, &at.index(index), faults);
    }
}

fn toleration(toleration: &Toleration, gates: &Gates, at: &Path, faults: &mut Faults) {
    let (key, value) = (text(toleration.key.as_ref()), text(toleration.value.as_ref()));
    let (operator, effect) = (text(toleration.operator.as_ref()), text(toleration.effect.as_ref()));
    if key.is_empty() && operator != "Exists" {
        faults.invalid(&at.child("operator"), operator, "must be Exists when there is no key");
    } else if !key.is_empty() {
        faults.rule(&at.child("key"), key, names::qualified_name(key));
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        faults.invalid(&at.child("effect"), effect, "must be NoExecute when tolerationSeconds is set");
    }
    let comparable = gates.on(Gate::TaintTolerationComparisonOperators);
    match operator {
        "" | "Equal" => faults.rule(&at.child("value"), value, names::label_value(value)),
        "Exists" if !value.is_empty() => faults.invalid(&at.child("value"), value, "must be empty for Exists"),
        "Exists" => {}
        "Lt" | "Gt" if comparable && !is_plain_integer(value) => {
            faults.invalid(&at.child("value"), value, "must be a whole number without leading zeros");
        }
        "Lt" | "Gt" if comparable => {}
        other => faults.unsupported(&at.child("operator"), other, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        faults.one_of(&at.child("effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}

fn is_plain_integer(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    value.parse::<i64>().is_ok() && value != "-0" && (digits == "0" || !digits.starts_with(['0', '+']))
}

pub(super) fn affinity(affinity: &Affinity, at: &Path, faults: &mut Faults) {
    if let Some(node) = &affinity.node_affinity {
        let at = at.child("nodeAffinity");
        if let Some(required) = &node.required_during_scheduling_ignored_during_execution {
            let at = at.child(REQUIRED).child("nodeSelectorTerms");
            if required.node_selector_terms.is_empty() {
                faults.required(&at, "needs at least one term");
            }
            for (index, term) in required.node_selector_terms.iter().enumerate() {
                node_term(term, Values::AreLabels, &at.index(index), faults);
            }
        }
        let preferred = node.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        for (index, term) in preferred.enumerate() {
            let at = at.child(PREFERRED).index(index);
            faults.range(&at.child("weight"), i64::from(term.weight), 1, 100);
            node_term(&term.preference, Values::AreFree, &at.child("preference"), faults);
        }
    }
    if let Some(pod) = &affinity.pod_affinity {
        let required = pod.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = pod.preferred_during_scheduling_ignored_during_execution.as_deref();
        pod_terms(required.unwrap_or_default(), preferred.unwrap_or_default(), &at.child("podAffinity"), faults);
    }
    if let Some(pod) = &affinity.pod_anti_affinity {
        let required = pod.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = pod.preferred_during_scheduling_ignored_during_execution.as_deref();
        pod_terms(required.unwrap_or_default(), preferred.unwrap_or_default(), &at.child("podAntiAffinity"), faults);
    }
}

/// Whether the values of a node term are held to the rules of label values.
#[derive(Clone, Copy)]
enum Values {
    AreLabels,
    AreFree,
}

fn node_term(term: &NodeSelectorTerm, values: Values, at: &Path, faults: &mut Faults) {
    for (index, requirement) in term.match_expressions.iter().flatten().enumerate() {
        node_label(requirement, values, &at.child("matchExpressions").index(index), faults);
    }
    for (index, requirement) in term.match_fields.iter().flatten().enumerate() {
        node_field(requirement, &at.child("matchFields").index(index), faults);
    }
}

fn node_label(requirement: &NodeSelectorRequirement, values: Values, at: &Path, faults: &mut Faults) {
    let given = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "Gt" | "Lt" if given.len() != 1 => faults.required(&at.child("values"), "Gt and Lt need exactly one value"),
        "Gt" | "Lt" => {}
        _ => operator(&requirement.operator, given, at, faults),
    }
    faults.rule(&at.child("key"), &requirement.key, names::qualified_name(&requirement.key));
    if let Values::AreLabels = values {
        label_values(given, at, faults);
    }
}

fn node_field(requirement: &NodeSelectorRequirement, at: &Path, faults: &mut Faults) {
    let given = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if given.len() == 1 => {}
        "In" | "NotIn" => faults.required(&at.child("values"), "a field needs exactly one value"),
        other => faults.invalid(&at.child("operator"), other, "must be In or NotIn"),
    }
    if requirement.key != "metadata.name" {
        return faults.invalid(&at.child("key"), &requirement.key, "only metadata.name can be selected");
    }
    for (index, value) in given.iter().enumerate() {
        faults.rule(&at.child("values").index(index), value, names::dns_subdomain(value));
    }
}

/// The operators that node and label selectors share.
fn operator(operator: &str, values: &[String], at: &Path, faults: &mut Faults) {
    match operator {
        "In" | "NotIn" if values.is_empty() => faults.required(&at.child("values"), "In and NotIn need values"),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            faults.forbidden(&at.child("values"), "Exists and DoesNotExist have no values");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => faults.invalid(&at.child("operator"), other, "is not an operator"),
    }
}

fn label_values(values: &[String], at: &Path, faults: &mut Faults) {
    for (index, value) in values.iter().enumerate() {
        faults.rule(&at.child("values").index(index), value, names::label_value(value));
    }
}

fn pod_terms(required: &[PodAffinityTerm], preferred: &[WeightedPodAffinityTerm], at: &Path, faults: &mut Faults) {
    for (index, term) in required.iter().enumerate() {
        pod_term(term, &at.child(REQUIRED).index(index), faults);
    }
    for (index, term) in preferred.iter().enumerate() {
        let at = at.child(PREFERRED).index(index);
        faults.range(&at.child("weight"), i64::from(term.weight), 1, 100);
        pod_term(&term.pod_affinity_term, &at.child("podAffinityTerm"), faults);
    }
}

fn pod_term(term: &PodAffinityTerm, at: &Path, faults: &mut Faults) {
    let selector = term.label_selector.as_ref();
    label_selector(selector, &at.child("labelSelector"), faults);
    label_selector(term.namespace_selector.as_ref(), &at.child("namespaceSelector"), faults);
    // upstream's path, without the `s` and the index
    for namespace in term.namespaces.iter().flatten() {
        faults.rule(&at.child("namespace"), namespace, names::dns_label(namespace));
    }
    let mismatch = term.mismatch_label_keys.as_deref().unwrap_or_default();
    label_keys(term.match_label_keys.as_deref().unwrap_or_default(), mismatch, selector, at, faults);
    faults.required_text(&at.child("topologyKey"), &term.topology_key);
    faults.rule(&at.child("topologyKey"), &term.topology_key, names::qualified_name(&term.topology_key));
}

fn label_selector(selector: Option<&LabelSelector>, at: &Path, faults: &mut Faults) {
    let Some(selector) = selector else { return };
    meta::labels(selector.match_labels.as_ref(), &at.child("matchLabels"), faults);
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        label_requirement(requirement, &at.child("matchExpressions").index(index), faults);
    }
}

fn label_requirement(requirement: &LabelSelectorRequirement, at: &Path, faults: &mut Faults) {
    let values = requirement.values.as_deref().unwrap_or_default();
    operator(&requirement.operator, values, at, faults);
    faults.rule(&at.child("key"), &requirement.key, names::qualified_name(&requirement.key));
    label_values(values, at, faults);
}

/// Keys whose values are taken from the pod itself, and become part of the selector.
fn label_keys(
    matching: &[String],
    mismatching: &[String],
    selector: Option<&LabelSelector>,
    at: &Path,
    faults: &mut Faults,
) {
    for (name, keys) in [("matchLabelKeys", matching), ("mismatchLabelKeys", mismatching)] {
        let at = at.child(name);
        if !keys.is_empty() && selector.is_none() {
            faults.forbidden(&at, "needs a labelSelector");
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            faults.rule(&at.index(index), key, names::qualified_name(key));
        }
    }
    let at = at.child("matchLabelKeys");
    // Upstream merges the keys into the selector first; a key is there twice only if the author wrote it, too.
    let mut seen: BTreeSet<&str> = selector
        .iter()
        .flat_map(|selector| selector.match_labels.iter().flatten())
        .map(|(key, _)| key.as_str())
        .collect();
    let expressions = selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten());
    for expression in expressions {
        let twice = !seen.insert(&expression.key);
        if let (true, Some(index)) = (twice, matching.iter().rposition(|key| *key == expression.key)) {
            faults.invalid(&at.index(index), &expression.key, "is in the labelSelector, too");
        }
    }
    for (index, key) in matching.iter().enumerate().filter(|(_, key)| mismatching.contains(key)) {
        faults.invalid(&at.index(index), key, "is in mismatchLabelKeys, too");
    }
}

pub(super) fn spread(context: &Context<'_>, all: &[TopologySpreadConstraint], at: &Path, faults: &mut Faults) {
    for (index, constraint) in all.iter().enumerate() {
        let at = at.index(index);
        self::constraint(context, constraint, &at, faults);
        let same = |other: &&TopologySpreadConstraint| {
            other.topology_key == constraint.topology_key && other.when_unsatisfiable == constraint.when_unsatisfiable
        };
        if all.iter().skip(index + 1).any(|other| same(&other)) {
            faults.duplicate(&at, format!("{}, {}", constraint.topology_key, constraint.when_unsatisfiable));
        }
    }
}

fn constraint(context: &Context<'_>, constraint: &TopologySpreadConstraint, at: &Path, faults: &mut Faults) {
    faults.range(&at.child("maxSkew"), i64::from(constraint.max_skew), 1, i64::from(i32::MAX));
    faults.required_text(&at.child("topologyKey"), &constraint.topology_key);
    let action = constraint.when_unsatisfiable.as_str();
    faults.one_of(&at.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
    if let Some(domains) = constraint.min_domains {
        let at = at.child("minDomains");
        faults.range(&at, i64::from(domains), 1, i64::from(i32::MAX));
        if action != "DoNotSchedule" {
            faults.invalid(&at, domains, "needs whenUnsatisfiable: DoNotSchedule");
        }
    }
    for (name, policy) in
        [("nodeAffinityPolicy", &constraint.node_affinity_policy), ("nodeTaintsPolicy", &constraint.node_taints_policy)]
    {
        if let Some(policy) = policy {
            faults.one_of(&at.child(name), policy, &["Honor", "Ignore"]);
        }
    }
    let selector = constraint.label_selector.as_ref();
    let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
    let merged = context.on(Gate::MatchLabelKeysInPodTopologySpread)
        && context.on(Gate::MatchLabelKeysInPodTopologySpreadSelectorMerge);
    if merged {
        label_keys(keys, &[], selector, at, faults);
    } else {
        unmerged_label_keys(keys, selector, &at.child("matchLabelKeys"), faults);
    }
    label_selector(selector, &at.child("labelSelector"), faults);
}

fn unmerged_label_keys(keys: &[String], selector: Option<&LabelSelector>, at: &Path, faults: &mut Faults) {
    if !keys.is_empty() && selector.is_none() {
        faults.forbidden(at, "needs a labelSelector");
    }
    let in_selector = |key: &String| {
        selector.is_some_and(|selector| {
            selector.match_labels.as_ref().is_some_and(|labels| labels.contains_key(key))
                || selector.match_expressions.iter().flatten().any(|expression| expression.key == *key)
        })
    };
    for (index, key) in keys.iter().enumerate() {
        faults.rule(&at.index(index), key, names::qualified_name(key));
        if in_selector(key) {
            faults.invalid(&at.index(index), key, "is in the labelSelector, too");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // upstream: apis/core/validation ValidateTolerations, validation.IsDecimalInteger (v1.36)
    #[test]
    fn an_integer_is_written_without_leading_zeros_and_plus() {
        for (text, plain) in [
            ("0", true),
            ("7", true),
            ("10", true),
            ("-7", true),
            ("-0", false),
            ("00", false),
            ("07", false),
            ("-07", false),
            ("+7", false),
            ("-+7", false),
            ("", false),
            ("-", false),
            ("x", false),
            ("1.5", false),
            ("99999999999999999999", false),
        ] {
            assert_eq!(is_plain_integer(text), plain, "{text:?}");
        }
    }
}
