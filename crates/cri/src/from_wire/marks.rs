//! The annotations that a kubelet writes on a container when it creates it.
//! upstream: kuberuntime/labels.go getContainerInfoFromAnnotations (v1.36)

use rubelet_core::observe::ContainerMarks;
use rubelet_proto::cri;

use super::Labels;

const HASH: &str = "io.kubernetes.container.hash";
const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";
const POD_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";

/// Reads the annotations. An unreadable one counts as absent: the container is ours all the same.
pub(super) fn container_marks(annotations: &Labels, mounts: &[cri::Mount]) -> ContainerMarks {
    let text = |key: &str| annotations.get(key).cloned();
    let seconds = |key: &str| annotations.get(key)?.parse().ok();
    let path = text(TERMINATION_MESSAGE_PATH).unwrap_or_default();
    ContainerMarks {
        hash: annotations.get(HASH).and_then(|hash| u64::from_str_radix(hash, 16).ok()),
        restart_count: restart_count(annotations),
        termination_message_host_path: host_path_of(&path, mounts),
        termination_message_path: path,
        termination_message_policy: text(TERMINATION_MESSAGE_POLICY).unwrap_or_default(),
        pre_stop: text(PRE_STOP),
        ports: text(PORTS),
        pod_grace: seconds(POD_GRACE),
        deletion_grace: seconds(DELETION_GRACE),
    }
}

pub(super) fn restart_count(annotations: &Labels) -> u32 {
    annotations.get(RESTART_COUNT).and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// The host path of the termination message. A relative path is below `/`, as it was when the mount was made.
/// upstream: kuberuntime_container.go getTerminationMessage (v1.36)
fn host_path_of(container_path: &str, mounts: &[cri::Mount]) -> Option<String> {
    if container_path.is_empty() {
        return None;
    }
    let relative = container_path.trim_start_matches('/');
    let mount = mounts.iter().find(|mount| mount.container_path.trim_start_matches('/') == relative)?;
    Some(mount.host_path.clone())
}
