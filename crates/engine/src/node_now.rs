//! What the node is now: its addresses, its runtime, its labels, taints and allocatable resources.
//!
//! One task publishes this value. Admission, environments, DNS, sandboxes, hooks, statuses and the node's own object read
//! it at the moment of use and keep no copy. What cannot change while this process runs is in `NodeFacts` and `Settings`.

mod addresses;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node as ApiNode, Taint};
use rubelet_core::launch::HandlerFeatures;
use rubelet_core::node::Pressure;
use rubelet_core::resources::{Amount, Amounts};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::health::{RuntimeHealth, watch_runtime};
use crate::node::{Admission, Ports, Settings};
use crate::ports::RuntimeInfo;
use crate::task::TaskGroup;
use addresses::watch_addresses;

/// What the node is at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeNow {
    /// Addresses, primary family first; empty while none is known.
    pub ips: Arc<[IpAddr]>,
    /// The container runtime: its readiness, network and handlers.
    pub runtime: RuntimeHealth,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// The resources that the node offers to pods.
    pub allocatable: Amounts,
    /// The machine is about to go down.
    pub shutting_down: bool,
    /// What the node is short of.
    pub pressure: Pressure,
}

impl NodeNow {
    /// Labels and taints are those of the node's object, or, until that has been read, those of the configuration. Of its
    /// own resources the node itself knows best; the object may list further ones.
    #[doc(alias = "getNodeAnyWay")]
    fn of(configured: &Admission, ips: &[IpAddr], runtime: &RuntimeHealth, object: Option<&ApiNode>) -> Self {
        let mut now = Self {
            ips: ips.into(),
            runtime: runtime.clone(),
            labels: configured.labels.clone(),
            taints: configured.taints.clone(),
            allocatable: configured.allocatable.clone(),
            shutting_down: false,
            pressure: Pressure::default(),
        };
        let Some(object) = object else { return now };
        if let Some(labels) = &object.metadata.labels {
            now.labels.clone_from(labels);
        }
        now.taints = object.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let status = object.status.as_ref();
        for (name, quantity) in status.and_then(|status| status.allocatable.as_ref()).into_iter().flatten() {
            let amount = || if configured.unserved.contains(name) { Amount::ZERO } else { Amount::of(quantity) };
            now.allocatable.entry(name.clone()).or_insert_with(amount);
        }
        now
    }

    /// What the runtime handler called `name` can do; the empty name is the default handler.
    pub fn handler(&self, name: &str) -> HandlerFeatures {
        self.runtime.status.handlers.get(name).copied().unwrap_or_default()
    }
}

/// Starts the tasks that follow the node. `ips` are its addresses at the start; `shutting_down` follows the machine,
/// `pressure` what it is short of.
pub(crate) fn start(
    ports: &Ports,
    settings: &Settings,
    (ips, shutting_down, pressure): (Vec<IpAddr>, watch::Receiver<bool>, watch::Receiver<Option<Pressure>>),
    clock: &Clock,
    tasks: &mut TaskGroup,
) -> watch::Receiver<Arc<NodeNow>> {
    let (publish_runtime, runtime) = watch::channel(RuntimeHealth::default());
    let asked: Arc<dyn RuntimeInfo> = Arc::clone(&ports.runtime) as _;
    tasks.start("runtime-health", watch_runtime(asked, clock.clone(), publish_runtime, tasks.cancel_token()));
    let (publish_ips, ips) = watch::channel(ips);
    let addresses = watch_addresses(Arc::clone(&ports.addresses), settings.address_period, publish_ips);
    let cancel = tasks.cancel_token();
    tasks.start("node-addresses", async move {
        let _cancelled = cancel.run_until_cancelled(addresses).await;
    });
    let object = match &ports.cluster {
        Some(cluster) => cluster.view.node_changes(),
        None => watch::channel(None).1,
    };
    let mut inputs = Inputs { configured: settings.admission.clone(), ips, runtime, object, shutting_down, pressure };
    let (publish, now) = watch::channel(Arc::new(inputs.read()));
    tasks.start("node-now", inputs.run(publish, tasks.cancel_token()));
    now
}

/// All that the value follows from.
struct Inputs {
    configured: Admission,
    ips: watch::Receiver<Vec<IpAddr>>,
    runtime: watch::Receiver<RuntimeHealth>,
    object: watch::Receiver<Option<Arc<ApiNode>>>,
    shutting_down: watch::Receiver<bool>,
    pressure: watch::Receiver<Option<Pressure>>,
}

impl Inputs {
    async fn run(mut self, publish: watch::Sender<Arc<NodeNow>>, cancel: CancellationToken) {
        loop {
            let new = self.read();
            publish.send_if_modified(|known| {
                let changed = **known != new;
                if changed {
                    *known = Arc::new(new);
                }
                changed
            });
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = changed(&mut self.shutting_down) => {}
                () = changed(&mut self.pressure) => {}
                () = changed(&mut self.runtime) => {}
                () = changed(&mut self.ips) => {}
                () = changed(&mut self.object) => {}
            }
        }
    }

    fn read(&mut self) -> NodeNow {
        let Self { configured, ips, runtime, object, shutting_down, pressure } = self;
        let pressure = pressure.borrow_and_update().unwrap_or_default();
        let (ips, runtime, object) = (ips.borrow_and_update(), runtime.borrow_and_update(), object.borrow_and_update());
        let shutting_down = *shutting_down.borrow_and_update();
        NodeNow { shutting_down, pressure, ..NodeNow::of(configured, &ips, &runtime, object.as_deref()) }
    }
}

/// Waits for a change; for ever if there will be none.
pub(crate) async fn changed<T>(of: &mut watch::Receiver<T>) {
    if of.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
