//! Reads back the annotations that a kubelet writes on sandboxes and containers, as `crates/cri` does.

use std::collections::BTreeMap;

use rubelet_core::launch::ContainerConfig;
use rubelet_core::observe::ContainerMarks;

/// Label with the pod's UID: an object without it is not ours (RT-70).
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
pub(crate) const HASH: &str = "io.kubernetes.container.hash";
pub(crate) const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
pub(crate) const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
pub(crate) const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";
const POD_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";

pub(super) fn of(config: &ContainerConfig) -> ContainerMarks {
    let get = |key: &str| config.annotations.get(key).cloned();
    let path = get(MESSAGE_PATH).unwrap_or_default();
    let mounted = config.mounts.iter().find(|mount| mount.container_path == path && !path.is_empty());
    ContainerMarks {
        hash: get(HASH).and_then(|hex| u64::from_str_radix(&hex, 16).ok()),
        restart_count: restart_count(&config.annotations),
        termination_message_policy: get(MESSAGE_POLICY).unwrap_or_default(),
        pre_stop: get(PRE_STOP),
        ports: get(PORTS),
        pod_grace: get(POD_GRACE).and_then(|secs| secs.parse().ok()),
        deletion_grace: get(DELETION_GRACE).and_then(|secs| secs.parse().ok()),
        termination_message_host_path: mounted.map(|mount| mount.host_path.clone()),
        termination_message_path: path,
    }
}

pub(super) fn restart_count(annotations: &BTreeMap<String, String>) -> u32 {
    annotations.get(RESTART_COUNT).and_then(|count| count.parse().ok()).unwrap_or_default()
}
