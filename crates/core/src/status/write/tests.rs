//! Merging and patching: which parts of a status are written to the API, and which are not.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::pod::MIRROR_ANNOTATION;
use crate::status::Phase;

fn pod(status: Value) -> Pod {
    let pod = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "u1", "generation": 2},
        "spec": {"containers": [{"name": "app"}]},
        "status": status,
    });
    serde_json::from_value(pod).expect("a pod")
}

fn status(value: Value) -> PodStatus {
    serde_json::from_value(value).expect("a status")
}

fn now() -> Timestamp {
    "2026-01-01T00:01:00.5Z".parse().expect("a time")
}

fn ask(api: &Pod, ours: &PodStatus, end: EndProgress) -> Write {
    next_write(&WriteInputs { api, status: ours, end, refused: None, now: now() })
}

fn check(shown: Value, ours: Value, end: EndProgress, expected: Expect) {
    let said = match ask(&pod(shown), &status(ours), end) {
        Write::Nothing => "nothing".to_owned(),
        Write::Delete => "delete".to_owned(),
        Write::Patch { patch, urgent } => format!("{}{patch}", if urgent { "! " } else { "" }),
    };
    expected.assert_eq(&said);
}

fn condition(kind: &str, holds: bool, at: &str) -> Value {
    json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": at})
}

const THEN: &str = "2026-01-01T00:00:01Z";
const LATER: &str = "2026-01-01T00:00:09Z";

// STAT-03, STAT-04: the same in another spelling is the same. upstream: status_manager_test.go TestReconcilePodStatus (v1.36)
#[test]
fn stat_04_what_is_there_is_not_sent() {
    let shown = json!({
        "phase": "Running", "hostIP": "192.0.2.1", "startTime": THEN, "qosClass": "Burstable",
        "conditions": [condition("PodScheduled", true, THEN), condition("Ready", true, THEN)],
        "containerStatuses": [{"name": "app", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "lastState": {},
            "state": {"running": {"startedAt": THEN}}, "resources": {"requests": {"cpu": "500m"}}}],
        "resources": {"limits": {"memory": "128M"}},
    });
    let ours = json!({
        "phase": "Running", "hostIP": "192.0.2.1", "startTime": "2026-01-01T00:00:05Z", "qosClass": "Guaranteed",
        "conditions": [condition("Ready", true, LATER), condition("PodScheduled", true, LATER)], "message": "",
        "containerStatuses": [{"name": "app", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:01.75Z"}}, "resources": {"requests": {"cpu": "0.5"}}}],
        "resources": {"limits": {"memory": "125000Ki"}}, "initContainerStatuses": [],
    });
    check(shown, ours, EndProgress::MayRun, expect!["nothing"]);
}

// STAT-05; upstream: util/pod/pod_test.go TestPatchPodStatus (v1.36)
#[test]
fn stat_05_only_what_changed_is_sent_with_the_uid() {
    check(
        json!({"phase": "Pending", "reason": "Old", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [condition("PodScheduled", true, THEN), condition("Ready", false, THEN)]}),
        json!({"phase": "Running", "podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}],
            "conditions": [condition("PodScheduled", true, THEN), condition("Ready", true, LATER)]}),
        EndProgress::MayRun,
        expect![[
            r#"! {"metadata":{"uid":"u1"},"status":{"$setElementOrder/conditions":[{"type":"PodScheduled"},{"type":"Ready"}],"$setElementOrder/podIPs":[{"ip":"10.0.0.2"}],"conditions":[{"lastTransitionTime":"2026-01-01T00:00:09Z","status":"True","type":"Ready"}],"phase":"Running","podIP":"10.0.0.2","podIPs":[{"ip":"10.0.0.2"},{"$patch":"delete","ip":"10.0.0.1"}],"reason":null}}"#
        ]],
    );
    check(
        json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}),
        json!({"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}),
        EndProgress::MayRun,
        expect![[
            r#"{"metadata":{"uid":"u1"},"status":{"resources":{"limits":{"cpu":"2","memory":null},"requests":{"cpu":"1"}}}}"#
        ]],
    );
}

// STAT-06, TRAP-11; upstream: status_manager_test.go TestMergePodStatus (v1.36)
#[test]
fn stat_06_what_others_write_is_kept() {
    let api = pod(json!({
        "phase": "Running", "nominatedNodeName": "n2", "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c-1"}],
        "extendedResourceClaimStatus": {"requestMappings": [], "resourceClaimName": "e-1"},
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "n-1", "resources": {"cpu": "1"}}],
        "conditions": [condition("example.com/gate", true, THEN), condition("PodScheduled", true, THEN),
            condition("DisruptionTarget", true, THEN)],
    }));
    let ours = status(json!({"phase": "Running", "conditions": [condition("PodScheduled", true, LATER)]}));
    assert_eq!(ask(&api, &ours, EndProgress::MayRun), Write::Nothing);
    let merged = merge(&api, &ours, true, now());
    let kinds: Vec<&str> = merged.conditions.iter().flatten().map(|c| c.type_.as_str()).collect();
    assert_eq!(kinds, ["example.com/gate", "DisruptionTarget", "PodScheduled"]);
    assert_eq!(merged.resource_claim_statuses.map(|c| c.len()), Some(1));
    assert_eq!(merged.extended_resource_claim_status.map(|c| c.resource_claim_name).as_deref(), Some("e-1"));
    assert_eq!(merged.node_allocatable_resource_claim_statuses.map(|c| c.len()), Some(1));
    // What is ours alone goes when we no longer say it.
    let api = pod(json!({"conditions": [condition("PodResizePending", true, THEN)]}));
    let Write::Patch { patch, .. } = ask(&api, &PodStatus::default(), EndProgress::MayRun) else {
        panic!("it changed")
    };
    assert!(patch.contains(r#"{"$patch":"delete","type":"PodResizePending"}"#), "{patch}");
}

// STAT-07, STAT-08, TRAP-01; upstream: status_manager_test.go TestMergePodStatus (v1.36)
#[test]
fn stat_07_an_end_is_held_back_while_a_container_may_run() {
    let api = pod(json!({"phase": "Running", "conditions": [condition("Ready", true, THEN)]}));
    let ours = status(json!({"phase": "Failed", "reason": "Evicted", "message": "why",
        "conditions": [condition("Ready", true, THEN), condition("DisruptionTarget", true, THEN)]}));
    let held = merge(&api, &ours, true, now());
    assert_eq!((held.phase.as_deref(), &held.reason, &held.message), (Some("Running"), &None, &None));
    assert!(!held.conditions.iter().flatten().any(|c| c.type_ == "DisruptionTarget"));
    let written = merge(&api, &ours, false, now());
    assert_eq!((written.phase.as_deref(), written.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    let find = |kind: &str| written.conditions.iter().flatten().find(|c| c.type_ == kind).expect("a condition");
    assert_eq!((find("Ready").status.as_str(), find("Ready").reason.as_deref()), ("False", Some("PodFailed")));
    assert_eq!(find("Ready").observed_generation, Some(2));
    let at = find("DisruptionTarget").last_transition_time.as_ref().map(|t| t.0.to_string());
    assert_eq!(at.as_deref(), Some("2026-01-01T00:01:00Z"), "the time of the write, not of the decision");
}

// PST-11, TRAP-11.
#[test]
fn a_terminal_phase_that_the_api_shows_never_reverts() {
    for ours in ["Pending", "Running", "Succeeded", "Failed"] {
        let ours = status(json!({"phase": ours, "reason": "Ours"}));
        let api = pod(json!({"phase": "Failed", "reason": "Theirs"}));
        for may_run in [true, false] {
            let merged = merge(&api, &ours, may_run, now());
            assert_eq!(merged.phase.as_deref().and_then(Phase::parse), Some(Phase::Failed));
        }
    }
    // A mirror pod may show the status of an earlier pod of that name.
    let mut mirror = pod(json!({"phase": "Failed"}));
    mirror.metadata.annotations = Some([(MIRROR_ANNOTATION.to_owned(), "h".to_owned())].into());
    let merged = merge(&mirror, &status(json!({"phase": "Running"})), true, now());
    assert_eq!(merged.phase.as_deref(), Some("Running"));
}

// STAT-09, TRAP-01; upstream: status_manager.go canBeDeleted (v1.36)
#[test]
fn stat_09_the_object_goes_when_all_is_said_and_nothing_is_left() {
    let ours = status(json!({"phase": "Succeeded"}));
    let deleted = |shown: &str, grace: i64, finalizers: Value, annotations: Value| {
        let mut api = pod(json!({"phase": shown}));
        api.metadata.deletion_timestamp = Some(super::super::time(now()));
        api.metadata.deletion_grace_period_seconds = Some(grace);
        api.metadata.finalizers = serde_json::from_value(finalizers).expect("a list");
        api.metadata.annotations = serde_json::from_value(annotations).expect("a map");
        api
    };
    let done = deleted("Succeeded", 30, json!(null), json!(null));
    assert_eq!(ask(&done, &ours, EndProgress::Finished), Write::Delete);
    assert_eq!(ask(&done, &ours, EndProgress::Stopped), Write::Nothing, "its volumes are still there");
    assert_eq!(
        ask(&pod(json!({"phase": "Succeeded"})), &ours, EndProgress::Finished),
        Write::Nothing,
        "nobody deleted it"
    );
    let unsaid = deleted("Running", 30, json!(null), json!(null));
    assert!(
        matches!(ask(&unsaid, &ours, EndProgress::Finished), Write::Patch { urgent: true, .. }),
        "its end comes first"
    );
    let mirror = deleted("Succeeded", 30, json!(null), json!({MIRROR_ANNOTATION: "h"}));
    assert_eq!(ask(&mirror, &ours, EndProgress::Finished), Write::Nothing);
    let held = deleted("Succeeded", 0, json!(["x/y"]), json!(null));
    assert_eq!(ask(&held, &ours, EndProgress::Finished), Write::Nothing, "it was asked for, and finalizers hold it");
}

#[test]
fn a_patch_without_effect_is_not_sent_again() {
    let (api, ours) = (pod(json!({"phase": "Pending"})), status(json!({"phase": "Running"})));
    let Write::Patch { patch, .. } = ask(&api, &ours, EndProgress::MayRun) else { panic!("it changed") };
    let inputs = WriteInputs { api: &api, status: &ours, end: EndProgress::MayRun, refused: Some(&patch), now: now() };
    assert_eq!(next_write(&inputs), Write::Nothing);
}

// TRAP-01, STAT-09
#[test]
fn stat_09_a_pod_is_deleted_from_the_api_once_it_is_deleted_terminal_and_nothing_is_left_of_it() {
    let api = |phase: &str| {
        let mut api = pod(json!({"phase": phase}));
        api.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        api.metadata.deletion_grace_period_seconds = Some(30);
        api
    };
    let with = |change: &dyn Fn(&mut Pod)| {
        let mut api = api("Failed");
        change(&mut api);
        api
    };
    let finalizers = || Some(vec!["example.com/f".to_owned()]);
    for (name, api, end, expected) in [
        ("deleted and ended", api("Failed"), EndProgress::Finished, true),
        ("not yet cleaned up", api("Failed"), EndProgress::Stopped, false),
        ("the API shows it running", api("Running"), EndProgress::Finished, false),
        ("not deleted", with(&|api| api.metadata.deletion_timestamp = None), EndProgress::Finished, false),
        ("finalizers", with(&|api| api.metadata.finalizers = finalizers()), EndProgress::Finished, true),
        (
            "asked already, with finalizers",
            with(&|api| {
                api.metadata.finalizers = finalizers();
                api.metadata.deletion_grace_period_seconds = Some(0);
            }),
            EndProgress::Finished,
            false,
        ),
        (
            "no grace, no finalizers",
            with(&|api| api.metadata.deletion_grace_period_seconds = Some(0)),
            EndProgress::Finished,
            true,
        ),
    ] {
        assert_eq!(can_be_deleted(&api, end), expected, "{name}");
    }
}

#[test]
fn a_write_is_urgent_when_the_pod_ends_or_its_readiness_changes() {
    let shows = |ready: &str| json!({"conditions": [{"type": "Ready", "status": ready}]});
    let deleted = || {
        let mut api = pod(shows("True"));
        api.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        api
    };
    for (api, new, urgent) in [
        (pod(shows("True")), shows("True"), false),
        (pod(shows("True")), shows("False"), true),
        (pod(shows("False")), shows("True"), true),
        (pod(shows("False")), json!({}), false),
        (pod(json!({})), json!({"conditions": [{"type": "Initialized", "status": "True"}]}), false),
        (deleted(), shows("True"), true),
        (pod(shows("False")), json!({"phase": "Failed"}), true),
    ] {
        assert_eq!(is_urgent(&api, &status(new.clone())), urgent, "{new}");
    }
}

// STAT-08; upstream: status_manager_test.go TestMergePodStatus (v1.36)
#[test]
fn stat_08_an_ended_pod_is_not_ready_since_its_end_or_since_it_was_unready_before() {
    for (phase, ready, containers_ready, expected) in [
        ("Failed", true, true, Some(["PodFailed 2026-01-01T00:01:00Z", "PodFailed 2026-01-01T00:01:00Z"])),
        ("Succeeded", true, true, Some(["PodCompleted 2026-01-01T00:01:00Z", "PodCompleted 2026-01-01T00:01:00Z"])),
        // One of them was false already: since then.
        ("Failed", false, true, Some(["PodFailed 2026-01-01T00:00:09Z", "PodFailed 2026-01-01T00:01:00Z"])),
        ("Failed", false, false, None),
        ("Running", true, true, None),
    ] {
        let conditions =
            json!([condition("Ready", ready, LATER), condition("ContainersReady", containers_ready, LATER)]);
        let ours = status(json!({"phase": phase, "conditions": conditions}));
        let api = pod(json!({"phase": "Running"}));
        let Write::Patch { patch, .. } = ask(&api, &ours, EndProgress::Stopped) else { panic!("{phase} is news") };
        let patch: Value = serde_json::from_str(&patch.to_string()).expect("JSON");
        let shown = ["Ready", "ContainersReady"].map(|kind| {
            let all = patch["status"]["conditions"].as_array().expect("a list");
            let one = all.iter().find(|c| c["type"] == kind).expect("it has changed");
            (one["reason"].is_string()).then(|| {
                format!(
                    "{} {}",
                    one["reason"].as_str().unwrap_or_default(),
                    one["lastTransitionTime"].as_str().unwrap_or_default()
                )
            })
        });
        let expected = expected.map_or([None, None], |both| both.map(|text| Some(text.to_owned())));
        assert_eq!(shown, expected, "{phase} {ready} {containers_ready}");
    }
}
