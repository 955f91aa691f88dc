//! The names of a pod, and its hosts file.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::hostname::{kernel_hostname, pod_hostname};
use rubelet_core::hosts::hosts_file;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::function::{Function, read};
use crate::rng::Rng;

const OVERRIDE: &str = "HostnameOverride";

/// upstream: `kubelet_pods.go` `GeneratePodHostNameAndDomain`, `managedHostsFileContent`, `nodeHostsFileContent`, `util.go` `GetNodenameForKernel` (v1.36)
pub(super) struct Hosts;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    pod: Pod,
    #[serde(default)]
    ips: Vec<IpAddr>,
    #[serde(default)]
    cluster_domain: String,
    #[serde(default)]
    node_hosts: String,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
}

impl Function for Hosts {
    fn name(&self) -> &'static str {
        "GeneratePodHostNameAndDomain"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["HN-01", "HN-02", "HOST-02", "HOST-03"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let mut spec = json!({ "containers": [{ "name": "c" }] });
        for field in ["hostname", "subdomain", "hostnameOverride"] {
            if rng.chance(if field == "hostnameOverride" { 20 } else { 40 }) {
                spec[field] = name(rng).into();
            }
        }
        if rng.chance(40) {
            spec["setHostnameAsFQDN"] = rng.chance(80).into();
        }
        let aliases = (0..rng.below(size)).map(|_| {
            let names: Vec<&str> = (0..rng.below(4)).map(|_| *rng.pick::<&str>(&["a", "b.example", "c-d"])).collect();
            json!({ "ip": rng.pick(&["1.2.3.4", "fd00::1", "odd"]), "hostnames": names })
        });
        let aliases: Vec<Value> = aliases.collect();
        if rng.chance(60) {
            spec["hostAliases"] = aliases.into();
        }
        let host = rng.chance(15);
        if host {
            spec["hostNetwork"] = true.into();
        }
        let own = ["", "127.0.0.1 localhost", "127.0.0.1\tlocalhost\n", "# odd\r\n\n10.0.0.1 node-1 é\n"];
        let node_hosts = if host { *rng.pick(&own) } else { "" };
        let ips: Vec<&str> =
            (0..rng.below(3)).map(|_| *rng.pick::<&str>(&["10.1.0.7", "fd00:1::7", "::ffff:1.2.3.4"])).collect();
        let pod = json!({ "metadata": { "name": name(rng), "namespace": rng.pick(&["default", "ns"]), "uid": "u-1" }, "spec": spec });
        let gates = if rng.chance(20) { json!({ OVERRIDE: rng.chance(50) }) } else { json!({}) };
        json!({ "pod": pod, "ips": ips, "clusterDomain": rng.pick(&["", "cluster.local", "a.b"]), "nodeHosts": node_hosts,
            "gates": gates })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: Case = read(case)?;
        let allowed = case.gates.get(OVERRIDE).copied().unwrap_or(true);
        let name = match pod_hostname(&case.pod, &case.cluster_domain, allowed) {
            Ok(name) => name,
            Err(err) => return Ok(json!({ "error": err.to_string() })),
        };
        let file = hosts_file(&case.pod, &name, &case.ips, &case.node_hosts);
        let mut answer = json!({ "host": name.host, "domain": name.domain, "file": file });
        match kernel_hostname(&case.pod, &name) {
            Ok(kernel) => answer["kernel"] = kernel.into(),
            Err(err) => answer["kernelError"] = err.to_string().into(),
        }
        Ok(answer)
    }
}

fn name(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => format!("{}-.-x", "a".repeat(60 + rng.below(8))),
        1 => "b".repeat(60 + rng.below(8)),
        2 => (*rng.pick(&["Upper", "-a", "a-", "a_b", ".", "-", "a..b", "é", "a b"])).to_owned(),
        3 => "a.b".to_owned(),
        4 => format!("{}.{}", "c".repeat(rng.below(66)), "d".repeat(rng.below(200))),
        5 => "-".repeat(64 + rng.below(3)),
        _ => format!("web-{}", rng.below(10)),
    }
}
