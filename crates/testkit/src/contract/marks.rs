//! The annotations that a kubelet writes on a container can be read after its restart.

use super::Rig;
use crate::runtime::marks::{HASH, MESSAGE_PATH, MESSAGE_POLICY, RESTART_COUNT};

/// Hash, restart count and termination message settings are read back as they were written.
pub async fn restart_count_and_hash_marks_roundtrip(rig: &Rig) {
    let sandbox = rig.run_sandbox(0).await;
    let mut config = rig.container_config("app", 4, &["sleep", "3600"]);
    config.annotations = crate::map([
        (HASH, "8e45cbd0"),
        (RESTART_COUNT, "4"),
        (MESSAGE_PATH, "/dev/termination-log"),
        (MESSAGE_POLICY, "File"),
        ("io.kubernetes.pod.terminationGracePeriod", "30"),
        ("io.kubernetes.pod.deletionGracePeriod", "5"),
        ("io.kubernetes.container.ports", "[]"),
    ]);
    let id = rig.create(&sandbox, &config).await;
    let marks = rig.until(&id, "there", |_| true).await.marks;
    assert_eq!(marks.hash, Some(0x8e45_cbd0));
    assert_eq!(marks.restart_count, 4);
    assert_eq!(marks.termination_message_path, "/dev/termination-log");
    assert_eq!(marks.termination_message_policy, "File");
    assert_eq!(marks.pod_grace, Some(30));
    assert_eq!(marks.deletion_grace, Some(5));
    assert_eq!(marks.ports.as_deref(), Some("[]"));
    assert_eq!(marks.pre_stop, None);
    let list = rig.runtime.list().await.expect("listing pods succeeds");
    let pod = list.iter().find(|pod| pod.pod.uid == rig.uid()).expect("the pod is listed");
    assert_eq!(pod.containers[&id].restart_count, 4);
}
