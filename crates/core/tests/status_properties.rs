//! Laws of statuses, back-off and collection.

mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use proptest::prelude::*;
use rubelet_core::backoff::{BackoffPolicy, Backoffs};
use rubelet_core::gc::{GcPolicy, GcView, PodFate, plan_gc, prune_dead};
use rubelet_core::observe::{ContainerStateKind, ContainerSummary, PodSummary, SandboxState, SandboxSummary};
use rubelet_core::status::Phase;
use world::{Case, World as _, any, at};

/// The same pod as a list of the runtime shows it.
fn summary(case: &Case) -> PodSummary {
    let seen = case.look(&case.pod());
    let container = |c: &rubelet_core::observe::ContainerObservation| ContainerSummary {
        name: c.name.clone(),
        sandbox: c.sandbox.clone(),
        state: c.state.kind(),
        created_at: c.created_at,
        restart_count: c.marks.restart_count,
        image_id: c.image_id.clone(),
    };
    let sandbox = |s: &rubelet_core::observe::SandboxObservation| SandboxSummary {
        state: s.state,
        attempt: s.attempt,
        created_at: s.created_at,
    };
    PodSummary {
        pod: seen.pod.clone(),
        sandboxes: seen.sandboxes.iter().map(|s| (s.id.clone(), sandbox(s))).collect(),
        containers: seen.containers.iter().map(|c| (c.id.clone(), container(c))).collect(),
    }
}

proptest! {
    #![proptest_config(any::config(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/status_properties.proptest-regressions")))]

    #[test]
    fn every_pod_has_a_phase_and_a_terminal_one_never_reverts(worlds in prop::collection::vec(any::case(), 1..4)) {
        let spec = worlds[0].spec.clone();
        let mut previous = PodStatus::default();
        for world in worlds {
            // The same pod, seen in another state.
            let status = Case { spec: spec.clone(), previous: Some(previous.clone()), ..world }.status();
            let phase = status.phase.as_deref().and_then(Phase::parse);
            prop_assert!(phase.is_some());
            let before = previous.phase.as_deref().and_then(Phase::parse);
            if let Some(before) = before.filter(|p| p.is_terminal()) {
                prop_assert_eq!(phase, Some(before));
            }
            if phase.is_some_and(Phase::is_terminal) {
                let ready = |name| status.conditions.iter().flatten().any(|c| c.type_ == name && c.status == "True");
                prop_assert!(!ready("Ready") && !ready("ContainersReady"), "STAT-08");
            }
            previous = status;
        }
    }

    #[test]
    fn a_finished_pod_is_terminal_and_all_its_containers_have_ended(case in any::case()) {
        let before = case.status();
        let case = Case { ending: "finished".to_owned(), ..case };
        let status = case.status();
        prop_assert_eq!(&Case { previous: Some(status.clone()), ..case.clone() }.status().phase, &status.phase);
        let is_terminal = |status: &PodStatus| status.phase.as_deref().and_then(Phase::parse).is_some_and(Phase::is_terminal);
        prop_assert!(is_terminal(&status));
        // A node decides from its last status. Without that one, a pod whose sandbox was lost can look as if it had succeeded.
        let last = Case { previous: Some(before.clone()), ..case }.status();
        prop_assert!(is_terminal(&last));
        if is_terminal(&before) {
            prop_assert_eq!(&last.phase, &before.phase);
        }
    }

    #[test]
    fn collection_spares_what_runs_and_the_newest_of_a_pod_that_may_run(case in any::case(), age in 0..300_u64) {
        let pod = summary(&case);
        let policy = GcPolicy { min_age: Duration::from_secs(age), ..GcPolicy::default() };
        let view = GcView { policy, all_sources_seen: true, remove_ended: false, now: at(1_000) };
        let plan = plan_gc(&[&pod], |_| PodFate::MayRun, &view);
        let mut left: BTreeMap<&str, usize> = BTreeMap::new();
        for (id, container) in &pod.containers {
            let goes = plan.containers.iter().any(|c| c.id == *id);
            prop_assert!(!goes || container.state != ContainerStateKind::Running);
            *left.entry(&container.name).or_default() += usize::from(!goes);
        }
        prop_assert!(left.values().all(|left| *left > 0), "a container lost its last trace");
        for id in &plan.sandboxes {
            prop_assert!(pod.sandboxes[id].state == SandboxState::NotReady);
        }
        prop_assert!(pod.sandboxes.is_empty() || plan.sandboxes.len() < pod.sandboxes.len());
        let seen = case.look(&case.pod());
        for id in prune_dead(&seen, &policy, PodFate::MayRun) {
            let pruned = seen.containers.iter().find(|c| c.id == id).expect("it was seen");
            prop_assert!(pruned.state.exit().is_some());
            prop_assert!(seen.newest(&pruned.name).is_some_and(|newest| newest.id != id));
        }
    }

    #[test]
    fn a_wait_is_never_longer_than_the_maximum_and_always_ends(
        max in 1..300_u64,
        runs in prop::collection::vec(0..700_i64, 1..20),
    ) {
        let mut backoffs = Backoffs::new(BackoffPolicy::crash(Some(Duration::from_secs(max)), false));
        let mut now = 0;
        for run in runs {
            let ended = now + run;
            let wait = backoffs.wait_left("k", at(ended), at(ended)).unwrap_or_default();
            prop_assert!(wait <= Duration::from_secs(max));
            now = ended + i64::try_from(wait.as_secs()).expect("small");
            prop_assert_eq!(backoffs.wait_left("k", at(ended), at(now)), None);
            backoffs.next("k", at(ended), at(now));
        }
    }
}
