//! The settings of the Node object and its lease, made from configuration, flags, gates and the facts of the machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use rubelet_core::config::{Gate, node_ips};
use rubelet_core::node::{Cloud, Machine, NodeSetup, Unserved, declared_features, max_pods, node_capacity, reserved};
use rubelet_engine::node_reporter::{NodeParts, NodeTiming, Registration};
use rubelet_engine::ports::{LeaseApi, NodeApi, NodeFacts};
use rubelet_linux::host::machine::{MachineFiles, device_checkpoint, machine};
use tokio::sync::watch;

use crate::config_load::Loaded;
use crate::flags::KUBERNETES_VERSION;

/// The inputs of the Node object and its lease, besides the API server.
pub(crate) struct NodeSettings {
    setup: NodeSetup,
    timing: NodeTiming,
    registration: Registration,
}

impl NodeSettings {
    /// The node in a cluster.
    pub(crate) fn new(loaded: &Loaded, setup: NodeSetup) -> Self {
        let config = &loaded.config;
        Self {
            setup,
            timing: NodeTiming {
                update_every: config.node_status_update_frequency.to_std(),
                report_every: config.node_status_report_frequency.to_std(),
                lease_seconds: config.node_lease_duration_seconds,
            },
            registration: match (config.register_node, loaded.gates.enabled(Gate::KubeletRegistrationGetOnExistsOnly)) {
                (false, _) => Registration::ByOthers,
                (true, false) => Registration::Ours,
                (true, true) => Registration::OursOrNone,
            },
        }
    }

    /// How long a request about the node or its lease may take (NODE-31).
    pub(crate) fn deadline(&self) -> Duration {
        let lease = Duration::from_secs(u64::try_from(self.timing.lease_seconds).unwrap_or_default());
        self.timing.update_every.min(lease)
    }

    /// What the engine needs to report the node; `watched` is its object as the cluster's view has it.
    pub(crate) fn parts(
        self,
        api: Arc<dyn NodeApi>,
        lease: Arc<dyn LeaseApi>,
        watched: watch::Receiver<Option<Arc<Node>>>,
    ) -> NodeParts {
        NodeParts { setup: self.setup, timing: self.timing, registration: self.registration, api, lease, watched }
    }
}

/// The fields of the Node object that configuration, flags and the machine decide.
pub(crate) fn node_setup(loaded: &Loaded, facts: &NodeFacts) -> anyhow::Result<NodeSetup> {
    let config = &loaded.config;
    let machine = this_machine(loaded, facts);
    let pods = max_pods(config, facts.cpu_millis);
    let ignore_eviction = loaded.flags.experimental_allocatable_ignore_eviction;
    let devices = device_checkpoint(Path::new(&loaded.flags.root_dir));
    Ok(NodeSetup {
        name: facts.name.clone(),
        hostname: facts.hostname.clone(),
        labels: loaded.flags.node_labels.clone(),
        taints: config.register_with_taints.iter().map(taint).collect(),
        provider_id: config.provider_id.clone(),
        controller_attach_detach: config.enable_controller_attach_detach,
        cloud: if loaded.flags.cloud_provider == "external" { Cloud::External } else { Cloud::None },
        asked_ips: node_ips(&loaded.flags.node_ip)?.addresses,
        port: config.port,
        max_images: usize::try_from(config.node_status_max_images).ok(),
        local_storage: config.local_storage_capacity_isolation,
        declared_features: declared_features(|gate| loaded.gates.enabled(gate)),
        unserved: Unserved::from_checkpoint(devices.as_deref()),
        kubelet_version: KUBERNETES_VERSION.to_owned(),
        reserved: reserved(config, ignore_eviction, &node_capacity(&machine, pods))?,
        machine,
        pods,
    })
}

fn this_machine(loaded: &Loaded, facts: &NodeFacts) -> Machine {
    let files = MachineFiles { host: "/".into(), root_dir: (&loaded.flags.root_dir).into() };
    let machine = machine(&files, facts);
    let storage_bytes = machine.storage_bytes.filter(|_| loaded.config.local_storage_capacity_isolation);
    Machine { storage_bytes, ..machine }
}

fn taint(taint: &rubelet_core::config::Taint) -> Taint {
    Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.clone(),
        time_added: None,
    }
}

#[cfg(test)]
mod tests;
