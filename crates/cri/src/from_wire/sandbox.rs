//! A sandbox's status.

use std::net::IpAddr;

use rubelet_core::launch::NamespaceMode;
use rubelet_core::observe::{SandboxObservation, SandboxState};
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use super::timestamp;
use crate::error::garbage;
use crate::metrics::Operation;

pub(crate) fn sandbox_observation(status: cri::PodSandboxStatus) -> Result<SandboxObservation, RpcError> {
    if let Some(missing) = missing_field(&status) {
        let detail = format!("the status of sandbox {:?} has no {missing}", status.id);
        return Err(garbage(Operation::PodSandboxStatus, detail));
    }
    let network = network_mode(&status);
    // With host networking the addresses are the node's, whatever the runtime reports.
    let ips = if network == NamespaceMode::Node { Vec::new() } else { ips(status.network.as_ref()) };
    Ok(SandboxObservation {
        attempt: status.metadata.as_ref().map(|metadata| metadata.attempt).unwrap_or_default(),
        state: sandbox_state(status.state),
        created_at: timestamp(status.created_at),
        network,
        ips,
        id: status.id.into(),
        runtime_handler: status.runtime_handler,
    })
}

/// upstream: cri-client utils.go verifySandboxStatus (v1.36)
fn missing_field(status: &cri::PodSandboxStatus) -> Option<&'static str> {
    let lacks = |field: fn(&cri::PodSandboxMetadata) -> &String| {
        status.metadata.as_ref().is_none_or(|metadata| field(metadata).is_empty())
    };
    let checks = [
        (status.id.is_empty(), "id"),
        (lacks(|metadata| &metadata.name), "pod name"),
        (lacks(|metadata| &metadata.namespace), "pod namespace"),
        (lacks(|metadata| &metadata.uid), "pod UID"),
        (status.created_at == 0, "creation time"),
    ];
    checks.into_iter().find_map(|(missing, what)| missing.then_some(what))
}

/// A state that the protocol does not define is not ready.
pub(super) fn sandbox_state(state: i32) -> SandboxState {
    match cri::PodSandboxState::try_from(state) {
        Ok(cri::PodSandboxState::SandboxReady) => SandboxState::Ready,
        Ok(cri::PodSandboxState::SandboxNotready) | Err(_) => SandboxState::NotReady,
    }
}

fn network_mode(status: &cri::PodSandboxStatus) -> NamespaceMode {
    let namespaces = status.linux.as_ref().and_then(|linux| linux.namespaces.as_ref());
    let Some(options) = namespaces.and_then(|namespaces| namespaces.options.as_ref()) else {
        return NamespaceMode::Pod;
    };
    match options.network() {
        cri::NamespaceMode::Pod => NamespaceMode::Pod,
        cri::NamespaceMode::Container => NamespaceMode::Container,
        cri::NamespaceMode::Node => NamespaceMode::Node,
        cri::NamespaceMode::Target => NamespaceMode::Target(options.target_id.clone()),
    }
}

/// The addresses, primary first; none at all if one of them cannot be parsed.
/// upstream: kuberuntime_sandbox.go determinePodSandboxIPs (v1.36)
fn ips(network: Option<&cri::PodSandboxNetworkStatus>) -> Vec<IpAddr> {
    let Some(network) = network else { return Vec::new() };
    let first = Some(&network.ip).filter(|ip| !ip.is_empty());
    let others = network.additional_ips.iter().map(|other| &other.ip);
    let parsed: Result<Vec<IpAddr>, _> = first.into_iter().chain(others).map(|ip| ip.parse()).collect();
    parsed.unwrap_or_default()
}
