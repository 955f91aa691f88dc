//! Whether a pod's node selector and required node affinity accept this node (ADM-05).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod};

use crate::pod::PodExt;

/// upstream: component-helpers/scheduling/corev1/nodeaffinity Match (v1.36)
pub(super) fn matches_node(pod: &Pod, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let Some(spec) = pod.pod_spec() else { return true };
    if !spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    match affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref()) {
        None => true,
        Some(required) => required.node_selector_terms.iter().any(|term| matches_term(term, name, labels)),
    }
}

/// A term without requirements matches no node.
fn matches_term(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |key: &str| (key == "metadata.name").then_some(name);
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|wanted| matches(wanted, labels.get(&wanted.key).map(String::as_str)))
        && fields.iter().all(|wanted| matches(wanted, field(&wanted.key)))
}

fn matches(wanted: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let listed = |found: &str| values.iter().any(|value| value == found);
    let number = |text: &str| text.parse::<i64>().ok();
    let against = found.and_then(number).zip(values.first().and_then(|value| number(value)));
    match wanted.operator.as_str() {
        "In" => found.is_some_and(listed),
        "NotIn" => !found.is_some_and(listed),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => against.is_some_and(|(found, value)| found > value),
        "Lt" => against.is_some_and(|(found, value)| found < value),
        _ => false,
    }
}
