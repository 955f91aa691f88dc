//! Probes and hooks: their results are acted on, and delay no other pod.

use std::time::Duration;

use expect_test::expect;
use k8s_openapi::api::core::v1::{
    Container, ExecAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, SleepAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rubelet_core::lifecycle::Stage;
use rubelet_core::pod::Source;
use rubelet_testkit::{Behaviour, FakeSource, Manner, PodBuilder};

use crate::sim::{Sim, is_ready, static_pod};

fn readiness(c: &mut Container) -> &mut Option<Probe> {
    &mut c.readiness_probe
}

fn liveness(c: &mut Container) -> &mut Option<Probe> {
    &mut c.liveness_probe
}

fn startup(c: &mut Container) -> &mut Option<Probe> {
    &mut c.startup_probe
}

fn as_is(_: &mut Probe) {}

fn starts(sim: &Sim, pod: &str) -> usize {
    sim.runtime.calls(pod).iter().filter(|call| *call == "start app").count()
}

fn pre_stop(pod: PodBuilder, handler: LifecycleHandler) -> PodBuilder {
    pod.edit_container(|c| c.lifecycle.get_or_insert_default().pre_stop = Some(handler))
}

fn sleeps(seconds: i64) -> LifecycleHandler {
    LifecycleHandler { sleep: Some(SleepAction { seconds }), ..LifecycleHandler::default() }
}

fn gets(port: i32, scheme: &str) -> LifecycleHandler {
    let http_get =
        HTTPGetAction { port: IntOrString::Int(port), scheme: Some(scheme.into()), ..HTTPGetAction::default() };
    LifecycleHandler { http_get: Some(http_get), ..LifecycleHandler::default() }
}

#[tokio::test(start_paused = true)]
async fn readiness_gates_ready_and_the_wait_shows_the_last_output() {
    let sim = Sim::seeded(50).await;
    sim.probes.set(8080, Manner::Answers(503));
    sim.files.put(static_pod("web").http_probe(readiness, 8080, 2, as_is).build());
    sim.pass(20).await;
    assert!(!sim.is_ready("web").await);
    let pod = sim.pod("web").await.expect("known");
    expect!["the readiness probe of container app to pass; its last output: HTTP probe failed with statuscode: 503"]
        .assert_eq(&pod.waiting.expect("it waits").what);
    assert!(pod.timeline.entries().any(|e| e.bad && e.times > 5 && e.what.contains("Readiness probe failed: HTTP")));
    let line = "Warning Unhealthy spec.containers{app}: Readiness probe failed: HTTP probe failed with statuscode: 503";
    assert!(sim.events.lines("web").iter().any(|l| l == line), "{:?}", sim.events.lines("web"));

    sim.probes.set(8080, Manner::Answers(200));
    sim.until_ready(&["web"], 3).await;
    assert!(sim.pod("web").await.is_some_and(|pod| pod.waiting.is_none()));
    sim.probes.set(8080, Manner::Refuses);
    sim.until(7, "unready after three failures", async |sim| !sim.is_ready("web").await).await;
    assert_eq!(starts(&sim, "web"), 1, "readiness restarts nothing");
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_ready_container_is_ready_at_once() {
    let sim = Sim::seeded(51).await;
    sim.probes.set(8080, Manner::Answers(200));
    sim.files.put(static_pod("web").http_probe(readiness, 8080, 10, as_is).build());
    sim.until_ready(&["web"], 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_liveness_restarts_with_the_probes_own_grace_kill_02() {
    let sim = Sim::seeded(52).await;
    sim.probes.set(8080, Manner::Answers(500));
    sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
    let own_grace = |probe: &mut Probe| probe.termination_grace_period_seconds = Some(7);
    sim.files.put(static_pod("web").grace_secs(30).http_probe(liveness, 8080, 5, own_grace).build());
    sim.until(60, "the restart", async |sim| starts(sim, "web") == 2).await;
    let calls = sim.runtime.calls("web");
    assert!(calls.contains(&"stop app grace=7s".to_owned()), "{calls:?}");
    let events = sim.events.lines("web");
    let killing = "Normal Killing spec.containers{app}: Container app failed liveness probe, will be restarted";
    assert!(events.iter().any(|l| l == killing), "{events:?}");
    // Three runs decided it: the container was not asked again while it was stopped.
    let failures = events.iter().filter(|l| l.contains("Liveness probe failed")).count();
    assert_eq!(failures, 3, "{events:?}");
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn nothing_else_is_asked_until_the_start_is_decided_prb_04() {
    let sim = Sim::seeded(53).await;
    for (port, answer) in [(1, 500), (2, 200), (3, 200)] {
        sim.probes.set(port, Manner::Answers(answer));
    }
    let pod = static_pod("web")
        .http_probe(startup, 1, 5, |p| p.failure_threshold = Some(30))
        .http_probe(readiness, 2, 10, as_is)
        .http_probe(liveness, 3, 10, as_is);
    sim.files.put(pod.build());
    sim.pass(62).await;
    assert!(sim.probes.times(2).is_empty() && sim.probes.times(3).is_empty());
    let status = sim.pod("web").await.expect("known").status;
    assert_eq!(status.container_statuses.iter().flatten().map(|c| c.started).collect::<Vec<_>>(), [Some(false)]);
    sim.probes.set(1, Manner::Answers(200));
    // Within a period of the startup probe, with no wait for readiness' own.
    sim.until_ready(&["web"], 6).await;
    let decided = sim.probes.times(1).len();
    sim.pass(60).await;
    assert_eq!(sim.probes.times(1).len(), decided, "a start is decided once");
    assert!(sim.probes.times(3).len() >= 5);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_restarts() {
    let sim = Sim::seeded(54).await;
    sim.probes.set(1, Manner::Refuses);
    sim.files.put(static_pod("web").http_probe(startup, 1, 1, |p| p.failure_threshold = Some(4)).build());
    sim.until(15, "the restart", async |sim| starts(sim, "web") == 2).await;
    let lines = sim.events.lines("web");
    assert!(lines.iter().any(|l| l.contains("Container app failed startup probe, will be restarted")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn probes_that_never_answer_fail_and_delay_no_other() {
    let sim = Sim::seeded(55).await;
    sim.probes.set(1, Manner::Hangs);
    sim.probes.set(2, Manner::Answers(200));
    let hung = |n: u32| static_pod(&format!("hung{n}")).http_probe(readiness, 1, 1, as_is).build();
    let stuck = |n: u32| {
        let command = vec!["sleep".to_owned(), "infinity".to_owned()];
        let exec = |p: &mut Probe| p.exec = Some(ExecAction { command: Some(command) });
        static_pod(&format!("stuck{n}")).probe(readiness, 1, exec).build()
    };
    sim.files.push((0..100).map(hung).chain((0..100).map(stuck)));
    sim.pass(30).await;
    sim.files.put(static_pod("web").http_probe(readiness, 2, 1, as_is).build());
    let touch = |p: &mut Probe| p.exec = Some(ExecAction { command: Some(vec!["true".to_owned()]) });
    sim.files.put(static_pod("shell").probe(readiness, 1, touch).build());
    sim.until_ready(&["web", "shell"], 5).await;
    let line = |pod: &str| sim.events.lines(pod).into_iter().find(|l| l.contains("Unhealthy")).unwrap_or_default();
    assert!(line("hung0").ends_with("context deadline exceeded (Client.Timeout exceeded while awaiting headers)"));
    assert!(line("stuck0").ends_with("command timed out: \"sleep infinity\" timed out after 1s"), "{}", line("stuck0"));
}

#[tokio::test(start_paused = true)]
async fn one_that_redirects_to_itself_fails_prb_12() {
    let sim = Sim::seeded(56).await;
    sim.probes.set(1, Manner::Redirects("/again".into()));
    sim.probes.set(2, Manner::Redirects("http://elsewhere.example/".into()));
    sim.files.put(static_pod("round").http_probe(readiness, 1, 10, as_is).build());
    sim.files.put(static_pod("away").http_probe(readiness, 2, 10, as_is).build());
    sim.until_ready(&["away"], 5).await;
    sim.pass(1).await;
    assert!(!sim.is_ready("round").await);
    assert_eq!(sim.probes.times(1).len(), 10);
    assert!(sim.events.lines("round").iter().any(|l| l.ends_with("stopped after 10 redirects")));
    assert!(sim.events.lines("away").iter().any(|l| l.starts_with("Warning ProbeWarning")));
}

#[tokio::test(start_paused = true)]
async fn five_hundred_probed_containers_cost_few_wake_ups() {
    let sim = Sim::seeded(57).await;
    let ports = 1000..1500u16;
    ports.clone().for_each(|port| sim.probes.set(port, Manner::Answers(200)));
    sim.files.push(ports.clone().map(|p| static_pod(&format!("p{p}")).http_probe(readiness, p, 1, as_is).build()));
    sim.until(60, "all to be ready", async |sim| sim.view().await.pods.iter().all(|p| is_ready(&p.status))).await;
    // The first runs are at once, whenever a pod came up; from then on they run together.
    sim.pass(2).await;
    let from = sim.clock.elapsed();
    sim.pass(10).await;
    let mut asked: Vec<Duration> = ports.flat_map(|p| sim.probes.times(p)).filter(|at| *at >= from).collect();
    assert!((4900..=5600).contains(&asked.len()), "{} questions in ten seconds", asked.len());
    asked.sort();
    asked.dedup_by(|a, b| *a - *b < Duration::from_millis(5));
    assert!(asked.len() <= 220, "woken {} times in ten seconds", asked.len());
    let jobs = sim.runtime.counts().get("inspect_pod").copied().unwrap_or_default();
    sim.pass(10).await;
    let later = sim.runtime.counts().get("inspect_pod").copied().unwrap_or_default();
    assert!(later - jobs < 200, "what does not change is not looked at: {}", later - jobs);
}

#[tokio::test(start_paused = true)]
async fn our_restart_turns_no_pod_unready_rst_06() {
    let mut sim = Sim::stopped(58);
    sim.files.push([]);
    let api = FakeSource::new(Source::Api);
    sim.more = Some(api.clone());
    sim.probes.set(1, Manner::Answers(200));
    sim.probes.set(2, Manner::Answers(200));
    let pod = rubelet_testkit::pod("web").http_probe(startup, 1, 5, as_is).http_probe(readiness, 2, 10, as_is);
    let pod = pod.annotation("kubernetes.io/config.source", "api").build();
    api.push([pod.clone()]);
    sim.start().await;
    sim.until_ready(&["web"], 10).await;
    sim.pass(30).await;
    let report = sim.statuses.latest("web").expect("reported");
    let mut shown = (*pod).clone();
    shown.status = Some((*report.status).clone());
    api.push([std::sync::Arc::new(shown)]);
    let (asked, reports) = (sim.probes.times(1).len(), sim.statuses.of("web").len());
    // The server fails now and then: two failures are not three, before a restart or after.
    sim.probes.set(2, Manner::Refuses);
    sim.restart().await;
    sim.pass(15).await;
    sim.probes.set(2, Manner::Answers(200));
    sim.pass(60).await;
    assert!(sim.statuses.of("web").iter().skip(reports).all(|r| is_ready(&r.status)), "it was never unready");
    assert_eq!(sim.probes.times(1).len(), asked, "what has started need not start again");
    assert_eq!(starts(&sim, "web"), 1);
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn readiness_is_probed_and_reported_while_the_pod_ends_term_02() {
    let sim = Sim::seeded(59).await;
    sim.probes.set(1, Manner::Answers(200));
    sim.probes.set(2, Manner::Answers(200));
    let pod = static_pod("web").grace_secs(40).http_probe(readiness, 1, 1, as_is).http_probe(liveness, 2, 1, as_is);
    sim.files.put(pre_stop(pod, sleeps(30)).build());
    sim.until_ready(&["web"], 5).await;
    sim.pass(5).await;
    sim.files.take_away("web");
    sim.pass(2).await;
    assert!(matches!(sim.stage("web").await, Some(Stage::Terminating { .. })));
    assert!(sim.is_ready("web").await, "it still serves");
    let alive = sim.probes.times(2).len();
    sim.probes.set(1, Manner::Answers(503));
    sim.until(6, "unready while it ends", async |sim| !sim.is_ready("web").await).await;
    assert!(sim.statuses.latest("web").is_some_and(|r| !is_ready(&r.status)), "and it is reported");
    assert!(matches!(sim.stage("web").await, Some(Stage::Terminating { .. })));
    assert_eq!(sim.probes.times(2).len(), alive, "liveness is not probed");
    sim.until_gone("web", 40).await;
    let last = sim.probes.times(1).len();
    sim.pass(10).await;
    assert_eq!(sim.probes.times(1).len(), last, "a pod that is gone is not asked (HK-04)");
    assert!(!sim.runtime.calls("web").iter().any(|c| c.contains("grace=40s")), "the hook's time is part of the grace");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_costs_the_grace_and_no_more_hook_03() {
    let exec = ExecAction { command: Some(vec!["sleep".into(), "infinity".into()]) };
    for hook in [LifecycleHandler { exec: Some(exec), ..LifecycleHandler::default() }, gets(1, "HTTP")] {
        let sim = Sim::seeded(60).await;
        sim.probes.set(1, Manner::Hangs);
        sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
        sim.files.put(pre_stop(static_pod("web").grace_secs(10), hook).build());
        sim.until_ready(&["web"], 5).await;
        let deleted = sim.clock.elapsed();
        sim.files.take_away("web");
        sim.until_gone("web", 20).await;
        let took = sim.clock.elapsed() - deleted;
        assert!((Duration::from_secs(12)..Duration::from_secs(13)).contains(&took), "{took:?}");
        assert!(sim.runtime.calls("web").contains(&"stop app grace=2s".to_owned()), "{:?}", sim.runtime.calls("web"));
    }
}

#[tokio::test(start_paused = true)]
async fn pre_stop_comes_off_the_grace_hook_03() {
    let sim = Sim::seeded(61).await;
    sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
    sim.files.put(pre_stop(static_pod("web").grace_secs(10), sleeps(4)).build());
    sim.until_ready(&["web"], 5).await;
    sim.files.take_away("web");
    sim.until_gone("web", 20).await;
    assert!(sim.runtime.calls("web").contains(&"stop app grace=6s".to_owned()), "{:?}", sim.runtime.calls("web"));
}

#[tokio::test(start_paused = true)]
async fn a_request_as_hook_succeeds_with_any_answer_hook_01() {
    let sim = Sim::seeded(62).await;
    sim.probes.set(1, Manner::Answers(500));
    sim.probes.set(2, Manner::PlainOnly);
    let pod = static_pod("web").edit_container(|c| {
        c.lifecycle = Some(Lifecycle {
            post_start: Some(gets(1, "HTTP")),
            pre_stop: Some(gets(2, "HTTPS")),
            ..Lifecycle::default()
        });
    });
    sim.files.put(pod.build());
    sim.until_ready(&["web"], 5).await;
    sim.files.take_away("web");
    sim.until_gone("web", 10).await;
    let asked = sim.probes.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    let lines = sim.events.lines("web");
    assert!(lines.iter().any(|l| l.starts_with("Warning LifecycleHTTPFallback: request to HTTPS")), "{lines:?}");
    assert!(!lines.iter().any(|l| l.contains("Hook failed")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_start_hook_that_fails_kills_the_container_hook_02() {
    let sim = Sim::seeded(63).await;
    sim.files.put(
        static_pod("web")
            .grace_secs(7)
            .edit_container(|c| c.lifecycle.get_or_insert_default().post_start = Some(gets(1, "HTTP")))
            .build(),
    );
    sim.until(30, "a second start", async |sim| starts(sim, "web") >= 2).await;
    let lines = sim.events.lines("web");
    let failed = "Warning FailedPostStartHook spec.containers{app}: PostStartHook failed";
    assert!(lines.iter().any(|l| l == failed), "{lines:?}");
    assert!(sim.runtime.calls("web").contains(&"stop app grace=7s".to_owned()), "{:?}", sim.runtime.calls("web"));
}
