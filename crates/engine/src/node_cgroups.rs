//! The cgroups of the node itself: the cgroup of all pods, the QoS levels, and those of daemons whose resources are
//! reserved (section 19).
//!
//! [`prepare`] makes and sets them at the start. Later on the sync loop has them looked at each minute: a value that
//! somebody changed is set right, and nothing is written while all is as it should be.

use std::io::ErrorKind;
use std::time::Duration;

use rubelet_core::node::{ReservedCgroup, pods_not_enforced};
use rubelet_core::qos::{CgroupPath, CgroupValues, QosClass, qos_values};
use tracing::warn;

use crate::chain::Chain;
use crate::node::{Node, Settings};
use crate::ports::{CgroupError, CgroupState, Cgroups};

/// Deadline for a look at the cgroups of the node, which is a few reads and writes. The next look comes soon.
const WITHIN: Duration = Duration::from_secs(30);

/// Why the node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The cgroup of all pods or a QoS level cannot be made.
    #[error(transparent)]
    Pods(#[from] CgroupError),
    /// The limits of daemons cannot be set (CG-22).
    #[error("{0}")]
    Reserved(String),
}

/// What a look at the cgroups of the node found, and whether it could set right what was wrong.
#[derive(Debug)]
pub(crate) struct NodeLook {
    /// The cgroup of all pods; `None` without cgroups per QoS class.
    pub(crate) pods: Option<Result<CgroupState, String>>,
    /// The cgroups of daemons, in the order of the settings.
    pub(crate) reserved: Vec<Result<CgroupState, String>>,
    /// What kept processes from their cgroups.
    pub(crate) processes: Vec<String>,
    /// Processes that were moved out of the root cgroup.
    pub(crate) moved: usize,
}

/// Makes the cgroups that hold all pods and sets the limits of daemons (CG-10, CG-21, CG-22).
///
/// A cgroup of all pods that does not take its limits is no failure: pods may use more memory than it allows, until some
/// of them are evicted. Daemons whose limits cannot be set end the start.
///
/// upstream: cm/container_manager_linux.go setupNode, cm/qos_container_manager_linux.go Start (v1.36)
#[doc(alias = "setupNode")]
pub async fn prepare(cgroups: &dyn Cgroups, settings: &Settings) -> Result<(), PrepareError> {
    let (tree, wanted) = (&settings.launch.tree, &settings.node_cgroups);
    if !tree.per_qos() {
        return Ok(());
    }
    let root = tree.root();
    settle(cgroups, &root, &CgroupValues::default()).await?;
    if let Err(err) = settle(cgroups, &root, &wanted.pods).await {
        let message = pods_not_enforced(&root, &Chain(&err).to_string());
        warn!("{message}; it is tried again each minute");
    }
    let levels = qos_values([], &settings.launch.hugepage_sizes);
    // The pods that decide the CPU shares of burstable ones are not known yet: those of before a restart stay.
    let burstable = CgroupValues { cpu_shares: None, ..levels.burstable };
    settle(cgroups, &tree.level(QosClass::Burstable), &burstable).await?;
    settle(cgroups, &tree.level(QosClass::BestEffort), &levels.best_effort).await?;
    for reserved in &wanted.reserved {
        let settled = settle_existing(cgroups, reserved).await;
        settled.map_err(|err| PrepareError::Reserved(reserved.not_enforced(&Chain(&err).to_string())))?;
    }
    Ok(())
}

/// Sets a cgroup right if it is missing or has other values. Returns what was found.
pub(crate) async fn settle(
    cgroups: &dyn Cgroups,
    path: &CgroupPath,
    values: &CgroupValues,
) -> Result<CgroupState, CgroupError> {
    let found = cgroups.look(path, values).await?;
    if found != CgroupState::AsWanted {
        cgroups.ensure(path, values).await?;
    }
    Ok(found)
}

/// The same for a cgroup of daemons, which is never made.
async fn settle_existing(cgroups: &dyn Cgroups, reserved: &ReservedCgroup) -> Result<CgroupState, CgroupError> {
    let found = cgroups.look(&reserved.path, &reserved.values).await?;
    match &found {
        CgroupState::AsWanted => {}
        CgroupState::Differs(_) => cgroups.ensure(&reserved.path, &reserved.values).await?,
        CgroupState::Missing(places) => {
            return Err(CgroupError::NotThere { path: reserved.name.clone(), places: places.clone() });
        }
    }
    Ok(found)
}

/// Looks at the cgroups of the node and its processes, and sets right what is wrong. The QoS levels are looked at with
/// the pods that count for them.
pub(crate) async fn look(node: &Node) -> NodeLook {
    let (tree, wanted) = (&node.settings.launch.tree, &node.settings.node_cgroups);
    let cgroups = node.ports.cgroups.as_ref();
    let pods = if tree.per_qos() {
        Some(in_time(&tree.root().cgroupfs(), settle(cgroups, &tree.root(), &wanted.pods)).await)
    } else {
        None
    };
    let mut reserved = Vec::new();
    for one in &wanted.reserved {
        reserved.push(in_time(&one.name, settle_existing(cgroups, one)).await);
    }
    let mut look = NodeLook { pods, reserved, processes: Vec::new(), moved: 0 };
    if !wanted.system.is_empty() {
        match in_time(&wanted.system, node.ports.processes.keep_system(&wanted.system)).await {
            Ok(moved) => look.moved = moved,
            Err(err) => look.processes.push(format!("systemCgroups {}: {err}", wanted.system)),
        }
    }
    let agent = Some(wanted.agent.as_str()).filter(|cgroup| !cgroup.is_empty());
    if let Err(err) = in_time(agent.unwrap_or("/"), node.ports.processes.keep_agent(agent)).await {
        look.processes.push(match agent {
            Some(cgroup) => format!("kubeletCgroups {cgroup}: {err}"),
            None => err,
        });
    }
    look
}

async fn in_time<T>(path: &str, work: impl Future<Output = Result<T, CgroupError>>) -> Result<T, String> {
    let late = || CgroupError::Io { action: "look at", path: path.to_owned(), source: ErrorKind::TimedOut.into() };
    let result = tokio::time::timeout(WITHIN, work).await.unwrap_or_else(|_| Err(late()));
    result.map_err(|err| Chain(&err).to_string())
}
