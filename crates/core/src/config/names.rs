//! The node's name (BOOT-03) and labels (CFG-06), validated by the API server's rules, so that an invalid one is reported
//! at start-up and not as a rejected registration.

use std::collections::BTreeMap;

/// A node without a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the node has no name: the host name is empty; set one, or pass --hostname-override")]
pub struct NoNodeName;

/// The name of this node, which is also its `kubernetes.io/hostname` label: the override, else the host's name, without
/// surrounding space and in lower case.
///
/// # Errors
/// [`NoNodeName`] if nothing is left.
// upstream: component-helpers/node/util/hostname.go GetHostname (v1.36). An override of spaces is an error too.
#[doc(alias = "GetHostname")]
pub fn node_name(hostname_override: &str, host_name: &str) -> Result<String, NoNodeName> {
    let name = if hostname_override.is_empty() { host_name } else { hostname_override };
    let name = name.trim();
    if name.is_empty() { Err(NoNodeName) } else { Ok(name.to_lowercase()) }
}

/// Labels in the `kubernetes.io` and `k8s.io` domains that a node may give itself.
/// upstream: kubelet/pkg/apis/well_known_labels.go kubeletLabels (v1.36).
pub const NODE_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Label namespaces in those domains that are free for the node's own use, sub-domains included.
pub const NODE_LABEL_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// What is wrong with one node label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeLabelError {
    /// A reserved label.
    #[error(
        "node label {0:?} is in a reserved domain; a node may set {allowed} and labels in {namespaces}",
        allowed = NODE_LABELS.join(", "),
        namespaces = NODE_LABEL_NAMESPACES.join(" or ")
    )]
    Reserved(String),
    /// Not a key.
    #[error("node label key {0:?} is not valid; {KEY_RULE}")]
    Key(String),
    /// Not a value.
    #[error("node label {key:?} has the value {value:?}, which is not valid; {VALUE_RULE}")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
}

pub(super) const KEY_RULE: &str = "a key is a name of at most 63 letters, digits, '-', '_' and '.', that starts and ends \
     with a letter or digit, after an optional DNS domain and '/'";
pub(super) const VALUE_RULE: &str =
    "a value is empty, or at most 63 letters, digits, '-', '_' and '.', and starts and ends with a letter or digit";

/// Everything that is wrong with `--node-labels` (CFG-06).
#[must_use]
#[doc(alias = "ValidateKubeletFlags")]
pub fn check_node_labels(labels: &BTreeMap<String, String>) -> Vec<NodeLabelError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        if is_reserved(key) {
            errors.push(NodeLabelError::Reserved(key.clone()));
        }
        if !is_qualified_name(key) {
            errors.push(NodeLabelError::Key(key.clone()));
        }
        if !is_label_value(value) {
            errors.push(NodeLabelError::Value { key: key.clone(), value: value.clone() });
        }
    }
    errors
}

fn is_reserved(key: &str) -> bool {
    let Some((namespace, _)) = key.split_once('/') else { return false };
    let kubernetes = ["kubernetes.io", "k8s.io"].iter().any(|domain| within(namespace, domain));
    let own = NODE_LABEL_NAMESPACES.iter().any(|domain| within(namespace, domain));
    kubernetes && !own && !NODE_LABELS.contains(&key)
}

/// Whether a domain is another or a sub-domain of it.
fn within(namespace: &str, domain: &str) -> bool {
    namespace.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// A label or taint key.
pub(super) fn is_qualified_name(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    domain.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_value(name)
}

/// A label or taint value.
pub(super) fn is_label_value(value: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_none_or(|b| b.is_ascii_alphanumeric());
    value.len() <= 63
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && edge(value.bytes().next())
        && edge(value.bytes().next_back())
}

fn is_dns_subdomain(domain: &str) -> bool {
    let label = |label: &str| {
        let edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && edge(label.bytes().next())
            && edge(label.bytes().next_back())
    };
    domain.len() <= 253 && domain.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_a_domain_of_lower_case_labels() {
        let long = format!("{}.{}/a", "a".repeat(126), "b".repeat(126));
        for (key, valid) in [
            ("a", true),
            ("example.com/a", true),
            ("a-1.b/a", true),
            (long.as_str(), true),
            (&format!("x{long}"), false),
            ("-a.b/a", false),
            ("a-.b/a", false),
            ("a..b/a", false),
            ("A.b/a", false),
            ("a_b/a", false),
            ("/a", false),
            ("a/", false),
            ("", false),
        ] {
            assert_eq!(is_qualified_name(key), valid, "{key:?}");
        }
    }
}
