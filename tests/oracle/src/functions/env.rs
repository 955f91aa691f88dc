//! The environment of a container, from services, objects of the API, fields of the pod and references.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Context as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_core::env::{EnvSources, EnvView, Fetched, Services, container_env};
use rubelet_core::pod::PodExt as _;
use rubelet_core::resources::amounts;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::expand;
use crate::case::quantities;
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `kubelet_pods.go` `makeEnvironmentVariables`, `getServiceEnvVarMap`, `podFieldSelectorRuntimeValue` (v1.36)
pub(super) struct MakeEnvironment;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    pod: Pod,
    services: Option<Vec<Service>>,
    #[serde(default)]
    synced: bool,
    #[serde(default)]
    api: bool,
    #[serde(default, rename = "hostIPs")]
    host_ips: Vec<IpAddr>,
    #[serde(default, rename = "podIPs")]
    pod_ips: Vec<IpAddr>,
    #[serde(default)]
    allocatable: BTreeMap<String, Quantity>,
    #[serde(default)]
    config_maps: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    secrets: BTreeMap<String, BTreeMap<String, ByteString>>,
    #[serde(default)]
    failing: BTreeMap<String, String>,
}

impl Case {
    /// What the API and upstream's informers see to: a field's version is set, and nothing is known before it has been read.
    fn check(&self) -> anyhow::Result<()> {
        let sources =
            self.pod.regular().iter().flat_map(|c| c.env.iter().flatten()).filter_map(|v| v.value_from.as_ref());
        let fields: Vec<_> = sources.filter_map(|source| source.field_ref.as_ref()).collect();
        anyhow::ensure!(fields.iter().all(|field| field.api_version.is_some()), "a field has no version");
        anyhow::ensure!(self.synced || self.services.iter().flatten().next().is_none(), "services that were not read");
        let ported = |s: &Service| s.spec.as_ref().and_then(|spec| spec.ports.as_ref()).is_some_and(|p| !p.is_empty());
        anyhow::ensure!(self.services.iter().flatten().all(ported), "a service has no port");
        anyhow::ensure!(!self.host_ips.is_empty(), "the node has no address");
        Ok(())
    }

    fn sources(&self) -> EnvSources {
        let mut sources = EnvSources { api: self.api, ..EnvSources::default() };
        for (name, data) in &self.config_maps {
            sources.config_maps.insert(name.clone(), Fetched::Found(data.clone()));
        }
        for (name, data) in &self.secrets {
            let data = data.iter().map(|(key, value)| (key.clone(), value.0.clone())).collect();
            sources.secrets.insert(name.clone(), Fetched::Found(data));
        }
        for (name, why) in &self.failing {
            sources.config_maps.insert(name.clone(), Fetched::Failed(why.clone()));
            sources.secrets.insert(name.clone(), Fetched::Failed(why.clone()));
        }
        sources
    }
}

impl Function for MakeEnvironment {
    fn name(&self) -> &'static str {
        "makeEnvironmentVariables"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["ENV-01", "ENV-02", "ENV-03", "ENV-04", "ENV-05"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let api = rng.chance(95);
        let services: Vec<Value> = (0..rng.below(size + 1)).map(|_| service(rng)).collect();
        let host_ips =
            *rng.pick::<&[&str]>(&[&["10.0.0.1"], &["10.0.0.1", "fd00::1"], &["fd00::1", "10.0.0.1"], &["fd00::1"]]);
        let pod_ips: &[&str] = rng.pick::<&[&str]>(&[
            &[],
            &["10.1.0.7"],
            &["10.1.0.7", "fd00:1::7"],
            &["fd00:1::7", "10.1.0.7"],
            &["10.1.0.7", "10.1.0.8"],
            &["fd00:1::7"],
        ]);
        // Without an API server there is nothing to wait for.
        let synced = !api || rng.chance(95);
        let services = if synced { services } else { Vec::new() };
        json!({
            "pod": pod(rng, size, api),
            "services": if rng.chance(90) { json!(services) } else { Value::Null },
            "synced": synced,
            "api": api,
            "hostIPs": host_ips,
            "podIPs": pod_ips,
            "allocatable": quantities::list(rng),
            "configMaps": objects(rng, size, "cm", &|_, text| text.into()),
            "secrets": objects(rng, size, "s", &|_, text| json!(ByteString(text.into_bytes()))),
            "failing": if rng.chance(5) { json!({ "cm1": "no answer" }) } else { json!({}) },
        })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: Case = read(case)?;
        case.check()?;
        let sources = case.sources();
        let allocatable = amounts(Some(&case.allocatable));
        let view = EnvView {
            services: match &case.services {
                _ if !case.synced => Services::Unread,
                Some(services) => Services::Known(services),
                None => Services::Standalone,
            },
            host_ips: &case.host_ips,
            pod_ips: &case.pod_ips,
            allocatable: &allocatable,
            sources: &sources,
        };
        let container = case.pod.regular().first().context("the pod has a container")?;
        Ok(match container_env(&case.pod, container, &view) {
            Ok(list) => json!({ "env": list.into_iter().collect::<BTreeMap<_, _>>() }),
            Err(err) => json!({ "error": err.to_string() }),
        })
    }

    fn adjust(&self, _case: &Value, theirs: &mut Value) -> Vec<&'static str> {
        let Some(error) = theirs.get("error").and_then(Value::as_str) else { return Vec::new() };
        let Some((path, _)) = error.strip_prefix(KEY).and_then(|rest| rest.split_once(": ")) else { return Vec::new() };
        theirs["error"] = format!("{KEY}{path}: not a qualified name").into();
        vec!["a key that is no name is refused in fewer words"]
    }
}

/// How the refusal of a key begins.
const KEY: &str = "invalid key subscript in ";

fn service(rng: &mut Rng) -> Value {
    // A service with an address has a port; upstream relies on it.
    let ports = (0..1 + rng.below(2)).map(|_| {
        let mut port = json!({ "port": rng.pick(&[80, 443, 53, 8080]) });
        if rng.chance(50) {
            port["name"] = (*rng.pick(&["http", "my-port", "p"])).into();
        }
        if rng.chance(50) {
            port["protocol"] = (*rng.pick(&["TCP", "UDP", "SCTP"])).into();
        }
        port
    });
    let ports: Vec<Value> = ports.collect();
    let mut spec = json!({ "ports": ports });
    if rng.chance(85) {
        spec["clusterIP"] = (*rng.pick(&["10.96.0.1", "10.96.0.2", "fd00:2::1", "None", ""])).into();
    }
    json!({
        "metadata": {
            "name": rng.pick(&["kubernetes", "web", "my-db", "a"]), "namespace": rng.pick(&["default", "ns", "other"]),
        },
        "spec": spec,
    })
}

fn objects(rng: &mut Rng, size: usize, prefix: &str, value: &dyn Fn(&str, String) -> Value) -> Value {
    let mut all = Map::new();
    for number in 0..3 {
        if rng.chance(60) {
            let mut data = Map::new();
            for key in ["A", "key", "k.2"] {
                if rng.chance(60) {
                    data.insert(key.to_owned(), value(key, expand::text(rng, size)));
                }
            }
            all.insert(format!("{prefix}{number}"), Value::Object(data));
        }
    }
    Value::Object(all)
}

fn pod(rng: &mut Rng, size: usize, api: bool) -> Value {
    let mut pod = quantities::pod(rng, 2);
    pod["metadata"]["namespace"] = (*rng.pick(&["default", "ns"])).into();
    pod["metadata"]["labels"] = json!({ "a": "1", "ex.io/b": "two \"x\"\n", "c-d": "é" });
    if rng.chance(50) {
        pod["metadata"]["annotations"]["ex.io/Note"] = expand::text(rng, size).into();
    }
    if rng.chance(97) {
        pod["spec"]["enableServiceLinks"] = rng.chance(70).into();
    }
    pod["spec"]["nodeName"] = "node-1".into();
    if rng.chance(50) {
        pod["spec"]["serviceAccountName"] = "sa".into();
    }
    let from: Vec<Value> = (0..rng.below(3)).map(|_| env_from(rng)).collect();
    let env: Vec<Value> = (0..rng.below(size * 2)).map(|_| variable(rng, size, api)).collect();
    pod["spec"]["containers"][0]["envFrom"] = from.into();
    pod["spec"]["containers"][0]["env"] = env.into();
    pod
}

fn env_from(rng: &mut Rng) -> Value {
    let mut reference = json!({ "name": format!("{}{}", rng.pick(&["cm", "s"]), rng.below(3)) });
    if rng.chance(80) {
        reference["optional"] = rng.chance(85).into();
    }
    let kind =
        if reference["name"].as_str().is_some_and(|name| name.starts_with('c')) { "configMapRef" } else { "secretRef" };
    let mut from = json!({ kind: reference });
    if rng.chance(40) {
        from["prefix"] = (*rng.pick(&["P_", "A", ""])).into();
    }
    from
}

fn variable(rng: &mut Rng, size: usize, api: bool) -> Value {
    let name = *rng.pick(&["A", "B", "C", "KUBERNETES_SERVICE_HOST", "WEB_PORT", "a.b"]);
    match rng.below(8) {
        0 => json!({ "name": name }),
        1 | 2 => json!({ "name": name, "value": expand::text(rng, size) }),
        3 => json!({ "name": name, "value": "$(KUBERNETES_SERVICE_HOST):$(A)$(WEB_PORT)" }),
        4 => json!({ "name": name, "valueFrom": { "fieldRef": field(rng, api) } }),
        5 if api => json!({ "name": name, "valueFrom": { "resourceFieldRef": resource(rng) } }),
        6 => {
            let key = *rng.pick(&["A", "key", "k.2", "none"]);
            json!({ "name": name, "valueFrom": { "configMapKeyRef": {
                "name": format!("cm{}", rng.below(3)), "key": key, "optional": rng.chance(90) } } })
        }
        _ => {
            let key = *rng.pick(&["A", "key", "k.2", "none"]);
            json!({ "name": name, "valueFrom": { "secretKeyRef": {
                "name": format!("s{}", rng.below(3)), "key": key, "optional": rng.chance(90) } } })
        }
    }
}

fn field(rng: &mut Rng, api: bool) -> Value {
    const GOOD: [&str; 13] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.labels",
        "metadata.annotations",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.podIP",
        "status.podIPs",
        "metadata.labels['a']",
        "metadata.labels['ex.io/b']",
        "metadata.annotations['ex.io/Note']",
        "metadata.labels['none']",
    ];
    const ODD: [&str; 12] = [
        "spec.host",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
        "metadata.creationTimestamp",
        "",
        "metadata",
        "metadata.labels['']",
        "metadata.annotations['a b']",
        "spec.nodeName['a']",
        "metadata.labels['a'",
        "metadata.labels[a]",
    ];
    let path = match rng.below(20) {
        0 => *rng.pick(&ODD),
        1..4 if api => *rng.pick(&["status.hostIP", "status.hostIPs"]),
        _ => *rng.pick(&GOOD),
    };
    // The API sets the version.
    json!({ "apiVersion": if rng.chance(1) { "v2" } else { "v1" }, "fieldPath": path })
}

fn resource(rng: &mut Rng) -> Value {
    const GOOD: [&str; 7] = [
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.hugepages-2Mi",
    ];
    let name = if rng.chance(97) {
        *rng.pick(&GOOD)
    } else {
        *rng.pick(&["limits.gpu", "cpu", "", "limits.", "requests.hugepages-"])
    };
    let mut reference = json!({ "resource": name });
    if rng.chance(60) {
        reference["divisor"] = (*rng.pick(&["0", "1", "1m", "1k", "1Ki", "1Mi", "1M", "1Gi", "2", "0.5"])).into();
    }
    if rng.chance(40) {
        reference["containerName"] = (*rng.pick(&["c0", "c1", "i0", "none"])).into();
    }
    reference
}
