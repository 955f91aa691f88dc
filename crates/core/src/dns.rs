//! What goes into a pod's `resolv.conf` (section 10.3).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};

use crate::id::PodRef;
use crate::launch::DnsConfig;
use crate::pod::PodExt;

#[cfg(test)]
mod tests;

/// Most name servers: resolvers read no more.
const MAX_SERVERS: usize = 3;
/// Most search domains.
const MAX_SEARCHES: usize = 32;
/// Longest search line.
const MAX_SEARCH_CHARS: usize = 2048;
/// Longest search domain: some resolvers abort on longer ones.
const MAX_SEARCH_CHARS_EACH: usize = 253;

/// What a pod's DNS is made from.
#[derive(Clone, Copy, Debug)]
pub struct DnsView<'a> {
    /// `clusterDNS`.
    pub cluster_dns: &'a [IpAddr],
    /// `clusterDomain`; empty for none.
    pub cluster_domain: &'a str,
    /// The node's resolv.conf, read anew for each sandbox; `None` if `resolvConf` is empty, which turns look-ups off
    /// (DNS-03).
    pub resolv_conf: Option<&'a str>,
    /// Addresses of the node.
    pub node_ips: &'a [IpAddr],
}

/// A pod's DNS, and the warnings to emit about it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodDns {
    /// What the sandbox is given.
    pub config: DnsConfig,
    /// Warnings, in order.
    pub warnings: Vec<DnsWarning>,
}

/// A warning event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsWarning {
    /// Upstream's word.
    pub reason: &'static str,
    /// What the pod's event says.
    pub message: String,
    /// What the node's event says, if there is one too.
    pub on_node: Option<String>,
}

/// The node's resolv.conf cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// A `nameserver` line names none.
    #[error("Encountered error while parsing resolv conf file. Error: nameserver list is empty ")]
    EmptyNameserver,
}

/// The DNS of a pod.
///
/// upstream: network/dns/dns.go GetPodDNS (v1.36)
#[doc(alias = "GetPodDNS")]
pub fn pod_dns(pod: &Pod, view: &DnsView<'_>) -> Result<PodDns, DnsError> {
    let host = parse_resolv_conf(view.resolv_conf.unwrap_or_default())?;
    let mut warnings = Vec::new();
    let mut config = match policy(pod) {
        Policy::None => DnsConfig::default(),
        Policy::Host => host_dns(host, view),
        Policy::Cluster if view.cluster_dns.is_empty() => {
            warnings.push(missing_cluster_dns(pod));
            host_dns(host, view)
        }
        Policy::Cluster => cluster_dns(pod, host, view),
    };
    if let Some(own) = pod.pod_spec().and_then(|spec| spec.dns_config.as_ref()) {
        append(&mut config, own);
    }
    warnings.extend(cut_servers(&mut config.servers));
    warnings.extend(cut_searches(&mut config.searches));
    Ok(PodDns { config, warnings })
}

/// Reads a resolv.conf. Name servers add up, the last `search` line counts, a later option takes an earlier one's place.
///
/// upstream: network/dns/dns.go parseResolvConf (v1.36)
#[doc(alias = "parseResolvConf")]
pub fn parse_resolv_conf(text: &str) -> Result<DnsConfig, DnsError> {
    let mut config = DnsConfig::default();
    for line in text.lines() {
        let line = line.trim();
        let mut fields = line.split_whitespace();
        match fields.next() {
            _ if line.starts_with('#') => {}
            Some("nameserver") => config.servers.push(fields.next().ok_or(DnsError::EmptyNameserver)?.to_owned()),
            Some("search") => {
                // With and without the final dot it is the same domain, and must count once.
                let domains = fields.filter(|domain| *domain != ".");
                config.searches = domains.map(|d| d.strip_suffix('.').unwrap_or(d).to_owned()).collect();
            }
            Some("options") => fields.for_each(|option| set_option(&mut config.options, option)),
            Some(_) | None => {}
        }
    }
    Ok(config)
}

enum Policy {
    Cluster,
    Host,
    None,
}

/// What is unknown counts as `ClusterFirst` even on the node's network, as upstream has it.
fn policy(pod: &Pod) -> Policy {
    match pod.pod_spec().and_then(|spec| spec.dns_policy.as_deref()) {
        Some("None") => Policy::None,
        Some("Default") => Policy::Host,
        Some("ClusterFirst") if pod.host_network() => Policy::Host,
        _ => Policy::Cluster,
    }
}

fn host_dns(mut host: DnsConfig, view: &DnsView<'_>) -> DnsConfig {
    if view.resolv_conf.is_some() {
        return host;
    }
    // A name server that is not there: the runtime would else use the node's file.
    let own = |ip: &IpAddr| if ip.is_ipv6() { "::1" } else { "127.0.0.1" }.to_owned();
    host.servers = view.node_ips.iter().map(own).collect();
    if host.servers.is_empty() {
        host.servers.push("127.0.0.1".to_owned());
    }
    host.searches = vec![".".to_owned()];
    host
}

fn cluster_dns(pod: &Pod, host: DnsConfig, view: &DnsView<'_>) -> DnsConfig {
    let domain = view.cluster_domain;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut searches = host.searches;
    if !domain.is_empty() {
        let mut all = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
        all.append(&mut searches);
        searches = without_duplicates(all);
    }
    DnsConfig {
        servers: view.cluster_dns.iter().map(ToString::to_string).collect(),
        searches,
        options: vec!["ndots:5".to_owned()],
    }
}

fn missing_cluster_dns(pod: &Pod) -> DnsWarning {
    let text = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
                Falling back to \"Default\" policy.";
    DnsWarning {
        reason: "MissingClusterDNS",
        message: format!("pod: {:?}. {text}", PodRef::of(pod).to_string()),
        on_node: Some(text.to_owned()),
    }
}

fn append(config: &mut DnsConfig, own: &PodDNSConfig) {
    config.servers.extend(own.nameservers.iter().flatten().cloned());
    config.searches.extend(own.searches.iter().flatten().cloned());
    config.servers = without_duplicates(std::mem::take(&mut config.servers));
    config.searches = without_duplicates(std::mem::take(&mut config.searches));
    // Options are written anew, and one without a value loses its colon.
    for option in &mut config.options {
        if option.find(':').is_some_and(|colon| colon + 1 == option.len()) {
            option.pop();
        }
    }
    for option in own.options.iter().flatten() {
        let name = option.name.as_deref().unwrap_or_default();
        match option.value.as_deref().filter(|value| !value.is_empty()) {
            Some(value) => set_option(&mut config.options, &format!("{name}:{value}")),
            None => set_option(&mut config.options, name),
        }
    }
}

/// Sets an option `name` or `name:value`, in the place of an earlier one of that name.
fn set_option(options: &mut Vec<String>, option: &str) {
    let name = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|old| name(old) == name(option)) {
        Some(old) => option.clone_into(old),
        None => options.push(option.to_owned()),
    }
}

fn without_duplicates(list: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    list.into_iter().filter(|entry| seen.insert(entry.clone())).collect()
}

fn cut_servers(servers: &mut Vec<String>) -> Option<DnsWarning> {
    if servers.len() <= MAX_SERVERS {
        return None;
    }
    servers.truncate(MAX_SERVERS);
    Some(forming(format!(
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
        servers.join(" ")
    )))
}

fn cut_searches(searches: &mut Vec<String>) -> Option<DnsWarning> {
    let before = searches.len();
    searches.truncate(MAX_SEARCHES);
    searches.retain(|search| search.len() <= MAX_SEARCH_CHARS_EACH);
    while searches.join(" ").len() > MAX_SEARCH_CHARS {
        searches.pop();
    }
    if searches.len() == before {
        return None;
    }
    Some(forming(format!(
        "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
        searches.join(" ")
    )))
}

fn forming(message: String) -> DnsWarning {
    DnsWarning { reason: "DNSConfigForming", message, on_node: None }
}
