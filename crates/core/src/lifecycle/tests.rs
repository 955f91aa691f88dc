//! Laws of a pod's life, as tables. The always-true properties over random sequences are in `tests/lifecycle.rs`.

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::*;
use crate::pod::OrphanPod;

fn pod(grace: i64) -> Pod {
    Pod {
        metadata: ObjectMeta { uid: Some("u1".into()), name: Some("web".into()), ..Default::default() },
        spec: Some(PodSpec { termination_grace_period_seconds: Some(grace), ..Default::default() }),
        ..Default::default()
    }
}

fn deleted(grace: i64) -> Arc<Pod> {
    let mut pod = pod(30);
    pod.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    Arc::new(pod)
}

fn at(secs: u64) -> Instant {
    Instant::from_secs(secs)
}

/// A pod that has been let in at 0 s and whose first sync is in flight.
fn syncing() -> PodLifecycle {
    let mut life = PodLifecycle::new(Arc::new(pod(30)), Pace::new(Duration::from_secs(60)));
    assert_eq!(life.step(Event::NameFree, at(0), 0.0), [Command::Start(Job::Sync)]);
    life
}

fn synced(looked_at: u64) -> Event {
    Event::Done(JobEnd::Synced { looked_at: at(looked_at), again_in: None, terminal: false })
}

fn terminate(secs: i64) -> Command {
    Command::Start(Job::Terminate { grace: Grace::secs(secs) })
}

#[test]
fn a_pod_waits_for_its_name_work_08() {
    let mut life = PodLifecycle::new(Arc::new(pod(30)), Pace::new(Duration::from_secs(60)));
    let update = Event::Desired { pod: Arc::new(pod(5)), how: Arrival::Updated };
    assert_eq!(life.step(update, at(0), 0.0), []);
    assert_eq!(life.step(Event::Hint, at(0), 0.0), []);
    assert_eq!(life.step(Event::NameFree, at(1), 0.0), [Command::Start(Job::Sync)]);
}

#[test]
fn news_after_the_last_look_starts_another_sync() {
    for (news, looked, again) in [(5, 4, true), (5, 5, false), (3, 4, false)] {
        let mut life = syncing();
        assert_eq!(life.step(Event::Hint, at(news), 0.0), []);
        let commands = life.step(synced(looked), at(6), 0.0);
        assert_eq!(!commands.is_empty(), again, "news at {news}, looked at {looked}");
    }
}

#[test]
fn a_newer_spec_replaces_an_unread_one_work_03() {
    let mut life = syncing();
    for grace in [5, 6] {
        let update = Event::Desired { pod: Arc::new(pod(grace)), how: Arrival::Updated };
        assert_eq!(life.step(update, at(1), 0.0), []);
    }
    assert_eq!(life.step(synced(2), at(2), 0.0), [Command::Start(Job::Sync)]);
    let spec = life.subject().pod().and_then(|p| p.spec.as_ref()).and_then(|s| s.termination_grace_period_seconds);
    assert_eq!(spec, Some(6));
}

#[test]
fn pauses_are_upstreams_work_10() {
    let ok = |again_in| JobEnd::Synced { looked_at: at(9), again_in, terminal: false };
    let s = Duration::from_secs;
    for (end, jitter, pause) in [
        (ok(None), 0.0, s(60)),
        (ok(None), 1.0, s(90)),
        (ok(Some(s(20))), 0.0, s(20)),
        (ok(Some(s(200))), 0.0, s(60)),
        (JobEnd::Failed(Retry::Soon), 1.0, Duration::from_millis(1500)),
        (JobEnd::Failed(Retry::Later), 0.0, s(10)),
        (JobEnd::Failed(Retry::In(s(40))), 0.5, s(40)),
        (JobEnd::Failed(Retry::In(s(300))), 0.5, s(60)),
    ] {
        let mut life = syncing();
        assert_eq!(life.step(Event::Done(end.clone()), at(10), jitter), []);
        assert_eq!(life.next_deadline(), Some(at(10) + pause), "{end:?}");
    }
}

#[test]
fn pods_that_are_at_rest_are_looked_at_on_whole_seconds_but_what_is_due_is_not_put_off() {
    let now = at(10) + Duration::from_millis(300);
    let s = Duration::from_secs;
    for (again_in, due) in [(None, at(71)), (Some(s(20)), now + s(20)), (Some(s(200)), at(71))] {
        let mut life = syncing();
        life.step(Event::Done(JobEnd::Synced { looked_at: now, again_in, terminal: false }), now, 0.0);
        assert_eq!(life.next_deadline(), Some(due), "{again_in:?}");
    }
}

#[test]
fn deletion_cancels_the_sync_and_then_terminates_work_04() {
    let mut life = syncing();
    let delete = Event::Desired { pod: deleted(7), how: Arrival::Updated };
    assert_eq!(life.step(delete, at(1), 0.0), [Command::Cancel]);
    assert_eq!(life.step(Event::Done(JobEnd::Failed(Retry::Later)), at(2), 0.0), [terminate(7)]);
    assert_eq!(life.step(Event::Done(JobEnd::Stopped), at(3), 0.0), [Command::Start(Job::CleanUp)]);
    assert_eq!(life.step(Event::Done(JobEnd::CleanedUp), at(4), 0.0), [Command::Finish]);
    assert_eq!(*life.stage(), Stage::Finished);
}

#[test]
fn grace_shrinks_and_never_grows_work_05() {
    let mut life = syncing();
    assert_eq!(life.step(Event::Removed, at(1), 0.0), [Command::Cancel]);
    assert_eq!(life.step(synced(1), at(1), 0.0), [terminate(30)]);
    for (event, restarts) in [
        (Event::Kill { ending: Cause::Evicted.into(), grace: Some(Duration::from_secs(40)) }, false),
        (Event::Kill { ending: Cause::Evicted.into(), grace: None }, false),
        (Event::Desired { pod: deleted(5), how: Arrival::Updated }, true),
        (Event::Desired { pod: deleted(9), how: Arrival::Updated }, false),
        (Event::Kill { ending: Cause::Evicted.into(), grace: Some(Duration::ZERO) }, true),
    ] {
        let shown = format!("{event:?}");
        let commands = life.step(event, at(2), 0.0);
        assert_eq!(commands.contains(&Command::Cancel), restarts, "{shown}");
        if restarts {
            assert!(matches!(
                life.step(Event::Done(JobEnd::Failed(Retry::Later)), at(2), 0.0)[..],
                [Command::Start(_)]
            ));
        }
    }
    assert!(matches!(life.stage(), Stage::Terminating { grace: Grace::MIN, .. }));
    assert_eq!(life.stage().cause(), Some(Cause::Deleted));
}

#[test]
fn a_pod_added_again_while_ending_gets_a_life_of_its_own_work_06() {
    let mut life = syncing();
    life.step(synced(0), at(0), 0.0);
    assert_eq!(life.step(Event::Removed, at(1), 0.0), [terminate(30)]);
    let again = Event::Desired { pod: Arc::new(pod(8)), how: Arrival::Added };
    assert_eq!(life.step(again, at(2), 0.0), []);
    assert!(life.stage().is_past_syncing());
    assert!(life.clone().into_recreated().is_some());
    life.step(Event::Removed, at(3), 0.0);
    assert!(life.into_recreated().is_none());
}

#[test]
fn a_pod_that_comes_back_and_is_deleted_before_its_life_begins_is_begun_deleted_work_06() {
    let mut ended = pod(8);
    ended.status = Some(k8s_openapi::api::core::v1::PodStatus { phase: Some("Failed".into()), ..Default::default() });
    for newer in [deleted(3), Arc::new(ended)] {
        let mut life = syncing();
        life.step(synced(0), at(0), 0.0);
        assert_eq!(life.step(Event::Removed, at(1), 0.0), [terminate(30)]);
        life.step(Event::Desired { pod: Arc::new(pod(8)), how: Arrival::Added }, at(2), 0.0);
        life.step(Event::Desired { pod: Arc::clone(&newer), how: Arrival::Updated }, at(3), 0.0);
        let recreated = life.into_recreated().expect("the API still has the pod: it has to be ended there");
        assert!(Arc::ptr_eq(&recreated, &newer), "{recreated:?}");
    }
}

#[test]
fn a_deletion_of_the_pod_that_comes_back_shortens_the_grace_of_the_life_before_it() {
    let mut life = syncing();
    life.step(synced(0), at(0), 0.0);
    assert_eq!(life.step(Event::Removed, at(1), 0.0), [terminate(30)]);
    life.step(Event::Desired { pod: Arc::new(pod(8)), how: Arrival::Added }, at(2), 0.0);
    let delete = Event::Desired { pod: deleted(3), how: Arrival::Updated };
    assert_eq!(life.step(delete, at(3), 0.0), [Command::Cancel]);
    assert_eq!((life.stage().word(), life.stage().cause()), ("Terminating", Some(Cause::Deleted)));
    assert_eq!(life.stage().grace_left(at(3)).get().as_secs(), 3);
}

#[test]
fn an_orphan_is_ended_at_once_with_the_least_grace_term_10() {
    let orphan = OrphanPod { pod: crate::id::PodRef::of(&pod(30)) };
    let (life, commands) = PodLifecycle::orphan(orphan, Pace::new(Duration::from_secs(60)), at(0));
    assert_eq!(commands, [terminate(1)]);
    assert_eq!((life.stage().word(), life.stage().cause()), ("Terminating", Some(Cause::Orphaned)));
}

#[test]
fn a_pod_whose_containers_have_ended_for_good_is_terminated() {
    let mut life = syncing();
    let end = JobEnd::Synced { looked_at: at(1), again_in: None, terminal: true };
    assert_eq!(life.step(Event::Done(end), at(1), 0.0), [terminate(30)]);
}

#[test]
fn a_termination_that_failed_is_tried_again_at_the_next_event() {
    let mut life = syncing();
    life.step(synced(0), at(0), 0.0);
    life.step(Event::Removed, at(1), 0.0);
    assert_eq!(life.step(Event::Done(JobEnd::Failed(Retry::Later)), at(2), 0.0), []);
    assert_eq!(life.next_deadline(), Some(at(12)));
    assert_eq!(life.step(Event::Hint, at(3), 0.0), [terminate(30)]);
}

#[test]
fn a_deletion_outranks_the_cause_and_leaves_the_reason_of_the_status() {
    let mut life = syncing();
    life.step(Event::Kill { ending: Ending::preempted(), grace: None }, at(1), 0.0);
    let later =
        Arc::new(crate::status::EndReason { reason: "Evicted".into(), ..crate::status::EndReason::preempted() });
    let evicted = Ending { cause: Cause::Evicted, reason: Some(later) };
    life.step(Event::Kill { ending: evicted, grace: None }, at(2), 0.0);
    life.step(Event::Desired { pod: deleted(5), how: Arrival::Updated }, at(3), 0.0);
    let ending = life.stage().ending().cloned().expect("it ends");
    assert_eq!(ending, Ending { cause: Cause::Deleted, ..Ending::preempted() });
    life.step(Event::Done(JobEnd::Failed(Retry::Soon)), at(4), 0.0);
    life.step(Event::Done(JobEnd::Stopped), at(5), 0.0);
    assert_eq!(life.stage(), &Stage::Terminated { since: at(5), ending });
}

#[test]
fn a_job_that_fails_and_causes_events_itself_is_tried_more_and_more_seldom() {
    let mut life = syncing();
    let mut now = at(0);
    let mut waits = Vec::new();
    // The event comes while the job is in flight, or just after it has failed.
    for during in [true, false, true, false, true, false] {
        let failed = Event::Done(JobEnd::Failed(Retry::Later));
        let events = if during { [Event::Hint, failed] } else { [failed, Event::Hint] };
        for event in events {
            assert_eq!(life.step(event, now, 0.0), []);
        }
        let due = life.next_deadline().expect("it is tried again");
        waits.push(due.since(now).as_secs());
        now = due;
        assert_eq!(life.step(Event::Deadline, now, 0.0), [Command::Start(Job::Sync)]);
    }
    assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
}

#[test]
fn a_stop_that_is_tried_again_has_what_is_left_of_the_grace() {
    let mut life = syncing();
    life.step(synced(0), at(0), 0.0);
    life.step(Event::Removed, at(10), 0.0);
    let left = |life: &PodLifecycle, now| life.stage().grace_left(at(now)).get().as_secs();
    assert_eq!([left(&life, 10), left(&life, 25), left(&life, 60)], [30, 15, 1]);
    // A shorter grace counts from when it was asked for, unless the first is over sooner.
    life.step(Event::Desired { pod: deleted(20), how: Arrival::Updated }, at(12), 0.0);
    assert_eq!(left(&life, 12), 20);
    life.step(Event::Desired { pod: deleted(19), how: Arrival::Updated }, at(30), 0.0);
    assert_eq!(left(&life, 30), 2);
}

#[test]
fn a_change_of_what_the_spec_refers_to_is_due_at_once_whatever_failed_before() {
    let mut life = syncing();
    // A job in flight may have read what was there before.
    assert_eq!(life.step(Event::DependencyChanged, at(1), 0.0), []);
    assert_eq!(life.step(synced(2), at(2), 0.0), [Command::Start(Job::Sync)]);
    for n in 0..5 {
        assert_eq!(life.step(Event::Done(JobEnd::Failed(Retry::Later)), at(3 + n), 0.0), []);
        assert_eq!(life.step(Event::DependencyChanged, at(3 + n), 0.0), [Command::Start(Job::Sync)]);
    }
    // Nothing is begun in a pod that ends.
    assert_eq!(life.step(Event::Removed, at(9), 0.0), [Command::Cancel]);
    assert_eq!(life.step(Event::DependencyChanged, at(9), 0.0), []);
    assert_eq!(life.step(Event::Done(JobEnd::Failed(Retry::Soon)), at(9), 0.0), [terminate(30)]);
}

// Another client may set the phase of a pod.
#[test]
fn a_refreshed_status_ends_the_pod_only_if_it_is_terminal() {
    let with_phase = |phase: &str| {
        let status = k8s_openapi::api::core::v1::PodStatus { phase: Some(phase.into()), ..Default::default() };
        Arc::new(Pod { status: Some(status), ..pod(30) })
    };
    for (phase, ends) in [("Running", false), ("Failed", true), ("Succeeded", true)] {
        let mut life = syncing();
        life.step(synced(1), at(1), 0.0);
        let commands = life.step(Event::Refreshed { pod: with_phase(phase) }, at(2), 0.0);
        assert_eq!(commands, if ends { vec![terminate(30)] } else { vec![] }, "{phase}");
        assert_eq!(life.subject().pod().and_then(|pod| pod.status.as_ref()?.phase.clone()).as_deref(), Some(phase));
        // A pod that ends already does not end anew.
        let mut life = syncing();
        life.step(Event::Kill { ending: Cause::Deleted.into(), grace: None }, at(2), 0.0);
        assert_eq!(life.step(Event::Refreshed { pod: with_phase(phase) }, at(3), 0.0), [], "{phase}");
        assert_eq!(life.stage().ending(), Some(&Cause::Deleted.into()), "{phase}");
    }
}

#[test]
fn jobs_that_fail_in_a_row_are_counted() {
    let mut life = syncing();
    assert_eq!(life.failures(), 0);
    for count in 1..=3 {
        life.step(Event::Done(JobEnd::Failed(Retry::Later)), at(1), 0.0);
        assert_eq!(life.failures(), count);
        let due = life.next_deadline().expect("it is tried again");
        assert_eq!(life.step(Event::Deadline, due, 0.0), [Command::Start(Job::Sync)]);
    }
    life.step(synced(9), at(9), 0.0);
    assert_eq!(life.failures(), 0);
}

// WORK-12
#[test]
fn work_12_containers_may_run_while_a_pod_is_synced_or_terminated() {
    let ending: Ending = Cause::Deleted.into();
    for (stage, may_run, past) in [
        (Stage::Waiting, false, false),
        (Stage::Syncing { since: at(0) }, true, false),
        (Stage::terminating(at(0), Grace::MIN, ending.clone()), true, true),
        (Stage::Terminated { since: at(0), ending }, false, true),
        (Stage::Finished, false, true),
    ] {
        assert_eq!((stage.may_have_running_containers(), stage.is_past_syncing()), (may_run, past), "{stage:?}");
    }
}

#[test]
fn nothing_is_due_before_its_deadline() {
    let mut life = syncing();
    life.step(synced(1), at(1), 0.0);
    let due = life.next_deadline().expect("a periodic sync");
    assert!(due > at(2));
    assert_eq!(life.step(Event::Deadline, at(2), 0.0), []);
    assert_eq!(life.step(Event::Deadline, due, 0.0), [Command::Start(Job::Sync)]);
    assert_eq!(life.step(Event::Deadline, due, 0.0), [], "one job at a time");
    // Without a failure an event is followed at once.
    life.step(Event::Done(JobEnd::Synced { looked_at: due, again_in: None, terminal: false }), due, 0.0);
    assert_eq!(life.step(Event::Hint, due, 0.0), [Command::Start(Job::Sync)]);
}

#[test]
fn a_spec_that_came_during_a_job_is_read_at_once_however_the_job_ended() {
    let update = || Event::Desired { pod: Arc::new(pod(5)), how: Arrival::Updated };
    for end in [JobEnd::Failed(Retry::Later), JobEnd::Synced { looked_at: at(9), again_in: None, terminal: false }] {
        let mut life = syncing();
        assert_eq!(life.step(update(), at(1), 0.0), []);
        assert_eq!(life.step(Event::Done(end.clone()), at(2), 0.0), [Command::Start(Job::Sync)], "{end:?}");
    }
}

// WORK-04, WORK-05
#[test]
fn work_04_a_job_is_cancelled_once_and_its_result_does_not_count() {
    let mut life = syncing();
    let delete = |grace| Event::Desired { pod: deleted(grace), how: Arrival::Updated };
    assert_eq!(life.step(delete(9), at(1), 0.0), [Command::Cancel]);
    assert_eq!(life.step(delete(7), at(1), 0.0), [], "it is cancelled already");
    assert_eq!(life.step(Event::Done(JobEnd::Failed(Retry::Later)), at(2), 0.0), [terminate(7)]);
    assert_eq!(life.failures(), 0, "a cancelled job did not fail");
    // The grace shrinks while the pod is terminated: the pod stopped with another grace.
    assert_eq!(life.step(delete(3), at(3), 0.0), [Command::Cancel]);
    assert_eq!(life.step(Event::Done(JobEnd::Stopped), at(4), 0.0), [terminate(3)]);
    assert_eq!(life.step(Event::Done(JobEnd::Stopped), at(5), 0.0), [Command::Start(Job::CleanUp)]);
}
