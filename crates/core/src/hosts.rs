//! The pod's hosts file (section 10.2).

use std::fmt::Write;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostAlias, Pod};

use crate::hostname::Hostname;
use crate::pod::PodExt;

/// Entries of every pod's file: the loopback addresses and the IPv6 groups, as upstream's (HOST-02).
const LOCAL: &str = "127.0.0.1\tlocalhost\n\
    ::1\tlocalhost ip6-localhost ip6-loopback\n\
    fe00::0\tip6-localnet\n\
    fe00::0\tip6-mcastprefix\n\
    fe00::1\tip6-allnodes\n\
    fe00::2\tip6-allrouters\n";

/// The hosts file of a pod: built from its name and addresses, or from the node's own file if it shares the node's network
/// (HOST-01 … HOST-03).
///
/// upstream: kubelet_pods.go managedHostsFileContent, nodeHostsFileContent (v1.36)
#[doc(alias = "managedHostsFileContent")]
pub fn hosts_file(pod: &Pod, name: &Hostname, pod_ips: &[IpAddr], node_hosts: &str) -> String {
    let mut text = String::new();
    if pod.host_network() {
        text.push_str("# Kubernetes-managed hosts file (host network).\n");
        text.push_str(node_hosts);
    } else {
        text.push_str("# Kubernetes-managed hosts file.\n");
        text.push_str(LOCAL);
        let Hostname { host, domain } = name;
        for ip in pod_ips {
            let line =
                if domain.is_empty() { format!("{ip}\t{host}\n") } else { format!("{ip}\t{host}.{domain}\t{host}\n") };
            text.push_str(&line);
        }
    }
    let aliases = pod.pod_spec().and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
    push_aliases(&mut text, aliases);
    text
}

fn push_aliases(text: &mut String, aliases: &[HostAlias]) {
    if aliases.is_empty() {
        return;
    }
    text.push_str("\n# Entries added by HostAliases.\n");
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        writeln!(text, "{}\t{names}", alias.ip).expect("writing to a string cannot fail");
    }
}
