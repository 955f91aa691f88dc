//! The node's first object, and the corrections of one that exists already (24.1).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::status::{NodeUpdate, is_extended, updated_node};
use super::view::{Cloud, Machine, NodeObservation, NodeSetup};
use crate::resources::{Amount, HUGEPAGES_PREFIX};

pub(super) const OS: &str = "linux";
pub(super) const LABEL_OS: &str = "kubernetes.io/os";
pub(super) const LABEL_ARCH: &str = "kubernetes.io/arch";
const LABEL_HOSTNAME: &str = "kubernetes.io/hostname";
const BETA_OS: &str = "beta.kubernetes.io/os";
const BETA_ARCH: &str = "beta.kubernetes.io/arch";
/// Attaching volumes is the controller's work (NODE-04).
const ATTACH_DETACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Labels that are corrected on an existing node. upstream: updateDefaultLabels (v1.36)
const DEFAULT_LABELS: [&str; 11] = [
    LABEL_HOSTNAME,
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    LABEL_OS,
    LABEL_ARCH,
    BETA_OS,
    BETA_ARCH,
];

/// The labels that the object is made with: those that every node has, and over them `--node-labels`.
pub fn first_labels(setup: &NodeSetup) -> BTreeMap<String, String> {
    let arch = &setup.machine.architecture;
    let mut labels: BTreeMap<String, String> = [
        (LABEL_HOSTNAME, setup.hostname.as_str()),
        (LABEL_OS, OS),
        (LABEL_ARCH, arch),
        (BETA_OS, OS),
        (BETA_ARCH, arch),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    labels.extend(setup.labels.clone());
    labels
}

/// The object to create (NODE-02, NODE-03, NODE-04).
/// upstream: kubelet_node_status.go initialNode (v1.36)
#[doc(alias = "initialNode")]
pub fn initial_node(seen: &NodeObservation<'_>) -> NodeUpdate {
    let setup = seen.setup;
    let labels = first_labels(setup);
    let annotations =
        setup.controller_attach_detach.then(|| BTreeMap::from([(ATTACH_DETACH.to_owned(), "true".to_owned())]));
    let mut taints = setup.taints.clone();
    if setup.cloud == Cloud::External {
        taints.push(Taint {
            key: UNINITIALIZED.to_owned(),
            value: Some("true".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        });
    }
    let node = Node {
        metadata: ObjectMeta {
            name: Some(setup.name.clone()),
            labels: Some(labels),
            annotations,
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            taints: (!taints.is_empty()).then_some(taints),
            provider_id: Some(setup.provider_id.clone()).filter(|id| !id.is_empty()),
            ..NodeSpec::default()
        }),
        status: None,
    };
    updated_node(seen, &node)
}

/// The changes of registration to an existing node (NODE-05). Taints, the provider's id and labels that are
/// not among the default ones are never touched.
/// upstream: kubelet_node_status.go tryRegisterWithAPIServer (v1.36)
#[doc(alias = "tryRegisterWithAPIServer")]
pub fn reconcile_existing(seen: &NodeObservation<'_>, existing: &Node) -> Node {
    let first = initial_node(seen).node;
    let mut node = existing.clone();
    reconcile_annotation(&first, &mut node);
    reconcile_labels(&first, &mut node);
    let status = node.status.get_or_insert_default();
    let ours = first.status.unwrap_or_default();
    let capacity = status.capacity.get_or_insert_with(|| ours.capacity.clone().unwrap_or_default());
    let allocatable = status.allocatable.get_or_insert_with(|| ours.allocatable.clone().unwrap_or_default());
    for (name, amount) in capacity.iter_mut().filter(|(name, _)| is_extended(name) && seen.setup.unserved.has(name)) {
        *amount = Quantity("0".to_owned());
        allocatable.insert(name.clone(), amount.clone());
    }
    for (list, right) in [(capacity, ours.capacity), (allocatable, ours.allocatable)] {
        reconcile_pages(list, &right.unwrap_or_default());
    }
    node
}

fn reconcile_annotation(first: &Node, node: &mut Node) {
    let value = |node: &Node| node.metadata.annotations.as_ref().and_then(|all| all.get(ATTACH_DETACH).cloned());
    match value(first) {
        Some(wanted) => {
            node.metadata.annotations.get_or_insert_default().insert(ATTACH_DETACH.to_owned(), wanted);
        }
        None => {
            if let Some(annotations) = &mut node.metadata.annotations {
                annotations.remove(ATTACH_DETACH);
            }
        }
    }
}

fn reconcile_labels(first: &Node, node: &mut Node) {
    let wanted = first.metadata.labels.clone().unwrap_or_default();
    let labels = node.metadata.labels.get_or_insert_default();
    for key in DEFAULT_LABELS {
        match wanted.get(key).map(String::as_str) {
            Some("") => {
                labels.remove(key);
            }
            Some(value) => {
                labels.insert(key.to_owned(), value.to_owned());
            }
            None => {}
        }
    }
}

/// Removes sizes that the machine no longer supports, and sets the others to its values.
fn reconcile_pages(list: &mut BTreeMap<String, Quantity>, ours: &BTreeMap<String, Quantity>) {
    list.retain(|name, _| !name.starts_with(HUGEPAGES_PREFIX) || ours.contains_key(name));
    for (name, wanted) in ours.iter().filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX)) {
        if list.get(name).is_none_or(|known| Amount::of(known) != Amount::of(wanted)) {
            list.insert(name.clone(), wanted.clone());
        }
    }
}

/// Whether the object was last reported by another machine: two machines of one name would overwrite each other's reports.
pub fn seems_foreign(machine: &Machine, existing: &Node) -> bool {
    let Some(info) = existing.status.as_ref().and_then(|status| status.node_info.as_ref()) else { return false };
    let differs = |theirs: &str, ours: &str| !theirs.is_empty() && !ours.is_empty() && theirs != ours;
    differs(&info.system_uuid, &machine.system_uuid) || differs(&info.machine_id, &machine.machine_id)
}
