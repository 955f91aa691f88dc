//! The plain life of a pod: it comes, runs, restarts, ends and leaves nothing.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use rubelet_core::lifecycle::Stage;
use rubelet_core::pod::RestartPolicy;
use rubelet_engine::trace::Tracer;
use rubelet_testkit::{Behaviour, SeededRng};

use crate::sim::{Sim, phase, static_pod};

#[tokio::test(start_paused = true)]
async fn a_static_pod_runs_and_leaves_nothing_behind() {
    let sim = Sim::seeded(1).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    expect![[r#"
        run_sandbox attempt=0
        pull test/app:1
        create app
        start app"#]]
    .assert_eq(&sim.runtime.calls("web").join("\n"));
    sim.files.take_away("web");
    sim.until_gone("web", 40).await;
    assert!(!sim.cgroups.paths().iter().any(|p| p.contains("/pod")), "no cgroup is left");
    assert!(sim.logs.pods().is_empty(), "no log is left");
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn trc_01_every_job_of_a_pod_is_a_span_and_a_failed_one_is_marked() {
    let mut sim = Sim::stopped(4);
    let clock = rubelet_engine::clock::Clock::virtual_from(sim.clock.now().wall);
    let (tracer, mut spans) = Tracer::new(1_000_000, Arc::new(SeededRng::new(4)), clock);
    sim.tracer = tracer;
    sim.files.push([]);
    sim.start().await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.files.take_away("web");
    sim.until_gone("web", 40).await;
    let mut all = Vec::new();
    spans.next(&mut all, 100).await;
    let names: Vec<&str> = all.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(names.first(), Some(&"syncPod"));
    assert!(names.contains(&"syncTerminatingPod") && names.ends_with(&["syncTerminatedPod"]), "{names:?}");
    let first = all.first().expect("a span");
    let shown: Vec<String> = first.attributes.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
    assert_eq!(
        shown[1..],
        [
            r#"k8s.pod=Text("default/web")"#,
            r#"k8s.pod.name=Text("web")"#,
            r#"k8s.pod.update_type=Text("create")"#,
            r#"k8s.namespace.name=Text("default")"#
        ]
    );
    assert_eq!((first.parent, first.failure.as_deref()), (0, None));
    let mut traces: Vec<u128> = all.iter().map(|span| span.context.trace).collect();
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), all.len(), "each job is a trace of its own, as upstream");
}

#[tokio::test(start_paused = true)]
async fn an_idle_pod_is_looked_at_but_not_touched() {
    let sim = Sim::seeded(2).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    let calls = sim.runtime.calls("web").len();
    let reports = sim.statuses.all().len();
    sim.pass(3600).await;
    assert_eq!(sim.runtime.calls("web").len(), calls, "nothing changed, so nothing is changed");
    let phases = sim.statuses.phases("web");
    assert!(phases.ends_with(&["Running".to_owned()]), "{phases:?}");
    assert_eq!(sim.statuses.all().len(), reports, "an unchanged status is not reported again");
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_its_grace_and_no_more() {
    let sim = Sim::seeded(3).await;
    sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
    sim.files.put(static_pod("web").grace_secs(30).build());
    sim.until_ready(&["web"], 5).await;
    let removed = sim.clock.elapsed();
    sim.files.take_away("web");
    sim.until_gone("web", 40).await;
    let took = sim.clock.elapsed() - removed;
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(32), "{took:?}");
    assert!(sim.runtime.calls("web").contains(&"stop app grace=30s".to_owned()), "{:?}", sim.runtime.calls("web"));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_exits_at_once_on_sigterm_is_gone_at_once() {
    let sim = Sim::seeded(4).await;
    sim.files.put(static_pod("web").grace_secs(30).build());
    sim.until_ready(&["web"], 5).await;
    let removed = sim.clock.elapsed();
    sim.files.take_away("web");
    sim.until_gone("web", 5).await;
    assert!(sim.clock.elapsed() - removed < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn restart_policies_are_kept() {
    for (policy, code, restarts, ends) in [
        (RestartPolicy::Always, 0, true, "Running"),
        (RestartPolicy::OnFailure, 0, false, "Succeeded"),
        (RestartPolicy::OnFailure, 3, true, "Running"),
        (RestartPolicy::Never, 0, false, "Succeeded"),
        (RestartPolicy::Never, 3, false, "Failed"),
    ] {
        let sim = Sim::seeded(5).await;
        let once = Behaviour::exits_after(Duration::from_secs(5), code);
        sim.runtime.script("app", [once, Behaviour::runs()]);
        sim.files.put(static_pod("web").restart(policy).build());
        sim.pass(60).await;
        let pod = sim.pod("web").await.expect("the pod is known");
        assert_eq!(phase(&pod), ends, "{policy:?} after exit {code}");
        let starts = sim.runtime.calls("web").iter().filter(|c| *c == "start app").count();
        assert_eq!(starts, if restarts { 2 } else { 1 }, "{policy:?} after exit {code}");
        if !restarts {
            assert_eq!(pod.stage, Stage::Finished);
        }
        sim.check_laws();
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_slows_down_rt_60() {
    let sim = Sim::seeded(6).await;
    sim.runtime.script("app", [Behaviour::exits_after(Duration::from_secs(1), 1)]);
    sim.files.put(static_pod("web").build());
    sim.pass(200).await;
    let starts = sim.runtime.calls("web").iter().filter(|c| *c == "start app").count();
    // At once, then after 10, 20, 40, 80 s: six starts in 200 s with a second of running each.
    assert!((5..=7).contains(&starts), "{starts} starts");
    let pod = sim.pod("web").await.expect("the pod is known");
    let waiting = pod.status.container_statuses.iter().flatten().find_map(|c| c.state.as_ref()?.waiting.clone());
    assert_eq!(waiting.and_then(|w| w.reason).as_deref(), Some("CrashLoopBackOff"));
    assert!(sim.events.lines("web").iter().any(|line| line.contains("BackOff")));
}

#[tokio::test(start_paused = true)]
async fn a_changed_image_restarts_the_container_and_not_the_sandbox() {
    let sim = Sim::seeded(7).await;
    sim.files.put(static_pod("web").uid("u1").image("a:1").build());
    sim.until_ready(&["web"], 5).await;
    sim.files.put(static_pod("web").uid("u1").image("b:1").build());
    sim.until(40, "the new image to run", async |sim| {
        sim.runtime.calls("web").iter().filter(|c| *c == "start app").count() == 2
    })
    .await;
    let sandboxes = sim.runtime.calls("web").iter().filter(|c| c.starts_with("run_sandbox")).count();
    assert_eq!(sandboxes, 1);
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn equal_static_names_run_one_after_another_work_08() {
    let sim = Sim::seeded(8).await;
    sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
    sim.files.put(static_pod("web").uid("old").grace_secs(10).build());
    sim.until_ready(&["web"], 5).await;
    sim.files.put(static_pod("web").uid("new").build());
    sim.pass(5).await;
    assert_eq!(
        sim.runtime.calls("web").iter().filter(|c| c.starts_with("run_sandbox")).count(),
        1,
        "the old one is not out"
    );
    sim.until(30, "the new one to run", async |sim| {
        sim.pod("web").await.is_some_and(|pod| pod.pod.uid.as_str() == "new" && phase(&pod) == "Running")
    })
    .await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_taken_away_and_put_back_gets_a_new_life_work_06() {
    let sim = Sim::seeded(9).await;
    sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
    let pod = static_pod("web").uid("same").grace_secs(10).build();
    sim.files.put(pod.clone());
    sim.until_ready(&["web"], 5).await;
    sim.files.take_away("web");
    sim.pass(1).await;
    sim.files.put(pod);
    sim.until(40, "a second sandbox", async |sim| {
        sim.runtime.calls("web").iter().filter(|c| c.starts_with("run_sandbox")).count() == 2
    })
    .await;
    sim.until_ready(&["web"], 5).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn with_many_pods_the_first_are_ready_long_before_the_last() {
    let sim = Sim::seeded(10).await;
    sim.runtime.set_latency(Duration::from_millis(200));
    sim.files.push((0..100).map(|n| static_pod(&format!("p{n:03}")).build()));
    let ready = async |sim: &Sim| sim.statuses.all().iter().filter(|r| crate::sim::is_ready(&r.status)).count();
    sim.until(120, "the first pod", async |sim| ready(sim).await > 0).await;
    let first = sim.clock.elapsed();
    sim.until(120, "all pods", async |sim| sim.view().await.pods.iter().all(|p| crate::sim::is_ready(&p.status))).await;
    let all = sim.clock.elapsed();
    assert!(first * 8 < all, "first after {first:?}, all after {all:?}");
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_sidecar_does_not_wait_for_an_event() {
    let sim = Sim::seeded(11).await;
    // Without events, what the look after a start has seen makes no hint.
    sim.runtime.set_hints(false);
    sim.runtime.set_latency(Duration::from_millis(1));
    sim.files.put(static_pod("web").sidecar("one").sidecar("two").container("app").build());
    sim.until_ready(&["web"], 1).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_container_made_by_a_kubelet_that_died_is_no_restart() {
    let mut sim = Sim::seeded(12).await;
    sim.runtime.set_latency(Duration::from_millis(200));
    sim.files.put(static_pod("web").build());
    let made = |sim: &Sim| sim.runtime.calls("web").contains(&"create app".to_owned());
    sim.until(5, "the container to be made", async |sim| made(sim)).await;
    assert!(!sim.runtime.calls("web").contains(&"start app".to_owned()), "it is not started yet");
    sim.restart().await;
    sim.until_ready(&["web"], 10).await;
    let pod = sim.pod("web").await.expect("the pod is known");
    let counts: Vec<i32> = pod.status.container_statuses.iter().flatten().map(|c| c.restart_count).collect();
    assert_eq!(counts, [0], "{}", sim.runtime.timeline());
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn memory_is_trimmed_when_all_pods_rest() {
    let sim = Sim::seeded(5).await;
    let names: Vec<String> = (0..40).map(|n| format!("web-{n}")).collect();
    for name in &names {
        sim.files.put(static_pod(name).build());
    }
    sim.until_ready(&names.iter().map(String::as_str).collect::<Vec<_>>(), 60).await;
    sim.pass(12).await;
    let after_burst = sim.memory.times_trimmed();
    assert!((1..=4).contains(&after_burst), "{after_burst}: once or twice, not with every job");
}
