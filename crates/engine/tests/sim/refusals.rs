//! Pods that exceed the limits of a pod, request what this node does not have, or can never be resized.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMapEnvSource, ContainerResizePolicy, EnvFromSource, PodResourceClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_core::pod::RestartPolicy;
use rubelet_engine::ports::RpcErrorKind;
use rubelet_testkit::{FakeApi, PodBuilder, Pull, pod};

use crate::sim::{Sim, is_ready, phase, static_pod};

fn events(sim: &Sim, name: &str) -> String {
    sim.events.lines(name).join("\n")
}

async fn until_refused(sim: &Sim, api: &FakeApi, name: &str) -> String {
    sim.until(10, &format!("{name} to be refused"), async |_| api.status(name).phase.as_deref() == Some("Failed"))
        .await;
    assert!(sim.runtime.calls(name).is_empty(), "{:?}", sim.runtime.calls(name));
    let status = api.status(name);
    format!("{}: {}", status.reason.unwrap_or_default(), status.message.unwrap_or_default())
}

/// A manifest of 2 KB. Without a limit the third level takes 1 GB, and the fourth 100 GB.
#[tokio::test(start_paused = true)]
async fn references_that_expand_without_end_stop_at_the_limit_and_people_read_which() {
    let sim = Sim::seeded(60).await;
    let ladder = |levels: usize| -> PodBuilder {
        let first = static_pod(&format!("levels-{levels}")).env("V0", &"x".repeat(1024));
        (1..=levels).fold(first, |pod, n| pod.env(&format!("V{n}"), &format!("$(V{})", n - 1).repeat(100)))
    };
    sim.files.push([ladder(3).build(), ladder(4).build(), static_pod("web").build()]);
    sim.until_ready(&["web"], 5).await;
    for name in ["levels-3", "levels-4"] {
        let event = "Warning Failed spec.containers{app}: Error: environment, command and arguments of container \"app\" expand to more than \
                    6291456 bytes";
        sim.until(5, "the event", async |sim| events(sim, name).contains(event)).await;
        let pod = sim.pod(name).await.expect("it is here");
        let state = pod.status.container_statuses.iter().flatten().find_map(|c| c.state.clone());
        let waiting = state.and_then(|state| state.waiting).expect("it waits");
        assert_eq!(waiting.reason.as_deref(), Some("CreateContainerConfigError"));
        assert!(!sim.runtime.calls(name).iter().any(|call| call.starts_with("create app")));
    }
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_ten_thousand_references_is_refused_before_anything_is_watched_for_it() {
    let (sim, api) = Sim::in_cluster(61).await;
    let reference = |n: usize| EnvFromSource {
        config_map_ref: Some(ConfigMapEnvSource { name: format!("map-{n}"), optional: Some(true) }),
        ..EnvFromSource::default()
    };
    let many = pod("many").uid("many").edit_container(|c| c.env_from = Some((0..10_000).map(reference).collect()));
    api.put(&many.build());
    api.put(&pod("web").build());
    assert_eq!(
        until_refused(&sim, &api, "many").await,
        "PodTooLarge: Pod was rejected: Pod asks for 10000 config maps, and this node runs pods with at most 500"
    );
    sim.until(5, "the other pod", async |_| is_ready(&api.status("web"))).await;
    assert!(!api.objects.kept().contains(&"many".into()));
    sim.check_laws();
}

// DEV-06, DEV-07, DRA-01: until devices can be allocated, a pod that requests one is rejected.
#[tokio::test(start_paused = true)]
async fn no_pod_runs_without_the_devices_that_it_asked_for() {
    let (sim, api) = Sim::in_cluster(62).await;
    let mut node = (*rubelet_engine::ports::ClusterView::node(&api).expect("a node")).clone();
    // An earlier agent served the first; an administrator advertises the second, which the scheduler counts.
    for (name, amount) in [("example.com/left-behind", "4"), ("example.com/advertised", "2")] {
        let status = node.status.get_or_insert_default();
        status.allocatable.get_or_insert_default().insert(name.into(), Quantity(amount.into()));
    }
    api.set_node(Some(node));
    let asking =
        |name: &str, resource: &str, amount: &str| pod(name).request(resource, amount).limit(resource, amount).build();
    api.put(&asking("gpu", "nvidia.com/gpu", "1"));
    assert_eq!(
        until_refused(&sim, &api, "gpu").await,
        "OutOfnvidia.com/gpu: Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 0, \
         capacity: 0"
    );
    api.put(&asking("old-gpu", "example.com/left-behind", "1"));
    assert!(until_refused(&sim, &api, "old-gpu").await.starts_with("OutOfexample.com/left-behind: "));
    api.put(&asking("advertised", "example.com/advertised", "2"));
    sim.until(5, "what is advertised", async |_| is_ready(&api.status("advertised"))).await;
    api.put(&asking("one-more", "example.com/advertised", "1"));
    assert!(until_refused(&sim, &api, "one-more").await.contains("requested: 1, used: 2, capacity: 2"));
    let claim = PodResourceClaim { name: "net".into(), ..PodResourceClaim::default() };
    api.put(&pod("claims").edit_spec(|spec| spec.resource_claims = Some(vec![claim])).build());
    assert!(until_refused(&sim, &api, "claims").await.starts_with(
        "UnexpectedAdmissionError: Pod was rejected: Allocate failed due to resource claim \"net\" cannot be prepared"
    ));
    sim.files.push([static_pod("static-gpu").request("nvidia.com/gpu", "1").build()]);
    sim.until(5, "the static pod to be refused", async |sim| {
        sim.view().await.rejected.iter().any(|one| one.pod.metadata.name.as_deref() == Some("static-gpu"))
    })
    .await;
    assert!(sim.runtime.calls("static-gpu").is_empty());
    sim.check_laws();
}

/// One container ran, another could never be started, and the sandbox dies: nothing will ever run in it again.
// RT-11
#[tokio::test(start_paused = true)]
async fn a_pod_that_never_restarts_fails_with_its_sandbox_though_a_container_never_had_its_turn() {
    let sim = Sim::seeded(63).await;
    sim.runtime.script_pull("never:1", Pull::Fails(RpcErrorKind::NotFound, "no such image".into()));
    let job = static_pod("job").restart(RestartPolicy::Never).container("app").container("late").image("never:1");
    sim.files.put(job.build());
    sim.until(10, "the first container", async |sim| sim.runtime.running("job") == ["app"]).await;
    sim.runtime.end_sandbox("job");
    sim.until(60, "it to have failed", async |sim| sim.pod("job").await.is_some_and(|pod| phase(&pod) == "Failed"))
        .await;
    sim.pass(600).await;
    assert_eq!(sim.runtime.calls("job").iter().filter(|call| call.starts_with("run_sandbox")).count(), 1);
    assert!(sim.runtime.running("job").is_empty());
    sim.check_laws();
}

/// With room for one of the two, the one that runs stays, however important and old the other is.
// RST-01
#[tokio::test(start_paused = true)]
async fn after_a_restart_a_pod_that_runs_keeps_its_room() {
    for records_are_lost in [false, true] {
        let (mut sim, api) = Sim::in_cluster(64).await;
        api.put(&pod("runs").created_secs(50).request("cpu", "40").build());
        sim.until(5, "the first pod", async |_| is_ready(&api.status("runs"))).await;
        sim.pass(5).await;
        sim.kill();
        if records_are_lost {
            sim.checkpoints = rubelet_testkit::FakeCheckpoints::default();
        }
        api.put(&pod("comes").created_secs(10).priority(1000).request("cpu", "40").build());
        sim.start().await;
        assert!(until_refused(&sim, &api, "comes").await.starts_with("OutOfcpu: "));
        sim.pass(60).await;
        assert_eq!(sim.runtime.running("runs"), ["app"]);
        assert_eq!(api.status("runs").phase.as_deref(), Some("Running"));
        sim.check_laws();
    }
}

/// Under LimitedSwap only some containers may swap, and only those cannot be resized; a resize that is taken back is no
/// longer pending.
// RSZ-05, RT-94
#[tokio::test(start_paused = true)]
async fn an_infeasible_resize_is_reported_until_it_is_reverted() {
    let mut sim = Sim::stopped(65);
    let api = FakeApi::seeded(sim.clock, 65);
    sim.api = Some(api.clone());
    sim.swap = rubelet_core::launch::SwapPolicy { limited: true, bytes: 8 << 30, controller: true };
    sim.files.push([]);
    sim.start().await;
    let set = |name: &str, memory: &str| {
        api.edit(name, |pod| {
            *pod.metadata.generation.get_or_insert_default() += 1;
            let container = pod.spec.as_mut().and_then(|spec| spec.containers.first_mut()).expect("a container");
            let resources = container.resources.get_or_insert_default();
            let fixed = resources.limits == resources.requests;
            resources.requests.get_or_insert_default().insert("memory".into(), Quantity(memory.into()));
            if fixed {
                resources.limits.get_or_insert_default().insert("memory".into(), Quantity(memory.into()));
            }
        });
    };
    let pending = |name: &str| {
        let conditions = api.status(name).conditions.unwrap_or_default();
        conditions.into_iter().find(|c| c.type_ == "PodResizePending").and_then(|c| c.reason)
    };
    let requested = |name: &str| {
        let status = api.status(name).container_statuses.into_iter().flatten().next();
        status.and_then(|c| c.allocated_resources).and_then(|list| list.get("memory").map(|q| q.0.clone()))
    };
    let policy = ContainerResizePolicy { resource_name: "memory".into(), restart_policy: "NotRequired".into() };
    let base = |name: &str| pod(name).edit_container(|c| c.resize_policy = Some(vec![policy.clone()]));
    api.put(&base("swaps").request("memory", "64Mi").limit("memory", "1Gi").build());
    let fixed = base("fixed").request("memory", "64Mi").limit("memory", "64Mi");
    api.put(&fixed.request("cpu", "1").limit("cpu", "1").build());
    for name in ["swaps", "fixed"] {
        sim.until(5, "both pods", async |_| is_ready(&api.status(name))).await;
    }
    set("fixed", "128Mi");
    sim.until(10, "one without swap to be resized", async |_| requested("fixed").as_deref() == Some("128Mi")).await;
    set("swaps", "128Mi");
    sim.until(10, "one with swap to be refused", async |_| pending("swaps").as_deref() == Some("Infeasible")).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(pending("swaps").as_deref(), Some("Infeasible"), "it stays so");
    let lines = sim.events.lines("swaps");
    let infeasible = lines.iter().filter(|line| line.starts_with("Warning ResizeInfeasible: Pod resize Infeasible: {"));
    assert_eq!(infeasible.count(), 1, "RSZ-06: {lines:#?}");
    set("swaps", "64Mi");
    sim.until(10, "the condition to be taken away", async |_| pending("swaps").is_none()).await;
    sim.check_laws();
}
