//! Starting containers, and commands in them.

use std::time::Duration;

use rubelet_core::observe::ContainerState;
use rubelet_engine::ports::{RpcErrorKind, Session, StdStreams};

use super::Rig;

fn command<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).to_vec()
}

/// A created container does not run before it is started.
pub async fn a_container_runs_only_once_started(rig: &Rig) {
    let sandbox = rig.run_sandbox(0).await;
    let id = rig.create(&sandbox, &rig.container_config("app", 0, &["sleep", "3600"])).await;
    let made = rig.until(&id, "created", |state| *state == ContainerState::Created).await;
    rig.runtime.start_container(&id).await.expect("a container can be started");
    let runs = rig.until(&id, "running", ContainerState::is_running).await;
    let ContainerState::Running { started_at } = runs.state else { panic!("it runs") };
    assert!(started_at >= made.created_at);
    assert_eq!(runs.sandbox, sandbox);
}

/// A container runs once: a restart is another container.
pub async fn starting_twice_fails(rig: &Rig) {
    let (_, id) = rig.start(&["sleep", "3600"]).await;
    let error = rig.runtime.start_container(&id).await.expect_err("it runs already");
    assert_eq!(error.kind, RpcErrorKind::AlreadyExists, "{error}");
    rig.runtime.stop_container(&id, Duration::ZERO).await.expect("stopping a container succeeds");
    rig.until(&id, "ended", |state| state.exit().is_some()).await;
    let error = rig.runtime.start_container(&id).await.expect_err("it has exited");
    assert_eq!(error.kind, RpcErrorKind::Failed, "{error}");
}

/// Starting an unknown container, or running a command in it, is "not found".
pub async fn start_of_unknown_is_not_found(rig: &Rig) {
    let unknown = "0000000000000000000000000000000000000000000000000000000000000000".into();
    let error = rig.runtime.start_container(&unknown).await.expect_err("there is no such container");
    assert_eq!(error.kind, RpcErrorKind::NotFound, "{error}");
    let error = rig.runtime.exec_sync(&unknown, &command(["true"]), Duration::from_secs(5)).await;
    assert_eq!(error.expect_err("there is no such container").kind, RpcErrorKind::NotFound);
}

/// No container runs without a sandbox that is ready. containerd 1.6 refuses to create one there, 2.1 only to start it.
pub async fn a_container_needs_a_sandbox(rig: &Rig) {
    let config = rig.container_config("app", 0, &["sleep", "3600"]);
    let home = rig.sandbox_config(0);
    let unknown = "0000000000000000000000000000000000000000000000000000000000000000".into();
    let error = rig.runtime.create_container(&unknown, &config, &home).await.expect_err("there is no such sandbox");
    assert_eq!(error.kind, RpcErrorKind::NotFound, "{error}");
    let sandbox = rig.run_sandbox(0).await;
    rig.runtime.stop_sandbox(&sandbox).await.expect("stopping a sandbox succeeds");
    if let Ok(id) = rig.runtime.create_container(&sandbox, &config, &home).await {
        rig.runtime.start_container(&id).await.expect_err("the sandbox is stopped");
    }
    assert!(rig.look().await.is_stopped());
}

/// RT-111: the start fails, and the container's status has the reason.
pub async fn a_command_that_does_not_exist_fails_to_start(rig: &Rig) {
    let sandbox = rig.run_sandbox(0).await;
    let id = rig.create(&sandbox, &rig.container_config("app", 0, &["/no/such/program"])).await;
    let error = rig.runtime.start_container(&id).await.expect_err("there is no such program");
    assert_eq!(error.kind, RpcErrorKind::Failed, "{error}");
    assert!(error.detail.contains("/no/such/program"), "the message names the program: {error}");
    let ended = rig.until(&id, "ended", |state| state.exit().is_some()).await;
    let exit = ended.state.exit().expect("it has ended");
    assert_eq!((exit.code, exit.reason.as_str()), (128, "StartError"));
}

/// The exit of a container is visible, with times in order. Exception: containerd records a start only after the call
/// has returned, so that a short-lived container may have a finish time before its start time.
pub async fn exit_code_is_seen(rig: &Rig) {
    let sandbox = rig.run_sandbox(0).await;
    for (name, script, code, reason) in [("good", "exit 0", 0, "Completed"), ("bad", "exit 7", 7, "Error")] {
        let id = rig.create(&sandbox, &rig.container_config(name, 0, &["sh", "-c", script])).await;
        rig.runtime.start_container(&id).await.expect("a container can be started");
        let ended = rig.until(&id, "ended", |state| state.exit().is_some()).await;
        let exit = ended.state.exit().expect("it has ended");
        assert_eq!((exit.code, exit.reason.as_str()), (code, reason));
        assert!(ended.created_at <= exit.started_at && ended.created_at <= exit.finished_at, "{ended:?}");
    }
}

/// A failing command is not a failing call.
pub async fn exec_sync_reports_exit_code(rig: &Rig) {
    let (_, id) = rig.start(&["sleep", "3600"]).await;
    for code in [0, 3] {
        let command = command(["sh", "-c", &format!("exit {code}")]);
        let output = rig.runtime.exec_sync(&id, &command, Duration::from_secs(10)).await;
        assert_eq!(output.expect("the command could be run").exit_code, code);
    }
}

/// A command's output is returned.
pub async fn exec_sync_reports_output(rig: &Rig) {
    let (_, id) = rig.start(&["sleep", "3600"]).await;
    let output = rig.runtime.exec_sync(&id, &command(["echo", "hello"]), Duration::from_secs(10)).await;
    assert_eq!(output.expect("the command could be run").stdout, b"hello\n");
}

/// A command that takes too long is a timeout, and the container keeps running.
pub async fn exec_sync_ends_in_time(rig: &Rig) {
    let (_, id) = rig.start(&["sleep", "3600"]).await;
    let output = rig.runtime.exec_sync(&id, &command(["sleep", "3600"]), Duration::from_secs(1)).await;
    assert_eq!(output.expect_err("it takes an hour").kind, RpcErrorKind::Timeout);
    rig.until(&id, "running", ContainerState::is_running).await;
}

/// A session needs a running container or sandbox; its address is an HTTP URL.
pub async fn a_session_needs_a_running_container(rig: &Rig) {
    let wanted = StdStreams { stdout: true, ..StdStreams::default() };
    let unknown = "0000000000000000000000000000000000000000000000000000000000000000";
    let (runtime, command) = (&rig.runtime, command(["true"]));
    for outcome in [
        runtime.exec(&unknown.into(), &command, wanted).await,
        runtime.attach(&unknown.into(), wanted).await,
        runtime.port_forward(&unknown.into(), &[]).await,
    ] {
        assert_eq!(outcome.expect_err("there is no such container").kind, RpcErrorKind::NotFound);
    }
    let (sandbox, id) = rig.start(&["sleep", "3600"]).await;
    for outcome in [
        runtime.exec(&id, &command, wanted).await,
        runtime.attach(&id, wanted).await,
        runtime.port_forward(&sandbox, &[]).await,
    ] {
        let Session::Url(address) = outcome.expect("it runs");
        assert!(address.starts_with("http://") || address.starts_with("https://"), "{address}");
    }
    runtime.stop_container(&id, Duration::ZERO).await.expect("stopping a container succeeds");
    rig.until(&id, "ended", |state| state.exit().is_some()).await;
    runtime.exec(&id, &command, wanted).await.expect_err("it has ended");
    runtime.attach(&id, wanted).await.expect_err("it has ended");
}
