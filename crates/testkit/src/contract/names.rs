//! Unique names, which keep a lost answer from making a pod twice.

use rubelet_engine::ports::RpcErrorKind;

use super::Rig;

/// The same pod and attempt cannot be run twice.
pub async fn a_sandbox_name_is_unique(rig: &Rig) {
    let sandbox = rig.run_sandbox(0).await;
    let again = rig.runtime.run_sandbox(&rig.sandbox_config(0)).await.expect_err("the name is taken");
    assert_eq!(again.kind, RpcErrorKind::AlreadyExists, "{again}");
    assert_eq!(rig.look().await.sandboxes.len(), 1);
    rig.runtime.stop_sandbox(&sandbox).await.expect("stopping a sandbox succeeds");
    let again = rig.runtime.run_sandbox(&rig.sandbox_config(0)).await.expect_err("a stopped one keeps its name");
    assert_eq!(again.kind, RpcErrorKind::AlreadyExists, "{again}");
}

/// The same container and attempt cannot be created twice in a pod.
pub async fn a_container_name_is_unique(rig: &Rig) {
    let sandbox = rig.run_sandbox(0).await;
    let config = rig.container_config("app", 0, &["sleep", "3600"]);
    rig.create(&sandbox, &config).await;
    let again = rig.runtime.create_container(&sandbox, &config, &rig.sandbox_config(0)).await;
    let again = again.expect_err("the name is taken");
    assert_eq!(again.kind, RpcErrorKind::AlreadyExists, "{again}");
    assert_eq!(rig.look().await.containers.len(), 1);
    rig.create(&sandbox, &rig.container_config("app", 1, &["sleep", "3600"])).await;
}

/// Once removed, a name can be used again.
pub async fn a_removed_name_can_be_reused(rig: &Rig) {
    let sandbox = rig.run_sandbox(0).await;
    let config = rig.container_config("app", 0, &["sleep", "3600"]);
    let id = rig.create(&sandbox, &config).await;
    rig.runtime.remove_container(&id).await.expect("removing a container succeeds");
    let next = rig.create(&sandbox, &config).await;
    assert_ne!(next, id, "ids are never used twice");
    rig.runtime.stop_sandbox(&sandbox).await.expect("stopping a sandbox succeeds");
    rig.runtime.remove_sandbox(&sandbox).await.expect("removing a sandbox succeeds");
    assert_ne!(rig.run_sandbox(0).await, sandbox, "ids are never used twice");
}
