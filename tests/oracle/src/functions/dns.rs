//! A pod's `resolv.conf`, and what is said about the node's.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::dns::{DnsView, pod_dns};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `network/dns/dns.go` `GetPodDNS` (v1.36)
pub(super) struct GetPodDns;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    pod: Pod,
    #[serde(default, rename = "clusterDNS")]
    cluster_dns: Vec<IpAddr>,
    #[serde(default)]
    cluster_domain: String,
    resolv_conf: Option<String>,
    #[serde(default, rename = "nodeIPs")]
    node_ips: Vec<IpAddr>,
}

impl Function for GetPodDns {
    fn name(&self) -> &'static str {
        "GetPodDNS"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["DNS-01", "DNS-02", "DNS-03", "DNS-04", "DNS-05"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let addresses = |rng: &mut Rng| -> Vec<&str> {
            (0..rng.below(5))
                .map(|_| *rng.pick::<&str>(&["10.96.0.10", "10.96.0.11", "fd00::a", "127.0.0.1"]))
                .collect()
        };
        json!({
            "pod": pod(rng, size),
            "clusterDNS": addresses(rng),
            "clusterDomain": rng.pick(&["", "cluster.local", "corp.example"]),
            "resolvConf": if rng.chance(85) { resolv_conf(rng, size).into() } else { Value::Null },
            "nodeIPs": addresses(rng),
        })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: Case = read(case)?;
        let view = DnsView {
            cluster_dns: &case.cluster_dns,
            cluster_domain: &case.cluster_domain,
            resolv_conf: case.resolv_conf.as_deref(),
            node_ips: &case.node_ips,
        };
        let answer = match pod_dns(&case.pod, &view) {
            Ok(dns) => {
                let mut options = dns.config.options;
                options.sort();
                let mut events = Vec::new();
                for warning in dns.warnings {
                    events.extend(warning.on_node.map(|text| format!("Warning {} {text}", warning.reason)));
                    events.push(format!("Warning {} {}", warning.reason, warning.message));
                }
                json!({ "servers": dns.config.servers, "searches": dns.config.searches, "options": options, "events": events })
            }
            Err(err) => json!({ "error": err.to_string(), "events": [] }),
        };
        Ok(answer)
    }

    fn adjust(&self, _case: &Value, theirs: &mut Value) -> Vec<&'static str> {
        let Some(answer) = theirs.as_object_mut() else { return Vec::new() };
        for list in ["servers", "searches", "options"] {
            if let Some(value) = answer.get_mut(list).filter(|value| value.is_null()) {
                *value = json!([]);
            }
        }
        Vec::new()
    }
}

fn domain(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => "x".repeat(254),
        1 => format!("{}.example", "y".repeat(245)),
        2 => "cluster.local".to_owned(),
        3 => "ns.svc.cluster.local".to_owned(),
        4 => "corp.example.".to_owned(),
        5 => ".".to_owned(),
        _ => format!("d{}.{}", rng.below(60), "z".repeat(rng.below(90))),
    }
}

fn resolv_conf(rng: &mut Rng, size: usize) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(size * 2) {
        let line = match rng.below(10) {
            0..3 => {
                format!("nameserver {}", rng.pick(&["1.1.1.1", "8.8.8.8", "fd00::53", "9.9.9.9 # x", "10.0.0.2\t"]))
            }
            3..6 => {
                let count = if rng.chance(15) { 40 } else { size };
                let domains: Vec<String> = (0..rng.below(count)).map(|_| domain(rng)).collect();
                format!("search {}", domains.join(*rng.pick::<&str>(&[" ", "\t", "  "])))
            }
            6 | 7 => format!(
                "options {}",
                rng.pick(&["ndots:2", "ndots:2 timeout:1 rotate", "ndots:", "edns0 a:b:c", "ndots"])
            ),
            8 => (*rng.pick(&[
                "# search a",
                "  # x",
                "; x",
                "domain a.b",
                "sortlist 1",
                "searchx a",
                "",
                "\u{a0}search a",
            ]))
            .to_owned(),
            _ if rng.chance(8) => "nameserver".to_owned(),
            _ => "  search   a.example.  ".to_owned(),
        };
        text.push_str(&line);
        text.push_str(rng.pick::<&str>(&["\n", "\n", "\n", "\r\n", "\n\n"]));
    }
    text
}

fn pod(rng: &mut Rng, size: usize) -> Value {
    let mut spec = json!({ "containers": [{ "name": "c" }] });
    if rng.chance(90) {
        spec["dnsPolicy"] =
            (*rng.pick(&["ClusterFirst", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None", "Odd"])).into();
    }
    if rng.chance(25) {
        spec["hostNetwork"] = true.into();
    }
    if rng.chance(50) {
        let mut config = json!({});
        if rng.chance(60) {
            let servers: Vec<&str> =
                (0..rng.below(5)).map(|_| *rng.pick::<&str>(&["1.2.3.4", "10.96.0.10", "8.8.8.8", "::1"])).collect();
            config["nameservers"] = servers.into();
        }
        if rng.chance(60) {
            let count = if rng.chance(15) { 40 } else { size };
            config["searches"] = (0..rng.below(count)).map(|_| domain(rng)).collect();
        }
        if rng.chance(60) {
            config["options"] = (0..rng.below(4)).map(|_| option(rng)).collect();
        }
        spec["dnsConfig"] = config;
    }
    json!({ "metadata": { "name": "web", "namespace": rng.pick(&["default", "ns"]), "uid": "u-1" }, "spec": spec })
}

fn option(rng: &mut Rng) -> Value {
    let mut option = json!({ "name": rng.pick(&["ndots", "timeout", "rotate", "edns0", "a"]) });
    if rng.chance(60) {
        option["value"] = (*rng.pick(&["1", "5", "", "b:c"])).into();
    }
    option
}
