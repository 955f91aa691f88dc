//! The fake runtime misbehaves exactly as scripted, and deterministically.

use std::time::Duration;

use expect_test::expect;
use futures_util::StreamExt as _;
use rubelet_core::id::{ContainerId, SandboxId};
use rubelet_core::launch::{ContainerConfig, ImageSpec, SandboxConfig};
use rubelet_core::time::Instant;
use rubelet_engine::ports::{Containers, Images, RpcError, RpcErrorKind, RuntimeView, Sandboxes};
use rubelet_testkit::{Behaviour, DEFAULT_IMAGE, FakeRuntime, Faults, Odds, Pull, TestClock, map};

const HOUR: Duration = Duration::from_secs(3600);

fn runtime(seed: u64) -> FakeRuntime {
    let runtime = FakeRuntime::seeded(TestClock::start(), seed);
    runtime.add_image(DEFAULT_IMAGE);
    runtime
}

fn sandbox(pod: &str, attempt: u32) -> SandboxConfig {
    let uid = format!("{pod}-uid");
    let labels = map([("io.kubernetes.pod.uid", uid.as_str()), ("io.kubernetes.pod.name", pod)]);
    SandboxConfig { name: pod.into(), uid, namespace: "default".into(), attempt, labels, ..Default::default() }
}

fn container(name: &str, attempt: u32) -> ContainerConfig {
    let labels = map([("io.kubernetes.pod.uid", "x"), ("io.kubernetes.container.name", name)]);
    let image = ImageSpec { image: DEFAULT_IMAGE.into(), ..Default::default() };
    ContainerConfig { name: name.into(), attempt, image, labels, ..Default::default() }
}

async fn start(runtime: &FakeRuntime, pod: &str, name: &str) -> Result<(SandboxId, ContainerId), RpcError> {
    let config = sandbox(pod, 0);
    let home = runtime.run_sandbox(&config).await?;
    let id = runtime.create_container(&home, &container(name, 0), &config).await?;
    runtime.start_container(&id).await?;
    Ok((home, id))
}

#[tokio::test(start_paused = true)]
async fn calls_are_recorded_in_order_of_effect() {
    let runtime = runtime(0);
    runtime.script("app", [Behaviour::runs().ignores_term()]);
    let (home, id) = start(&runtime, "web", "app").await.unwrap();
    assert_eq!(runtime.running("web"), ["app"]);
    runtime.stop_container(&id, Duration::from_secs(30)).await.unwrap();
    runtime.stop_sandbox(&home).await.unwrap();
    runtime.remove_sandbox(&home).await.unwrap();
    expect![[r#"
        1ms web run_sandbox attempt=0
        3ms web create app
        5ms web start app
        7ms web stop app grace=30s
        30.009s web stop_sandbox
        30.011s web remove_sandbox
    "#]]
    .assert_eq(&runtime.timeline());
    assert_eq!(runtime.world(), "");
}

#[tokio::test(start_paused = true)]
async fn scripts_go_by_attempt_and_the_last_one_repeats() {
    let runtime = runtime(0);
    let ends = |code| Behaviour::exits_after(Duration::from_secs(1), code);
    runtime.script("web/app", [Behaviour::fails_to_create("no"), Behaviour::fails_to_start("never"), ends(3)]);
    let config = sandbox("web", 0);
    let home = runtime.run_sandbox(&config).await.unwrap();
    for attempt in 0..4 {
        if let Ok(id) = runtime.create_container(&home, &container("app", attempt), &config).await {
            runtime.start_container(&id).await.ok();
        }
    }
    tokio::time::advance(HOUR).await;
    let seen = runtime.inspect(&"web-uid".into(), Instant::START).await.unwrap();
    let ends: Vec<_> = seen.containers.iter().map(|c| c.state.exit().map(|e| (e.code, e.reason.clone()))).collect();
    let error = Some((3, "Error".to_owned()));
    assert_eq!(ends, [error.clone(), error, Some((128, "StartError".to_owned()))]);
    assert_eq!(runtime.calls("web")[1..4], ["create app: Failed", "create app", "start app: Failed"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_leaves_its_effect_behind() {
    let runtime = runtime(0);
    runtime.set_faults(Faults { lost_reply_after_effect: Odds::ALWAYS, ..Faults::NONE });
    let error = runtime.run_sandbox(&sandbox("web", 0)).await.unwrap_err();
    assert_eq!(error.kind, RpcErrorKind::Timeout);
    runtime.set_faults(Faults::NONE);
    assert_eq!(runtime.world(), "web-uid: sandbox#0 Ready\n");
    assert_eq!(runtime.run_sandbox(&sandbox("web", 0)).await.unwrap_err().kind, RpcErrorKind::AlreadyExists);
}

#[tokio::test(start_paused = true)]
async fn a_late_effect_keeps_its_name_reserved_until_it_comes() {
    let runtime = runtime(0);
    runtime.set_faults(Faults { late_effect: Odds::ALWAYS, ..Faults::NONE });
    assert_eq!(runtime.run_sandbox(&sandbox("web", 0)).await.unwrap_err().kind, RpcErrorKind::Timeout);
    runtime.set_faults(Faults::NONE);
    assert_eq!(runtime.world(), "");
    assert_eq!(runtime.run_sandbox(&sandbox("web", 0)).await.unwrap_err().kind, RpcErrorKind::AlreadyExists);
    tokio::time::advance(HOUR).await;
    assert_eq!(runtime.world(), "web-uid: sandbox#0 Ready\n");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_may_have_had_its_effect_or_not() {
    let runtime = runtime(0);
    let config = sandbox("web", 0);
    runtime.set_latency(Duration::from_millis(20));
    for (patience, world) in [(5, ""), (15, "web-uid: sandbox#0 Ready\n")] {
        let call = runtime.run_sandbox(&config);
        tokio::time::timeout(Duration::from_millis(patience), call).await.unwrap_err();
        assert_eq!(runtime.world(), world);
    }
}

#[tokio::test(start_paused = true)]
async fn no_sigkill_is_sent_for_a_caller_that_stopped_waiting() {
    let runtime = runtime(0);
    runtime.script("app", [Behaviour::runs().ignores_term()]);
    let (_, id) = start(&runtime, "web", "app").await.unwrap();
    let stop = runtime.stop_container(&id, Duration::from_secs(30));
    tokio::time::timeout(Duration::from_secs(10), stop).await.unwrap_err();
    tokio::time::advance(HOUR).await;
    assert_eq!(runtime.running("web"), ["app"]);
}

#[tokio::test(start_paused = true)]
async fn a_hung_pod_delays_no_other() {
    let runtime = runtime(0);
    runtime.hang(&"stuck-uid".into());
    let other = runtime.clone();
    let stuck = start(&runtime, "stuck", "app");
    tokio::pin!(stuck);
    assert!(futures_util::poll!(&mut stuck).is_pending());
    start(&other, "web", "app").await.unwrap();
    assert!(other.clock().elapsed() < Duration::from_secs(1));
    assert_eq!(stuck.await.unwrap_err().kind, RpcErrorKind::Timeout);
    assert_eq!(other.clock().elapsed().as_secs(), 120);
    runtime.release(&"stuck-uid".into());
    start(&runtime, "stuck", "app").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unrequested_exit_sends_a_hint() {
    let runtime = runtime(0);
    let mut hints = runtime.hints().await.unwrap();
    runtime.script("app", [Behaviour::exits_after(Duration::from_secs(5), 1)]);
    start(&runtime, "web", "app").await.unwrap();
    // The sandbox runs, the container is created, it starts, it ends.
    for _ in 0..4 {
        assert_eq!(hints.next().await.unwrap().unwrap().uid, "web-uid".into());
    }
    assert_eq!(runtime.clock().elapsed(), Duration::from_millis(5005));
    runtime.go_away(Duration::from_secs(9));
    assert!(hints.next().await.is_none(), "the stream ends with the connection");
    assert_eq!(runtime.list().await.unwrap_err().kind, RpcErrorKind::Unavailable);
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(runtime.list().await.unwrap().len(), 1, "the objects are still there");
}

#[tokio::test(start_paused = true)]
async fn a_reboot_ends_everything_and_loses_nothing() {
    let runtime = runtime(0);
    start(&runtime, "web", "app").await.unwrap();
    runtime.reboot();
    assert_eq!(runtime.world(), "web-uid: sandbox#0 NotReady, app#0 Exited\n");
}

#[tokio::test(start_paused = true)]
async fn duplicate_containers_and_sandboxes_are_violations() {
    let runtime = runtime(0);
    let (home, _) = start(&runtime, "web", "app").await.unwrap();
    let twin = runtime.create_container(&home, &container("app", 1), &sandbox("web", 0)).await.unwrap();
    runtime.start_container(&twin).await.unwrap();
    runtime.run_sandbox(&sandbox("web", 1)).await.unwrap();
    assert_eq!(runtime.violations(), ["web-uid: container app runs twice", "web: two ready sandboxes"]);
}

#[tokio::test(start_paused = true)]
async fn pulls_go_by_script() {
    let runtime = runtime(0);
    let spec = |name: &str| ImageSpec { image: name.into(), ..Default::default() };
    runtime.script_pull("bad:1", Pull::Fails(RpcErrorKind::NotFound, "manifest unknown".into()));
    assert_eq!(runtime.pull_image(&spec("bad:1"), None, None).await.unwrap_err().detail, "manifest unknown");
    let id = runtime.pull_image(&spec("good:1"), None, Some(&sandbox("web", 0))).await.unwrap();
    assert_eq!(runtime.image_status(&spec("good:1")).await.unwrap().unwrap().id, id);
    assert_eq!(runtime.calls("web"), ["pull good:1"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    async fn run(seed: u64) -> String {
        let runtime = runtime(seed);
        runtime.set_faults(Faults::MANY);
        for n in 0..40 {
            start(&runtime, &format!("pod{n}"), "app").await.ok();
        }
        runtime.timeline() + &runtime.world()
    }
    let first = run(7).await;
    assert_eq!(first, run(7).await);
    assert_ne!(first, run(8).await);
}
