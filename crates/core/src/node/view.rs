//! The inputs of the node object.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

use super::health::NodeHealth;
use crate::launch::HandlerFeatures;
use crate::resources::Amounts;

/// Facts about the machine, read once at start: they do not change while the machine is up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "MachineInfo")]
pub struct Machine {
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// The firmware's UUID of the machine.
    pub system_uuid: String,
    /// New with every boot.
    pub boot_id: String,
    /// Release of the kernel, such as `6.1.0-13-amd64`.
    pub kernel: String,
    /// Such as `Debian GNU/Linux 13 (trixie)`.
    pub os_image: String,
    /// As the API spells it, such as `amd64`.
    pub architecture: String,
    /// CPUs in thousandths.
    pub cpu_millis: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Swap in bytes.
    pub swap_bytes: i64,
    /// How many huge pages are set aside, by their size in bytes.
    pub hugepages: BTreeMap<u64, u64>,
    /// How many processes and threads the kernel can have; `None` if it is unknown.
    #[doc(alias = "MaxPID")]
    pub process_ids: Option<i64>,
    /// Size of the file system that holds the root directory; `None` if it is unknown, or is not counted
    /// (`localStorageCapacityIsolation`).
    pub storage_bytes: Option<i64>,
}

/// Whether a cloud controller manages parts of the node object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cloud {
    /// There is none.
    #[default]
    None,
    /// A cloud controller sets addresses and removes the initial taint: `--cloud-provider=external`.
    External,
}

/// What configuration, flags and the machine determine. Built once, at start-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSetup {
    /// Name of the node.
    pub name: String,
    /// The host's name, or `--hostname-override`.
    pub hostname: String,
    /// `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// `registerWithTaints`.
    pub taints: Vec<Taint>,
    /// `providerID`; empty for none.
    pub provider_id: String,
    /// `enableControllerAttachDetach`.
    pub controller_attach_detach: bool,
    /// `--cloud-provider`.
    pub cloud: Cloud,
    /// `--node-ip` as given, unspecified addresses included.
    pub asked_ips: Vec<IpAddr>,
    /// Port of the node's own API.
    pub port: i32,
    /// `nodeStatusMaxImages`; `None` is no limit.
    pub max_images: Option<usize>,
    /// `localStorageCapacityIsolation`: without a figure for `ephemeral-storage` the node is not ready.
    pub local_storage: bool,
    /// Features that the scheduler may count on; `None` with the gate off.
    pub declared_features: Option<Vec<String>>,
    /// Extended resources that the object may list and that nothing on this node serves (NODE-05, DEV-07).
    pub unserved: Unserved,
    /// Version that we report, such as `v1.36.4`.
    pub kubelet_version: String,
    /// The machine.
    pub machine: Machine,
    /// `maxPods`, or what `podsPerCore` leaves of it.
    pub pods: i64,
    /// Resources reserved from pods, including eviction thresholds (CG-20).
    pub reserved: Amounts,
}

/// Extended resources that the node's object may list from before, and that nothing on this node serves.
///
/// The checkpoint of upstream's device manager distinguishes resources of device plugins from those that an administrator
/// advertises. The latter are accounted by the scheduler alone, and stay.
#[doc(alias = "ShouldResetExtendedResourceCapacity")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// No device manager has run here since the root directory was created: all that the object lists is stale.
    All,
    /// The resources that device plugins had registered.
    Named(BTreeSet<String>),
}

impl Default for Unserved {
    fn default() -> Self {
        Self::Named(BTreeSet::new())
    }
}

impl Unserved {
    /// From the text of `kubelet_internal_checkpoint`, if there is one. An unreadable checkpoint counts as none.
    pub fn from_checkpoint(text: Option<&str>) -> Self {
        let checkpoint = text.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
        let registered = checkpoint.as_ref().and_then(|all| all.get("Data")?.get("RegisteredDevices"));
        match registered {
            Some(serde_json::Value::Object(devices)) => Self::Named(devices.keys().cloned().collect()),
            // None was ever registered.
            Some(serde_json::Value::Null) => Self::Named(BTreeSet::new()),
            Some(_) | None => Self::All,
        }
    }

    /// Whether nothing serves the extended resource `name`.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(name),
        }
    }
}

/// An image on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeImage {
    /// The runtime's id: decides between images of one size.
    pub id: String,
    /// Names with digests.
    pub digests: Vec<String>,
    /// Names with tags.
    pub tags: Vec<String>,
    /// Size in bytes.
    pub size: u64,
}

/// What the node is short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Memory.
    pub memory: bool,
    /// Room on a disk.
    pub disk: bool,
    /// Process ids.
    pub pid: bool,
}

/// What the node is now, as its object is made from it.
#[derive(Clone, Copy, Debug)]
pub struct NodeObservation<'a> {
    /// What does not change.
    pub setup: &'a NodeSetup,
    /// Its addresses, primary family first; empty if none is known.
    pub ips: &'a [IpAddr],
    /// The runtime's name, such as `containerd`.
    pub runtime_name: &'a str,
    /// The version that it reported; `None` if it could not be asked.
    pub runtime_version: Option<&'a str>,
    /// The features of its handlers, by name; `None` before it reported them.
    pub handlers: Option<&'a BTreeMap<String, HandlerFeatures>>,
    /// Whether it supports the supplemental groups policy; `None` before it reported that.
    pub supplemental_groups_policy: Option<bool>,
    /// Images, in any order; `None` before they were listed.
    pub images: Option<&'a [NodeImage]>,
    /// The node's health.
    pub health: &'a NodeHealth,
    /// What it is short of; `None` before it was measured: the object's conditions stay as they are.
    pub pressure: Option<Pressure>,
    /// Attachable volumes that pods use; `None` leaves what is there.
    pub volumes_in_use: Option<&'a [String]>,
    /// Now.
    pub now: Timestamp,
}

/// An event about the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNews {
    /// Upstream's reason, such as `NodeReady`.
    pub reason: &'static str,
    /// It is a warning.
    pub warning: bool,
    /// The message.
    pub message: String,
}

impl NodeNews {
    /// The event for a change of the node's status to `reason`.
    pub(super) fn is_now(node: &str, reason: &'static str) -> Self {
        Self { reason, warning: false, message: format!("Node {node} status is now: {reason}") }
    }
}
