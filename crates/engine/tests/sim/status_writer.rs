//! The status writer alone, on an API server that answers by script: the exact sequence of requests, and when each comes.

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use rubelet_core::id::PodRef;
use rubelet_core::pod::{HASH_ANNOTATION, Source};
use rubelet_core::status::EndProgress;
use rubelet_engine::clock::Clock;
use rubelet_engine::metrics::Metrics;
use rubelet_engine::mirror::{Mirrored, Mirrors};
use rubelet_engine::ports::{ApiErrorKind, StatusReport};
use rubelet_engine::status::{StatusMail, StatusWriter};
use rubelet_engine::task::TaskGroup;
use rubelet_testkit::{Answer, PodBuilder, ScriptedPodApi, TestClock, pod};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A writer at work.
struct Rig {
    api: ScriptedPodApi,
    mail: StatusMail,
    mirrors: watch::Sender<Arc<Mirrors>>,
    metrics: Arc<Metrics>,
    _tasks: TaskGroup,
}

impl Rig {
    fn start() -> Self {
        let clock = TestClock::start();
        let api = ScriptedPodApi::new(clock);
        let (mirrors, seen) = watch::channel(Arc::new(Mirrors::default()));
        let (metrics, time) = (Arc::<Metrics>::default(), Clock::virtual_from(clock.now().wall));
        let (writer, mail) = StatusWriter::new(Arc::new(api.clone()), time, seen, None, Arc::clone(&metrics));
        let mut tasks = TaskGroup::new(&CancellationToken::new());
        let cancel = tasks.cancel_token();
        tasks.start("status-writer", writer.run(cancel));
        Self { api, mail, mirrors, metrics, _tasks: tasks }
    }

    /// Makes a pod in the API.
    fn put(&self, pod: PodBuilder) -> Arc<Pod> {
        self.api.put(&pod.build())
    }

    fn report(&self, pod: &Arc<Pod>, status: PodStatus, progress: EndProgress) {
        self.mail.report(StatusReport { pod: Arc::clone(pod), status: Arc::new(status), progress });
    }

    /// Reports this status of a pod whose containers may run.
    fn says(&self, pod: &Arc<Pod>, phase: &str, message: &str) {
        self.report(pod, status(phase, message), EndProgress::MayRun);
    }

    async fn pass(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    fn requests(&self, expected: &Expect) {
        expected.assert_eq(&self.api.take_requests().join("\n"));
    }

    fn mirror(&self, pod: &Arc<Pod>, mirror: Option<Arc<Pod>>) {
        let mirrored = Mirrored { pod: Some(Arc::clone(pod)), mirror };
        let by_name = [(PodRef::of(pod).full_name(), mirrored)].into();
        self.mirrors.send_replace(Arc::new(Mirrors { by_name, api_seen: true }));
    }
}

fn status(phase: &str, message: &str) -> PodStatus {
    PodStatus { phase: Some(phase.into()), message: Some(message.into()), ..PodStatus::default() }
}

fn ready(phase: &str, message: &str) -> PodStatus {
    let ready = PodCondition { type_: "Ready".into(), status: "True".into(), ..PodCondition::default() };
    PodStatus { conditions: Some(vec![ready]), ..status(phase, message) }
}

fn late(millis: u64, then: Answer) -> Answer {
    Answer::After(Duration::from_millis(millis), Box::new(then))
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_once_and_what_is_there_already_never() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    rig.says(&web, "Running", "one");
    rig.pass(1000).await;
    rig.requests(&expect!["0ms patch web Running one"]);
    let shown = rig.api.pod("web").expect("there");
    assert_eq!(shown.status.and_then(|status| status.message).as_deref(), Some("one"));
    // Reported again with the old object: the object in the answer is newer, and shows this status.
    rig.says(&web, "Running", "one");
    rig.pass(1000).await;
    rig.requests(&expect![""]);
    rig.says(&web, "Running", "two");
    rig.pass(1000).await;
    rig.requests(&expect!["2000ms patch web two"]);
}

#[tokio::test(start_paused = true)]
async fn reports_of_a_pod_that_starts_are_gathered_and_none_extends_the_time() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    // One report every 200 ms: if each restarted the timer, nothing would be written while they come.
    for n in 0..6 {
        rig.says(&web, "Pending", &format!("m{n}"));
        rig.pass(200).await;
    }
    rig.pass(1000).await;
    rig.requests(&expect![[r#"
        500ms patch web m2
        1100ms patch web m5"#]]);
    // An urgent change is written at once, together with the gathered ones.
    rig.says(&web, "Pending", "m6");
    rig.pass(100).await;
    rig.report(&web, ready("Running", "m7"), EndProgress::MayRun);
    rig.pass(1000).await;
    rig.requests(&expect!["2300ms patch web Running m7"]);
    // A change that was reverted meanwhile is not written.
    let shy = rig.put(pod("shy"));
    rig.says(&shy, "Pending", "never mind");
    rig.pass(100).await;
    rig.report(&shy, PodStatus { phase: Some("Pending".into()), ..PodStatus::default() }, EndProgress::MayRun);
    rig.pass(1000).await;
    rig.requests(&expect![""]);
}

#[tokio::test(start_paused = true)]
async fn stat_13_a_write_is_timed_from_the_change_on() {
    let rig = Rig::start();
    let shown = || {
        let mut page = String::new();
        rig.metrics.write(&mut page);
        let name = "kubelet_pod_status_sync_duration_seconds_";
        let numbers =
            page.lines().filter_map(|line| line.strip_prefix(name)).filter(|line| !line.starts_with("bucket"));
        numbers.map(str::to_owned).collect::<Vec<_>>().join(", ")
    };
    let web = rig.put(pod("web"));
    // Changes that come meanwhile go into the same write, and its time is that of the first.
    rig.says(&web, "Pending", "one");
    rig.pass(300).await;
    rig.says(&web, "Pending", "two");
    rig.pass(1000).await;
    rig.requests(&expect!["500ms patch web two"]);
    assert_eq!(shown(), "sum 0.5, count 1");
    // What the API shows already is not written, and takes no time.
    rig.says(&web, "Pending", "two");
    rig.pass(1000).await;
    assert_eq!(shown(), "sum 0.5, count 1");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_does_not_keep_is_not_sent_again_until_the_status_changes() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    rig.api.script([Answer::Ignore]);
    rig.says(&web, "Running", "one");
    rig.pass(60_000).await;
    rig.requests(&expect!["0ms patch web Running one"]);
    // The watch shows the object again: still the same patch, still refused.
    let again = rig.api.put(&rig.api.pod("web").expect("there"));
    rig.says(&again, "Running", "one");
    rig.pass(60_000).await;
    rig.requests(&expect![""]);
    rig.says(&again, "Running", "two");
    rig.pass(1000).await;
    rig.requests(&expect!["120000ms patch web Running two"]);
}

#[tokio::test(start_paused = true)]
async fn news_that_came_while_a_refused_patch_was_in_flight_are_sent_all_the_same() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    rig.api.script([late(100, Answer::Ignore)]);
    rig.says(&web, "Running", "one");
    rig.pass(50).await;
    rig.says(&web, "Running", "two");
    rig.pass(1000).await;
    rig.requests(&expect![[r#"
        0ms patch web Running one
        100ms patch web Running two"#]]);
}

#[tokio::test(start_paused = true)]
async fn one_request_of_a_pod_is_in_flight_at_a_time_and_the_newest_report_wins() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    rig.api.script([late(100, Answer::Obey)]);
    for n in 0..5 {
        rig.says(&web, "Running", &format!("m{n}"));
        rig.pass(10).await;
    }
    rig.pass(1000).await;
    rig.requests(&expect![[r#"
        0ms patch web Running m0
        100ms patch web m4"#]]);
    assert_eq!(rig.api.most_in_flight(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_shows_another_uid_is_not_taken_for_ours() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    let other = pod("web").uid("other").build();
    rig.api.script([Answer::With(Box::new((*other).clone()))]);
    rig.says(&web, "Running", "one");
    rig.pass(1000).await;
    // Our pod is gone: its reports are dropped, and the other pod is not touched.
    rig.says(&web, "Running", "two");
    rig.report(&web, status("Failed", "three"), EndProgress::Finished);
    rig.pass(60_000).await;
    rig.requests(&expect!["0ms patch web Running one"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_the_pod_is_asked_for_before_it_is_written_to_again() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    // Another writer changed it, and the watch has not shown that yet.
    let mut changed = (*web).clone();
    changed.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    rig.api.put(&changed);
    rig.api.script([Answer::Fail(ApiErrorKind::Conflict)]);
    rig.says(&web, "Running", "one");
    rig.pass(5000).await;
    rig.requests(&expect![[r#"
        0ms patch web Running one
        250ms get web
        250ms patch web Running one"#]]);
    // The next one is written without asking.
    rig.says(&web, "Running", "two");
    rig.pass(1000).await;
    rig.requests(&expect!["5000ms patch web two"]);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_because_the_name_is_another_pods_now_is_the_end() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    rig.put(pod("web").uid("other"));
    rig.says(&web, "Running", "one");
    rig.pass(60_000).await;
    rig.requests(&expect![[r#"
        0ms patch web Running one
        250ms get web"#]]);
    assert_eq!(rig.api.pod("web").and_then(|pod| pod.metadata.uid).as_deref(), Some("other"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_there_is_not_asked_for_again() {
    let rig = Rig::start();
    let web = pod("web").build();
    rig.says(&web, "Running", "one");
    rig.pass(1000).await;
    rig.says(&web, "Running", "two");
    rig.pass(60_000).await;
    rig.requests(&expect!["0ms patch web Running one"]);
    // Forgotten and then recreated: the new pod has an object.
    rig.mail.forget(&"web-uid".into());
    let again = rig.put(pod("web"));
    rig.says(&again, "Running", "three");
    rig.pass(1000).await;
    rig.requests(&expect!["61000ms patch web Running three"]);
}

#[tokio::test(start_paused = true)]
async fn pauses_after_failures_grow_and_looking_alone_does_not_shorten_them() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    let refused = || Answer::Fail(ApiErrorKind::Invalid);
    rig.api.script([refused(), Answer::Obey, refused(), Answer::Obey, refused(), refused(), Answer::Obey]);
    rig.says(&web, "Running", "one");
    rig.pass(200).await;
    // Reports during the pause wait for its end, and go into one write.
    rig.says(&web, "Running", "two");
    rig.pass(10_000).await;
    rig.requests(&expect![[r#"
        0ms patch web Running one
        250ms get web
        250ms patch web Running two
        750ms get web
        750ms patch web Running two
        1750ms get web
        3750ms get web
        3750ms patch web Running two"#]]);
    // After a success the next failure begins with the shortest pause.
    rig.api.script([refused()]);
    rig.says(&web, "Running", "three");
    rig.pass(1000).await;
    rig.requests(&expect![[r#"
        10200ms patch web three
        10450ms get web
        10450ms patch web three"#]]);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_looked_at_and_not_repeated() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    rig.api.script([Answer::Lose(ApiErrorKind::Timeout)]);
    rig.says(&web, "Running", "one");
    rig.pass(60_000).await;
    rig.requests(&expect![[r#"
        0ms patch web Running one
        250ms get web"#]]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_is_asked_by_one_pod_and_costs_none_its_pause() {
    let rig = Rig::start();
    let pods: Vec<_> = ["a", "b", "c"].map(|name| rig.put(pod(name))).into();
    let away = || Answer::Fail(ApiErrorKind::Unavailable);
    rig.api.script([away(), away(), away(), away(), away(), late(20, Answer::Obey)]);
    for pod in &pods {
        rig.says(pod, "Running", "m");
    }
    rig.pass(10_000).await;
    // Three fail together; then one asks, after 200, 400 and 800 ms; with its answer the others go on.
    rig.requests(&expect![[r#"
        0ms patch a Running m
        0ms patch b Running m
        0ms patch c Running m
        200ms patch a Running m
        600ms patch b Running m
        1400ms patch c Running m
        1420ms patch a Running m
        1420ms patch b Running m"#]]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_pauses_all_pods_for_its_retry_after() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    let busy = ApiErrorKind::Busy { retry_after: Some(Duration::from_secs(7)) };
    rig.api.script([Answer::Fail(busy)]);
    rig.says(&web, "Running", "one");
    rig.pass(1000).await;
    let other = rig.put(pod("other"));
    rig.says(&other, "Running", "m");
    rig.pass(10_000).await;
    rig.requests(&expect![[r#"
        0ms patch web Running one
        7000ms patch web Running one
        7000ms patch other Running m"#]]);
}

#[tokio::test(start_paused = true)]
async fn urgent_writes_go_first_and_the_rest_in_order_of_arrival() {
    let rig = Rig::start();
    // All places are taken for a second.
    for n in 0..16 {
        let name = format!("busy-{n:02}");
        rig.api.script_for(&name, [late(1000, Answer::Obey)]);
        let pod = rig.put(pod(&name));
        rig.says(&pod, "Running", "m");
    }
    rig.pass(10).await;
    rig.api.take_requests();
    let pods: Vec<_> = ["z", "y", "x", "w"].map(|name| rig.put(pod(name))).into();
    for pod in &pods {
        rig.says(pod, "Running", "m");
        rig.pass(10).await;
    }
    // The third turns ready; the first has another report, and keeps its place.
    let [z, _, x, _] = pods.as_slice() else { panic!("four") };
    rig.report(x, ready("Running", "r"), EndProgress::MayRun);
    rig.says(z, "Running", "more");
    rig.pass(5000).await;
    rig.requests(&expect![[r#"
        1000ms patch x Running r
        1000ms patch z Running more
        1000ms patch y Running m
        1000ms patch w Running m"#]]);
    assert_eq!(rig.api.most_in_flight(), 16);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_ends_is_given_up_after_a_minute() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    rig.api.script([Answer::Never]);
    rig.says(&web, "Running", "one");
    rig.pass(120_000).await;
    rig.requests(&expect![[r#"
        0ms patch web Running one
        60250ms get web
        60250ms patch web Running one"#]]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_panics_costs_a_pause() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    rig.api.script([Answer::Panic]);
    rig.says(&web, "Running", "one");
    rig.pass(5000).await;
    rig.requests(&expect![[r#"
        0ms patch web Running one
        250ms patch web Running one"#]]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_forgotten_is_not_written_to() {
    let rig = Rig::start();
    let (gathers, fails) = (rig.put(pod("gathers")), rig.put(pod("fails")));
    rig.api.script_for("fails", [Answer::Fail(ApiErrorKind::Invalid)]);
    rig.says(&gathers, "Pending", "m");
    rig.says(&fails, "Running", "m");
    rig.pass(100).await;
    rig.mail.forget(&"gathers-uid".into());
    rig.mail.forget(&"fails-uid".into());
    rig.pass(10_000).await;
    rig.requests(&expect!["0ms patch fails Running m"]);
    // Forgotten while its request is in flight: the answer is dropped.
    let flies = rig.put(pod("flies"));
    rig.api.script([late(100, Answer::Fail(ApiErrorKind::Invalid))]);
    rig.says(&flies, "Running", "m");
    rig.pass(50).await;
    rig.mail.forget(&"flies-uid".into());
    rig.pass(10_000).await;
    rig.requests(&expect!["10100ms patch flies Running m"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_forgotten_while_it_waited_for_its_turn_gets_one_turn_in_its_next_life() {
    let rig = Rig::start();
    for n in 0..16 {
        let name = format!("busy-{n:02}");
        rig.api.script_for(&name, [late(1000, Answer::Obey)]);
        let pod = rig.put(pod(&name));
        rig.says(&pod, "Running", "m");
    }
    rig.pass(10).await;
    rig.api.take_requests();
    let web = rig.put(pod("web"));
    rig.says(&web, "Running", "old");
    rig.pass(10).await;
    rig.mail.forget(&"web-uid".into());
    rig.pass(10).await;
    rig.says(&web, "Running", "new");
    rig.pass(5000).await;
    rig.requests(&expect!["1000ms patch web Running new"]);
}

#[tokio::test(start_paused = true)]
async fn an_older_version_of_the_object_does_not_replace_a_newer_one() {
    let rig = Rig::start();
    let old = rig.put(pod("web"));
    rig.says(&old, "Running", "one");
    rig.pass(100).await;
    rig.api.take_requests();
    // The watch lags behind the answer to the write: its object still shows nothing.
    rig.says(&old, "Running", "one");
    rig.pass(1000).await;
    rig.requests(&expect![""]);
    // A newer one in which another writer removed the message: it is written again.
    let mut wiped = rig.api.pod("web").expect("there");
    wiped.status.as_mut().expect("written").message = None;
    let wiped = rig.api.put(&wiped);
    rig.says(&wiped, "Running", "one");
    rig.pass(1000).await;
    rig.requests(&expect!["1100ms patch web one"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_deleted_once_its_end_is_shown_and_nothing_is_left_of_it() {
    let rig = Rig::start();
    let web = rig.put(pod("web").deleted(0, 30));
    for (progress, message) in [
        (EndProgress::MayRun, "a"),
        (EndProgress::Stopped, "b"),
        (EndProgress::Finished, "c"),
        (EndProgress::Finished, "c"),
    ] {
        rig.report(&web, status("Failed", message), progress);
        rig.pass(1000).await;
    }
    // While a container may run, its end is not shown; the object goes last, and once.
    rig.requests(&expect![[r#"
        1000ms patch web Failed b
        2000ms patch web c
        2000ms delete web"#]]);
    assert!(rig.api.pod("web").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_and_was_not_deleted_stays() {
    let rig = Rig::start();
    let web = rig.put(pod("web"));
    rig.report(&web, status("Succeeded", "m"), EndProgress::Finished);
    rig.pass(60_000).await;
    rig.requests(&expect!["0ms patch web Succeeded m"]);
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_fails_is_tried_again_and_never_meets_another_pod() {
    let rig = Rig::start();
    let web = rig.put(pod("web").deleted(0, 30).phase("Failed"));
    let ended = PodStatus { phase: Some("Failed".into()), ..PodStatus::default() };
    rig.api.script([Answer::Fail(ApiErrorKind::Failed)]);
    rig.report(&web, ended.clone(), EndProgress::Finished);
    rig.pass(1000).await;
    rig.requests(&expect![[r#"
        0ms delete web
        250ms get web
        250ms delete web"#]]);
    // The name belongs to another pod meanwhile: the GET shows that, and that pod stays.
    let next = rig.put(pod("next").deleted(0, 30).phase("Failed"));
    rig.put(pod("next").uid("other"));
    rig.report(&next, ended, EndProgress::Finished);
    rig.pass(60_000).await;
    rig.requests(&expect![[r#"
        1000ms delete next
        1250ms get next"#]]);
    assert!(rig.api.pod("next").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_static_pods_status_goes_to_its_mirror_and_waits_until_there_is_one() {
    let rig = Rig::start();
    let own = pod("web-node").uid("hash").static_from(Source::File).annotation(HASH_ANNOTATION, "hash").build();
    rig.says(&own, "Running", "one");
    rig.mirror(&own, None);
    rig.pass(10_000).await;
    rig.requests(&expect![""]);
    let mirror = rig.put(pod("web-node").uid("m1").mirror_of("hash"));
    rig.mirror(&own, Some(mirror));
    rig.pass(1000).await;
    rig.requests(&expect!["10000ms patch web-node Running one"]);
    // The mirror is deleted and recreated: its status is empty, and what the server refused for the old one does not count.
    rig.api.take_away("web-node");
    rig.says(&own, "Running", "two");
    rig.pass(1000).await;
    rig.requests(&expect!["11000ms patch web-node two"]);
    let mirror = rig.put(pod("web-node").uid("m2").mirror_of("hash"));
    rig.mirror(&own, Some(mirror));
    rig.pass(1000).await;
    rig.requests(&expect!["12000ms patch web-node Running two"]);
    // A patch that the server refused for one mirror is sent to the next one, even if it is the same text.
    rig.api.script([Answer::Ignore]);
    rig.says(&own, "Running", "odd");
    rig.pass(1000).await;
    rig.mirror(&own, None);
    rig.pass(10).await;
    let mirror = rig.api.put(&rig.api.pod("web-node").expect("there"));
    rig.api.take_requests();
    rig.mirror(&own, Some(mirror));
    rig.pass(990).await;
    rig.requests(&expect!["14010ms patch web-node odd"]);
    // One that shows another version of the pod is not its mirror.
    let mirror = rig.put(pod("web-node").uid("m3").mirror_of("older"));
    rig.mirror(&own, Some(mirror));
    rig.says(&own, "Running", "three");
    rig.pass(60_000).await;
    rig.requests(&expect![""]);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_is_never_deleted_by_the_writer() {
    let rig = Rig::start();
    let own = pod("web-node").uid("hash").static_from(Source::File).annotation(HASH_ANNOTATION, "hash").build();
    let mirror = rig.put(pod("web-node").uid("m1").mirror_of("hash").deleted(0, 30).phase("Failed"));
    rig.mirror(&own, Some(mirror));
    rig.report(&own, PodStatus { phase: Some("Failed".into()), ..PodStatus::default() }, EndProgress::Finished);
    rig.pass(60_000).await;
    rig.requests(&expect![""]);
}
