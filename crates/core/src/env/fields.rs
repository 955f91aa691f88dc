//! `fieldRef` and `resourceFieldRef` (ENV-05).

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector};

use super::{EnvError, EnvView};
use crate::pod::PodExt;
use crate::resources::{
    Amount, Amounts, CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, amounts, has_pod_level_resources,
    is_pod_level_resource,
};

/// The value of a field of the pod.
///
/// upstream: kubelet_pods.go podFieldSelectorRuntimeValue, pkg/fieldpath/fieldpath.go (v1.36)
#[doc(alias = "podFieldSelectorRuntimeValue")]
pub fn field_value(pod: &Pod, view: &EnvView<'_>, field: &ObjectFieldSelector) -> Result<String, EnvError> {
    let version = field.api_version.as_deref().unwrap_or("v1");
    if version != "v1" {
        return Err(EnvError::Field(format!("unsupported pod version: {version}")));
    }
    let path = field.field_path.as_str();
    let (meta, spec) = (&pod.metadata, pod.pod_spec());
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    let join = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    if let Some((map, key)) = subscript(path) {
        return match map {
            "metadata.annotations" => key_value(path, key, meta.annotations.as_ref(), &key.to_lowercase()),
            "metadata.labels" => key_value(path, key, meta.labels.as_ref(), key),
            _ => Err(EnvError::Field(format!("field label does not support subscript: {path}"))),
        };
    }
    // A pod on the node's network has no address from the runtime, but those of the node.
    // upstream: kubelet.go SyncPod takes them from generateAPIPodStatus (v1.36)
    let pod_ips = sorted_ips(if pod.host_network() { view.host_ips } else { view.pod_ips }, view.host_ips);
    match path {
        "metadata.name" => Ok(text(meta.name.as_ref())),
        "metadata.namespace" => Ok(text(meta.namespace.as_ref())),
        "metadata.uid" => Ok(text(meta.uid.as_ref())),
        "metadata.labels" => Ok(format_map(meta.labels.as_ref())),
        "metadata.annotations" => Ok(format_map(meta.annotations.as_ref())),
        "spec.nodeName" | "spec.host" => Ok(text(spec.and_then(|s| s.node_name.as_ref()))),
        "spec.serviceAccountName" => Ok(text(spec.and_then(|s| s.service_account_name.as_ref()))),
        "status.hostIP" => Ok(view.host_ips.first().map(ToString::to_string).unwrap_or_default()),
        "status.hostIPs" => Ok(join(view.host_ips)),
        "status.podIP" => Ok(pod_ips.first().map(ToString::to_string).unwrap_or_default()),
        "status.podIPs" => Ok(join(&pod_ips)),
        "spec.restartPolicy" | "spec.schedulerName" | "status.phase" => {
            Err(EnvError::Field(format!("unsupported fieldPath: {path}")))
        }
        _ => Err(EnvError::Field(format!("field label not supported: {path}"))),
    }
}

/// One address per family, that of the node's primary family first.
///
/// upstream: kubelet_pods.go sortPodIPs (v1.36)
#[doc(alias = "sortPodIPs")]
pub fn sorted_ips(pod_ips: &[IpAddr], host_ips: &[IpAddr]) -> Vec<IpAddr> {
    let v6_first = host_ips.first().is_some_and(IpAddr::is_ipv6);
    let of = |v6: bool| pod_ips.iter().find(move |ip| ip.is_ipv6() == v6).copied();
    of(v6_first).into_iter().chain(of(!v6_first)).collect()
}

/// A request or limit of a container, in units of the divisor, rounded up. A missing limit is replaced by that of the pod,
/// then by the allocatable amount of the node.
///
/// upstream: kubelet_resources.go defaultPodLimitsForDownwardAPI, pkg/api/v1/resource/helpers.go (v1.36)
#[doc(alias = "containerResourceRuntimeValue")]
pub fn resource_value(
    pod: &Pod,
    container: &Container,
    allocatable: &Amounts,
    field: &ResourceFieldSelector,
) -> Result<String, EnvError> {
    let (container, defaulted) = match field.container_name.as_deref().filter(|name| !name.is_empty()) {
        None => (container, true),
        Some(name) => {
            // Missing limits of another container are replaced only if it is a regular one.
            let regular = pod.regular().iter().find(|c| c.name == name).map(|c| (c, true));
            let found = regular.or_else(|| pod.init().iter().find(|c| c.name == name).map(|c| (c, false)));
            found.ok_or_else(|| EnvError::Resource(format!("container {name} not found")))?
        }
    };
    let unsupported = || EnvError::Resource(format!("unsupported container resource : {}", field.resource));
    let (list, name) = field.resource.split_once('.').ok_or_else(unsupported)?;
    if ![CPU, MEMORY, EPHEMERAL_STORAGE].contains(&name) && !name.starts_with(HUGEPAGES_PREFIX) {
        return Err(unsupported());
    }
    let own = container.resources.as_ref();
    let get = |list: &Amounts| list.get(name).copied();
    let amount = match list {
        "requests" => get(&amounts(own.and_then(|r| r.requests.as_ref()))),
        "limits" => {
            let limit = get(&amounts(own.and_then(|r| r.limits.as_ref())));
            let lacks = limit.is_none_or(Amount::is_zero) && !name.starts_with(HUGEPAGES_PREFIX);
            if lacks && defaulted { default_limit(pod, allocatable, name).or(limit) } else { limit }
        }
        _ => return Err(unsupported()),
    };
    let amount = amount.unwrap_or_default();
    let divisor = field.divisor.as_ref().map(Amount::of).filter(|d| !d.is_zero()).unwrap_or(Amount::units(1));
    let in_units = |amount: Amount| if name == CPU { amount.millis() } else { amount.value() };
    let (whole, by) = (in_units(amount), in_units(divisor).max(1));
    Ok((whole / by + i64::from(whole % by > 0)).to_string())
}

fn default_limit(pod: &Pod, allocatable: &Amounts, name: &str) -> Option<Amount> {
    let offered = allocatable.get(name).copied()?;
    let own = pod.pod_spec().and_then(|spec| spec.resources.as_ref()).filter(|_| has_pod_level_resources(pod));
    let own = amounts(own.and_then(|r| r.limits.as_ref()));
    let own = own.get(name).copied().filter(|limit| is_pod_level_resource(name) && !limit.is_zero());
    Some(own.unwrap_or(offered))
}

/// `map['key']` as (`map`, `key`).
#[doc(alias = "SplitMaybeSubscriptedPath")]
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}

fn key_value(path: &str, key: &str, map: Option<&BTreeMap<String, String>>, checked: &str) -> Result<String, EnvError> {
    if !is_qualified_name(checked) {
        return Err(EnvError::Field(format!("invalid key subscript in {path}: not a qualified name")));
    }
    Ok(map.and_then(|map| map.get(key)).cloned().unwrap_or_default())
}

/// `prefix/name` or `name`, as keys of labels and annotations are.
fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let named = |text: &str, max: usize| {
        text.len() <= max && edge(text.chars().next()) && edge(text.chars().next_back()) && text.chars().all(inner)
    };
    named(name, 63) && prefix.is_none_or(|prefix| named(prefix, 253))
}

/// Each entry on a line of its own: `key="value"`.
#[doc(alias = "FormatMap")]
fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    // ENV-05; upstream: apimachinery validation_test.go TestIsQualifiedName (v1.36)
    #[test]
    fn env_05_a_key_is_a_name_with_an_optional_prefix() {
        let long = |len: usize| "a".repeat(len);
        for (text, valid) in [
            ("a".to_owned(), true),
            ("a-B_c.9".to_owned(), true),
            ("example.com/a".to_owned(), true),
            (long(63), true),
            (long(64), false),
            (format!("{}/a", long(253)), true),
            (format!("{}/a", long(254)), false),
            ("-a".to_owned(), false),
            ("a-".to_owned(), false),
            ("a b".to_owned(), false),
            (String::new(), false),
            ("/a".to_owned(), false),
            ("a/".to_owned(), false),
            ("-a/b".to_owned(), false),
            ("a-/b".to_owned(), false),
            ("a b/c".to_owned(), false),
            ("a/b/c".to_owned(), false),
        ] {
            assert_eq!(is_qualified_name(&text), valid, "{text:?}");
        }
    }
}
