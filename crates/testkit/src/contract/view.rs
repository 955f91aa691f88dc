//! Listing and inspecting pods.

use futures_util::StreamExt as _;
use rubelet_core::observe::{ContainerStateKind, SandboxState};
use rubelet_core::time::Instant;
use rubelet_engine::ports::RpcErrorKind;

use super::Rig;

/// The runtime has a name, speaks CRI v1, and is ready.
pub async fn the_runtime_reports_version_and_status(rig: &Rig) {
    let version = rig.runtime.version().await.expect("the version can be had");
    assert!(!version.name.is_empty());
    assert!(!version.version.is_empty());
    let status = rig.runtime.status().await.expect("the status can be had");
    assert!(status.runtime.ready, "runtime is not ready: {:?}", status.runtime);
    rig.runtime.cgroup_driver().await.expect("asking for the cgroup driver never fails for want of the call");
}

/// Inspecting an unknown pod is not an error: the observation is empty.
pub async fn inspect_of_unknown_is_empty(rig: &Rig) {
    let at = Instant::from_secs(7);
    let seen = rig.runtime.inspect(&"no-such-uid".into(), at).await.expect("an unknown pod is no error");
    assert!(seen.sandboxes.is_empty() && seen.containers.is_empty());
    assert_eq!(seen.pod.uid.as_str(), "no-such-uid");
    assert_eq!(seen.at, at, "the observation has the time at which it began");
}

/// A container is in the list and in the observation, with the same ids, names and states.
pub async fn list_shows_created_objects(rig: &Rig) {
    let sandbox = rig.run_sandbox(0).await;
    let app = rig.create(&sandbox, &rig.container_config("app", 0, &["sleep", "3600"])).await;
    rig.runtime.start_container(&app).await.expect("a container can be started");
    let idle = rig.create(&sandbox, &rig.container_config("idle", 0, &["sleep", "3600"])).await;

    let list = rig.runtime.list().await.expect("listing pods succeeds");
    let pod = list.iter().find(|pod| pod.pod.uid == rig.uid()).expect("the pod is listed");
    assert_eq!(pod.pod, rig.look().await.pod);
    assert_eq!(&*pod.pod.namespace, "default");
    assert!(pod.is_running());
    assert_eq!(pod.sandboxes[&sandbox].state, SandboxState::Ready);
    assert_eq!(pod.containers[&app].state, ContainerStateKind::Running);
    assert_eq!(pod.containers[&app].name, "app");
    assert_eq!(pod.containers[&app].sandbox, sandbox);
    assert_eq!(pod.containers[&idle].state, ContainerStateKind::Created);

    let seen = rig.look().await;
    assert_eq!(seen.sandboxes.len(), 1);
    assert_eq!(seen.sandboxes[0].id, sandbox);
    assert_eq!(seen.sandboxes[0].network, rig.network);
    assert_eq!(seen.newest("app").expect("the container is seen").id, app);
    assert_eq!(seen.newest("idle").expect("the container is seen").id, idle);
    assert!(!seen.newest("app").expect("the container is seen").image_id.is_empty());
}

/// RT-70: objects of other clients are not shown.
pub async fn objects_without_our_labels_are_not_shown(rig: &Rig) {
    let mut config = rig.sandbox_config(0);
    config.labels.clear();
    let sandbox = rig.runtime.run_sandbox(&config).await.expect("a sandbox can be run");
    let list = rig.runtime.list().await.expect("listing pods succeeds");
    assert!(list.iter().all(|pod| pod.pod.uid != rig.uid()), "it has no label of ours");
    assert!(rig.look().await.sandboxes.is_empty());
    rig.runtime.stop_sandbox(&sandbox).await.expect("stopping a sandbox succeeds");
    rig.runtime.remove_sandbox(&sandbox).await.expect("removing a sandbox succeeds");
}

/// The newest sandbox and the newest instance of each container come first.
pub async fn newest_instances_come_first(rig: &Rig) {
    let first = rig.run_sandbox(0).await;
    let old = rig.create(&first, &rig.container_config("app", 0, &["sleep", "3600"])).await;
    let new = rig.create(&first, &rig.container_config("app", 1, &["sleep", "3600"])).await;
    rig.runtime.stop_sandbox(&first).await.expect("stopping a sandbox succeeds");
    let second = rig.run_sandbox(1).await;
    let seen = rig.look().await;
    let sandboxes: Vec<_> = seen.sandboxes.iter().map(|s| (s.id.clone(), s.attempt)).collect();
    assert_eq!(sandboxes, [(second, 1), (first, 0)]);
    let instances: Vec<_> = seen.instances("app").map(|c| c.id.clone()).collect();
    assert_eq!(instances, [new, old]);
}

/// If the runtime offers hints, a change of a pod is followed by a hint with its UID.
pub async fn hints_follow_changes(rig: &Rig) {
    let mut hints = match rig.runtime.hints().await {
        Ok(hints) => hints,
        Err(error) => return assert_eq!(error.kind, RpcErrorKind::Unimplemented),
    };
    let (_, id) = rig.start(&["sleep", "3600"]).await;
    rig.runtime.stop_container(&id, std::time::Duration::ZERO).await.expect("stopping a container succeeds");
    let ours = async {
        while let Some(hint) = hints.next().await {
            if hint.expect("the stream goes on").uid == rig.uid() {
                return true;
            }
        }
        false
    };
    assert_eq!(tokio::time::timeout(rig.patience, ours).await, Ok(true), "a hint names the pod");
}
