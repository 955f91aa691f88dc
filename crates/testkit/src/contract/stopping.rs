//! Stopping and removing.

use std::time::Duration;

use rubelet_core::observe::SandboxState;

use super::Rig;

const UNKNOWN: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Stopping a stopped container or sandbox succeeds, and changes nothing.
pub async fn stop_is_idempotent(rig: &Rig) {
    let (sandbox, id) = rig.start(&["sh", "-c", "trap '' TERM; sleep 3600"]).await;
    for _ in 0..2 {
        rig.runtime.stop_container(&id, Duration::ZERO).await.expect("stopping a stopped container succeeds");
    }
    let ended = rig.until(&id, "ended", |state| state.exit().is_some()).await;
    for _ in 0..2 {
        rig.runtime.stop_sandbox(&sandbox).await.expect("stopping a stopped sandbox succeeds");
    }
    let after = rig.until(&id, "ended", |state| state.exit().is_some()).await;
    assert_eq!(after.state, ended.state, "an exit is final");
}

/// CRI-05: stopping an unknown container or sandbox succeeds.
pub async fn stop_of_unknown_succeeds(rig: &Rig) {
    rig.runtime
        .stop_container(&UNKNOWN.into(), Duration::from_secs(1))
        .await
        .expect("stopping a missing container succeeds");
    rig.runtime.stop_sandbox(&UNKNOWN.into()).await.expect("stopping a missing sandbox succeeds");
}

/// Removing a removed container or sandbox succeeds.
pub async fn remove_is_idempotent(rig: &Rig) {
    let (sandbox, id) = rig.start(&["sleep", "3600"]).await;
    rig.runtime.stop_container(&id, Duration::ZERO).await.expect("stopping a container succeeds");
    for _ in 0..2 {
        rig.runtime.remove_container(&id).await.expect("removing a removed container succeeds");
    }
    assert!(rig.look().await.containers.is_empty());
    rig.runtime.stop_sandbox(&sandbox).await.expect("stopping a sandbox succeeds");
    for _ in 0..2 {
        rig.runtime.remove_sandbox(&sandbox).await.expect("removing a removed sandbox succeeds");
    }
    assert!(rig.look().await.sandboxes.is_empty());
}

/// The grace period is a bound, not a delay.
pub async fn a_container_that_obeys_sigterm_stops_before_its_grace_is_over(rig: &Rig) {
    let (_, id) = rig.start(&["sh", "-c", "trap 'exit 0' TERM; echo trapped; sleep 3600 & wait"]).await;
    // The first process of a container ignores a SIGTERM that it has no handler for.
    rig.until_logged("trapped").await;
    let stop = rig.runtime.stop_container(&id, Duration::from_secs(300));
    tokio::time::timeout(rig.patience, stop)
        .await
        .expect("it does not wait for its grace to end")
        .expect("stopping a container succeeds");
    let ended = rig.until(&id, "ended", |state| state.exit().is_some()).await;
    assert_ne!(ended.state.exit().map(|exit| exit.code), Some(137), "it was not killed");
}

/// When the call returns the container has exited, even if it ignores SIGTERM.
pub async fn a_container_that_ignores_sigterm_is_killed_after_its_grace(rig: &Rig) {
    let (_, id) = rig.start(&["sh", "-c", "trap '' TERM; sleep 3600"]).await;
    let stop = rig.runtime.stop_container(&id, Duration::from_secs(1));
    tokio::time::timeout(rig.patience, stop)
        .await
        .expect("the grace is one second")
        .expect("stopping a container succeeds");
    let ended = rig.until(&id, "ended", |state| state.exit().is_some()).await;
    assert_eq!(ended.state.exit().map(|exit| exit.code), Some(137));
}

/// A stopped sandbox has no processes.
pub async fn stopping_a_sandbox_stops_its_containers(rig: &Rig) {
    let (sandbox, id) = rig.start(&["sh", "-c", "trap '' TERM; sleep 3600"]).await;
    rig.runtime.stop_sandbox(&sandbox).await.expect("stopping a sandbox succeeds");
    rig.until(&id, "ended", |state| state.exit().is_some()).await;
    let seen = rig.look().await;
    assert_eq!(seen.sandboxes[0].state, SandboxState::NotReady);
    assert!(seen.is_stopped());
}

/// With a sandbox its containers are removed.
pub async fn removing_a_sandbox_removes_its_containers(rig: &Rig) {
    let (sandbox, _) = rig.start(&["sleep", "3600"]).await;
    rig.runtime.stop_sandbox(&sandbox).await.expect("stopping a sandbox succeeds");
    rig.runtime.remove_sandbox(&sandbox).await.expect("removing a sandbox succeeds");
    let seen = rig.look().await;
    assert!(seen.sandboxes.is_empty() && seen.containers.is_empty(), "{seen:?}");
}
