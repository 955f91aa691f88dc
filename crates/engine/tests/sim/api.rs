//! Pods of an API server: which requests it gets, and when.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PodCondition, PodReadinessGate, Taint};
use rubelet_core::lifecycle::{Cause, Ending};
use rubelet_core::pod::{PodExt, RestartPolicy};
use rubelet_core::status::EndReason;
use rubelet_testkit::{ApiCall, ApiFaults, Behaviour, FakeApi, Manner, Odds, pod};

use crate::sim::{Sim, is_ready, static_pod};

fn phase(api: &FakeApi, name: &str) -> String {
    api.status(name).phase.unwrap_or_default()
}

fn condition(api: &FakeApi, name: &str, kind: &str) -> Option<PodCondition> {
    api.status(name).conditions.into_iter().flatten().find(|c| c.type_ == kind)
}

async fn until_ready_in_api(sim: &Sim, api: &FakeApi, names: &[String], secs: u64) {
    sim.until(secs, &format!("{names:?} to be ready in the API"), async |_| {
        names.iter().all(|name| is_ready(&api.status(name)))
    })
    .await;
}

async fn until_gone_from_api(sim: &Sim, api: &FakeApi, name: &str, secs: u64) {
    sim.until(secs, &format!("{name} to be gone from the API"), async |_| api.pod(name).is_none()).await;
}

fn lines(calls: &[ApiCall]) -> Vec<String> {
    calls.iter().map(|c| format!("{:?} {} {} {} {}", c.at, c.verb, c.pod, c.outcome, c.patch)).collect()
}

fn check(sim: &Sim, api: &FakeApi) {
    sim.check_laws();
    assert!(api.violations().is_empty(), "SIM_SEED={}: {:#?}", sim.seed, api.violations());
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_ready_in_the_api_at_once_and_gone_at_once() {
    let (sim, api) = Sim::in_cluster(1).await;
    api.put(&pod("web").grace_secs(30).build());
    let began = sim.clock.elapsed();
    until_ready_in_api(&sim, &api, &["web".to_owned()], 5).await;
    assert!(sim.clock.elapsed() - began < Duration::from_millis(500), "{:?}", sim.clock.elapsed() - began);
    let status = api.status("web");
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.observed_generation, Some(1));
    assert!(status.pod_ip.is_some() && status.start_time.is_some());
    assert_eq!(api.writes().len(), 1, "one write covers its start: {:#?}", lines(&api.writes()));
    let began = sim.clock.elapsed();
    api.delete("web", 30);
    until_gone_from_api(&sim, &api, "web", 5).await;
    // STAT-09: not at a tick, but as soon as nothing is left.
    assert!(sim.clock.elapsed() - began < Duration::from_millis(500), "{:?}", sim.clock.elapsed() - began);
    sim.until_gone("web", 5).await;
    check(&sim, &api);
    let writes: Vec<&str> = api.writes().iter().map(|call| call.verb).collect();
    assert!(writes.len() <= 5, "{:#?}", lines(&api.writes()));
    assert_eq!(writes.last(), Some(&"delete"));
}

/// STAT-05: no GET before a write; STAT-04: a status that the API shows already is not sent.
#[tokio::test(start_paused = true)]
async fn an_idle_pod_costs_no_request() {
    let (sim, api) = Sim::in_cluster(2).await;
    api.put(&pod("web").build());
    until_ready_in_api(&sim, &api, &["web".to_owned()], 5).await;
    sim.pass(5).await;
    let calls = api.calls().len();
    assert!(api.calls().iter().all(|call| call.verb == "patch"), "{:#?}", lines(&api.calls()));
    let looks = sim.runtime.calls("web").len();
    sim.pass(3600).await;
    assert_eq!(api.calls().len(), calls, "{:#?}", lines(&api.calls()));
    assert_eq!(sim.runtime.calls("web").len(), looks);
}

/// RT-05: the address is there while the image is pulled.
#[tokio::test(start_paused = true)]
async fn the_sandbox_is_reported_before_images_are_pulled_rt_05() {
    let (sim, api) = Sim::in_cluster(3).await;
    sim.runtime.script_pull("slow:1", rubelet_testkit::Pull::Takes(Duration::from_secs(60)));
    api.put(&pod("web").image("slow:1").build());
    sim.until(5, "its address", async |_| api.status("web").pod_ip.is_some()).await;
    let ready = condition(&api, "web", "PodReadyToStartContainers").expect("a condition");
    assert_eq!(ready.status, "True");
    assert_eq!(phase(&api, "web"), "Pending");
}

/// A restart writes nothing and turns no pod unready (RST rows; upstream writes 59 statuses for 30 pods).
#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let (mut sim, api) = Sim::in_cluster(4).await;
    sim.probes.set(80, Manner::Answers(200));
    let names: Vec<String> = (0..30).map(|n| format!("web-{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        let builder = match n % 5 {
            1 => pod(name).init("init"),
            2 => pod(name).sidecar("side"),
            _ => pod(name),
        };
        let builder = builder.container("app").request("cpu", "100m").limit("memory", "128M").request("memory", "64Mi");
        let builder = match n % 5 {
            0 => builder.http_probe(|c| &mut c.readiness_probe, 80, 10, |_| {}),
            1 => builder.empty_dir("data", "/data"),
            3 => builder.http_probe(|c| &mut c.startup_probe, 80, 10, |_| {}),
            _ => builder.host_network(),
        };
        api.put(&builder.build());
    }
    sim.runtime.script("init", [Behaviour::exits_after(Duration::from_millis(100), 0)]);
    until_ready_in_api(&sim, &api, &names, 120).await;
    // One that has ended, one that was refused, one with a mirror.
    api.put(&pod("done").restart(RestartPolicy::Never).container("short").build());
    sim.runtime.script("short", [Behaviour::exits_after(Duration::from_secs(1), 0)]);
    api.put(&pod("big").request("cpu", "1000").build());
    sim.files.put(static_pod("static").http_probe(|c| &mut c.readiness_probe, 80, 10, |_| {}).build());
    sim.until(30, "the others", async |_| {
        phase(&api, "done") == "Succeeded" && phase(&api, "big") == "Failed" && is_ready(&api.status("static"))
    })
    .await;
    sim.pass(20).await;
    for round in 0..3 {
        let before = api.calls().len();
        sim.restart().await;
        sim.pass(90).await;
        let calls = api.calls();
        assert_eq!(calls.len(), before, "round {round}: {:#?}", lines(&calls[before..]));
    }
    check(&sim, &api);
}

/// STAT-07, TRAP-01: a terminal phase is not shown while a container may run.
#[tokio::test(start_paused = true)]
async fn an_end_is_shown_when_nothing_runs_any_more_stat_07() {
    let (sim, api) = Sim::in_cluster(5).await;
    sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
    api.put(&pod("web").active_deadline_secs(10).grace_secs(30).build());
    until_ready_in_api(&sim, &api, &["web".to_owned()], 5).await;
    sim.pass(15).await;
    assert_eq!(phase(&api, "web"), "Running", "its container is still being stopped");
    sim.until(40, "its end", async |_| phase(&api, "web") == "Failed").await;
    assert_eq!(api.status("web").reason.as_deref(), Some("DeadlineExceeded"));
    let ready = condition(&api, "web", "Ready").expect("a condition");
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("PodFailed")), "STAT-08");
    check(&sim, &api);
}

/// STAT-10: the final status of a pod does not change when the rest of the pod has been cleaned up, however late the API
/// server answers. upstream: test/e2e/node/pods.go "should never report success for a pending container"
#[tokio::test(start_paused = true)]
async fn a_pod_deleted_before_its_container_was_made_ends_once_stat_10() {
    let (sim, api) = Sim::in_cluster(6).await;
    sim.runtime.script_pull("slow:1", rubelet_testkit::Pull::Takes(Duration::from_secs(600)));
    api.put(&pod("web").restart(RestartPolicy::Never).image("slow:1").grace_secs(1).build());
    sim.until(5, "its address", async |_| api.status("web").pod_ip.is_some()).await;
    sim.runtime.set_latency(Duration::from_millis(200));
    api.set_faults(ApiFaults { lost_reply: Odds::ALWAYS, ..ApiFaults::NONE });
    api.delete("web", 1);
    sim.until(10, "its end", async |_| api.status("web").phase.as_deref() == Some("Failed")).await;
    sim.pass(3).await;
    api.set_faults(ApiFaults::NONE);
    until_gone_from_api(&sim, &api, "web", 30).await;
    check(&sim, &api);
}

/// STAT-06: readiness gates and whatever else others write is kept, and a gate that moves is acted on at once.
#[tokio::test(start_paused = true)]
async fn a_readiness_gate_that_others_move_is_reported_at_once() {
    let (sim, api) = Sim::in_cluster(6).await;
    let gate = PodReadinessGate { condition_type: "example.com/lb".into() };
    api.put(&pod("web").edit_spec(|spec| spec.readiness_gates = Some(vec![gate])).build());
    sim.until(5, "its containers", async |_| {
        condition(&api, "web", "ContainersReady").is_some_and(|c| c.status == "True")
    })
    .await;
    assert!(!is_ready(&api.status("web")));
    for open in ["True", "False", "True"] {
        let looks = sim.runtime.calls("web").len();
        api.edit("web", |pod| {
            let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
            conditions.retain(|c| c.type_ != "example.com/lb");
            let (type_, status) = ("example.com/lb".to_owned(), open.to_owned());
            conditions.push(PodCondition { type_, status, ..PodCondition::default() });
        });
        sim.until(1, "the gate to count", async |_| is_ready(&api.status("web")) == (open == "True")).await;
        assert_eq!(condition(&api, "web", "example.com/lb").map(|c| c.status).as_deref(), Some(open));
        assert_eq!(sim.runtime.calls("web").len(), looks, "nothing is done to the runtime");
    }
    check(&sim, &api);
}

/// STAT-12: a status that another writer overwrote is written again.
#[tokio::test(start_paused = true)]
async fn a_status_that_others_overwrite_is_written_again() {
    let (sim, api) = Sim::in_cluster(7).await;
    api.put(&pod("web").build());
    until_ready_in_api(&sim, &api, &["web".to_owned()], 5).await;
    let right = api.status("web");
    api.edit("web", |pod| {
        let status = pod.status.get_or_insert_default();
        status.pod_ip = Some("203.0.113.9".to_owned());
        status.container_statuses = None;
    });
    sim.until(1, "our status to be back", async |_| api.status("web") == right).await;
    check(&sim, &api);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_never_started_is_failed_and_deleted() {
    let (sim, api) = Sim::in_cluster(8).await;
    sim.runtime.script_pull("slow:1", rubelet_testkit::Pull::Takes(Duration::from_secs(600)));
    api.put(&pod("web").image("slow:1").build());
    sim.pass(3).await;
    api.delete("web", 30);
    until_gone_from_api(&sim, &api, "web", 5).await;
    sim.until_gone("web", 5).await;
    check(&sim, &api);
}

/// Finalizers keep the object; it is asked for once, not again and again.
#[tokio::test(start_paused = true)]
async fn an_object_that_finalizers_hold_is_deleted_once() {
    let (mut sim, api) = Sim::in_cluster(9).await;
    api.put(&pod("job").build());
    api.edit("job", |pod| pod.metadata.finalizers = Some(vec!["batch.kubernetes.io/job-tracking".into()]));
    until_ready_in_api(&sim, &api, &["job".to_owned()], 5).await;
    api.delete("job", 30);
    sim.pass(60).await;
    sim.restart().await;
    sim.pass(60).await;
    let deletes = api.writes().into_iter().filter(|call| call.verb == "delete").count();
    assert_eq!(deletes, 1);
    assert_eq!(phase(&api, "job"), "Failed");
    check(&sim, &api);
}

/// A pod that is forced away, or whose namespace goes: the status finds no object, and the end goes on.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_object_is_gone_still_ends() {
    let (sim, api) = Sim::in_cluster(10).await;
    sim.runtime.script("app", [Behaviour::runs().on_term(Duration::from_secs(5), 0)]);
    api.put(&pod("web").build());
    until_ready_in_api(&sim, &api, &["web".to_owned()], 5).await;
    api.stall_watch(true);
    api.force_delete("web");
    sim.runtime.end_container("web", "app", 1);
    sim.pass(20).await;
    // Same name, another pod: status writes of the first must not touch it.
    api.put(&pod("web").uid("second").build());
    sim.runtime.end_container("web", "app", 1);
    sim.pass(20).await;
    assert_eq!(phase(&api, "web"), "Pending");
    api.stall_watch(false);
    until_ready_in_api(&sim, &api, &["web".to_owned()], 60).await;
    assert!(api.violations().is_empty(), "{:#?}", api.violations());
}

// HK-09
#[tokio::test(start_paused = true)]
async fn a_pod_that_had_ended_and_was_deleted_while_we_were_away_goes_from_the_api() {
    let (mut sim, api) = Sim::in_cluster(40).await;
    sim.runtime.script("app", [Behaviour::exits(0)]);
    api.put(&pod("job").restart(RestartPolicy::Never).build());
    sim.until(10, "its end", async |_| phase(&api, "job") == "Succeeded").await;
    sim.pass(5).await;
    sim.kill();
    api.delete("job", 30);
    sim.start().await;
    until_gone_from_api(&sim, &api, "job", 10).await;
    sim.until_gone("job", 30).await;
    check(&sim, &api);
}

// RST-02
#[tokio::test(start_paused = true)]
async fn what_still_runs_of_a_pod_that_is_terminal_in_the_api_is_stopped() {
    let (mut sim, api) = Sim::in_cluster(41).await;
    api.put(&pod("web").build());
    until_ready_in_api(&sim, &api, &["web".to_owned()], 5).await;
    sim.kill();
    api.edit("web", |pod| pod.status.get_or_insert_default().phase = Some("Failed".into()));
    sim.start().await;
    sim.until(60, "its container to be stopped", async |sim| sim.runtime.running("web").is_empty()).await;
    sim.pass(60).await;
    assert_eq!(phase(&api, "web"), "Failed");
    assert!(!sim.runtime.calls("web").iter().any(|call| call.contains("attempt=1")), "{:?}", sim.runtime.calls("web"));
    check(&sim, &api);
}

// WORK-09
#[tokio::test(start_paused = true)]
async fn a_pod_that_had_ended_before_we_started_takes_no_room() {
    let (mut sim, api) = Sim::in_cluster(42).await;
    sim.kill();
    let done = pod("done").restart(RestartPolicy::Never).request("cpu", "60").created_secs(10).phase("Succeeded");
    api.put(&done.build());
    api.put(&pod("new").request("cpu", "60").created_secs(20).build());
    sim.start().await;
    until_ready_in_api(&sim, &api, &["new".to_owned()], 10).await;
    check(&sim, &api);
}

/// 15.3: a critical pod for which there is no room gets it, and waits until it is free.
#[tokio::test(start_paused = true)]
async fn adm_31_a_critical_pod_preempts_others() {
    let (sim, api) = Sim::in_cluster(11).await;
    sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_secs(5), 0)]);
    let big = |name: &str, cpu: &str| pod(name).container("slow").request("cpu", cpu).priority(0);
    api.put(&big("small", "10").build());
    api.put(&big("large", "50").build());
    until_ready_in_api(&sim, &api, &["small".to_owned(), "large".to_owned()], 10).await;
    api.put(&pod("critical").request("cpu", "20").priority(2_000_000_000).build());
    sim.pass(3).await;
    assert!(is_ready(&api.status("small")), "it would not have been enough");
    assert_eq!(phase(&api, "large"), "Running", "it has not stopped yet");
    assert_eq!(phase(&api, "critical"), "Pending", "there is no room yet");
    until_ready_in_api(&sim, &api, &["critical".to_owned()], 10).await;
    assert_eq!(phase(&api, "large"), "Failed");
    assert_eq!(api.status("large").reason.as_deref(), Some("Preempting"));
    let target = condition(&api, "large", "DisruptionTarget").expect("a condition");
    assert_eq!((target.status.as_str(), target.reason.as_deref()), ("True", Some("TerminationByKubelet")));
    let events = sim.events.lines("large");
    let line = "Warning Preempting: Preempted in order to admit critical pod".to_owned();
    assert!(events.contains(&line), "{events:?}");
    check(&sim, &api);
}

/// A caller of `terminate` is answered when nothing of the pod runs, and the status has the reason from then on.
#[tokio::test(start_paused = true)]
async fn a_pod_that_the_node_ends_is_reported_as_down_when_it_has_stopped() {
    let (sim, api) = Sim::in_cluster(13).await;
    sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_secs(5), 0)]);
    let uid = |name: &str| rubelet_core::id::PodUid::from(format!("{name}-uid"));
    api.put(&pod("web").uid("web-uid").container("slow").build());
    until_ready_in_api(&sim, &api, &["web".to_owned()], 10).await;
    let reason = EndReason {
        reason: "Evicted".into(),
        message: "The node was low on resource: memory.".into(),
        disruption: Some("The node was low on resource: memory.".into()),
    };
    let ending = Ending { cause: Cause::Evicted, reason: Some(std::sync::Arc::new(reason)) };
    let (began, handle) = (sim.clock.elapsed(), sim.sync_loop().clone());
    assert_eq!(handle.terminate(uid("nobody"), ending.clone(), None).await, Some(()), "there is nothing to wait for");
    assert_eq!(handle.terminate(uid("web"), ending.clone(), Some(Duration::from_secs(20))).await, Some(()));
    assert!(sim.runtime.running("web").is_empty());
    assert_eq!((sim.clock.elapsed() - began).as_secs(), 5);
    let down = handle.pod(uid("web")).await.flatten().expect("the loop still knows it");
    assert_eq!(down.status.reason.as_deref(), Some("Evicted"));
    assert_eq!(handle.terminate(uid("web"), ending, None).await, Some(()), "it is down");
    sim.pass(1).await;
    assert_eq!((phase(&api, "web").as_str(), api.status("web").reason.as_deref()), ("Failed", Some("Evicted")));
    let target = condition(&api, "web", "DisruptionTarget").expect("a condition");
    assert_eq!(target.message.as_deref(), Some("The node was low on resource: memory."));
    check(&sim, &api);
}

/// A pod on its way out keeps what it uses until it has stopped; ADM-05.
#[tokio::test(start_paused = true)]
async fn what_a_terminating_pod_uses_is_not_free() {
    let (sim, api) = Sim::in_cluster(12).await;
    sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
    api.put(&pod("old").request("cpu", "60").grace_secs(20).build());
    until_ready_in_api(&sim, &api, &["old".to_owned()], 5).await;
    api.delete("old", 20);
    api.put(&pod("new").request("cpu", "60").build());
    sim.pass(2).await;
    assert_eq!(api.status("new").reason.as_deref(), Some("OutOfcpu"));
    until_gone_from_api(&sim, &api, "old", 30).await;
    api.delete("new", 30);
    until_gone_from_api(&sim, &api, "new", 5).await;
    api.put(&pod("newer").request("cpu", "60").build());
    until_ready_in_api(&sim, &api, &["newer".to_owned()], 5).await;
    check(&sim, &api);
}

/// ADM-05: labels and taints are those that the API shows now, not those of the start.
#[tokio::test(start_paused = true)]
async fn adm_05_labels_and_taints_are_taken_from_the_api() {
    let (sim, api) = Sim::in_cluster(13).await;
    let select = |name: &str| {
        pod(name).edit_spec(|spec| spec.node_selector = Some(rubelet_testkit::map([("disk", "ssd")]))).build()
    };
    api.put(&select("too-early"));
    sim.until(5, "it to be refused", async |_| phase(&api, "too-early") == "Failed").await;
    assert_eq!(api.status("too-early").reason.as_deref(), Some("NodeAffinity"));
    let node = rubelet_engine::ports::ClusterView::node(&api).expect("a node");
    let mut node = (*node).clone();
    node.metadata.labels = Some(rubelet_testkit::map([("disk", "ssd")]));
    api.set_node(Some(node.clone()));
    api.put(&select("fits"));
    until_ready_in_api(&sim, &api, &["fits".to_owned()], 5).await;
    // A pod that arrives before the node object: admission waits a moment.
    let mut bare = node.clone();
    bare.metadata.labels = None;
    api.set_node(Some(bare));
    api.put(&select("early"));
    sim.until(1, "it to be in the API", async |sim| sim.api.is_some() && api.pod("early").is_some()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(phase(&api, "early"), "Pending");
    api.set_node(Some(node.clone()));
    until_ready_in_api(&sim, &api, &["early".to_owned()], 5).await;
    let taint = Taint { key: "k".into(), effect: "NoExecute".into(), ..Taint::default() };
    node.spec.get_or_insert_default().taints = Some(vec![taint]);
    api.set_node(Some(node));
    api.put(&select("repelled"));
    sim.until(5, "it to be refused", async |_| phase(&api, "repelled") == "Failed").await;
    assert_eq!(api.status("repelled").reason.as_deref(), Some("TaintToleration"));
    check(&sim, &api);
}

mod mirrors {
    use super::*;
    use rubelet_core::pod::{HASH_ANNOTATION, MIRROR_ANNOTATION};

    fn shows(api: &FakeApi, name: &str, hash: &str) -> bool {
        api.pod(name).is_some_and(|pod| pod.annotation(MIRROR_ANNOTATION) == Some(hash) && !pod.is_deleted())
    }

    /// SRC-11, SRC-12.
    #[tokio::test(start_paused = true)]
    async fn a_static_pod_has_a_mirror_that_comes_back_src_11_src_12() {
        let (sim, api) = Sim::in_cluster(20).await;
        sim.files.put(static_pod("web").build());
        sim.until(5, "a mirror", async |_| is_ready(&api.status("web"))).await;
        let first = api.pod("web").expect("a mirror");
        assert_eq!(first.annotation(MIRROR_ANNOTATION), first.annotation(HASH_ANNOTATION));
        let owner = first.metadata.owner_references.iter().flatten().next().expect("an owner");
        assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("Node", "node-uid", Some(true)));
        let calls = sim.runtime.calls("web").len();
        for force in [false, true] {
            let before = api.pod("web").expect("a mirror").metadata.uid.clone();
            if force {
                api.force_delete("web")
            } else {
                api.delete("web", 30)
            }
            sim.until(5, "another mirror", async |_| {
                is_ready(&api.status("web")) && api.pod("web").is_some_and(|pod| pod.metadata.uid != before)
            })
            .await;
        }
        assert_eq!(sim.runtime.calls("web").len(), calls, "the pod itself is not touched");
        // Another version of the manifest: the mirror follows.
        sim.files.put(static_pod("web").uid("other").static_from(rubelet_core::pod::Source::File).build());
        sim.until(60, "the new version", async |_| shows(&api, "web", "other") && is_ready(&api.status("web"))).await;
        // The pod goes: so does its mirror, but not before.
        sim.runtime.script("app", [Behaviour::runs().on_term(Duration::from_secs(3), 0)]);
        sim.files.take_away("web");
        until_gone_from_api(&sim, &api, "web", 40).await;
        sim.until_gone("web", 5).await;
        assert!(api.violations().is_empty(), "{:?}", api.violations());
    }

    /// SRC-11. upstream: test/e2e_node/mirror_pod_grace_period_test.go "should satisfy grace period when static pod is updated"
    #[tokio::test(start_paused = true)]
    async fn an_updated_static_pod_keeps_its_mirror_until_the_old_version_has_ended_src_11() {
        let (sim, api) = Sim::in_cluster(25).await;
        sim.runtime.script("app", [Behaviour::runs().on_term(Duration::from_secs(20), 0), Behaviour::runs()]);
        sim.files.put(static_pod("web").grace_secs(30).build());
        sim.until(5, "a mirror", async |_| is_ready(&api.status("web"))).await;
        let first = api.pod("web").expect("a mirror").metadata.uid.clone();
        sim.files.put(static_pod("web").uid("other").static_from(rubelet_core::pod::Source::File).build());
        for _ in 0..18 {
            sim.pass(1).await;
            let mirror = api.pod("web").expect("the mirror of the old version");
            assert_eq!((&mirror.metadata.uid, mirror.is_deleted()), (&first, false), "{:#?}", lines(&api.calls()));
        }
        sim.until(20, "the new version", async |_| shows(&api, "web", "other") && is_ready(&api.status("web"))).await;
        assert!(api.violations().is_empty(), "{:?}", api.violations());
    }

    /// The old version had ended already: there is nothing to wait for.
    #[tokio::test(start_paused = true)]
    async fn another_version_of_a_static_pod_that_has_ended_has_its_mirror_at_once() {
        let (sim, api) = Sim::in_cluster(26).await;
        sim.runtime.script("app", [Behaviour::exits_after(Duration::from_secs(2), 0), Behaviour::runs()]);
        sim.files.put(static_pod("web").restart(RestartPolicy::Never).build());
        sim.until(20, "its life to be over", async |sim| {
            sim.stage("web").await == Some(rubelet_core::lifecycle::Stage::Finished)
        })
        .await;
        sim.files.put(static_pod("web").uid("other").static_from(rubelet_core::pod::Source::File).build());
        sim.until(1, "the new version's mirror", async |_| shows(&api, "web", "other")).await;
        sim.until(5, "the new version", async |_| is_ready(&api.status("web"))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn mirrors_wait_for_the_node_and_survive_a_restart() {
        let mut sim = Sim::stopped(21);
        let api = FakeApi::seeded(sim.clock, 21);
        sim.api = Some(api.clone());
        let node = rubelet_engine::ports::ClusterView::node(&api).expect("a node");
        api.set_node(None);
        sim.probes.set(80, Manner::Answers(200));
        sim.files.put(static_pod("web").http_probe(|c| &mut c.readiness_probe, 80, 60, |_| {}).build());
        sim.start().await;
        sim.until_ready(&["web"], 70).await;
        sim.pass(10).await;
        assert!(api.pod("web").is_none());
        api.set_node(Some((*node).clone()));
        sim.until(1, "a mirror", async |_| is_ready(&api.status("web"))).await;
        // Whichever of the two is read late: no mirror is taken for an orphan, and no pod turns unready.
        let before = api.calls().len();
        sim.runtime.set_latency(Duration::from_millis(10));
        for millis in [0, 2, 4, 6, 8, 10, 12, 15, 20, 30, 3000] {
            sim.kill();
            api.stall_watch(true);
            sim.start().await;
            tokio::time::sleep(Duration::from_millis(millis)).await;
            api.stall_watch(false);
            sim.pass(100).await;
            assert_eq!(api.calls().len(), before, "{:#?}", lines(&api.calls()));
        }
    }

    /// SRC-11: its life was over before its file went, so that no job ends with it.
    #[tokio::test(start_paused = true)]
    async fn the_mirror_of_a_pod_that_has_ended_goes_with_its_file() {
        let (sim, api) = Sim::in_cluster(24).await;
        sim.runtime.script("app", [Behaviour::exits_after(Duration::from_secs(2), 0)]);
        sim.files.put(static_pod("job").restart(RestartPolicy::Never).build());
        sim.until(20, "it to end", async |_| phase(&api, "job") == "Succeeded").await;
        sim.until(20, "its life to be over", async |sim| {
            sim.stage("job").await == Some(rubelet_core::lifecycle::Stage::Finished)
        })
        .await;
        sim.files.take_away("job");
        until_gone_from_api(&sim, &api, "job", 2).await;
        sim.until_gone("job", 5).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_mirror_without_a_pod_is_removed() {
        let (sim, api) = Sim::in_cluster(22).await;
        api.put(&pod("ghost").mirror_of("nothing").build());
        until_gone_from_api(&sim, &api, "ghost", 5).await;
        assert!(sim.pod("ghost").await.is_none());
    }

    /// ADM-09: the mirror of a static pod that is refused says so, and the pod is not tried again until its manifest changes.
    #[tokio::test(start_paused = true)]
    async fn a_refused_static_pod_is_failed_in_its_mirror_adm_09() {
        let (sim, api) = Sim::in_cluster(23).await;
        sim.files.put(static_pod("big").request("cpu", "1000").build());
        sim.until(5, "its mirror to say so", async |_| phase(&api, "big") == "Failed").await;
        assert_eq!(api.status("big").reason.as_deref(), Some("UnexpectedAdmissionError"));
        sim.pass(300).await;
        assert_eq!((phase(&api, "big"), sim.runtime.calls("big").len()), ("Failed".to_owned(), 0), "not tried again");
        // Another version of the manifest is another pod, and is admitted by itself.
        sim.files.put(static_pod("big").uid("other").static_from(rubelet_core::pod::Source::File).build());
        sim.until(60, "the new version", async |_| shows(&api, "big", "other") && is_ready(&api.status("big"))).await;
    }
}
