//! The cgroups of pods and QoS classes (section 19).

use std::io::ErrorKind;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::PodUid;
use rubelet_core::qos::{CgroupPath, CgroupValues, MIN_SHARES, QosClass, QosValues, pod_values};

use crate::metrics::CgroupOperation;
use crate::node::Node;
use crate::node_cgroups::settle;
use crate::ports::{CgroupError, CgroupState};

/// Deadline for setting the QoS levels, which is a few writes to cgroupfs. They are set again later.
const LEVELS_WITHIN: Duration = Duration::from_secs(30);

/// Times an operation on a cgroup, for metrics.
pub(crate) async fn timed<T>(node: &Node, operation: CgroupOperation, work: impl Future<Output = T>) -> T {
    let began = node.clock.mono();
    let done = work.await;
    node.metrics.cgroup(operation, node.clock.mono().since(began));
    done
}

/// Creates the pod's cgroup and sets its values (SYNC-07, CG-11).
pub(crate) async fn ensure_pod(node: &Node, pod: &Pod) -> Result<(), CgroupError> {
    let launch = &node.settings.launch;
    if !launch.tree.per_qos() {
        return Ok(());
    }
    let (path, values) = (launch.tree.of_pod(pod), pod_values(pod, &launch.pod_cgroup_policy()));
    timed(node, CgroupOperation::Create, node.ports.cgroups.ensure(&path, &values)).await
}

/// Sets right what somebody changed of the cgroup of a pod that runs as it should. Returns what was found. One that is gone
/// is not made again here: no container would be in it.
pub(crate) async fn keep_pod(node: &Node, pod: &Pod) -> Result<CgroupState, CgroupError> {
    let (launch, cgroups) = (&node.settings.launch, node.ports.cgroups.as_ref());
    if !launch.tree.per_qos() {
        return Ok(CgroupState::AsWanted);
    }
    let (path, values) = (launch.tree.of_pod(pod), pod_values(pod, &launch.pod_cgroup_policy()));
    let found = cgroups.look(&path, &values).await?;
    if let CgroupState::Differs(_) = found {
        timed(node, CgroupOperation::Update, cgroups.ensure(&path, &values)).await?;
    }
    Ok(found)
}

/// Sets the values of the QoS levels, where they differ (CG-10). Returns what differed.
pub(crate) async fn ensure_levels(node: &Node, values: &QosValues) -> Result<Vec<String>, CgroupError> {
    let tree = &node.settings.launch.tree;
    if !tree.per_qos() {
        return Ok(Vec::new());
    }
    let set = async {
        let cgroups = node.ports.cgroups.as_ref();
        let mut found = Vec::new();
        for (class, values) in [(QosClass::Burstable, &values.burstable), (QosClass::BestEffort, &values.best_effort)] {
            let level = tree.level(class);
            match timed(node, CgroupOperation::Update, settle(cgroups, &level, values)).await? {
                CgroupState::AsWanted => {}
                CgroupState::Differs(values) => found.extend(values),
                CgroupState::Missing(places) => {
                    found.extend(places.into_iter().map(|place| format!("{place} is gone")))
                }
            }
        }
        Ok(found)
    };
    match tokio::time::timeout(LEVELS_WITHIN, set).await {
        Ok(done) => done,
        Err(_) => {
            let path = tree.root().cgroupfs();
            Err(CgroupError::Io { action: "set the QoS levels below", path, source: ErrorKind::TimedOut.into() })
        }
    }
}

/// Removes the pod's cgroup (CG-13).
pub(crate) async fn remove_pod(node: &Node, pod: Option<&Pod>, uid: &PodUid) -> Result<(), CgroupError> {
    for path in pod_paths(node, pod, uid) {
        timed(node, CgroupOperation::Destroy, node.ports.cgroups.destroy(&path)).await?;
    }
    Ok(())
}

/// Lowers the CPU shares of the pod's cgroup, if it has one, to the least there is. The cgroup of a pod whose volumes are
/// still mounted stays, or the pages of a tmpfs would be charged to all pods; until then what is left in it gets little
/// CPU time (HK-11).
#[doc(alias = "ReduceCPULimits")]
pub(crate) async fn lower_pod(node: &Node, pod: Option<&Pod>, uid: &PodUid) -> Result<(), CgroupError> {
    let least = CgroupValues { cpu_shares: Some(MIN_SHARES), ..CgroupValues::default() };
    for path in pod_paths(node, pod, uid) {
        if let CgroupState::Differs(_) = node.ports.cgroups.look(&path, &least).await? {
            timed(node, CgroupOperation::Update, node.ports.cgroups.ensure(&path, &least)).await?;
        }
    }
    Ok(())
}

/// The pod's cgroup. If only the UID is known, the cgroup of every QoS class; none without cgroups per class.
fn pod_paths(node: &Node, pod: Option<&Pod>, uid: &PodUid) -> Vec<CgroupPath> {
    let tree = &node.settings.launch.tree;
    match pod {
        _ if !tree.per_qos() => Vec::new(),
        Some(pod) => vec![tree.of_pod(pod)],
        None => [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort].map(|c| tree.pod(c, uid)).into(),
    }
}
