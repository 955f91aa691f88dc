//! Phases, ends and resources, from lists of container statuses.

use serde_json::{Value, json};

use super::super::phase::has_active_regular;
use super::super::resources::of_container;
use super::*;

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("it has the form")
}

fn ended(list: &Option<Vec<ContainerStatus>>) -> Vec<bool> {
    list.iter().flatten().map(|s| s.state.as_ref().is_some_and(|s| s.terminated.is_some())).collect()
}

fn exit(code: i32) -> Value {
    json!({"terminated": {"exitCode": code}})
}

// STAT-10; upstream: status_manager_test.go TestTerminatePod_DefaultUnknownStatus (v1.36)
#[test]
fn stat_10_regular_containers_are_ended_once_they_may_have_had_their_turn() {
    let (waits, runs) = (json!({"waiting": {}}), json!({"running": {}}));
    let pod = |last: Value| -> Pod {
        from(json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, last]}}))
    };
    let (plain, sidecar) = (pod(json!({"name": "j"})), pod(json!({"name": "j", "restartPolicy": "Always"})));
    for (pod, i, j, a, regular_ended, init_ended) in [
        (&plain, json!({"state": exit(0)}), json!({"state": exit(0)}), json!({"state": waits}), true, [true, true]),
        (&plain, json!({"state": exit(0)}), json!({"state": exit(1)}), json!({"state": waits}), false, [true, true]),
        (&plain, json!({"state": exit(0)}), json!({"state": waits}), json!({"state": waits}), false, [true, false]),
        (&plain, json!({"state": runs}), json!({"state": waits}), json!({"state": waits}), false, [true, false]),
        (&plain, json!({"state": waits}), json!({"state": runs}), json!({"state": waits}), false, [true, true]),
        (
            &plain,
            json!({"state": exit(0)}),
            json!({"state": waits, "lastState": exit(0)}),
            json!({"state": waits}),
            true,
            [true, true],
        ),
        (&plain, json!({"state": waits}), json!({"state": waits}), json!({"state": runs}), true, [true, false]),
        (
            &plain,
            json!({"state": waits}),
            json!({"state": waits}),
            json!({"state": waits, "lastState": exit(1)}),
            true,
            [true, false],
        ),
        (
            &sidecar,
            json!({"state": exit(0)}),
            json!({"state": runs, "started": true}),
            json!({"state": waits}),
            true,
            [true, true],
        ),
        (
            &sidecar,
            json!({"state": exit(0)}),
            json!({"state": runs, "started": false}),
            json!({"state": waits}),
            false,
            [true, true],
        ),
    ] {
        let named = |name: &str, mut status: Value| {
            status["name"] = json!(name);
            status
        };
        let row = format!("{i} {j} {a}");
        let mut status: PodStatus = from(json!({
            "phase": "Running",
            "containerStatuses": [named("a", a)],
            "initContainerStatuses": [named("i", i), named("j", j)],
        }));
        finish(pod, &mut status);
        assert_eq!(ended(&status.container_statuses), [regular_ended], "{row}");
        assert_eq!(ended(&status.init_container_statuses), init_ended, "{row}");
    }
}

// PST-10; upstream: kubelet_pods_test.go TestPodPhaseWithRestartAlwaysRestartableInitContainers (v1.36)
#[test]
fn pst_10_sidecars_count_until_they_have_ended() {
    let pod: Pod = from(json!({"spec": {
        "containers": [{"name": "a"}],
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
    }}));
    let runs = || json!({"name": "a", "state": {"running": {}}});
    let done = || json!({"name": "a", "state": exit(0)});
    let side = |started: bool| json!([{"name": "s", "state": {"running": {}}, "started": started}]);
    let waits = || json!([{"name": "s", "state": {"waiting": {}}}]);
    let again = || json!([{"name": "s", "state": {"waiting": {}}, "lastState": exit(1)}]);
    use Phase::{Pending, Running, Succeeded};
    for (sidecar, regular, initialised, terminal, phase) in [
        (side(true), runs(), false, false, Running),
        (side(false), runs(), false, false, Pending),
        (side(false), runs(), true, false, Running),
        (waits(), runs(), true, false, Pending),
        (json!([]), runs(), true, false, Pending),
        (again(), runs(), false, false, Running),
        (json!([{"name": "s", "state": exit(0)}]), runs(), false, false, Running),
        // A sidecar that still runs keeps the pod running.
        (side(true), done(), true, true, Running),
        (json!([{"name": "s", "state": exit(0)}]), done(), true, true, Succeeded),
        (side(true), json!({"name": "other"}), true, false, Pending),
    ] {
        let row = format!("{sidecar} {regular} {initialised}");
        let status = from(json!({"containerStatuses": [regular], "initContainerStatuses": sidecar}));
        let facts = PhaseFacts { terminal, initialised, abandoned: false, gates: PlanGates::default() };
        assert_eq!(pod_phase(&pod, &status, facts), phase, "{row}");
    }
}

// PST-10
#[test]
fn pst_10_without_rules_of_containers_the_pods_policy_decides_when_it_has_ended() {
    use Phase::{Failed, Running, Succeeded};
    for (policy, codes, phase) in [
        ("Always", [0, 0], Running),
        ("OnFailure", [0, 0], Succeeded),
        ("OnFailure", [0, 1], Running),
        ("Never", [0, 0], Succeeded),
        ("Never", [0, 1], Failed),
    ] {
        let pod: Pod = from(json!({"spec": {"restartPolicy": policy, "containers": [{"name": "a"}, {"name": "b"}]}}));
        let [a, b] = codes.map(exit);
        let status = from(json!({"containerStatuses": [{"name": "a", "state": a}, {"name": "b", "state": b}]}));
        let gates = PlanGates { container_restart_rules: false, ..PlanGates::default() };
        let facts = PhaseFacts { terminal: false, initialised: true, abandoned: false, gates };
        assert_eq!(pod_phase(&pod, &status, facts), phase, "{policy} {codes:?}");
    }
}

#[test]
fn a_regular_container_in_the_ready_sandbox_shows_that_the_pod_was_initialised() {
    let mut pod = pod(vec![container("a")]);
    pod.spec.as_mut().expect("a spec").init_containers = Some(vec![container("i")]);
    let there = |name: &str, sandbox: &str| ContainerObservation { sandbox: sandbox.into(), ..running(name) };
    for (ready, containers, expected) in [
        (true, vec![there("a", "s")], true),
        (true, vec![there("i", "s"), there("a", "s")], true),
        (false, vec![there("a", "s")], false),
        (true, vec![there("i", "s")], false),
        (true, vec![there("a", "older")], false),
        (true, vec![there("i", "s"), there("a", "older")], false),
        (true, vec![], false),
    ] {
        let seen = PodObservation { sandboxes: vec![sandbox(ready, &[])], containers, ..nothing() };
        assert_eq!(has_active_regular(&pod, &seen), expected, "{seen:?}");
    }
}

// STAT-06: others write these fields, and the kubelet keeps them.
#[test]
fn stat_06_what_others_wrote_into_the_status_is_kept() {
    let others = |node: &str| {
        json!({
            "nominatedNodeName": node,
            "resourceClaimStatuses": [{"name": "claim", "resourceClaimName": node}],
            "extendedResourceClaimStatus": {"requestMappings": [], "resourceClaimName": node},
        })
    };
    let kept = |status: &PodStatus| {
        let all = serde_json::to_value(status).expect("JSON");
        let of = |key: &str| (key.to_owned(), all[key].clone());
        Value::from_iter(["nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus"].map(of))
    };
    let mut pod = pod(vec![container("a")]);
    let status = decide(&pod, &from(others("before")), &nothing(), &[]);
    assert_eq!(kept(&status), others("before"));
    pod.status = Some(from(others("api")));
    let status = decide(&pod, &from(others("before")), &nothing(), &[]);
    assert_eq!(kept(&status), others("api"), "the API's status is newer than ours");
}

// ADM-31
#[test]
fn adm_31_the_condition_of_a_preemption_has_reason_message_and_generation() {
    for (generation, shown) in [(Some(3), Some(3)), (Some(0), None), (None, None)] {
        let condition = EndReason::preempted().condition(generation).expect("a disruption");
        let texts = [Some(condition.type_), Some(condition.status), condition.reason, condition.message];
        let expected = [
            "DisruptionTarget",
            "True",
            "TerminationByKubelet",
            "Pod was preempted by Kubelet to accommodate a critical pod.",
        ];
        assert_eq!(texts, expected.map(|text| Some(text.to_owned())));
        assert_eq!(condition.observed_generation, shown);
    }
}

// PST-05, RSZ-10; upstream: kubelet_pods_test.go TestConvertToAPIContainerStatusesForResources (v1.36)
#[test]
fn rsz_10_amounts_below_what_the_kernel_can_set_are_shown_as_in_the_spec() {
    let observed = |shares, quota, period| {
        let (cpu_shares, cpu_quota, cpu_period) = (Some(shares), Some(quota), Some(period));
        ObservedResources { cpu_shares, cpu_quota, cpu_period, memory_limit: None }
    };
    for (request, limit, actual, shown_request, shown_limit) in [
        // The fewest shares and the smallest quota stand for anything below them.
        ("1m", "5m", observed(2, 1_000, 100_000), "1m", "5m"),
        ("1m", "10m", observed(2, 500, 100_000), "1m", "10m"),
        ("1m", "5m", observed(1024, 100_000, 100_000), "1", "1"),
        ("3m", "11m", observed(2, 500, 100_000), "2m", "5m"),
        // No quota, or none that comes to a thousandth.
        ("1m", "1", observed(2, -1, 100_000), "1m", "1"),
        ("1m", "1", observed(2, 0, 100_000), "1m", "1"),
        ("1m", "1", observed(2, 50, 100_000), "1m", "1"),
        ("1m", "1", observed(2, 100_000, 0), "1m", "1"),
        // Fewer shares than the kernel has are none.
        ("1", "1", observed(1, 100_000, 100_000), "1", "1"),
    ] {
        let resources = json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
        let spec: Container = from(json!({"name": "a", "resources": resources}));
        let seen = ContainerObservation { resources: Some(actual.clone()), ..running("a") };
        let shown = of_container(&spec, &seen, None);
        let expected = json!({"requests": {"cpu": shown_request}, "limits": {"cpu": shown_limit}});
        assert_eq!(serde_json::to_value(shown).expect("JSON"), expected, "{request} {limit} {actual:?}");
    }
}

// RSZ-10
#[test]
fn rsz_10_an_amount_that_the_runtime_does_not_report_stays_as_it_was_shown() {
    let amounts = |cpu: &str, memory: &str| {
        let list = json!({"cpu": cpu, "memory": memory});
        json!({"requests": list, "limits": list})
    };
    let spec: Container = from(json!({"name": "a", "resources": amounts("2", "2Gi")}));
    let old = |state: Value| -> ContainerStatus {
        from(json!({"name": "a", "state": state, "resources": amounts("1", "1Gi")}))
    };
    let shown =
        |old: &ContainerStatus| serde_json::to_value(of_container(&spec, &running("a"), Some(old))).expect("JSON");
    assert_eq!(shown(&old(json!({"running": {}}))), amounts("1", "1Gi"));
    assert_eq!(shown(&old(exit(0))), amounts("2", "2Gi"), "it was another run");
}

// PST-05
#[test]
fn pst_05_an_ephemeral_container_is_shown_with_its_image_and_mounts() {
    let mut pod = pod(vec![container("a")]);
    let mount = json!({"name": "v", "mountPath": "/v"});
    let debug = json!({"name": "debug", "image": "tools:1", "volumeMounts": [mount],
        "resources": {"requests": {"cpu": "1"}}});
    pod.spec.as_mut().expect("a spec").ephemeral_containers = Some(vec![from(debug)]);
    let shown = |seen: &PodObservation| {
        let status = decide(&pod, &PodStatus::default(), seen, &[]);
        status.ephemeral_container_statuses.expect("one").remove(0)
    };
    let waiting = shown(&nothing());
    assert_eq!((waiting.name.as_str(), waiting.image.as_str()), ("debug", "tools:1"));
    assert_eq!(waiting.volume_mounts.iter().flatten().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["v"]);
    let mut seen = nothing();
    seen.containers.push(running("debug"));
    let runs = shown(&seen);
    assert_eq!(runs.volume_mounts.iter().flatten().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["v"]);
    assert_eq!(runs.allocated_resources, Some(BTreeMap::from([("cpu".into(), Quantity("1".into()))])));
}

// PST-04
#[test]
fn pst_04_an_init_container_without_a_record_has_ended_well_once_a_regular_one_was_made() {
    let mut pod = pod(vec![container("a")]);
    pod.spec.as_mut().expect("a spec").init_containers = Some(vec![container("i")]);
    for (state, past) in [
        (ContainerState::Running { started_at: at(5) }, true),
        (ContainerState::Created, true),
        (ContainerState::Unknown, false),
    ] {
        let mut seen = nothing();
        seen.containers.push(ContainerObservation { state: state.clone(), ..running("a") });
        let status = decide(&pod, &PodStatus::default(), &seen, &[]);
        let init = status.init_container_statuses.expect("one").remove(0);
        let end = init.state.and_then(|s| s.terminated).map(|end| (end.exit_code, end.reason.unwrap_or_default()));
        assert_eq!(end, past.then(|| (0, "Completed".to_owned())), "{state:?}");
    }
}

// PST-02, PST-03
#[test]
fn pst_02_a_start_failure_is_shown_unless_the_container_is_done() {
    let failure =
        crate::reason::StartFailure { reason: crate::reason::WaitingReason::ErrImagePull, message: "no".into() };
    let failures = BTreeMap::from(["i".to_owned(), "a".to_owned()].map(|name| (name, failure.clone())));
    let spec = json!({"restartPolicy": "Always", "containers": [{"name": "a"}], "initContainers": [{"name": "i"}]});
    let (pod, probes): (Arc<Pod>, _) = (Arc::new(from(json!({"spec": spec}))), Arc::default());
    let gates = PlanGates::default();
    let node = NodeInputs { runtime_name: "containerd", host_ips: &[], recursive_read_only: false, gates };
    let inputs = PodInputs { failures: &failures, ..PodInputs::new(&pod, &probes, node) };
    let exited = |name: &str, code: i32| {
        let exit = crate::observe::Exit {
            code,
            reason: "Error".into(),
            message: String::new(),
            started_at: at(1),
            finished_at: at(2),
        };
        ContainerObservation { state: ContainerState::Exited(exit), ..running(name) }
    };
    for (containers, init_waits, regular_waits) in [
        (vec![], true, true),
        (vec![exited("i", 0)], false, true),
        (vec![exited("i", 1)], true, true),
        // A regular container that ended well runs again.
        (vec![exited("a", 0), exited("i", 0)], false, true),
        (vec![running("a"), exited("i", 0)], false, false),
    ] {
        let seen = PodObservation { sandboxes: vec![sandbox(true, &[])], containers, ..nothing() };
        let status = pod_status(&inputs, &seen, &PodStatus::default(), at(100));
        let waits = |list: &Option<Vec<ContainerStatus>>| {
            let state = list.iter().flatten().find_map(|status| status.state.clone());
            state.and_then(|state| state.waiting?.reason).as_deref() == Some("ErrImagePull")
        };
        let shown = (waits(&status.init_container_statuses), waits(&status.container_statuses));
        assert_eq!(shown, (init_waits, regular_waits), "{:?}", seen.containers);
    }
}
