//! Laws of plans, for every pod and everything that can be seen of it.

mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use rubelet_core::hash::container_hash;
use rubelet_core::id::ContainerId;
use rubelet_core::inputs::PodInputs;
use rubelet_core::launch::NamespaceMode;
use rubelet_core::observe::{
    ContainerMarks, ContainerObservation, ContainerState, Exit, PodObservation, SandboxObservation, SandboxState,
};
use rubelet_core::plan::{PodPlan, ProbeView, SandboxPlan, plan_kill_order, plan_pod};
use rubelet_core::pod::{PodExt, Role, is_sidecar};
use world::{Case, World as _, any, at, name_at};

fn plan(case: &Case, pod: &Pod, seen: &PodObservation, probes: &ProbeView) -> PodPlan {
    let (pod, probes) = (Arc::new(pod.clone()), Arc::new(probes.clone()));
    plan_pod(&PodInputs::new(&pod, &probes, case.node(&[])), seen)
}

fn first_plan(case: &Case) -> (Pod, PodObservation, PodPlan) {
    let pod = case.pod();
    let seen = case.look(&pod);
    let plan = plan(case, &pod, &seen, &case.verdicts(&seen));
    (pod, seen, plan)
}

/// The world after a plan: what was to stop has stopped, what was to start runs.
fn carry_out(pod: &Pod, seen: &mut PodObservation, plan: &PodPlan) {
    let exited = || {
        ContainerState::Exited(Exit {
            code: 137,
            started_at: at(0),
            finished_at: at(1),
            reason: "Error".into(),
            message: String::new(),
        })
    };
    let doomed: BTreeSet<&ContainerId> = plan.kill.iter().map(|k| &k.id).collect();
    for container in &mut seen.containers {
        let up = container.state.exit().is_none() && container.state != ContainerState::Created;
        if (plan.kill_pod && up) || doomed.contains(&container.id) {
            container.state = exited();
        }
    }
    if plan.kill_pod {
        seen.sandboxes.iter_mut().for_each(|s| s.state = SandboxState::NotReady);
    }
    seen.containers.retain(|c| !plan.remove.contains(&c.id));
    if let SandboxPlan::Create { attempt, .. } = &plan.sandbox {
        let sandbox = SandboxObservation {
            id: format!("sandbox.{attempt}").into(),
            attempt: *attempt,
            state: SandboxState::Ready,
            created_at: at(0),
            network: NamespaceMode::Pod,
            ips: vec!["10.0.0.2".parse().expect("an address")],
            runtime_handler: String::new(),
        };
        seen.sandboxes.insert(0, sandbox);
    }
    for start in &plan.start {
        let name = name_at(pod, *start);
        let hash = pod.init().iter().chain(pod.regular()).find(|c| c.name == name).map(container_hash);
        let count = seen.containers.len();
        let new = ContainerObservation {
            id: format!("new-{name}-{count}-{}", seen.sandboxes.len()).into(),
            sandbox: seen.sandboxes.first().map_or("none".into(), |s| s.id.clone()),
            name: name.into(),
            state: ContainerState::Running { started_at: at(2) },
            created_at: at(2),
            image: "img".into(),
            image_id: String::new(),
            marks: ContainerMarks { hash, ..ContainerMarks::default() },
            log_path: String::new(),
            resources: None,
            user: None,
        };
        seen.containers.insert(0, new);
    }
}

/// Time passes: ordinary init containers end well, and everything else goes on.
fn pass_time(pod: &Pod, seen: &mut PodObservation) {
    for container in &mut seen.containers {
        let ordinary = pod.init().iter().any(|c| c.name == container.name && !is_sidecar(c));
        if ordinary && container.state.is_running() {
            container.state = ContainerState::Exited(Exit {
                code: 0,
                started_at: at(2),
                finished_at: at(3),
                reason: "Completed".into(),
                message: String::new(),
            });
        }
    }
}

/// Every startup probe passes, and no liveness probe fails.
fn all_well(seen: &PodObservation) -> ProbeView {
    let verdict = rubelet_core::plan::Verdict::Success;
    ProbeView { startup: seen.running().map(|c| (c.id.clone(), verdict)).collect(), ..ProbeView::default() }
}

proptest! {
    #![proptest_config(any::config(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plan_properties.proptest-regressions")))]

    #[test]
    fn nothing_starts_in_a_deleted_pod(case in any::case()) {
        let (_, _, plan) = first_plan(&Case { deleted: true, ..case });
        prop_assert!(plan.start.is_empty());
        prop_assert!(!matches!(plan.sandbox, SandboxPlan::Create { .. }), "{plan:?}");
    }

    #[test]
    fn a_plan_names_what_exists_and_names_it_once(case in any::case()) {
        let (pod, seen, plan) = first_plan(&case);
        let known: BTreeSet<&ContainerId> = seen.containers.iter().map(|c| &c.id).collect();
        let kills: BTreeSet<&ContainerId> = plan.kill.iter().map(|k| &k.id).collect();
        let removes: BTreeSet<&ContainerId> = plan.remove.iter().collect();
        prop_assert!(kills.is_subset(&known) && removes.is_subset(&known));
        prop_assert_eq!((kills.len(), removes.len()), (plan.kill.len(), plan.remove.len()));
        let starts: BTreeSet<&str> = plan.start.iter().map(|s| name_at(&pod, *s)).collect();
        prop_assert_eq!(starts.len(), plan.start.len());
        prop_assert!(!plan.kill_pod || plan.kill.is_empty());
    }

    #[test]
    fn nothing_starts_beside_a_running_instance_of_itself(case in any::case()) {
        let (pod, seen, plan) = first_plan(&case);
        for start in &plan.start {
            let running = seen.running().filter(|c| c.name == name_at(&pod, *start));
            for instance in running {
                prop_assert!(plan.kill_pod || plan.kill.iter().any(|k| k.id == instance.id), "{plan:?}");
            }
        }
    }

    #[test]
    fn what_is_removed_does_not_run(case in any::case()) {
        let (_, seen, plan) = first_plan(&case);
        for instance in seen.running().filter(|c| plan.remove.contains(&c.id)) {
            prop_assert!(plan.kill_pod || plan.kill.iter().any(|k| k.id == instance.id), "{plan:?}");
        }
    }

    #[test]
    fn an_ordinary_init_container_starts_alone(case in any::case()) {
        let (_, _, plan) = first_plan(&case);
        let ordinary = plan.start.iter().filter(|s| s.role == Role::Init).count();
        prop_assert!(ordinary <= 1);
        prop_assert!(ordinary == 0 || plan.start.iter().all(|s| s.role != Role::Regular));
    }

    #[test]
    fn plans_come_to_rest(case in any::case()) {
        let pod = case.pod();
        let mut seen = case.look(&pod);
        let mut probes = case.verdicts(&seen);
        let mut last = PodPlan::default();
        for _ in 0..12 {
            last = plan(&case, &pod, &seen, &probes);
            carry_out(&pod, &mut seen, &last);
            pass_time(&pod, &mut seen);
            probes = all_well(&seen);
        }
        let over = last.kill_pod && last.start.is_empty() && last.sandbox == SandboxPlan::None;
        prop_assert!(last.is_empty() || over, "still at work: {last:?}");
        prop_assert!(!over || seen.is_stopped());
        // What does not rest in peace runs, once.
        for container in pod.regular().iter().chain(pod.init().iter().filter(|c| is_sidecar(c))) {
            let running = seen.running().filter(|c| c.name == container.name).count();
            prop_assert!(running <= 1, "{} runs {running} times", container.name);
        }
    }

    #[test]
    fn everybody_stops_in_an_order_without_circles(case in any::case()) {
        let pod = case.pod();
        let seen = case.look(&pod);
        let mut left = plan_kill_order(Some(&pod), &seen).steps;
        prop_assert_eq!(left.len(), seen.running().count());
        for _ in 0..=left.len() {
            let waiting: BTreeSet<ContainerId> = left.iter().map(|s| s.id.clone()).collect();
            left.retain(|step| step.after.iter().any(|id| waiting.contains(id)));
        }
        prop_assert!(left.is_empty(), "never stopped: {left:?}");
    }
}
