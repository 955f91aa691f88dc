use std::time::Duration;

use expect_test::expect;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus};
use rubelet_core::id::PodRef;
use rubelet_core::image::PullPolicy;
use rubelet_core::probe::{Answer, ProbeKind};
use rubelet_core::time::Instant;

use super::*;

/// The page without its histograms' buckets, which are many.
fn short(page: &str) -> String {
    let lines = page.lines().filter(|line| !line.starts_with("# HELP") && !line.contains("_bucket{"));
    lines.map(|line| format!("{line}\n")).collect()
}

// Names, types and labels: upstream's kubelet/metrics/metrics.go (v1.36).
#[test]
fn rsz_12_and_the_life_of_pods_are_counted_under_upstreams_names() {
    let metrics = Metrics::default();
    metrics.first_job(2, Duration::from_millis(3));
    metrics.job_ended(Operation::Create, Duration::from_millis(300));
    metrics.pod_running(Duration::from_secs(1));
    metrics.pod_shown_started(Duration::from_secs(3), None);
    metrics.pod_started(false);
    metrics.container_started(Role::Regular, None);
    metrics.container_started(Role::Sidecar, Some(WaitingReason::ErrImagePull));
    metrics.container_started(Role::Regular, Some(WaitingReason::CrashLoopBackOff));
    metrics.orphan_found();
    metrics.hook_fell_back();
    metrics.sleep_cut();
    let (resource, requirement, change) = (Resized::Memory, Requirement::Limits, Change::Decrease);
    metrics.resize_requested(Requested { resource, requirement, change });
    metrics.resize_done(true, Duration::from_millis(12));
    metrics.resize_infeasible();
    metrics.deferred_accepted(Trigger::PodsRemoved);
    let mut page = String::new();
    metrics.write(&mut page);
    expect![[r##"
        # TYPE kubelet_containers_per_pod_count histogram
        kubelet_containers_per_pod_count_sum 2
        kubelet_containers_per_pod_count_count 1
        # TYPE kubelet_orphaned_runtime_pods_total counter
        kubelet_orphaned_runtime_pods_total 1
        # TYPE kubelet_pod_start_duration_seconds histogram
        kubelet_pod_start_duration_seconds_sum 1
        kubelet_pod_start_duration_seconds_count 1
        # TYPE kubelet_pod_start_total_duration_seconds histogram
        kubelet_pod_start_total_duration_seconds_sum 3
        kubelet_pod_start_total_duration_seconds_count 1
        # TYPE kubelet_pod_worker_duration_seconds histogram
        kubelet_pod_worker_duration_seconds_sum{operation_type="create"} 0.3
        kubelet_pod_worker_duration_seconds_count{operation_type="create"} 1
        # TYPE kubelet_pod_worker_start_duration_seconds histogram
        kubelet_pod_worker_start_duration_seconds_sum 0.003
        kubelet_pod_worker_start_duration_seconds_count 1
        # TYPE kubelet_started_pods_total counter
        kubelet_started_pods_total 1
        # TYPE kubelet_started_pods_errors_total counter
        kubelet_started_pods_errors_total 1
        # TYPE kubelet_lifecycle_handler_http_fallbacks_total counter
        kubelet_lifecycle_handler_http_fallbacks_total 1
        # TYPE kubelet_sleep_action_terminated_early_total counter
        kubelet_sleep_action_terminated_early_total 1
        # TYPE kubelet_started_containers_total counter
        kubelet_started_containers_total{container_type="container"} 1
        kubelet_started_containers_total{container_type="init_container"} 1
        # TYPE kubelet_started_containers_errors_total counter
        kubelet_started_containers_errors_total{code="ErrImagePull",container_type="init_container"} 1
        # TYPE kubelet_container_requested_resizes_total counter
        kubelet_container_requested_resizes_total{operation="decrease",requirement="limits",resource="memory"} 1
        # TYPE kubelet_pod_deferred_accepted_resizes_total counter
        kubelet_pod_deferred_accepted_resizes_total{retry_trigger="pods_removed"} 1
        # TYPE kubelet_pod_infeasible_resizes_total counter
        kubelet_pod_infeasible_resizes_total{reason_detail="swap_limitation"} 1
        # TYPE kubelet_pod_resize_duration_milliseconds histogram
        kubelet_pod_resize_duration_milliseconds_sum{success="true"} 12
        kubelet_pod_resize_duration_milliseconds_count{success="true"} 1
        # TYPE kubelet_first_network_pod_start_sli_duration_seconds gauge
        kubelet_first_network_pod_start_sli_duration_seconds 0
        # TYPE kubelet_orphan_pod_cleaned_volumes gauge
        kubelet_orphan_pod_cleaned_volumes 0
        # TYPE kubelet_orphan_pod_cleaned_volumes_errors gauge
        kubelet_orphan_pod_cleaned_volumes_errors 0
        # TYPE kubelet_pod_status_sync_duration_seconds histogram
        kubelet_pod_status_sync_duration_seconds_sum 0
        kubelet_pod_status_sync_duration_seconds_count 0
        # TYPE kubelet_restarted_pods_total counter
        kubelet_restarted_pods_total{static=""} 0
        kubelet_restarted_pods_total{static="true"} 0
        # TYPE kubelet_started_user_namespaced_pods_errors_total counter
        kubelet_started_user_namespaced_pods_errors_total 0
        # TYPE kubelet_started_user_namespaced_pods_total counter
        kubelet_started_user_namespaced_pods_total 0
        # TYPE kubelet_evented_pleg_connection_error_count counter
        kubelet_evented_pleg_connection_error_count 0
        # TYPE kubelet_evented_pleg_connection_latency_seconds histogram
        kubelet_evented_pleg_connection_latency_seconds_sum 0
        kubelet_evented_pleg_connection_latency_seconds_count 0
        # TYPE kubelet_evented_pleg_connection_success_count counter
        kubelet_evented_pleg_connection_success_count 0
        # TYPE kubelet_pleg_discard_events counter
        kubelet_pleg_discard_events 0
        # TYPE kubelet_pleg_last_seen_seconds gauge
        kubelet_pleg_last_seen_seconds 0
        # TYPE kubelet_pleg_pod_relist_duration_seconds histogram
        kubelet_pleg_pod_relist_duration_seconds_sum 0
        kubelet_pleg_pod_relist_duration_seconds_count 0
        # TYPE kubelet_pleg_relist_duration_seconds histogram
        kubelet_pleg_relist_duration_seconds_sum 0
        kubelet_pleg_relist_duration_seconds_count 0
        # TYPE kubelet_pleg_relist_interval_seconds histogram
        kubelet_pleg_relist_interval_seconds_sum 0
        kubelet_pleg_relist_interval_seconds_count 0
        # TYPE kubelet_node_startup_duration_seconds gauge
        kubelet_node_startup_duration_seconds 0
        # TYPE kubelet_node_startup_post_registration_duration_seconds gauge
        kubelet_node_startup_post_registration_duration_seconds 0
        # TYPE kubelet_node_startup_pre_kubelet_duration_seconds gauge
        kubelet_node_startup_pre_kubelet_duration_seconds 0
        # TYPE kubelet_node_startup_pre_registration_duration_seconds gauge
        kubelet_node_startup_pre_registration_duration_seconds 0
        # TYPE kubelet_node_startup_registration_duration_seconds gauge
        kubelet_node_startup_registration_duration_seconds 0
    "##]]
    .assert_eq(&short(&page));
    let ends = |name: &str| {
        let bounds =
            page.lines().filter_map(|line| line.strip_prefix(&format!("{name}_bucket"))?.split('"').nth_back(1));
        bounds.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let starts = "0.5 1 2 3 4 5 6 8 10 20 30 45 60 120 180 240 300 360 480 600 900 1200 1800 2700 3600 +Inf";
    assert_eq!(ends("kubelet_pod_start_duration_seconds"), starts);
    assert_eq!(ends("kubelet_pod_worker_duration_seconds"), "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf");
    let resizes = "10 50 100 500 1000 2000 5000 10000 20000 30000 60000 120000 300000 600000 +Inf";
    assert_eq!(ends("kubelet_pod_resize_duration_milliseconds"), resizes);
    assert_eq!(ends("kubelet_containers_per_pod_count"), "1 2 4 8 16 +Inf");
}

#[test]
fn what_was_never_counted_has_no_series() {
    let mut page = String::new();
    Metrics::default().write(&mut page);
    // Upstream sets the two series of restarts at each look at its pods.
    let labelled = page.lines().filter(|l| l.contains('{') && !l.starts_with("kubelet_restarted_pods_total{static="));
    assert!(labelled.into_iter().all(|l| l.contains("_bucket{le=")), "{page}");
    let mut page = String::new();
    write_probes(&mut page, &[]);
    assert_eq!(page, "");
}

#[test]
fn prb_15_probes_are_counted_by_container_and_result() {
    let pod = |uid: &str| PodRef { namespace: "shop".into(), name: "web".into(), uid: uid.into() };
    let counts = |uid: &str, answers: &[(Answer, u64)]| {
        let mut tally = Tally::default();
        for (answer, millis) in answers {
            tally.count(answer, Duration::from_millis(*millis));
        }
        ProbeCounts { pod: pod(uid), container: "app".into(), kind: ProbeKind::Readiness, tally }
    };
    let error = Answer::Error { state: "unknown", detail: "no".into() };
    let old = counts("a", &[(Answer::Pass, 4), (Answer::Warn("hm".into()), 30), (Answer::Fail("no".into()), 1000)]);
    let new = counts("b", &[(Answer::Pass, 20_000), (error, 3)]);
    let mut page = String::new();
    write_probes(&mut page, &[old, new]);
    expect![[r#"
        # HELP prober_probe_duration_seconds How long probes that passed took, in seconds.
        # TYPE prober_probe_duration_seconds histogram
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="0.005"} 1
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="0.01"} 1
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="0.025"} 1
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="0.05"} 2
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="0.1"} 2
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="0.25"} 2
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="0.5"} 2
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="1"} 2
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="2.5"} 2
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="5"} 2
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="10"} 2
        prober_probe_duration_seconds_bucket{container="app",namespace="shop",pod="web",probe_type="Readiness",le="+Inf"} 3
        prober_probe_duration_seconds_sum{container="app",namespace="shop",pod="web",probe_type="Readiness"} 20.034
        prober_probe_duration_seconds_count{container="app",namespace="shop",pod="web",probe_type="Readiness"} 3
        # HELP prober_probe_total Answers of probes, by container, kind and result.
        # TYPE prober_probe_total counter
        prober_probe_total{container="app",namespace="shop",pod="web",pod_uid="a",probe_type="Readiness",result="failed"} 1
        prober_probe_total{container="app",namespace="shop",pod="web",pod_uid="a",probe_type="Readiness",result="successful"} 2
        prober_probe_total{container="app",namespace="shop",pod="web",pod_uid="b",probe_type="Readiness",result="successful"} 1
    "#]]
    .assert_eq(&page);
}

#[test]
fn a_census_tells_pods_apart_as_upstream_does() {
    let mut census = Census { deferred: 2, mirrors: 1, ..Census::default() };
    census.desired.add(true);
    census.active.add(false);
    census.working[0].desired.add(true);
    census.working[1].runtime_only = 3;
    let mut page = String::new();
    census.write(&mut page);
    let lines = page.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" 0"));
    expect![[r#"
        kubelet_active_pods{static=""} 1
        kubelet_desired_pods{static="true"} 1
        kubelet_mirror_pods 1
        kubelet_pod_pending_resizes{reason="deferred"} 2
        kubelet_working_pods{config="desired",lifecycle="sync",static="true"} 1
        kubelet_working_pods{config="runtime_only",lifecycle="terminating",static="unknown"} 3
    "#]]
    .assert_eq(&lines.map(|line| format!("{line}\n")).collect::<String>());
}

#[tokio::test]
async fn what_held_up_the_loop_is_on_the_page_by_kind_of_task() {
    let metrics = Metrics::default();
    let mut page = String::new();
    metrics.write(&mut page);
    assert!(!page.contains("rubelet_"), "nothing was measured yet");
    crate::task::timed("walk", async {}).await;
    let mut page = String::new();
    metrics.write(&mut page);
    let line = page.lines().find(|line| line.starts_with("rubelet_longest_poll_seconds{task=\"walk\"} "));
    let seconds = line.and_then(|line| line.split(' ').nth(1)).and_then(|text| text.parse::<f64>().ok());
    assert!(seconds.is_some_and(|seconds| (0.0..60.0).contains(&seconds)), "{page}");
    let longest = metrics.polls().longest().map(|longest| (longest.task, longest.polls));
    assert_eq!(longest, Some(("walk", 1)));
}

/// A probe that never passed has no durations, and one that never failed no failures: not even zeros.
#[test]
fn prb_15_a_result_that_never_came_has_no_series() {
    let page = |answers: &[Answer]| {
        let mut tally = Tally::default();
        answers.iter().for_each(|answer| tally.count(answer, Duration::from_millis(4)));
        let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid: "a".into() };
        let mut page = String::new();
        write_probes(&mut page, &[ProbeCounts { pod, container: "app".into(), kind: ProbeKind::Liveness, tally }]);
        page
    };
    let has = |page: &str| {
        ["_duration_seconds", "result=\"failed\"", "result=\"successful\""].map(|part| page.contains(part))
    };
    let fail = || Answer::Fail("no".into());
    assert_eq!(page(&[]), "");
    assert_eq!(page(&[Answer::Error { state: "unknown", detail: "no".into() }]), "");
    assert_eq!(has(&page(&[fail()])), [false, true, false]);
    assert_eq!(has(&page(&[Answer::Pass])), [true, false, true]);
    assert_eq!(has(&page(&[Answer::Pass, fail()])), [true, true, true]);
}

#[test]
fn pending_resizes_have_a_series_for_each_reason_that_there_is() {
    for (deferred, infeasible, expected) in [
        (0, 0, ""),
        (1, 0, "# TYPE kubelet_pod_pending_resizes gauge\nkubelet_pod_pending_resizes{reason=\"deferred\"} 1\n"),
        (0, 1, "# TYPE kubelet_pod_pending_resizes gauge\nkubelet_pod_pending_resizes{reason=\"infeasible\"} 1\n"),
    ] {
        let mut page = String::new();
        Census { deferred, infeasible, ..Census::default() }.write(&mut page);
        let lines = page.lines().filter(|line| line.contains("pending_resizes") && !line.starts_with("# HELP"));
        assert_eq!(lines.map(|line| format!("{line}\n")).collect::<String>(), expected, "{deferred} {infeasible}");
    }
}

thread_local! {
    static NANOS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[tokio::test]
async fn a_poll_is_long_when_it_takes_more_than_the_limit() {
    let metrics = Metrics::default();
    crate::task::Polls::here().measure_by(|| NANOS.get());
    let poll = |name, nanos: u64| crate::task::timed(name, async move { NANOS.set(NANOS.get() + nanos) });
    let long = || {
        let mut page = String::new();
        metrics.write(&mut page);
        let lines =
            page.lines().filter(|line| line.contains("rubelet_long_polls_total") && !line.starts_with("# HELP"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    poll("walk", 10_000_000).await;
    assert_eq!(long(), "");
    poll("walk", 10_000_001).await;
    poll("look", 100_000_000).await;
    expect![[r##"
        # TYPE rubelet_long_polls_total counter
        rubelet_long_polls_total{over="0.01",task="walk"} 1
        rubelet_long_polls_total{over="0.01",task="look"} 1
    "##]]
    .assert_eq(&long());
    poll("look", 100_000_001).await;
    expect![[r##"
        # TYPE rubelet_long_polls_total counter
        rubelet_long_polls_total{over="0.01",task="walk"} 1
        rubelet_long_polls_total{over="0.01",task="look"} 2
        rubelet_long_polls_total{over="0.1",task="look"} 1
    "##]]
    .assert_eq(&long());
}

#[test]
fn series_of_starts_and_jobs_appear_with_their_first_count() {
    let first = [
        "kubelet_pod_start_sli_duration_seconds",
        "kubelet_pod_start_total_duration_seconds",
        "kubelet_pod_worker_duration_seconds",
    ];
    let shown = |metrics: &Metrics| {
        let mut page = String::new();
        metrics.write(&mut page);
        first.map(|name| page.contains(name))
    };
    let metrics = Metrics::default();
    assert_eq!(shown(&metrics), [false, false, false]);
    metrics.job_ended(Operation::Sync, Duration::from_millis(1));
    assert_eq!(shown(&metrics), [false, false, true]);
    metrics.pod_shown_started(Duration::from_secs(3), Some(Duration::from_secs(1)));
    assert_eq!(shown(&metrics), [true, true, true]);
}

/// The lines of the page with these metrics that are not zero, without buckets.
fn lines(metrics: &Metrics, of: &[&str]) -> String {
    let mut page = String::new();
    metrics.write(&mut page);
    let wanted = |line: &&str| !line.starts_with('#') && of.iter().any(|name| line.starts_with(name));
    let kept = page.lines().filter(wanted).filter(|line| !line.contains("_bucket{") && !line.ends_with(" 0"));
    kept.map(|line| format!("{line}\n")).collect()
}

#[test]
fn section_28_1_rejections_preemptions_and_evictions_have_few_series() {
    let metrics = Metrics::default();
    for reason in
        ["NodeAffinity", "OutOfcpu", "OutOfexample.com/fpga", "OutOfexample.com/gpu", "whatever a plugin says"]
    {
        metrics.decisions().rejected(reason);
    }
    for resource in ["memory", "", "example.com/gpu", "hugepages-2Mi"] {
        metrics.decisions().preempted(resource);
    }
    metrics.decisions().evicted("memory.available");
    metrics.decisions().eviction_stats_age("memory.available", Duration::from_secs(3));
    metrics.decisions().evicted("emptydirfs.limit");
    metrics.decisions().evicted("no such signal");
    let names = ["kubelet_admission_rejections", "kubelet_preemptions", "kubelet_evict"];
    expect![[r#"
        kubelet_admission_rejections_total{reason="OutOfcpu"} 1
        kubelet_admission_rejections_total{reason="OutOfExtendedResources"} 2
        kubelet_admission_rejections_total{reason="Other"} 2
        kubelet_eviction_stats_age_seconds_sum{eviction_signal="memory.available"} 3
        kubelet_eviction_stats_age_seconds_count{eviction_signal="memory.available"} 1
        kubelet_evictions{eviction_signal="emptydirfs.limit"} 1
        kubelet_evictions{eviction_signal="memory.available"} 1
        kubelet_preemptions{preemption_signal=""} 1
        kubelet_preemptions{preemption_signal="memory"} 1
        kubelet_preemptions{preemption_signal="other"} 2
    "#]]
    .assert_eq(&lines(&metrics, &names));
}

#[test]
fn section_28_1_pulls_are_counted_by_the_size_of_the_image() {
    let metrics = Metrics::default();
    for size in [0, 1, 10 << 20, (10 << 20) + 1, 3 << 30, 101 << 30] {
        metrics.images.pulled(size, Duration::from_secs(2));
    }
    let policy = PullPolicy::IfNotPresent;
    metrics.images.ensured(Ensured { policy, present: Some(true), pull: Some(false) });
    metrics.images.ensured(Ensured { policy: PullPolicy::Always, present: None, pull: Some(true) });
    expect![[r#"
        kubelet_image_manager_ensure_image_requests_total{present_locally="unknown",pull_policy="always",pull_required="true"} 1
        kubelet_image_manager_ensure_image_requests_total{present_locally="true",pull_policy="ifnotpresent",pull_required="false"} 1
        kubelet_image_pull_duration_seconds_count{image_size_in_bytes="N/A"} 1
        kubelet_image_pull_duration_seconds_count{image_size_in_bytes="0-10MB"} 2
        kubelet_image_pull_duration_seconds_count{image_size_in_bytes="10MB-100MB"} 1
        kubelet_image_pull_duration_seconds_count{image_size_in_bytes="1GB-5GB"} 1
        kubelet_image_pull_duration_seconds_count{image_size_in_bytes="GT100GB"} 1
    "#]]
    .assert_eq(&lines(&metrics, &["kubelet_image_manager", "kubelet_image_pull_duration_seconds_count"]));
}

#[test]
fn section_28_1_the_start_of_the_node_is_timed_once() {
    let metrics = Metrics::default();
    let names = ["kubelet_node_startup", "kubelet_first_network_pod"];
    let at = Instant::from_secs;
    metrics.machine_was_up(Duration::from_secs(100));
    metrics.startup.attempted(at(2));
    metrics.startup.ready(at(3));
    assert_eq!(lines(&metrics, &names), "", "a node that was registered before has not started up");
    metrics.startup.registered(at(4));
    metrics.startup.ready(at(7));
    for _ in 0..2 {
        metrics.startup.attempted(at(20));
        metrics.startup.registered(at(30));
        metrics.startup.ready(at(40));
    }
    metrics.first_network_pod(Duration::from_secs(5));
    metrics.first_network_pod(Duration::from_secs(1));
    expect![[r#"
        kubelet_first_network_pod_start_sli_duration_seconds 5
        kubelet_node_startup_duration_seconds 107
        kubelet_node_startup_post_registration_duration_seconds 3
        kubelet_node_startup_pre_kubelet_duration_seconds 100
        kubelet_node_startup_pre_registration_duration_seconds 2
        kubelet_node_startup_registration_duration_seconds 2
    "#]]
    .assert_eq(&lines(&metrics, &names));
}

#[test]
fn section_28_1_volumes_are_counted_by_plugin_and_plugins_are_bounded() {
    let metrics = Metrics::default();
    let took = Duration::from_millis(200);
    metrics.volumes.done("kubernetes.io/secret", VolumeOperation::Mount, true, took);
    metrics.volumes.done("kubernetes.io/secret", VolumeOperation::Unmount, false, took);
    metrics.volumes.done("example.com/mine", VolumeOperation::Mount, true, took);
    expect![[r#"
        storage_operation_duration_seconds_sum{migrated="false",operation_name="volume_mount",status="success",volume_plugin="kubernetes.io/secret"} 0.2
        storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="success",volume_plugin="kubernetes.io/secret"} 1
        storage_operation_duration_seconds_sum{migrated="false",operation_name="volume_unmount",status="fail-unknown",volume_plugin="kubernetes.io/secret"} 0.2
        storage_operation_duration_seconds_count{migrated="false",operation_name="volume_unmount",status="fail-unknown",volume_plugin="kubernetes.io/secret"} 1
        volume_operation_total_seconds_sum{operation_name="overall_volume_mount",plugin_name="kubernetes.io/secret"} 0.2
        volume_operation_total_seconds_count{operation_name="overall_volume_mount",plugin_name="kubernetes.io/secret"} 1
    "#]]
    .assert_eq(&lines(&metrics, &["storage_", "volume_"]));
}

fn ended(name: &str, code: Option<i32>) -> ContainerStatus {
    let terminated = code.map(|exit_code| ContainerStateTerminated {
        exit_code,
        reason: Some(if exit_code == 0 { "Completed" } else { "Error" }.to_owned()),
        ..ContainerStateTerminated::default()
    });
    let state = Some(ContainerState { terminated, ..ContainerState::default() });
    ContainerStatus { name: name.to_owned(), state, ..ContainerStatus::default() }
}

#[test]
fn section_28_1_a_termination_is_counted_when_a_status_first_shows_it() {
    let of = |containers: &[(&str, Option<i32>)], init: &[(&str, Option<i32>)]| {
        let all = |list: &[(&str, Option<i32>)]| Some(list.iter().map(|(name, code)| ended(name, *code)).collect());
        PodStatus { container_statuses: all(containers), init_container_statuses: all(init), ..PodStatus::default() }
    };
    let mut census = Census::default();
    let running = of(&[("a", None), ("b", None)], &[]);
    let one = of(&[("a", Some(139)), ("b", None)], &[("i", Some(0))]);
    census.terminations.count(&PodStatus::default(), &running);
    census.terminations.count(&running, &one);
    census.terminations.count(&one, &one);
    census.terminations.count(&one, &running);
    census.terminations.count(&running, &one);
    census.volumes.insert("kubernetes.io/secret", VolumeCounts { desired: 2, actual: 1 });
    let shown = |census: &Census| {
        let mut page = String::new();
        census.write(&mut page);
        let wanted = |line: &&str| line.starts_with("kubelet_terminated") || line.starts_with("volume_manager");
        page.lines().filter(wanted).map(|line| format!("{line}\n")).collect::<String>()
    };
    expect![[r#"
        kubelet_terminated_containers_total{container_type="container",exit_code="139",reason="Error"} 2
        kubelet_terminated_containers_total{container_type="init_container",exit_code="0",reason="Completed"} 2
        volume_manager_total_volumes{plugin_name="kubernetes.io/secret",state="actual_state_of_world"} 1
        volume_manager_total_volumes{plugin_name="kubernetes.io/secret",state="desired_state_of_world"} 2
    "#]]
    .assert_eq(&shown(&census));
    for code in 0..2000 {
        census.terminations.count(&running, &of(&[("a", Some(code))], &[]));
    }
    let page = shown(&census);
    assert!(page.lines().count() < 510, "users choose exit codes");
    assert!(page.contains("{container_type=\"other\",exit_code=\"\",reason=\"\"} 1501"), "{page}");
}
