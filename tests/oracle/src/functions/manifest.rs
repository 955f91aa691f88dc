//! Static pods: from a manifest to a pod of this node, with its defaults, its name and its UID, or to what is wrong with it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use rubelet_core::manifest::quantity::Quantity;
use rubelet_core::manifest::{FieldError, Gates, ManifestError, Origin, static_pod};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::manifest;
use crate::function::{Function, read};
use crate::rng::Rng;
use crate::text;

/// Gates that validation and defaulting ask about, in sets that may be changed together, and what they are changed to.
const GATES: [(&[&str], bool); 13] = [
    (&["ContainerRestartRules", "RestartAllContainersOnContainerExits"], false),
    (&["RestartAllContainersOnContainerExits"], false),
    (&["EnvFiles"], false),
    (&["InPlacePodLevelResourcesVerticalScaling"], false),
    (&["InPlacePodLevelResourcesVerticalScaling", "PodLevelResources"], false),
    (&["MatchLabelKeysInPodTopologySpread", "MatchLabelKeysInPodTopologySpreadSelectorMerge"], false),
    (&["MatchLabelKeysInPodTopologySpreadSelectorMerge"], false),
    (&["PodDeletionCost"], false),
    (&["PreventStaticPodAPIReferences"], false),
    (&["StrictIPCIDRValidation"], false),
    (&["SELinuxMount"], true),
    (&["TaintTolerationComparisonOperators"], true),
    (&["UserNamespacesHostNetworkSupport"], true),
];

/// Where upstream's path is not that of the manifest: a piece of a path, and what stands for it on both sides.
const PATHS: [(&str, &str); 20] = [
    ("downwardAPI.items", "downwardAPI"),
    ("downwarAPI", "downwardAPI"),
    ("httpHeaders.name", "httpHeaders"),
    ("resizePolicy.resourceName", "resizePolicy"),
    ("resizePolicy.restartPolicy", "resizePolicy"),
    ("dnsConfig.options.name", "dnsConfig.options"),
    ("spec.os.name", "spec.os"),
    ("spec.HostPID", "spec.hostPID"),
    ("spec.HostIPC", "spec.hostIPC"),
    ("spec.securityContext.shareProcessNamespace", "spec.shareProcessNamespace"),
    ("spec.securityContext.hostUsers", "spec.hostUsers"),
    ("spec.resources.containers.limits", "spec.containers.resources.limits"),
    ("spec.tolerations.value", "spec.tolerations.operator"),
    ("cephFS", "cephfs"),
    ("volumes.persistentDisk", "volumes.gcePersistentDisk"),
    ("initiatorname", "initiatorName"),
    ("csi.nodePublishSecretRef.name", "csi.name"),
    ("projected.sources.serviceAccountToken.path", "projected.path"),
    ("projected.sources.downwardAPI.path Invalid value", "projected Invalid value"),
    (".{topologyKey, whenUnsatisfiable}", ""),
];
/// How a time with a fraction of a second ends in manifests of `words`.
const FRACTION: &str = ".5Z\"";
/// What is not validated here: a static pod may not have it, whatever it says.
const REFUSED_ANYHOW: [&str; 4] = [
    "spec.ephemeralContainers.",
    "spec.volumes.ephemeral.",
    "spec.volumes.projected.sources.clusterTrustBundle",
    "spec.volumes.projected.sources.podCertificate",
];

/// upstream: `config/common.go` `tryDecodeSinglePod`, `applyDefaults` (v1.36)
pub(super) struct StaticPod;

#[derive(Deserialize)]
struct Case {
    manifest: Value,
    /// Whether the manifest is read as YAML, which has other numbers than JSON.
    #[serde(default)]
    yaml: bool,
    source: String,
    #[serde(default)]
    file: bool,
    node: String,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
}

impl Function for StaticPod {
    fn name(&self) -> &'static str {
        "tryDecodeSinglePod"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["SRC-05", "SRC-06"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        case(rng, |rng| manifest::pod(rng, size))
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let Case { manifest, yaml, source, file, node, gates } = read(case)?;
        let origin = if file { Origin::File(source) } else { Origin::Url(source) };
        let text = format!("{}{manifest}", if yaml { "--- " } else { "" });
        let Ok(text::Text { value, .. }) = text::parse(text.as_bytes()) else {
            return Ok(json!({ "malformed": true }));
        };
        match static_pod(&value, &origin, &node, &in_force(&gates)) {
            Ok(made) => Ok(json!({ "pod": printed(&made.pod)? })),
            Err(refusal) => Ok(refused(&refusal)),
        }
    }

    fn adjust(&self, case: &Value, theirs: &mut Value) -> Vec<&'static str> {
        without_zeros(theirs);
        let Some(faults) = theirs.get("invalid").and_then(Value::as_array) else { return Vec::new() };
        let faults: Vec<String> = faults.iter().filter_map(Value::as_str).map(path_of_both).collect();
        let manifest = case["manifest"].to_string();
        let unread = ["\"clusterTrustBundle\"", "\"podCertificate\""].iter().any(|name| manifest.contains(name));
        if unread || faults.iter().any(|fault| REFUSED_ANYHOW.iter().any(|path| fault.starts_with(path))) {
            *theirs = Value::Null;
            return vec!["what a static pod may not have is not validated"];
        }
        *theirs = invalid(faults.into_iter());
        Vec::new()
    }

    fn incomparable(&self, case: &Value) -> Option<&'static str> {
        let (spec, text) = (&case["manifest"]["spec"], case["manifest"].to_string());
        if spec["os"]["name"] == "windows" || text.contains("\"windowsOptions\"") {
            Some("rules for pods of Windows are not checked")
        } else if spec["resources"]["claims"] == json!([]) {
            Some("an empty list of claims of the pod counts as absent")
        } else if has_amount(&case["manifest"], &|_, amount| amount.is_null()) {
            Some("an amount that is null is hashed as one that is 0")
        } else if has_amount(&case["manifest"], &|name, amount| !name.starts_with("hugepages-") && is_beyond(amount)) {
            Some("whether an amount is whole is decided exactly, where upstream's arithmetic overflows")
        } else if text.contains("\"nodeAllocatableResourceClaimStatuses\"") {
            Some("a map that the API requires and a manifest's status does not have is hashed as an empty one")
        } else if spec["volumes"].as_array().into_iter().flatten().any(|volume| is_without_secret(&volume["scaleIO"])) {
            Some("a scaleIO volume without secretRef is hashed as one whose secretRef is empty")
        } else if text.contains(FRACTION) {
            Some("a time is hashed to the second")
        } else {
            None
        }
    }
}

fn case(rng: &mut Rng, manifest: impl Fn(&mut Rng) -> Value) -> Value {
    let mut gates = Map::new();
    if rng.chance(25) {
        let (names, on) = rng.pick(&GATES);
        gates.extend(names.iter().map(|name| ((*name).to_owned(), Value::from(*on))));
    }
    json!({
        "manifest": manifest(rng),
        "yaml": rng.chance(30),
        "source": rng.pick(&["/etc/kubernetes/manifests/web.yaml", "/m/a b.json", "http://host/pod", ""]),
        "file": rng.chance(70),
        "node": rng.pick(&["node-1", "n.example", "10.0.0.1", "Node-1"]),
        "gates": gates,
    })
}

/// `secretRef` is required by the API's schema, and so the pod's type has one; upstream's validation does not ask for it.
fn is_without_secret(scale_io: &Value) -> bool {
    scale_io.is_object() && scale_io["secretRef"].is_null()
}

fn in_force(gates: &BTreeMap<String, bool>) -> Gates {
    Gates::new(|gate| gates.get(gate.name()).copied().unwrap_or_else(|| gate.on_by_default()))
}

fn printed(pod: &impl serde::Serialize) -> anyhow::Result<Value> {
    let mut pod = serde_json::to_value(pod).context("print the pod")?;
    if let Some(pod) = pod.as_object_mut() {
        pod.retain(|field, _| field != "apiVersion" && field != "kind");
    }
    without_zeros(&mut pod);
    Ok(pod)
}

fn refused(refusal: &ManifestError) -> Value {
    match refusal {
        ManifestError::NotAnObject { .. } | ManifestError::WrongKind { .. } | ManifestError::Malformed(_) => {
            json!({ "malformed": true })
        }
        ManifestError::Invalid(faults) => {
            let fault = |fault: &FieldError| path_of_both(&format!("{} {}", fault.path, fault.reason.as_str()));
            invalid(faults.iter().map(fault))
        }
        ManifestError::Reference { .. } | ManifestError::Refused { .. } | ManifestError::UnknownSource { .. } => {
            json!({ "reference": refusal.to_string() })
        }
    }
}

/// By fault, so that each is a difference of its own.
fn invalid(faults: impl Iterator<Item = String>) -> Value {
    let faults: Map<String, Value> = faults.map(|fault| (fault, true.into())).collect();
    json!({ "invalid": faults })
}

/// A fault without the places in lists and maps, which upstream names here and there, and with one name for each field.
fn path_of_both(fault: &str) -> String {
    let mut plain = String::new();
    for (index, part) in fault.split('[').enumerate() {
        plain.push_str(if index == 0 { part } else { part.split_once(']').map_or("", |(_, rest)| rest) });
    }
    if let Some((_, reason)) = plain.strip_prefix("metadata.annotations").and_then(|rest| rest.split_once(' ')) {
        return format!("metadata.annotations {reason}");
    }
    for (from, to) in PATHS {
        plain = plain.replace(from, to);
    }
    plain
}

/// Whether its thousandths do not fit 64 bits.
fn is_beyond(amount: &Value) -> bool {
    let amount = amount.as_str().and_then(|text| text.parse::<Quantity>().ok());
    amount.is_some_and(|amount| amount.milli_value().unsigned_abs() == i64::MAX.unsigned_abs())
}

/// Whether a list of amounts has one that is `wanted`.
fn has_amount(value: &Value, wanted: &dyn Fn(&str, &Value) -> bool) -> bool {
    const LISTS: [&str; 5] = ["limits", "requests", "overhead", "capacity", "allocatedResources"];
    let found =
        |list: &Value| list.as_object().is_some_and(|list| list.iter().any(|(name, amount)| wanted(name, amount)));
    match value {
        Value::Object(map) => {
            map.iter().any(|(name, value)| LISTS.contains(&name.as_str()) && found(value) || has_amount(value, wanted))
        }
        Value::Array(items) => items.iter().any(|item| has_amount(item, wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Drops what Go prints though it is not set.
fn without_zeros(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(without_zeros);
            map.retain(|field, value| {
                let structs = ["resources", "state", "lastState", "spec", "status"];
                let nothing = structs.contains(&field.as_str()) && value.as_object().is_some_and(Map::is_empty);
                let zero = [json!(null), json!(""), json!(0), json!(false), json!([])].contains(value);
                !(zero || nothing || field == "divisor" && *value == "0")
            });
        }
        Value::Array(list) => list.iter_mut().for_each(without_zeros),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
