//! Pods that get other resources while they run (section 16).

use k8s_openapi::api::core::v1::{ContainerResizePolicy, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_testkit::{Behaviour, FakeApi, pod};

use crate::sim::{Sim, is_ready};

fn condition(api: &FakeApi, name: &str, kind: &str) -> Option<PodCondition> {
    api.status(name).conditions.into_iter().flatten().find(|c| c.type_ == kind)
}

/// Sets a request and limit of the pod's first container.
fn set(api: &FakeApi, name: &str, resource: &str, amount: &str) {
    api.edit(name, |pod: &mut Pod| {
        *pod.metadata.generation.get_or_insert_default() += 1;
        let container = pod.spec.as_mut().and_then(|spec| spec.containers.first_mut()).expect("a container");
        let resources = container.resources.get_or_insert_default();
        for list in [&mut resources.limits, &mut resources.requests] {
            list.get_or_insert_default().insert(resource.to_owned(), Quantity(amount.to_owned()));
        }
    });
}

fn cpu(name: &str, amount: &str) -> rubelet_testkit::PodBuilder {
    pod(name).request("cpu", amount).limit("cpu", amount).request("memory", "64Mi").limit("memory", "64Mi")
}

async fn until_ready(sim: &Sim, api: &FakeApi, name: &str) {
    sim.until(10, &format!("{name} to be ready"), async |_| is_ready(&api.status(name))).await;
}

async fn until_done(sim: &Sim, api: &FakeApi, name: &str, shows: &str) {
    sim.until(10, &format!("{name} to have been resized to {shows}"), async |_| {
        let status = api.status(name);
        let first = status.container_statuses.into_iter().flatten().next();
        let limits = first.and_then(|c| c.resources).and_then(|r| r.limits);
        let seen = limits.is_some_and(|limits| limits.values().any(|q| q.0 == shows));
        seen && condition(api, name, "PodResizeInProgress").is_none()
            && condition(api, name, "PodResizePending").is_none()
    })
    .await;
}

fn resizes(sim: &Sim, name: &str) -> Vec<String> {
    sim.runtime.calls(name).into_iter().filter(|line| line.contains("resize ")).collect()
}

// RSZ-03, RSZ-06, RSZ-07, RSZ-10
#[tokio::test(start_paused = true)]
async fn a_container_gets_more_without_being_restarted() {
    let (sim, api) = Sim::in_cluster(1).await;
    api.put(&cpu("web", "100m").build());
    until_ready(&sim, &api, "web").await;
    let began = sim.clock.elapsed();
    set(&api, "web", "cpu", "200m");
    until_done(&sim, &api, "web", "200m").await;
    assert!((sim.clock.elapsed() - began).as_millis() < 500, "{:?}", sim.clock.elapsed() - began);
    let lines = resizes(&sim, "web");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("shares=204 quota=20000 memory=67108864"), "{lines:#?}");
    let status = api.status("web");
    assert_eq!(status.container_statuses.iter().flatten().map(|c| c.restart_count).sum::<i32>(), 0);
    let events = sim.events.lines("web").join("\n");
    assert!(events.contains("Normal ResizeStarted: Pod resize started: {"), "{events}");
    assert!(events.contains("Normal ResizeCompleted: Pod resize completed: {"), "{events}");
    sim.pass(600).await;
    assert_eq!(resizes(&sim, "web").len(), 1, "once is enough");
    sim.check_laws();
}

// RSZ-09
#[tokio::test(start_paused = true)]
async fn a_container_that_wants_to_be_restarted_is() {
    let (sim, api) = Sim::in_cluster(2).await;
    let policy = ContainerResizePolicy { resource_name: "memory".into(), restart_policy: "RestartContainer".into() };
    api.put(&cpu("web", "100m").edit_container(|c| c.resize_policy = Some(vec![policy])).build());
    until_ready(&sim, &api, "web").await;
    set(&api, "web", "memory", "128Mi");
    until_done(&sim, &api, "web", "128Mi").await;
    until_ready(&sim, &api, "web").await;
    let status = api.status("web");
    assert_eq!(status.container_statuses.iter().flatten().map(|c| c.restart_count).sum::<i32>(), 1);
    assert!(resizes(&sim, "web").is_empty(), "{:#?}", resizes(&sim, "web"));
    sim.check_laws();
}

// RSZ-01, RSZ-02, RSZ-04
#[tokio::test(start_paused = true)]
async fn what_does_not_fit_waits_over_a_restart_until_there_is_room() {
    let (mut sim, api) = Sim::in_cluster(3).await;
    api.put(&cpu("web", "1").build());
    api.put(&cpu("neighbour", "62").build());
    until_ready(&sim, &api, "web").await;
    until_ready(&sim, &api, "neighbour").await;
    set(&api, "web", "cpu", "3");
    sim.until(10, "the resize to wait", async |_| {
        condition(&api, "web", "PodResizePending").is_some_and(|c| c.reason.as_deref() == Some("Deferred"))
    })
    .await;
    assert!(resizes(&sim, "web").is_empty());
    sim.pass(1).await;
    sim.restart().await;
    sim.pass(200).await;
    assert!(resizes(&sim, "web").is_empty(), "what it was given outlives the process");
    assert!(condition(&api, "web", "PodResizePending").is_some());
    assert!(sim.metrics().await.contains("kubelet_pod_pending_resizes{reason=\"deferred\"} 1\n"));
    api.delete("neighbour", 1);
    until_done(&sim, &api, "web", "3").await;
    let page = sim.metrics().await;
    assert!(
        page.contains("kubelet_pod_deferred_accepted_resizes_total{retry_trigger=\"pod_terminated\"} 1\n"),
        "{page}"
    );
    assert_eq!(resizes(&sim, "web").len(), 1);
    sim.check_laws();
}

// LOOP-06, RSZ-06
/// TRAP-15: what the node never had waits as well, for it may be taken back or the node may grow.
#[tokio::test(start_paused = true)]
async fn more_than_the_node_has_is_deferred_and_not_infeasible_trap_15() {
    let (sim, api) = Sim::in_cluster(12).await;
    api.put(&cpu("web", "1").build());
    until_ready(&sim, &api, "web").await;
    set(&api, "web", "cpu", "1000");
    let deferred = |api: &FakeApi| {
        condition(api, "web", "PodResizePending").is_some_and(|c| c.reason.as_deref() == Some("Deferred"))
    };
    sim.until(10, "the resize to wait", async |_| deferred(&api)).await;
    sim.pass(200).await;
    assert!(deferred(&api) && resizes(&sim, "web").is_empty(), "{:#?}", resizes(&sim, "web"));
    let lines = sim.events.lines("web");
    assert!(!lines.iter().any(|line| line.contains("Infeasible")), "{lines:#?}");
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_deferred_resize_is_pending_until_it_is_taken_back() {
    let (sim, api) = Sim::in_cluster(10).await;
    api.put(&cpu("web", "1").build());
    api.put(&cpu("neighbour", "62").build());
    until_ready(&sim, &api, "web").await;
    until_ready(&sim, &api, "neighbour").await;
    set(&api, "web", "cpu", "3");
    sim.until(10, "the resize to wait", async |_| {
        condition(&api, "web", "PodResizePending").is_some_and(|c| c.reason.as_deref() == Some("Deferred"))
    })
    .await;
    sim.pass(400).await;
    let lines = sim.events.lines("web");
    let deferred = lines.iter().filter(|line| line.starts_with("Warning ResizeDeferred: Pod resize Deferred: {"));
    assert_eq!(deferred.count(), 1, "{lines:#?}");
    set(&api, "web", "cpu", "1");
    sim.until(10, "the condition to go", async |_| condition(&api, "web", "PodResizePending").is_none()).await;
    api.delete("neighbour", 1);
    sim.pass(400).await;
    assert!(resizes(&sim, "web").is_empty(), "{:#?}", resizes(&sim, "web"));
    sim.check_laws();
}

// RSZ-08
#[tokio::test(start_paused = true)]
async fn a_limit_below_what_is_in_use_waits() {
    let (sim, api) = Sim::in_cluster(4).await;
    api.put(&cpu("web", "100m").build());
    until_ready(&sim, &api, "web").await;
    let groups = sim.cgroups.paths();
    sim.cgroups.set_all_memory_used(60 << 20);
    set(&api, "web", "memory", "32Mi");
    sim.until(10, "the resize to fail", async |_| {
        condition(&api, "web", "PodResizeInProgress").is_some_and(|c| c.reason.as_deref() == Some("Error"))
    })
    .await;
    assert!(resizes(&sim, "web").is_empty(), "nothing is killed for memory; cgroups: {groups:#?}");
    sim.pass(120).await;
    let lines = sim.events.lines("web");
    let errors = lines.iter().filter(|line| line.starts_with("Warning ResizeError: Pod resize error: {"));
    assert_eq!(errors.count(), 1, "SYNC-15: once, however often it is tried: {lines:#?}");
    sim.cgroups.set_all_memory_used(8 << 20);
    sim.until(120, "the resize to be made", async |_| resizes(&sim, "web").len() == 1).await;
    until_done(&sim, &api, "web", "32Mi").await;
    sim.check_laws();
}

// RSZ-02, RSZ-12
#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_down_is_written_as_soon_as_it_can_be() {
    let (sim, api) = Sim::in_cluster(6).await;
    api.put(&cpu("web", "100m").build());
    until_ready(&sim, &api, "web").await;
    sim.pass(1).await;
    sim.checkpoints.set_full(true);
    set(&api, "web", "cpu", "200m");
    until_done(&sim, &api, "web", "200m").await;
    sim.pass(30).await;
    let says = |sim: &Sim, file: &str| sim.checkpoints.text(file).is_some_and(|text| text.contains("200m"));
    assert!(!says(&sim, "allocated_pods_state"));
    sim.checkpoints.set_full(false);
    sim.pass(12).await;
    assert!(says(&sim, "allocated_pods_state") && says(&sim, "actuated_pods_state"));
    let page = sim.metrics().await;
    for line in [
        "kubelet_container_requested_resizes_total{operation=\"increase\",requirement=\"limits\",resource=\"cpu\"} 1",
        "kubelet_container_requested_resizes_total{operation=\"increase\",requirement=\"requests\",resource=\"cpu\"} 1",
        "kubelet_pod_resize_duration_milliseconds_count{success=\"true\"} 1",
        "kubelet_pod_in_progress_resizes 0",
    ] {
        assert!(page.lines().any(|l| l == line), "{line} in\n{page}");
    }
}

/// A status that knows of the new spec knows of the resize: who waits for one goes by that.
// RSZ-06, RSZ-10; upstream: test/e2e/common/node/framework/podresize WaitForPodResizeActuation (v1.36)
#[tokio::test(start_paused = true)]
async fn no_status_knows_the_new_spec_and_not_the_resize() {
    for seed in 20..30 {
        let (sim, api) = Sim::in_cluster(seed).await;
        sim.runtime.set_latency(std::time::Duration::from_millis(20));
        api.put(&cpu("web", "100m").build());
        until_ready(&sim, &api, "web").await;
        for amount in ["200m", "150m", "300m"] {
            set(&api, "web", "cpu", amount);
            let wanted = api.pod("web").and_then(|pod| pod.metadata.generation);
            sim.until(10, "the status to know the new spec", async |_| api.status("web").observed_generation == wanted)
                .await;
            let open = ["PodResizeInProgress", "PodResizePending"].map(|kind| condition(&api, "web", kind));
            if open.iter().all(Option::is_none) {
                let first = api.status("web").container_statuses.into_iter().flatten().next();
                let limits = first.and_then(|c| c.resources).and_then(|r| r.limits).unwrap_or_default();
                assert_eq!(limits.get("cpu").map(|q| q.0.as_str()), Some(amount), "SIM_SEED={seed}");
            }
            until_done(&sim, &api, "web", amount).await;
        }
        sim.check_laws();
    }
}

// RSZ-08, RSZ-10: the status shows the pod-level resources that are actuated, not those that are allocated
#[tokio::test(start_paused = true)]
async fn the_status_shows_pod_level_resources_as_actuated() {
    let (sim, api) = Sim::in_cluster(31).await;
    api.put(&cpu("web", "100m").build());
    until_ready(&sim, &api, "web").await;
    sim.cgroups.set_all_memory_used(60 << 20);
    set(&api, "web", "memory", "32Mi");
    sim.until(10, "the resize to fail", async |_| {
        condition(&api, "web", "PodResizeInProgress").is_some_and(|c| c.reason.as_deref() == Some("Error"))
    })
    .await;
    let shown = |api: &FakeApi| {
        let limits = api.status("web").resources.and_then(|r| r.limits).unwrap_or_default();
        limits.get("memory").map(|q| q.0.clone())
    };
    assert_eq!(shown(&api).as_deref(), Some("64Mi"));
    sim.cgroups.set_all_memory_used(1 << 20);
    sim.until(120, "the resize to be made", async |_| resizes(&sim, "web").len() == 1).await;
    until_done(&sim, &api, "web", "32Mi").await;
    assert_eq!(shown(&api).as_deref(), Some("32Mi"));
    sim.check_laws();
}

// RSZ-02: killed during a resize call, the next process actuates what is left
#[tokio::test(start_paused = true)]
async fn a_resize_that_is_cut_off_is_taken_up_after_a_restart() {
    for millis in [1, 250, 400, 600, 900, 1500, 3000] {
        let (mut sim, api) = Sim::in_cluster(40 + millis).await;
        api.put(&cpu("web", "100m").build());
        until_ready(&sim, &api, "web").await;
        sim.pass(1).await;
        sim.runtime.set_latency(std::time::Duration::from_millis(200));
        set(&api, "web", "cpu", "200m");
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        sim.restart().await;
        until_done(&sim, &api, "web", "200m").await;
        let last = resizes(&sim, "web").pop().unwrap_or_default();
        assert!(last.contains("quota=20000"), "killed after {millis} ms: {:#?}", resizes(&sim, "web"));
        sim.check_laws();
    }
}

// RSZ-07: two calls of the runtime take twice as long as one
#[tokio::test(start_paused = true)]
async fn one_container_gets_its_memory_and_cpu_at_once() {
    let (sim, api) = Sim::in_cluster(60).await;
    api.put(&cpu("web", "100m").build());
    until_ready(&sim, &api, "web").await;
    api.edit("web", |pod: &mut Pod| {
        *pod.metadata.generation.get_or_insert_default() += 1;
        let container = pod.spec.as_mut().and_then(|spec| spec.containers.first_mut()).expect("a container");
        let limits = container.resources.get_or_insert_default().limits.get_or_insert_default();
        limits.insert("cpu".to_owned(), Quantity("200m".to_owned()));
        limits.insert("memory".to_owned(), Quantity("128Mi".to_owned()));
    });
    until_done(&sim, &api, "web", "200m").await;
    let lines = resizes(&sim, "web");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("quota=20000 memory=134217728"), "{lines:#?}");
    sim.check_laws();
}

// RT-44
#[tokio::test(start_paused = true)]
async fn actuated_resources_are_recorded_before_the_create_whatever_comes_of_it() {
    let (sim, api) = Sim::in_cluster(9).await;
    sim.runtime.script("app", [Behaviour::runs(), Behaviour::fails_to_create("no space left on device")]);
    api.put(&cpu("web", "100m").build());
    until_ready(&sim, &api, "web").await;
    sim.runtime.end_container("web", "app", 1);
    set(&api, "web", "cpu", "200m");
    sim.until(60, "the create to fail", async |sim| {
        sim.events.lines("web").iter().any(|line| line.contains("no space left on device"))
    })
    .await;
    sim.pass(12).await;
    assert!(sim.checkpoints.text("actuated_pods_state").is_some_and(|text| text.contains("200m")));
}

// RSZ-02, LOOP-07, HK-05
#[tokio::test(start_paused = true)]
async fn the_allocation_of_a_pod_is_forgotten_with_the_pod() {
    let (sim, api) = Sim::in_cluster(11).await;
    let (web, other) = (cpu("web", "100m").uid("web-uid").build(), cpu("other", "100m").uid("other-uid").build());
    api.put(&web);
    api.put(&other);
    until_ready(&sim, &api, "web").await;
    until_ready(&sim, &api, "other").await;
    sim.pass(5).await;
    let has = |uid: &str| {
        ["allocated_pods_state", "actuated_pods_state"]
            .map(|file| sim.checkpoints.text(file).is_some_and(|text| text.contains(uid)))
    };
    assert_eq!((has("web-uid"), has("other-uid")), ([true; 2], [true; 2]));
    api.delete("web", 1);
    sim.until_gone("web", 30).await;
    sim.pass(5).await;
    assert_eq!((has("web-uid"), has("other-uid")), ([false; 2], [true; 2]));
}

// RSZ-06: a resize that is allocated while a job is at work is completed by a later job
#[tokio::test(start_paused = true)]
async fn a_resize_that_was_started_during_a_job_is_completed() {
    let (sim, api) = Sim::in_cluster(12).await;
    let slow = Behaviour::exits(1).start_takes(std::time::Duration::from_secs(10));
    sim.runtime.script("app", [slow, Behaviour::runs()]);
    api.put(&cpu("web", "100m").build());
    sim.until(10, "the start to be under way", async |sim| {
        sim.runtime.calls("web").iter().any(|line| line.contains("create app"))
    })
    .await;
    set(&api, "web", "cpu", "200m");
    sim.until(60, "the next instance to be ready", async |_| is_ready(&api.status("web"))).await;
    let lines = sim.events.lines("web");
    let count = |event: &str| lines.iter().filter(|line| line.starts_with(event)).count();
    assert_eq!((count("Normal ResizeStarted"), count("Normal ResizeCompleted")), (1, 1), "{lines:#?}");
    assert!(condition(&api, "web", "PodResizeInProgress").is_none());
}

// RSZ-06: a resize that is allocated while a job is at work replaces the failed one that the job works on
#[tokio::test(start_paused = true)]
async fn a_resize_that_is_allocated_during_a_job_is_the_one_in_progress() {
    let (sim, api) = Sim::in_cluster(70).await;
    let slow = Behaviour::runs().start_takes(std::time::Duration::from_secs(60));
    sim.runtime.script("other", [Behaviour::runs(), slow]);
    api.put(&cpu("web", "100m").container("other").build());
    until_ready(&sim, &api, "web").await;
    sim.cgroups.set_all_memory_used(60 << 20);
    set(&api, "web", "memory", "32Mi");
    sim.until(10, "the resize to fail", async |_| {
        condition(&api, "web", "PodResizeInProgress").is_some_and(|c| c.reason.as_deref() == Some("Error"))
    })
    .await;
    // The job that restarts the other container is at work for a minute.
    sim.runtime.end_container("web", "other", 1);
    sim.pass(30).await;
    set(&api, "web", "memory", "96Mi");
    sim.pass(1).await;
    assert!(resizes(&sim, "web").is_empty(), "the job is still at work");
    sim.until(120, "the new resize to be made", async |_| resizes(&sim, "web").len() == 1).await;
    until_done(&sim, &api, "web", "96Mi").await;
    let lines = sim.events.lines("web");
    let completed = lines.iter().find(|line| line.starts_with("Normal ResizeCompleted")).expect("it was completed");
    let generation = api.pod("web").and_then(|pod| pod.metadata.generation).unwrap_or_default();
    assert!(completed.contains(&format!("\"generation\":{generation}")), "of generation {generation}: {lines:#?}");
    sim.check_laws();
}
