//! What configuration, flags, gates and facts come down to for the node's own object.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use k8s_openapi::api::core::v1::{Node, Taint};
use rubelet_core::config::{Gate, KubeletConfiguration, node_ips};
use rubelet_core::node::{
    Cloud, Machine, NodeSetup, Pressure, Reservations, ThresholdError, Unserved, declared_features, node_capacity,
    pods_limit, quantity,
};
use rubelet_core::resources::Amounts;
use rubelet_engine::node_reporter::{NodeParts, NodeTiming, Registration};
use rubelet_engine::ports::{LeaseApi, NodeApi, NodeFacts};
use rubelet_linux::host::machine::{MachineFiles, machine};
use tokio::sync::watch;

use super::max_pods;
use crate::config_load::Loaded;
use crate::flags::KUBERNETES_VERSION;

/// What is known of the node without an API server.
pub(crate) struct NodeSettings {
    setup: NodeSetup,
    timing: NodeTiming,
    registration: Registration,
    allocatable_enforced: bool,
}

impl NodeSettings {
    /// Reads what is left to read.
    pub(crate) fn new(loaded: &Loaded, facts: &NodeFacts) -> anyhow::Result<Self> {
        let config = &loaded.config;
        Ok(Self {
            setup: setup(loaded, facts)?,
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
            allocatable_enforced: config.cgroups_per_qos,
        })
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
        NodeParts {
            setup: self.setup,
            timing: self.timing,
            registration: self.registration,
            api,
            lease,
            watched,
            // Nobody measures it yet.
            pressure: watch::channel(Pressure::default()).1,
            allocatable_enforced: self.allocatable_enforced,
        }
    }
}

pub(super) fn setup(loaded: &Loaded, facts: &NodeFacts) -> anyhow::Result<NodeSetup> {
    let config = &loaded.config;
    let machine = this_machine(loaded, facts);
    let pods = max_pods(config, facts);
    let plugins = Path::new(&loaded.flags.root_dir).join("device-plugins/kubelet_internal_checkpoint");
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
        unserved: Unserved::from_checkpoint(std::fs::read_to_string(plugins).ok().as_deref()),
        kubelet_version: KUBERNETES_VERSION.to_owned(),
        reserved: reserved(loaded, &machine, pods)?,
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

/// What is kept from pods, eviction thresholds included (CG-20, CG-23).
fn reserved(loaded: &Loaded, machine: &Machine, pods: i64) -> anyhow::Result<Amounts> {
    let config = &loaded.config;
    let none = BTreeMap::new();
    let ignored = loaded.flags.experimental_allocatable_ignore_eviction;
    let reservations = Reservations {
        system: &config.system_reserved,
        kube: &config.kube_reserved,
        eviction_hard: if ignored { &none } else { &config.eviction_hard },
    };
    let capacity = node_capacity(machine, pods);
    let reserved = reservations.from_pods(&capacity)?;
    let too_much: Vec<String> = reserved
        .iter()
        .filter_map(|(name, kept)| {
            let all = capacity.get(name).copied().filter(|all| all < kept)?;
            let (kept, all) = (quantity(name, *kept).0, quantity(name, all).0);
            Some(format!("{kept} of {name} is reserved, but the node has only {all}"))
        })
        .collect();
    if !too_much.is_empty() {
        bail!("invalid node allocatable configuration: {}", too_much.join("; "));
    }
    Ok(reserved)
}

/// What pods may use together (CG-21): without `pods` in `enforceNodeAllocatable` all that the node has, as a new cgroup's
/// share of the CPUs would starve them.
/// upstream: cm/node_container_manager_linux.go createNodeAllocatableCgroups (v1.36)
pub(super) fn cgroup_limit(config: &KubeletConfiguration, facts: &NodeFacts) -> Result<Amounts, ThresholdError> {
    let files = MachineFiles { host: "/".into(), root_dir: "/".into() };
    let machine = Machine { storage_bytes: None, ..machine(&files, facts) };
    let capacity = node_capacity(&machine, max_pods(config, facts));
    let none = BTreeMap::new();
    let reservations =
        Reservations { system: &config.system_reserved, kube: &config.kube_reserved, eviction_hard: &none };
    let enforced = config.enforce_node_allocatable.iter().any(|what| what == "pods");
    let kept = if enforced { reservations.for_daemons(&capacity)? } else { Amounts::default() };
    Ok(pods_limit(&capacity, &kept))
}

#[cfg(test)]
mod tests;
