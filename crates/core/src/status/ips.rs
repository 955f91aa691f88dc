//! Addresses of the pod and of its node (PST-30, PST-31).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};

use super::StatusView;
use crate::observe::PodObservation;
use crate::pod::PodExt;

pub(super) fn set(view: &StatusView<'_>, seen: &PodObservation, status: &mut PodStatus) {
    let hosts = one_per_family(view.inputs.node.host_ips, view.inputs.node.host_ips);
    status.host_ip = hosts.first().map(ToString::to_string);
    status.host_ips =
        Some(hosts.iter().map(|ip| HostIP { ip: ip.to_string() }).collect()).filter(|all: &Vec<_>| !all.is_empty());
    let ips = pod_ips(view, seen, &hosts);
    status.pod_ip = ips.first().map(|ip| ip.ip.clone());
    status.pod_ips = Some(ips).filter(|all| !all.is_empty());
}

fn pod_ips(view: &StatusView<'_>, seen: &PodObservation, hosts: &[IpAddr]) -> Vec<PodIP> {
    let before = view.previous.pod_ips.clone().unwrap_or_default();
    if view.inputs.pod.host_network() {
        return host_network_ips(before, hosts);
    }
    let now = one_per_family(seen.ips(), view.inputs.node.host_ips);
    // A pod that has ended keeps its address, even when the runtime has forgotten it (PLEG-06).
    if now.is_empty() && seen.ready_sandbox().is_none() {
        return before;
    }
    now.into_iter().map(pod_ip).collect()
}

/// On the node's network the node's addresses are the pod's. They are taken once and kept, but a second family is added
/// when the node gets one.
fn host_network_ips(before: Vec<PodIP>, hosts: &[IpAddr]) -> Vec<PodIP> {
    let mut ips = before;
    if ips.is_empty() {
        ips.extend(hosts.first().copied().map(pod_ip));
    }
    if let ([only], Some(second)) = (ips.as_slice(), hosts.get(1))
        && only.ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4() != second.is_ipv4())
    {
        ips.push(pod_ip(*second));
    }
    ips
}

fn pod_ip(ip: IpAddr) -> PodIP {
    PodIP { ip: ip.to_string() }
}

/// The first address of the node's family, then the first of the other.
#[doc(alias = "sortPodIPs")]
fn one_per_family(ips: &[IpAddr], host: &[IpAddr]) -> Vec<IpAddr> {
    let primary_v4 = host.first().is_none_or(IpAddr::is_ipv4);
    let first = |v4: bool| ips.iter().find(|ip| ip.is_ipv4() == v4).copied();
    first(primary_v4).into_iter().chain(first(!primary_v4)).collect()
}
