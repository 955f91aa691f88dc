//! The cgroups of pods and QoS classes (section 19).

use std::io::ErrorKind;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::PodUid;
use rubelet_core::qos::{QosClass, QosValues, pod_values};

use crate::node::Node;
use crate::ports::CgroupError;

/// Deadline for setting the QoS levels, which is a few writes to cgroupfs. They are set again later.
const LEVELS_WITHIN: Duration = Duration::from_secs(30);

/// Creates the pod's cgroup and sets its values (SYNC-07, CG-11).
pub(crate) async fn ensure_pod(node: &Node, pod: &Pod) -> Result<(), CgroupError> {
    let launch = &node.settings.launch;
    if !launch.tree.per_qos() {
        return Ok(());
    }
    node.ports.cgroups.ensure(&launch.tree.of_pod(pod), &pod_values(pod, &launch.pod_cgroup_policy())).await
}

/// Sets the values of the QoS levels (CG-10).
pub(crate) async fn ensure_levels(node: &Node, values: &QosValues) -> Result<(), CgroupError> {
    let tree = &node.settings.launch.tree;
    if !tree.per_qos() {
        return Ok(());
    }
    let set = async {
        node.ports.cgroups.ensure(&tree.level(QosClass::Burstable), &values.burstable).await?;
        node.ports.cgroups.ensure(&tree.level(QosClass::BestEffort), &values.best_effort).await
    };
    match tokio::time::timeout(LEVELS_WITHIN, set).await {
        Ok(done) => done,
        Err(_) => {
            let path = tree.root().cgroupfs();
            Err(CgroupError::Io { action: "set the QoS levels below", path, source: ErrorKind::TimedOut.into() })
        }
    }
}

/// Removes the pod's cgroup (CG-13). If only the UID is known, the cgroup of every QoS class is removed.
pub(crate) async fn remove_pod(node: &Node, pod: Option<&Pod>, uid: &PodUid) -> Result<(), CgroupError> {
    let tree = &node.settings.launch.tree;
    if !tree.per_qos() {
        return Ok(());
    }
    let paths = match pod {
        Some(pod) => vec![tree.of_pod(pod)],
        None => [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort].map(|c| tree.pod(c, uid)).into(),
    };
    for path in paths {
        node.ports.cgroups.destroy(&path).await?;
    }
    Ok(())
}
