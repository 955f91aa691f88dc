//! The node status (24.2).

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeDaemonEndpoints, NodeFeatures, NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures, NodeStatus, NodeSwapStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::conditions::set_conditions;
use super::register::{LABEL_ARCH, LABEL_OS, OS};
use super::resources::{node_allocatable, node_capacity, quantity};
use super::version::runtime_version;
use super::view::{Cloud, NodeImage, NodeNews, NodeObservation, Unserved};
use crate::resources::{Amount, Amounts, CPU, EPHEMERAL_STORAGE, MEMORY, PODS, amounts};

/// Annotation in which an external cloud controller reads the requested addresses (NODE-04).
const PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// Names listed for one image (NODE-14). upstream: nodestatus/setters.go MaxNamesPerImageInNodeStatus (v1.36)
const MAX_NAMES: usize = 5;

/// The updated object, and the events to emit.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeUpdate {
    /// The object.
    pub node: Node,
    /// Events.
    pub news: Vec<NodeNews>,
}

/// The updated node object: the kubelet's fields are set, all others are unchanged.
/// upstream: kubelet_node_status.go updateNode, setNodeStatus (v1.36)
#[doc(alias = "setNodeStatus")]
pub fn updated_node(seen: &NodeObservation<'_>, node: &Node) -> NodeUpdate {
    let mut node = node.clone();
    let mut news = Vec::new();
    require_label(&mut node, LABEL_OS, OS);
    require_label(&mut node, LABEL_ARCH, &seen.setup.machine.architecture);
    set_provided_ip(&mut node, seen);
    let status = node.status.get_or_insert_default();
    set_addresses(status, seen);
    set_resources(status, seen);
    news.extend(set_node_info(status, seen));
    set_images(status, seen);
    set_runtime(status, seen);
    let endpoint = DaemonEndpoint { port: seen.setup.port };
    status.daemon_endpoints = Some(NodeDaemonEndpoints { kubelet_endpoint: Some(endpoint) });
    if let Some(features) = &seen.setup.declared_features {
        status.declared_features = list(features.clone());
    }
    let missing = missing_capacity(status, seen);
    news.extend(set_conditions(status.conditions.get_or_insert_default(), seen, &missing));
    if let Some(volumes) = seen.volumes_in_use {
        status.volumes_in_use = list(volumes.to_vec());
    }
    NodeUpdate { node, news }
}

/// An empty list counts as none.
fn list<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}

/// Corrects the labels for system and architecture (NODE-02).
fn require_label(node: &mut Node, key: &str, value: &str) {
    let labels = node.metadata.labels.get_or_insert_default();
    if labels.get(key).is_none_or(|label| label != value) {
        labels.insert(key.to_owned(), value.to_owned());
    }
}

/// upstream: nodestatus/setters.go NodeAddress (v1.36)
fn set_provided_ip(node: &mut Node, seen: &NodeObservation<'_>) {
    let given = given_ips(seen);
    let first_given = seen.setup.asked_ips.first().is_some_and(|ip| !ip.is_unspecified());
    if seen.setup.cloud == Cloud::External && first_given {
        let text = given.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
        node.metadata.annotations.get_or_insert_default().insert(PROVIDED_IP.to_owned(), text);
    } else if let Some(annotations) = &mut node.metadata.annotations {
        annotations.remove(PROVIDED_IP);
    }
}

fn given_ips(seen: &NodeObservation<'_>) -> Vec<IpAddr> {
    seen.setup.asked_ips.iter().copied().filter(|ip| !ip.is_unspecified()).collect()
}

/// Without an address of its own a node keeps those it had (NODE-12). An external cloud controller's are not touched.
fn set_addresses(status: &mut NodeStatus, seen: &NodeObservation<'_>) {
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let hostname = || address("Hostname", seen.setup.hostname.clone());
    if seen.setup.cloud == Cloud::External {
        if status.addresses.as_ref().is_some_and(|known| !known.is_empty()) {
            return;
        }
        if seen.setup.asked_ips.is_empty() {
            status.addresses = Some(vec![hostname()]);
            return;
        }
    }
    if seen.ips.is_empty() {
        return;
    }
    let ips = seen.ips.iter().take(2).map(|ip| address("InternalIP", ip.to_string()));
    status.addresses = Some(ips.chain([hostname()]).collect());
}

/// Sets the capacity of the kubelet's resources and keeps those that others advertise. Sets allocatable for all of them.
/// upstream: nodestatus/setters.go MachineInfo (v1.36)
fn set_resources(status: &mut NodeStatus, seen: &NodeObservation<'_>) {
    let mut capacity = amounts(status.capacity.as_ref());
    // Resources of device plugins that an agent before this one served: nothing serves them now (DEV-07).
    if let Unserved::Named(names) = &seen.setup.unserved {
        capacity.iter_mut().filter(|(name, _)| names.contains(*name)).for_each(|(_, amount)| *amount = Amount::ZERO);
    }
    capacity.extend(node_capacity(&seen.setup.machine, seen.setup.pods));
    let allocatable = node_allocatable(&capacity, &seen.setup.reserved);
    let mut kept = amounts(status.allocatable.as_ref());
    kept.retain(|name, _| allocatable.contains_key(name) || !is_extended(name));
    kept.extend(allocatable);
    write(&mut status.capacity, &capacity);
    write(&mut status.allocatable, &kept);
}

/// An equal amount keeps the notation that it has.
fn write(list: &mut Option<BTreeMap<String, Quantity>>, wanted: &Amounts) {
    let list = list.get_or_insert_default();
    list.retain(|name, _| wanted.contains_key(name));
    for (name, amount) in wanted {
        if list.get(name).is_none_or(|known| Amount::of(known) != *amount) {
            list.insert(name.clone(), quantity(name, *amount));
        }
    }
}

/// A resource that is not Kubernetes' own. upstream: core/v1/helper/helpers.go IsExtendedResourceName (v1.36)
pub(super) fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

fn set_node_info(status: &mut NodeStatus, seen: &NodeObservation<'_>) -> Option<NodeNews> {
    let setup = seen.setup;
    let machine = &setup.machine;
    let old = status.node_info.take().unwrap_or_default();
    let rebooted = !old.boot_id.is_empty() && old.boot_id != machine.boot_id;
    let version = seen.runtime_version.map_or_else(|| "Unknown".to_owned(), runtime_version);
    let swap = (machine.swap_bytes != 0).then_some(NodeSwapStatus { capacity: Some(machine.swap_bytes) });
    status.node_info = Some(NodeSystemInfo {
        architecture: machine.architecture.clone(),
        boot_id: machine.boot_id.clone(),
        container_runtime_version: format!("{}://{version}", seen.runtime_name),
        kernel_version: machine.kernel.clone(),
        // The field is deprecated and kept empty (gate DisableNodeKubeProxyVersion, locked).
        kube_proxy_version: String::new(),
        kubelet_version: setup.kubelet_version.clone(),
        machine_id: machine.machine_id.clone(),
        operating_system: OS.to_owned(),
        os_image: machine.os_image.clone(),
        // Swap that was switched off meanwhile stays written, as upstream has it.
        swap: swap.or(old.swap),
        system_uuid: machine.system_uuid.clone(),
    });
    rebooted.then(|| NodeNews {
        reason: "Rebooted",
        warning: true,
        message: format!("Node {} has been rebooted, boot id: {}", setup.name, machine.boot_id),
    })
}

/// The largest images, a few names of each, those with digests first (NODE-14).
/// upstream: nodestatus/setters.go Images; util/sliceutils ByImageSize (v1.36)
fn set_images(status: &mut NodeStatus, seen: &NodeObservation<'_>) {
    let Some(images) = seen.images else { return };
    let mut images: Vec<&NodeImage> = images.iter().collect();
    images.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| b.id.cmp(&a.id)));
    images.truncate(seen.setup.max_images.unwrap_or(usize::MAX));
    let image = |image: &NodeImage| ContainerImage {
        names: list(image.digests.iter().chain(&image.tags).take(MAX_NAMES).cloned().collect()),
        // The API omits a size of zero: its answer must not look like a change.
        size_bytes: Some(i64::try_from(image.size).unwrap_or(i64::MAX)).filter(|size| *size != 0),
    };
    status.images = list(images.into_iter().map(image).collect());
}

fn set_runtime(status: &mut NodeStatus, seen: &NodeObservation<'_>) {
    if let Some(handlers) = seen.handlers {
        let handler = |(name, features): (&String, &crate::launch::HandlerFeatures)| NodeRuntimeHandler {
            name: Some(name.clone()),
            features: Some(NodeRuntimeHandlerFeatures {
                recursive_read_only_mounts: Some(features.recursive_read_only_mounts),
                // Independent of the runtime: pods do not get user namespaces here.
                user_namespaces: None,
            }),
        };
        status.runtime_handlers = list(handlers.iter().map(handler).collect());
    }
    if let Some(supported) = seen.supplemental_groups_policy {
        status.features = Some(NodeFeatures { supplemental_groups_policy: Some(supported) });
    }
}

/// Resources without a capacity that a node must have (NODE-20).
fn missing_capacity(status: &NodeStatus, seen: &NodeObservation<'_>) -> Vec<&'static str> {
    let storage = seen.setup.local_storage.then_some(EPHEMERAL_STORAGE);
    let has = |name: &str| status.capacity.as_ref().is_some_and(|capacity| capacity.contains_key(name));
    [CPU, MEMORY, PODS].into_iter().chain(storage).filter(|name| !has(name)).collect()
}
