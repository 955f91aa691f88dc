//! Properties of a pod's life over any sequence of events: what holds at every step.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use rubelet_core::lifecycle::{Arrival, Cause, Command, Event, Grace, Job, JobEnd, Pace, PodLifecycle, Retry, Stage};
use rubelet_core::time::Instant;

fn pod(spec_grace: i64, deletion: Option<i64>, phase: Option<&str>) -> Arc<Pod> {
    Arc::new(Pod {
        metadata: ObjectMeta {
            uid: Some("u".into()),
            deletion_timestamp: deletion.map(|_| Time(jiff::Timestamp::UNIX_EPOCH)),
            deletion_grace_period_seconds: deletion,
            ..Default::default()
        },
        spec: Some(PodSpec { termination_grace_period_seconds: Some(spec_grace), ..Default::default() }),
        status: phase.map(|p| PodStatus { phase: Some(p.into()), ..Default::default() }),
    })
}

fn any_pod() -> impl Strategy<Value = Arc<Pod>> {
    (-1..60i64, prop::option::weighted(0.2, -1..60i64), prop::option::weighted(0.1, Just("Failed")))
        .prop_map(|(grace, deletion, phase)| pod(grace, deletion, phase))
}

fn any_end() -> impl Strategy<Value = JobEnd> {
    prop_oneof![
        (0..300u64, prop::bool::weighted(0.1), prop::option::of(0..100u64)).prop_map(|(at, terminal, again)| {
            JobEnd::Synced { looked_at: Instant::from_secs(at), again_in: again.map(Duration::from_secs), terminal }
        }),
        Just(JobEnd::Stopped),
        Just(JobEnd::CleanedUp),
        Just(JobEnd::Failed(Retry::Later)),
        Just(JobEnd::Failed(Retry::Soon)),
    ]
}

/// Events of the world; `Done` is drawn apart, since it can only follow a start.
fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (any_pod(), any::<bool>()).prop_map(|(pod, new)| Event::Desired {
            pod,
            how: if new { Arrival::Added } else { Arrival::Updated },
        }),
        2 => Just(Event::NameFree),
        1 => Just(Event::Removed),
        1 => prop::option::of(0..40u64).prop_map(|g| Event::Kill { ending: Cause::Evicted.into(), grace: g.map(Duration::from_secs) }),
        3 => Just(Event::Hint),
        3 => Just(Event::Deadline),
        6 => any_end().prop_map(Event::Done),
    ]
}

/// A job ends only as its kind can: a sync does not say `Stopped`.
fn fits(end: &JobEnd, job: Option<&Job>) -> bool {
    match (end, job) {
        (_, None) => false,
        (JobEnd::Failed(_), Some(_)) => true,
        (JobEnd::Synced { .. }, Some(job)) => *job == Job::Sync,
        (JobEnd::Stopped, Some(job)) => matches!(job, Job::Terminate { .. }),
        (JobEnd::CleanedUp, Some(job)) => *job == Job::CleanUp,
    }
}

fn rank(stage: &Stage) -> u8 {
    match stage {
        Stage::Waiting => 0,
        Stage::Syncing { .. } => 1,
        Stage::Terminating { .. } => 2,
        Stage::Terminated { .. } => 3,
        Stage::Finished => 4,
    }
}

fn grace(stage: &Stage) -> Option<Grace> {
    match stage {
        Stage::Terminating { grace, .. } => Some(*grace),
        Stage::Waiting | Stage::Syncing { .. } | Stage::Terminated { .. } | Stage::Finished => None,
    }
}

proptest! {
    #[test]
    fn the_always_true_list_holds(events in vec(any_event(), 0..200), jitter in 0.0..1.0f64) {
        let mut life = PodLifecycle::new(pod(30, None, None), Pace::new(Duration::from_secs(60)));
        let mut stopped = false;
        for (tick, event) in events.into_iter().enumerate() {
            if let Event::Done(end) = &event && !fits(end, life.job()) {
                continue;
            }
            stopped |= matches!(event, Event::Done(JobEnd::Stopped));
            let before = life.stage().clone();
            let had_job = life.job().is_some();
            let done = matches!(event, Event::Done(_));
            let commands = life.step(event, Instant::from_secs(tick as u64), jitter);

            prop_assert!(rank(life.stage()) >= rank(&before), "a pod only moves on: {before:?} to {:?}", life.stage());
            let starts = commands.iter().filter(|c| matches!(c, Command::Start(_))).count();
            prop_assert!(starts <= 1 && (starts == 0 || !had_job || done), "one job in flight");
            if before.is_past_syncing() {
                prop_assert!(!commands.contains(&Command::Start(Job::Sync)), "nothing starts once terminating");
            }
            if let (Some(old), Some(new)) = (grace(&before), grace(life.stage())) {
                prop_assert!(new <= old && new >= Grace::MIN, "grace never grows and is at least a second");
            }
            if rank(life.stage()) >= 3 {
                prop_assert!(stopped, "terminated only after every container is known stopped");
            }
            // Whatever happens, something will happen next: no pod is forgotten.
            let parked = matches!(life.stage(), Stage::Waiting | Stage::Finished);
            prop_assert!(parked || life.job().is_some() || life.next_deadline().is_some(), "a pod is never forgotten");
        }
    }

    #[test]
    fn a_removed_pod_is_driven_to_its_end(events in vec(any_event(), 0..60)) {
        let mut life = PodLifecycle::new(pod(30, None, None), Pace::new(Duration::from_secs(60)));
        let mut now = 0;
        for event in events {
            now += 1;
            if let Event::Done(end) = &event && !fits(end, life.job()) {
                continue;
            }
            life.step(event, Instant::from_secs(now), 0.0);
        }
        life.step(Event::Removed, Instant::from_secs(now), 0.0);
        for _ in 0..6 {
            now += 100;
            let end = match life.job() {
                Some(Job::Sync) => JobEnd::Failed(Retry::Later),
                Some(Job::Terminate { .. }) => JobEnd::Stopped,
                Some(Job::CleanUp) => JobEnd::CleanedUp,
                None => {
                    life.step(Event::Deadline, Instant::from_secs(now), 0.0);
                    continue;
                }
            };
            life.step(Event::Done(end), Instant::from_secs(now), 0.0);
        }
        prop_assert_eq!(life.stage(), &Stage::Finished);
    }
}
