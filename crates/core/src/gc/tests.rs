//! What `tests/golden/decision/{gc,prune}.yaml` cannot show.

use super::*;
use crate::observe::{ContainerSummary, SandboxSummary};

// GC-01: age counts from creation. Upstream reads the clock itself, so that it cannot be asked about a moment.
#[test]
fn a_dead_container_of_exactly_the_minimum_age_goes() {
    let at = |secs| Timestamp::from_second(secs).expect("in range");
    let container = ContainerSummary {
        name: "a".into(),
        sandbox: "s".into(),
        state: ContainerStateKind::Exited,
        created_at: at(950),
        restart_count: 0,
        image_id: String::new(),
    };
    let sandbox = SandboxSummary { state: SandboxState::Ready, attempt: 0, created_at: at(1) };
    let pod = PodSummary {
        pod: PodRef { namespace: "ns".into(), name: "p".into(), uid: "p".into() },
        sandboxes: [("s".into(), sandbox)].into(),
        containers: [("a0".into(), container)].into(),
    };
    for (min_age, expected) in [(50, 1), (51, 0)] {
        let policy = GcPolicy { min_age: Duration::from_secs(min_age), per_container: Some(0), total: None };
        let view = GcView { policy, all_sources_seen: true, remove_ended: false, now: at(1_000) };
        let plan = plan_gc(&[&pod], |_| PodFate::MayRun, &view);
        assert_eq!(plan.containers.len(), expected, "{min_age}");
    }
}

#[test]
fn a_plan_is_empty_when_it_removes_neither_containers_nor_sandboxes() {
    let container = GcContainer {
        id: "a0".into(),
        name: "a".into(),
        pod: PodRef { namespace: "ns".into(), name: "p".into(), uid: "p".into() },
        restart_count: 0,
        stop_first: false,
    };
    assert!(GcPlan::default().is_empty());
    assert!(!GcPlan { containers: vec![container], sandboxes: vec![] }.is_empty());
    assert!(!GcPlan { containers: vec![], sandboxes: vec!["s".into()] }.is_empty());
}
