//! Messages of a runtime and the observations they become.

use expect_test::{Expect, expect};
use rubelet_engine::ports::RpcErrorKind;
use rubelet_proto::cri;

use super::*;

fn map(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A running container of ours, as containerd reports it.
fn container() -> cri::ContainerStatus {
    cri::ContainerStatus {
        id: "c1".into(),
        metadata: Some(cri::ContainerMetadata { name: "app".into(), attempt: 2 }),
        state: cri::ContainerState::ContainerRunning.into(),
        created_at: 1_000_000_001,
        started_at: 2_000_000_000,
        image: Some(cri::ImageSpec { image: "docker.io/library/busybox:latest".into(), ..Default::default() }),
        image_ref: "docker.io/library/busybox@sha256:2".into(),
        image_id: "sha256:1".into(),
        labels: map(&[
            (POD_UID_LABEL, "u1"),
            (POD_NAME_LABEL, "web"),
            (POD_NAMESPACE_LABEL, "default"),
            (CONTAINER_NAME_LABEL, "app"),
        ]),
        log_path: "/var/log/pods/x/app/2.log".into(),
        ..Default::default()
    }
}

fn seen(change: impl FnOnce(&mut cri::ContainerStatus)) -> rubelet_core::observe::ContainerObservation {
    let mut status = container();
    change(&mut status);
    container_observation(status, "s1".into()).expect("complete").expect("ours")
}

#[test]
fn a_running_container_is_observed() {
    expect![[r#"
        ContainerObservation {
            id: c1,
            sandbox: s1,
            name: "app",
            state: Running {
                started_at: 1970-01-01T00:00:02Z,
            },
            created_at: 1970-01-01T00:00:01.000000001Z,
            image: "docker.io/library/busybox:latest",
            image_id: "docker.io/library/busybox@sha256:2",
            marks: ContainerMarks {
                hash: None,
                restart_count: 0,
                termination_message_path: "",
                termination_message_policy: "",
                pre_stop: None,
                ports: None,
                pod_grace: None,
                deletion_grace: None,
                termination_message_host_path: None,
            },
            log_path: "/var/log/pods/x/app/2.log",
            resources: None,
            user: None,
        }"#]]
    .assert_eq(&format!("{:#?}", seen(|_| ())));
}

#[test]
fn states_keep_their_details_rt_110() {
    let check = |change: fn(&mut cri::ContainerStatus), expected: Expect| {
        expected.assert_eq(&format!("{:?}", seen(change).state));
    };
    check(|c| c.state = cri::ContainerState::ContainerCreated.into(), expect!["Created"]);
    check(|c| c.state = cri::ContainerState::ContainerUnknown.into(), expect!["Unknown"]);
    check(|c| c.state = 77, expect!["Unknown"]);
    check(
        |c| {
            c.state = cri::ContainerState::ContainerExited.into();
            c.finished_at = 3_000_000_000;
            c.exit_code = 137;
            c.reason = "OOMKilled".into();
            c.message = "too much".into();
        },
        expect![[
            r#"Exited(Exit { code: 137, started_at: 1970-01-01T00:00:02Z, finished_at: 1970-01-01T00:00:03Z, reason: "OOMKilled", message: "too much" })"#
        ]],
    );
    // Never started: containerd sends zero, a Go zero time is before the epoch.
    check(
        |c| {
            c.state = cri::ContainerState::ContainerExited.into();
            c.started_at = -6_795_364_578_871_345_152;
            c.exit_code = 128;
            c.reason = "StartError".into();
        },
        expect![[
            r#"Exited(Exit { code: 128, started_at: 1970-01-01T00:00:00Z, finished_at: 1970-01-01T00:00:00Z, reason: "StartError", message: "" })"#
        ]],
    );
}

#[test]
fn annotations_are_read_back_and_malformed_ones_count_as_absent() {
    let check = |annotations: &[(&str, &str)], expected: Expect| {
        let annotations = map(annotations);
        expected.assert_eq(&format!("{:#?}", seen(|c| c.annotations = annotations).marks));
    };
    check(
        &[
            ("io.kubernetes.container.hash", "8e45cbd0"),
            ("io.kubernetes.container.restartCount", "7"),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
            ("io.kubernetes.container.terminationMessagePolicy", "File"),
            ("io.kubernetes.container.preStopHandler", "{\"sleep\":{\"seconds\":1}}"),
            ("io.kubernetes.container.ports", "[]"),
            ("io.kubernetes.pod.terminationGracePeriod", "30"),
            ("io.kubernetes.pod.deletionGracePeriod", "5"),
        ],
        expect![[r#"
            ContainerMarks {
                hash: Some(
                    2386938832,
                ),
                restart_count: 7,
                termination_message_path: "/dev/termination-log",
                termination_message_policy: "File",
                pre_stop: Some(
                    "{\"sleep\":{\"seconds\":1}}",
                ),
                ports: Some(
                    "[]",
                ),
                pod_grace: Some(
                    30,
                ),
                deletion_grace: Some(
                    5,
                ),
                termination_message_host_path: None,
            }"#]],
    );
    check(
        &[
            ("io.kubernetes.container.hash", "not hex"),
            ("io.kubernetes.container.restartCount", "-1"),
            ("io.kubernetes.pod.terminationGracePeriod", "soon"),
        ],
        expect![[r#"
            ContainerMarks {
                hash: None,
                restart_count: 0,
                termination_message_path: "",
                termination_message_policy: "",
                pre_stop: None,
                ports: None,
                pod_grace: None,
                deletion_grace: None,
                termination_message_host_path: None,
            }"#]],
    );
}

#[test]
fn the_termination_message_is_found_through_its_mount() {
    let found = |path: &str, mounted: &str| {
        let marks = seen(|c| {
            c.annotations = map(&[("io.kubernetes.container.terminationMessagePath", path)]);
            c.mounts = vec![
                cri::Mount { container_path: "/etc/hosts".into(), host_path: "/h".into(), ..Default::default() },
                cri::Mount { container_path: mounted.into(), host_path: "/host/msg".into(), ..Default::default() },
            ];
        })
        .marks;
        marks.termination_message_host_path
    };
    assert_eq!(found("/dev/log", "/dev/log").as_deref(), Some("/host/msg"));
    assert_eq!(found("dev/log", "/dev/log").as_deref(), Some("/host/msg"));
    assert_eq!(found("/dev/log", "/dev/other"), None);
    assert_eq!(found("", "/"), None);
}

#[test]
fn resources_and_user_are_observed_if_reported() {
    let observed = seen(|c| {
        let linux = cri::LinuxContainerResources { cpu_shares: 102, memory_limit_in_bytes: 64, ..Default::default() };
        c.resources = Some(cri::ContainerResources { linux: Some(linux), windows: None });
        let linux = cri::LinuxContainerUser { uid: 1, gid: 2, supplemental_groups: vec![3] };
        c.user = Some(cri::ContainerUser { linux: Some(linux) });
    });
    expect!["Some(ObservedResources { cpu_shares: Some(102), cpu_quota: None, cpu_period: None, memory_limit: Some(64) }) Some(ContainerUser { uid: 1, gid: 2, supplemental_groups: [3] })"].assert_eq(&format!("{:?} {:?}", observed.resources, observed.user));
    let nothing = seen(|c| {
        let linux = Some(cri::LinuxContainerResources::default());
        c.resources = Some(cri::ContainerResources { linux, windows: None });
    });
    assert_eq!((nothing.resources, nothing.user), (None, None));
}

#[test]
fn a_container_without_our_label_is_not_ours_rt_70() {
    let mut status = container();
    status.labels.remove(CONTAINER_NAME_LABEL);
    assert_eq!(container_observation(status, "s1".into()), Ok(None));
}

#[test]
fn a_status_without_a_required_field_is_garbage() {
    type Change = fn(&mut cri::ContainerStatus);
    let changes: [(Change, Expect); 5] = [
        (|c| c.id.clear(), expect![[r#"container_status: the status of container "" has no id"#]]),
        (|c| c.metadata = None, expect![[r#"container_status: the status of container "c1" has no name"#]]),
        (|c| c.created_at = 0, expect![[r#"container_status: the status of container "c1" has no creation time"#]]),
        (|c| c.image = None, expect![[r#"container_status: the status of container "c1" has no image"#]]),
        (
            |c| c.image_ref.clear(),
            expect![[r#"container_status: the status of container "c1" has no image reference"#]],
        ),
    ];
    for (change, expected) in changes {
        let mut status = container();
        change(&mut status);
        let err = container_observation(status, "s1".into()).expect_err("garbage");
        assert_eq!(err.kind, RpcErrorKind::Garbage);
        expected.assert_eq(&err.to_string());
    }
}

/// A ready sandbox of ours.
fn sandbox() -> cri::PodSandboxStatus {
    cri::PodSandboxStatus {
        id: "s1".into(),
        metadata: Some(cri::PodSandboxMetadata {
            name: "web".into(),
            uid: "u1".into(),
            namespace: "default".into(),
            attempt: 1,
        }),
        created_at: 1,
        network: Some(cri::PodSandboxNetworkStatus {
            ip: "10.0.0.7".into(),
            additional_ips: vec![cri::PodIp { ip: "fd00::7".into() }],
        }),
        runtime_handler: "gvisor".into(),
        ..Default::default()
    }
}

fn on_network(mode: cri::NamespaceMode) -> Option<cri::LinuxPodSandboxStatus> {
    let options = Some(cri::NamespaceOption { network: mode.into(), ..Default::default() });
    Some(cri::LinuxPodSandboxStatus { namespaces: Some(cri::Namespace { options }) })
}

#[test]
fn a_sandbox_is_observed_with_its_addresses() {
    let check = |change: fn(&mut cri::PodSandboxStatus), expected: Expect| {
        let mut status = sandbox();
        change(&mut status);
        expected.assert_eq(&match sandbox_observation(status) {
            Ok(seen) => format!("{:?} {:?} {:?}", seen.state, seen.network, seen.ips),
            Err(err) => err.to_string(),
        });
    };
    check(|_| (), expect!["Ready Pod [10.0.0.7, fd00::7]"]);
    check(|s| s.state = cri::PodSandboxState::SandboxNotready.into(), expect!["NotReady Pod [10.0.0.7, fd00::7]"]);
    check(|s| s.state = 9, expect!["NotReady Pod [10.0.0.7, fd00::7]"]);
    check(|s| s.network = None, expect!["Ready Pod []"]);
    check(
        |s| s.network = Some(cri::PodSandboxNetworkStatus { ip: "nonsense".into(), ..Default::default() }),
        expect!["Ready Pod []"],
    );
    check(|s| s.linux = on_network(cri::NamespaceMode::Pod), expect!["Ready Pod [10.0.0.7, fd00::7]"]);
    check(|s| s.linux = on_network(cri::NamespaceMode::Node), expect!["Ready Node []"]);
    check(|s| s.metadata = None, expect![[r#"podsandbox_status: the status of sandbox "s1" has no pod name"#]]);
    check(|s| s.created_at = 0, expect![[r#"podsandbox_status: the status of sandbox "s1" has no creation time"#]]);

    let seen = sandbox_observation(sandbox()).expect("complete");
    assert_eq!((seen.attempt, seen.runtime_handler.as_str()), (1, "gvisor"));
}
