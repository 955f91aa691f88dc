//! The parts that golden rows show badly. The rest is in `tests/golden/{phase,status}`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateTerminated, ContainerStatus, Pod, PodIP, PodSpec,
    ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::finish::finish;
use super::*;
use crate::id::PodRef;
use crate::inputs::NodeInputs;
use crate::launch::NamespaceMode;
use crate::observe::{
    ContainerMarks, ContainerObservation, ContainerState, ContainerUser, ObservedResources, SandboxObservation,
    SandboxState,
};
use crate::plan::PlanGates;
use crate::time::Instant;

mod conditions;
mod lists;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).expect("in range")
}

fn pod(containers: Vec<Container>) -> Pod {
    Pod { spec: Some(PodSpec { containers, ..PodSpec::default() }), ..Pod::default() }
}

fn container(name: &str) -> Container {
    Container { name: name.into(), ..Container::default() }
}

fn sandbox(ready: bool, ips: &[&str]) -> SandboxObservation {
    SandboxObservation {
        id: "s".into(),
        attempt: 0,
        state: if ready { SandboxState::Ready } else { SandboxState::NotReady },
        created_at: at(0),
        network: NamespaceMode::Pod,
        ips: ips.iter().map(|ip| ip.parse().expect("an address")).collect(),
        runtime_handler: String::new(),
    }
}

fn running(name: &str) -> ContainerObservation {
    ContainerObservation {
        id: format!("{name}.0").into(),
        sandbox: "s".into(),
        name: name.into(),
        state: ContainerState::Running { started_at: at(5) },
        created_at: at(4),
        image: "img".into(),
        image_id: "sha256:1".into(),
        marks: ContainerMarks::default(),
        log_path: String::new(),
        resources: None,
        user: None,
    }
}

fn decide(pod: &Pod, previous: &PodStatus, seen: &PodObservation, host_ips: &[&str]) -> PodStatus {
    let host_ips: Vec<IpAddr> = host_ips.iter().map(|ip| ip.parse().expect("an address")).collect();
    let (pod, probes) = (Arc::new(pod.clone()), Arc::default());
    let gates = PlanGates::default();
    let node = NodeInputs { runtime_name: "containerd", host_ips: &host_ips, recursive_read_only: false, gates };
    pod_status(&PodInputs::new(&pod, &probes, node), seen, previous, at(100))
}

fn nothing() -> PodObservation {
    let pod = PodRef { namespace: "ns".into(), name: "web".into(), uid: "u".into() };
    PodObservation::nothing(pod, Instant::START)
}

fn ips(status: &PodStatus) -> Vec<&str> {
    status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect()
}

// PST-30; upstream: kubelet_pods_test.go TestSortPodIPs (v1.36)
#[test]
fn pod_addresses_follow_the_nodes_family() {
    for (node, sandbox_ips, expected) in [
        (vec![], vec!["10.0.0.1"], vec!["10.0.0.1"]),
        (vec![], vec!["fd00::1", "10.0.0.1"], vec!["10.0.0.1", "fd00::1"]),
        (vec!["fd00::9"], vec!["10.0.0.1", "fd00::1"], vec!["fd00::1", "10.0.0.1"]),
        (vec!["192.0.2.1"], vec!["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"], vec!["10.0.0.1", "fd00::1"]),
        (vec!["192.0.2.1"], vec!["fd00::1"], vec!["fd00::1"]),
    ] {
        let mut seen = nothing();
        seen.sandboxes.push(sandbox(true, &sandbox_ips));
        let status = decide(&pod(vec![container("a")]), &PodStatus::default(), &seen, &node);
        assert_eq!(ips(&status), expected, "{node:?} {sandbox_ips:?}");
        assert_eq!(status.pod_ip.as_deref(), expected.first().copied());
    }
}

// PST-30: a pod keeps its address when it has ended, and loses it with a new sandbox.
#[test]
fn an_ended_pod_keeps_its_address() {
    let previous = PodStatus { pod_ips: Some(vec![PodIP { ip: "10.0.0.1".into() }]), ..PodStatus::default() };
    for (ready, expected) in [(false, vec!["10.0.0.1"]), (true, vec![])] {
        let mut seen = nothing();
        seen.sandboxes.push(sandbox(ready, &[]));
        let status = decide(&pod(vec![container("a")]), &previous, &seen, &[]);
        assert_eq!(ips(&status), expected, "ready {ready}");
    }
}

// PST-31; upstream: kubelet_pods_test.go TestGenerateAPIPodStatusHostNetworkPodIPs (v1.36)
#[test]
fn host_network_pods_have_the_nodes_addresses() {
    let mut host = pod(vec![container("a")]);
    host.spec.as_mut().expect("a spec").host_network = Some(true);
    for (before, node, pod_ips, host_ips) in [
        (vec![], vec!["192.0.2.1"], vec!["192.0.2.1"], 1),
        (vec![], vec!["192.0.2.1", "2001:db8::1"], vec!["192.0.2.1", "2001:db8::1"], 2),
        (vec!["192.0.2.7"], vec!["192.0.2.1"], vec!["192.0.2.7"], 1),
        (vec!["192.0.2.7"], vec!["192.0.2.1", "2001:db8::1"], vec!["192.0.2.7", "2001:db8::1"], 2),
        (vec!["2001:db8::7"], vec!["192.0.2.1", "2001:db8::1"], vec!["2001:db8::7"], 2),
        (vec![], vec!["192.0.2.1", "192.0.2.2"], vec!["192.0.2.1"], 1),
        (vec![], vec![], vec![], 0),
    ] {
        let old = before.iter().map(|ip: &&str| PodIP { ip: (*ip).into() }).collect();
        let previous = PodStatus { pod_ips: Some(old), ..PodStatus::default() };
        let status = decide(&host, &previous, &nothing(), &node);
        assert_eq!(ips(&status), pod_ips, "{before:?} {node:?}");
        assert_eq!(status.host_ips.unwrap_or_default().len(), host_ips);
        assert_eq!(status.host_ip.as_deref(), node.first().copied());
    }
}

// PST-05, RSZ-10; upstream: kubelet_pods_test.go TestConvertToAPIContainerStatusesForResources (v1.36)
#[test]
fn resources_are_what_the_runtime_says() {
    let list = |cpu: &str, memory: &str| {
        Some(BTreeMap::from([("cpu".into(), Quantity(cpu.into())), ("memory".into(), Quantity(memory.into()))]))
    };
    let spec = Container {
        resources: Some(ResourceRequirements {
            limits: list("1", "128Mi"),
            requests: list("0.5", "64Mi"),
            ..ResourceRequirements::default()
        }),
        ..container("a")
    };
    let observed = |shares, quota, memory| ObservedResources {
        cpu_shares: Some(shares),
        cpu_quota: Some(quota),
        cpu_period: Some(100_000),
        memory_limit: Some(memory),
    };
    for (actual, cpu, memory, request) in [
        (None, "1", "128Mi", "0.5"),
        // The same amounts: the text is left as it was written.
        (Some(observed(512, 100_000, 134_217_728)), "1", "128Mi", "0.5"),
        (Some(observed(1024, 150_000, 268_435_456)), "1500m", "256Mi", "1"),
        (Some(observed(2, -1, 0)), "1", "128Mi", "2m"),
    ] {
        let mut seen = nothing();
        seen.sandboxes.push(sandbox(true, &["10.0.0.1"]));
        seen.containers.push(ContainerObservation { resources: actual.clone(), ..running("a") });
        let status = decide(&pod(vec![spec.clone()]), &PodStatus::default(), &seen, &[]);
        let shown = status.container_statuses.expect("one").remove(0);
        let resources = shown.resources.expect("some");
        let get =
            |list: &Option<BTreeMap<String, Quantity>>, name: &str| list.as_ref().expect("a list")[name].0.clone();
        assert_eq!(get(&resources.limits, "cpu"), cpu, "{actual:?}");
        assert_eq!(get(&resources.limits, "memory"), memory, "{actual:?}");
        assert_eq!(get(&resources.requests, "cpu"), request, "{actual:?}");
        assert_eq!(get(&shown.allocated_resources, "cpu"), "0.5");
    }
}

// PST-05
#[test]
fn the_status_shows_the_user() {
    let mut seen = nothing();
    let user = ContainerUser { uid: 1000, gid: 2000, supplemental_groups: vec![3000] };
    seen.containers.push(ContainerObservation { user: Some(user), ..running("a") });
    let status = decide(&pod(vec![container("a")]), &PodStatus::default(), &seen, &[]);
    let linux = status.container_statuses.expect("one").remove(0).user.and_then(|u| u.linux).expect("a user");
    assert_eq!((linux.uid, linux.gid, linux.supplemental_groups), (1000, 2000, Some(vec![3000])));
}

// PRB-11: after a restart of ours nothing is known of probes, and nobody turns unready for it.
#[test]
fn readiness_outlives_our_restart() {
    let probe = Some(k8s_openapi::api::core::v1::Probe::default());
    let spec = Container { readiness_probe: probe.clone(), startup_probe: probe, ..container("a") };
    let old = |id: &str, ready| PodStatus {
        container_statuses: Some(vec![ContainerStatus {
            name: "a".into(),
            container_id: Some(format!("containerd://{id}")),
            ready,
            started: Some(true),
            ..ContainerStatus::default()
        }]),
        ..PodStatus::default()
    };
    for (previous, ready, started) in [
        (old("a.0", true), true, true),
        (old("a.0", false), false, true),
        (old("other", true), false, false),
        (PodStatus::default(), false, false),
    ] {
        let mut seen = nothing();
        seen.containers.push(running("a"));
        let status = decide(&pod(vec![spec.clone()]), &previous, &seen, &[]);
        let shown = status.container_statuses.expect("one").remove(0);
        assert_eq!((shown.ready, shown.started), (ready, Some(started)));
    }
}

// PST-12; upstream: active_deadline_test.go TestActiveDeadlineHandler (v1.36)
#[test]
fn deadline() {
    let mut pod = pod(vec![]);
    assert_eq!(deadline_left(&pod, Some(at(0)), at(100)), None);
    pod.spec.as_mut().expect("a spec").active_deadline_seconds = Some(30);
    assert_eq!(deadline_left(&pod, None, at(100)), None);
    assert_eq!(deadline_left(&pod, Some(at(90)), at(100)), Some(Duration::from_secs(20)));
    assert_eq!(deadline_left(&pod, Some(at(70)), at(100)), Some(Duration::ZERO));
    assert_eq!(deadline_left(&pod, Some(at(0)), at(100)), Some(Duration::ZERO));
}

// RT-110, STAT-03; upstream: status_manager_test.go TestStatusNormalizationEnforcesMaxBytes (v1.36)
#[test]
fn messages_share_their_room_evenly() {
    assert_eq!((message_share(0), message_share(1), message_share(48)), (12288, 12288, 256));
    assert_eq!((cut("abc", 2), cut("abc", 9), cut("aé", 2), cut("", 0)), ("ab", "abc", "a", ""));
    let ended = |name: &str| ContainerStatus {
        name: name.into(),
        state: Some(ApiState {
            terminated: Some(ContainerStateTerminated {
                message: Some("x".repeat(20_000)),
                finished_at: Some(time(Timestamp::from_millisecond(1_900).expect("in range"))),
                ..ContainerStateTerminated::default()
            }),
            ..ApiState::default()
        }),
        ..ContainerStatus::default()
    };
    let pod = pod(vec![container("b"), container("a"), container("c")]);
    let mut status = PodStatus {
        container_statuses: Some(vec![ended("b"), ended("a"), ended("c")]),
        start_time: Some(time(Timestamp::from_millisecond(5_999).expect("in range"))),
        ..PodStatus::default()
    };
    normalise(&pod, &mut status);
    assert_eq!(status.start_time.map(|t| t.0), Some(at(5)));
    let list = status.container_statuses.expect("three");
    assert_eq!(list.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    for status in list {
        let end = status.state.and_then(|s| s.terminated).expect("an end");
        assert_eq!((end.message.expect("some").len(), end.finished_at.map(|t| t.0)), (4096, Some(at(1))));
    }
}

// RT-110; upstream: kuberuntime_container.go convertToKubeContainerStatus (v1.36)
#[test]
fn the_log_speaks_for_a_silent_failure() {
    const LOGS: &str = "FallbackToLogsOnError";
    for (policy, code, reason, empty, wanted) in [
        (LOGS, 1, "Error", true, true),
        (LOGS, 1, "Error", false, false),
        (LOGS, 0, "Completed", true, false),
        (LOGS, 1, "ContainerCannotRun", true, false),
        ("File", 1, "Error", true, false),
    ] {
        assert_eq!(wants_log_tail(policy, code, reason, empty), wanted, "{policy} {code} {reason} {empty}");
    }
    for (runtime, own, text) in [("", "", ""), ("r", "", "r"), ("", "o", "o"), ("r", "o", "r: o")] {
        assert_eq!(complete_message(runtime, own), text);
    }
}

// STAT-10; upstream: status_manager_test.go TestTerminatePod (v1.36)
#[test]
fn the_last_word_leaves_nothing_open() {
    let waiting = |name: &str| ContainerStatus {
        name: name.into(),
        state: Some(ApiState { waiting: Some(Default::default()), ..ApiState::default() }),
        ..ContainerStatus::default()
    };
    let mut with_init = pod(vec![container("a")]);
    with_init.spec.as_mut().expect("a spec").init_containers = Some(vec![container("i"), container("j")]);
    // Initialisation never got anywhere: only the first init container counts as begun.
    let mut status = PodStatus {
        container_statuses: Some(vec![waiting("a")]),
        init_container_statuses: Some(vec![waiting("i"), waiting("j")]),
        phase: Some("Pending".into()),
        ..PodStatus::default()
    };
    finish(&with_init, &mut status);
    let mut again = status.clone();
    finish(&with_init, &mut again);
    assert_eq!(again, status);
    let ended = |list: &Option<Vec<ContainerStatus>>| -> Vec<bool> {
        list.iter().flatten().map(|s| s.state.as_ref().is_some_and(|s| s.terminated.is_some())).collect()
    };
    assert_eq!(ended(&status.init_container_statuses), [true, false]);
    assert_eq!(ended(&status.container_statuses), [false]);
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    // Without init containers every container had its turn.
    let mut status = PodStatus {
        container_statuses: Some(vec![waiting("a")]),
        phase: Some("Succeeded".into()),
        ..PodStatus::default()
    };
    finish(&pod(vec![container("a")]), &mut status);
    assert_eq!((ended(&status.container_statuses), status.phase.as_deref()), (vec![true], Some("Succeeded")));
    let end = status.container_statuses.into_iter().flatten().find_map(|c| c.state?.terminated).expect("an end");
    assert_eq!((end.reason.as_deref(), end.exit_code), (Some("ContainerStatusUnknown"), 137));
}

// ADM-31: the node's reason outranks what became of the containers, and stays when the pod has stopped.
#[test]
fn a_pod_that_the_node_ended_has_failed_and_says_why() {
    let (pod, probes) = (Arc::new(pod(vec![container("a")])), Arc::default());
    let gates = PlanGates::default();
    let node = NodeInputs { runtime_name: "containerd", host_ips: &[], recursive_read_only: false, gates };
    let reason = EndReason::preempted();
    let inputs = PodInputs { end_reason: Some(&reason), ..PodInputs::new(&pod, &probes, node) };
    let mut seen = nothing();
    seen.containers.push(running("a"));
    let ended = pod_status(&inputs, &seen, &PodStatus::default(), at(100));
    let later =
        pod_status(&PodInputs { end_reason: None, end: EndProgress::Stopped, ..inputs }, &nothing(), &ended, at(200));
    for status in [&ended, &later] {
        assert_eq!(status.phase.as_deref(), Some("Failed"));
        assert_eq!(status.reason.as_deref(), Some("Preempting"));
        assert_eq!(status.message.as_deref(), Some("Preempted in order to admit critical pod"));
        let target = status.conditions.iter().flatten().find(|c| c.type_ == "DisruptionTarget").expect("a condition");
        assert_eq!((target.status.as_str(), target.reason.as_deref()), ("True", Some("TerminationByKubelet")));
        assert_eq!(target.last_transition_time, Some(time(at(100))));
    }
}
