//! The adapter against a fake runtime on a real socket: what each call sends and how each failure is reported.

use std::time::Duration;

use crate::fake::{Setup, labels, pod_labels};
use expect_test::{Expect, expect};
use futures_util::StreamExt;
use rubelet_core::keyring::{Login, LoginOrigin};
use rubelet_core::launch::{ContainerConfig, ImageSpec, SandboxConfig};
use rubelet_core::time::Instant;
use rubelet_cri::ListMode;
use rubelet_engine::ports::{
    CgroupDriver, Containers, Images, RpcError, RpcErrorKind, RuntimeInfo, RuntimeView, Sandboxes, Session, StdStreams,
    Streams,
};
use rubelet_proto::cri;
use tonic::Status;

fn text<T: std::fmt::Debug>(outcome: Result<T, RpcError>) -> String {
    match outcome {
        Ok(value) => format!("{value:#?}"),
        Err(err) => format!("{:?} / {err}", err.kind),
    }
}

fn check<T: std::fmt::Debug>(outcome: Result<T, RpcError>, expected: Expect) {
    expected.assert_eq(&text(outcome));
}

fn kind<T: std::fmt::Debug>(outcome: Result<T, RpcError>) -> RpcErrorKind {
    outcome.expect_err("must fail").kind
}

#[tokio::test]
async fn the_kubelet_api_version_must_match_cri_01() {
    let setup = Setup::up();
    setup.change(|world| world.api_version = "0.2.0".to_owned());
    check(
        setup.runtime.version().await,
        expect!["Failed / version: the runtime wants kubelet API version 0.2.0, only 0.1.0 is supported"],
    );
    setup.change(|world| world.api_version.clear());
    check(setup.runtime.version().await, expect!["Garbage / version: the runtime's answer has no version"]);
    setup.change(|world| world.failing.extend([("version", Status::unimplemented("unknown service runtime.v1"))]));
    check(
        setup.runtime.version().await,
        expect![
            "Unimplemented / version: the runtime does not serve CRI v1 (is its CRI plugin disabled?): unknown service runtime.v1"
        ],
    );
}

#[tokio::test]
async fn a_version_is_cached_for_a_minute_cri_04() {
    let setup = Setup::up();
    let version = setup.runtime.version().await.expect("it answers");
    assert_eq!(
        (version.name.as_str(), version.version.as_str(), version.api_version.as_str()),
        ("fake", "v1.2.3", "v1")
    );
    setup.pass(59_999);
    setup.runtime.version().await.expect("kept");
    assert_eq!(setup.calls(), "version 0.1.0");
    setup.pass(1);
    setup.runtime.version().await.expect("asked again");
    assert_eq!(setup.calls(), "version 0.1.0");
}

#[tokio::test]
async fn a_status_needs_both_conditions() {
    let setup = Setup::up();
    let condition = |kind: &str, status| cri::RuntimeCondition {
        r#type: kind.to_owned(),
        status,
        reason: "Why".to_owned(),
        message: "because".to_owned(),
    };
    setup.change(|world| world.conditions = vec![condition("RuntimeReady", true)]);
    check(setup.runtime.status().await, expect!["Garbage / status: the runtime's answer has no NetworkReady"]);
    setup.change(|world| world.conditions.push(condition("NetworkReady", false)));
    let status = setup.runtime.status().await.expect("both are there");
    assert!(status.runtime.ready && !status.network.ready);
    assert_eq!((status.network.reason.as_str(), status.network.message.as_str()), ("Why", "because"));
}

#[tokio::test]
async fn a_runtime_without_a_cgroup_driver_leaves_it_to_the_configuration_boot_05() {
    let setup = Setup::up();
    assert_eq!(setup.runtime.cgroup_driver().await, Ok(None));
    setup.change(|world| world.cgroup_driver = Some(0));
    assert_eq!(setup.runtime.cgroup_driver().await, Ok(Some(CgroupDriver::Systemd)));
    setup.change(|world| world.cgroup_driver = Some(1));
    assert_eq!(setup.runtime.cgroup_driver().await, Ok(Some(CgroupDriver::Cgroupfs)));
    setup.change(|world| world.cgroup_driver = Some(9));
    assert_eq!(kind(setup.runtime.cgroup_driver().await), RpcErrorKind::Garbage);
}

#[tokio::test]
async fn node_16_the_runtime_gets_the_pod_cidr() {
    let setup = Setup::up();
    setup.runtime.set_pod_cidr("192.0.2.0/24,2001:db8::/64").await.expect("taken");
    assert_eq!(setup.calls(), "update_runtime_config 192.0.2.0/24,2001:db8::/64");
}

#[tokio::test]
async fn stopping_and_removing_a_missing_object_succeeds_cri_05() {
    let setup = Setup::up();
    let gone = ["stop_pod_sandbox", "remove_pod_sandbox", "stop_container", "remove_container", "remove_image"];
    for status in [Status::not_found("gone"), Status::unknown("stuck")] {
        setup.change(|world| world.failing = gone.iter().map(|name| (*name, status.clone())).collect());
        let runtime = &setup.runtime;
        let outcomes = [
            runtime.stop_sandbox(&"s".into()).await,
            runtime.remove_sandbox(&"s".into()).await,
            runtime.stop_container(&"c".into(), Duration::from_secs(3)).await,
            runtime.remove_container(&"c".into()).await,
            setup.images.remove_image(&ImageSpec::default()).await,
        ];
        let done = status.code() == tonic::Code::NotFound;
        assert!(outcomes.iter().all(|outcome| outcome.is_ok() == done), "{outcomes:?}");
    }
    // "Not found" from a start is a failure.
    setup.change(|world| world.failing = [("start_container", Status::not_found("gone"))].into());
    assert_eq!(kind(setup.runtime.start_container(&"c".into()).await), RpcErrorKind::NotFound);
}

#[tokio::test]
async fn each_call_carries_its_deadline_cri_02() {
    let setup = Setup::with(Duration::from_secs(10), ListMode::Whole);
    let deadline = || setup.fake.world.lock().expect("not poisoned").deadline.clone();
    let (runtime, id) = (&setup.runtime, &"c".into());

    runtime.start_container(id).await.expect("starts");
    assert_eq!(deadline().as_deref(), Some("10000000u"));
    runtime.run_sandbox(&SandboxConfig::default()).await.expect("runs");
    assert_eq!(deadline().as_deref(), Some("20000000u"));
    runtime.stop_container(id, Duration::from_millis(4_500)).await.expect("stops");
    assert_eq!(deadline().as_deref(), Some("14500000u"));
    runtime.exec_sync(id, &["true".to_owned()], Duration::from_secs(1)).await.expect("runs");
    assert_eq!(deadline().as_deref(), Some("11000000u"));
    runtime.exec_sync(id, &["true".to_owned()], Duration::ZERO).await.expect("runs");
    assert_eq!(deadline(), None);
    setup.images.pull_image(&ImageSpec::default(), None, None).await.expect("pulls");
    assert_eq!(deadline(), None);
    // Any grace period that the API allows must work.
    runtime.stop_container(id, Duration::MAX).await.expect("stops");

    expect![[r#"
        start_container c
        run_pod_sandbox handler=""
        stop_container c 5
        exec_sync ["true"] 1
        exec_sync ["true"] 0
        pull_image as None for pod None with {}
        stop_container c 9223372036854775807"#]]
    .assert_eq(&setup.calls());
}

#[tokio::test]
async fn a_call_that_hangs_times_out_and_holds_up_no_other() {
    let setup = Setup::with(Duration::from_millis(200), ListMode::Whole);
    setup.change(|world| world.hanging.push("start_container"));
    let (hung, id) = ("hung".into(), "fine".into());
    let (started, stopped) =
        tokio::join!(setup.runtime.start_container(&hung), setup.runtime.stop_container(&id, Duration::ZERO));
    stopped.expect("answered meanwhile");
    assert_eq!(kind(started), RpcErrorKind::Timeout);
    setup.runtime.stop_container(&id, Duration::ZERO).await.expect("the connection is still good");
}

#[tokio::test]
async fn an_answer_without_a_required_field_is_garbage() {
    let setup = Setup::up();
    let created =
        setup.runtime.create_container(&"s".into(), &ContainerConfig::default(), &SandboxConfig::default()).await;
    check(created, expect!["Garbage / create_container: no container id in the answer"]);

    setup.change(|world| world.image_status = Some(cri::Image { id: "i".to_owned(), ..Default::default() }));
    let spec = ImageSpec { image: "busybox".to_owned(), ..Default::default() };
    check(
        setup.images.image_status(&spec).await,
        expect![[r#"Garbage / image_status: the status of image "busybox" has no id or no size"#]],
    );
}

#[tokio::test]
async fn an_answer_above_the_limit_is_refused_cri_01() {
    let setup = Setup::up();
    setup.change(|world| world.exec.stdout = vec![b'x'; 16 * 1024 * 1024]);
    let id = "c".into();
    let outcome = setup.runtime.exec_sync(&id, &["yes".to_owned()], Duration::from_secs(1)).await;
    assert_eq!(kind(outcome), RpcErrorKind::Garbage);
    setup.change(|world| world.exec.stdout.truncate(15 * 1024 * 1024));
    setup.runtime.exec_sync(&id, &["yes".to_owned()], Duration::from_secs(1)).await.expect("fits");
}

#[tokio::test]
async fn hostile_exec_output_of_megabytes_is_truncated_and_the_exit_code_kept_prb_13() {
    let setup = Setup::up();
    let stdout = [&b"first"[..], &vec![b'x'; 8 << 20]].concat();
    setup.change(|world| world.exec = cri::ExecSyncResponse { stdout, stderr: vec![b'e'; 4 << 20], exit_code: 3 });
    let output = setup.runtime.exec_sync(&"c".into(), &["yes".to_owned()], Duration::from_secs(1)).await.expect("runs");
    assert_eq!((output.stdout.len(), output.stderr.len(), output.exit_code), (10 << 10, 10 << 10, 3));
    assert!(output.stdout.starts_with(b"firstx"));
    setup.change(|world| world.exec = cri::ExecSyncResponse { exit_code: -1, ..Default::default() });
    let output =
        setup.runtime.exec_sync(&"c".into(), &["false".to_owned()], Duration::from_secs(1)).await.expect("runs");
    assert_eq!((output.stdout.len(), output.exit_code), (0, -1));
}

#[tokio::test]
async fn images_are_pulled_listed_and_removed() {
    let setup = Setup::up();
    let spec = ImageSpec { image: "busybox".to_owned(), ..Default::default() };
    assert_eq!(setup.images.image_status(&spec).await, Ok(None));
    let image = cri::Image {
        id: "sha256:1".to_owned(),
        size: 7,
        uid: Some(cri::Int64Value { value: 33 }),
        repo_tags: vec!["busybox:latest".to_owned()],
        ..Default::default()
    };
    setup.change(|world| {
        world.image_status = Some(image.clone());
        world.images = vec![image];
    });
    let seen = setup.images.image_status(&spec).await.expect("answers").expect("is there");
    assert_eq!((seen.id.as_str(), seen.size, seen.uid), ("sha256:1", 7, Some(33)));
    assert_eq!(setup.images.list_images().await, Ok(vec![seen]));
    let origin = LoginOrigin::Provider("helper".to_owned());
    let login = Login { username: "ann".to_owned(), password: "p".to_owned(), origin };
    // IMG-08: the runtime may choose by the pod how to store an image.
    let sandbox = SandboxConfig { uid: "u1".to_owned(), ..SandboxConfig::default() };
    let spec = ImageSpec { annotations: [("a".to_owned(), "b".to_owned())].into(), ..spec };
    assert_eq!(setup.images.pull_image(&spec, Some(&login), Some(&sandbox)).await, Ok("sha256:1".to_owned()));
    expect![[r#"
        image_status
        image_status
        list_images
        pull_image as Some("ann") for pod Some("u1") with {"a": "b"}"#]]
    .assert_eq(&setup.calls());
}

fn two_pods(setup: &Setup) {
    let sandbox = |id: &str, uid: &str| cri::PodSandbox {
        id: id.to_owned(),
        labels: pod_labels(uid, None),
        created_at: 5_000_000_000,
        ..Default::default()
    };
    let container = |id: &str, uid: &str| cri::Container {
        id: id.to_owned(),
        pod_sandbox_id: "s1".to_owned(),
        labels: pod_labels(uid, Some("app")),
        annotations: labels(&[("io.kubernetes.container.restartCount", "3")]),
        state: cri::ContainerState::ContainerRunning.into(),
        image_ref: "ref".to_owned(),
        created_at: 6_000_000_000,
        ..Default::default()
    };
    setup.change(|world| {
        world.sandboxes = vec![sandbox("s1", "u1"), sandbox("s2", "u2")];
        world.sandboxes.push(cri::PodSandbox { id: "unlabelled".to_owned(), ..Default::default() });
        world.containers = vec![container("c1", "u1")];
        world.containers.push(cri::Container {
            id: "unnamed".to_owned(),
            labels: pod_labels("u1", None),
            ..Default::default()
        });
    });
}

#[tokio::test]
async fn a_list_shows_only_pods_with_our_labels_rt_70() {
    let setup = Setup::up();
    two_pods(&setup);
    check(
        setup.runtime.list().await,
        expect![[r#"
        [
            PodSummary {
                pod: PodRef {
                    namespace: "default",
                    name: "web",
                    uid: u1,
                },
                sandboxes: {
                    s1: SandboxSummary {
                        state: Ready,
                        attempt: 0,
                        created_at: 1970-01-01T00:00:05Z,
                    },
                },
                containers: {
                    c1: ContainerSummary {
                        name: "app",
                        sandbox: s1,
                        state: Running,
                        created_at: 1970-01-01T00:00:06Z,
                        restart_count: 3,
                        image_id: "ref",
                    },
                },
            },
            PodSummary {
                pod: PodRef {
                    namespace: "default",
                    name: "web",
                    uid: u2,
                },
                sandboxes: {
                    s2: SandboxSummary {
                        state: Ready,
                        attempt: 0,
                        created_at: 1970-01-01T00:00:05Z,
                    },
                },
                containers: {},
            },
        ]"#]],
    );
}

#[tokio::test]
async fn a_streamed_list_is_the_same_list_and_falls_back_when_unknown_cri_03() {
    let whole = Setup::up();
    two_pods(&whole);
    let expected = whole.runtime.list().await;

    let streamed = Setup::with(Duration::from_secs(60), ListMode::Streamed);
    two_pods(&streamed);
    streamed.change(|world| world.streams_lists = true);
    assert_eq!(streamed.runtime.list().await, expected);
    streamed.change(|world| world.streams_lists = false);
    streamed.calls();
    assert_eq!(streamed.runtime.list().await, expected);
    assert_eq!(streamed.runtime.list().await, expected);
    let calls = streamed.calls();
    let streams = calls.lines().filter(|call| call.starts_with("stream_")).count();
    assert_eq!(streams, 2, "each is tried once and never again:\n{calls}");
}

#[tokio::test]
async fn a_pod_that_the_runtime_does_not_know_is_an_empty_observation() {
    let setup = Setup::up();
    let seen = setup.runtime.inspect(&"u9".into(), Instant::from_secs(4)).await.expect("answers");
    assert_eq!(seen.pod.uid.as_str(), "u9");
    assert!(seen.sandboxes.is_empty() && seen.containers.is_empty());
    assert_eq!(seen.at, Instant::from_secs(4));
}

#[tokio::test]
async fn objects_removed_between_list_and_status_are_skipped_pleg_02() {
    let setup = Setup::up();
    two_pods(&setup);
    let seen = setup.runtime.inspect(&"u1".into(), Instant::START).await.expect("not found is no error");
    assert!(seen.sandboxes.is_empty() && seen.containers.is_empty());
    assert_eq!((&*seen.pod.namespace, &*seen.pod.name), ("default", "web"));

    setup.change(|world| world.failing.extend([("container_status", Status::unknown("shim is stuck"))]));
    check(
        setup.runtime.inspect(&"u1".into(), Instant::START).await,
        expect!["Failed / container_status: shim is stuck"],
    );
}

#[tokio::test]
async fn observations_are_newest_first() {
    let setup = Setup::up();
    let id = |n: i64| format!("x{n}");
    setup.change(|world| {
        for n in [2, 3, 1] {
            let metadata = cri::PodSandboxMetadata {
                name: "web".to_owned(),
                uid: "u1".to_owned(),
                namespace: "default".to_owned(),
                attempt: 0,
            };
            world.sandboxes.push(cri::PodSandbox { id: id(n), labels: pod_labels("u1", None), ..Default::default() });
            let status = cri::PodSandboxStatus {
                id: id(n),
                metadata: Some(metadata),
                created_at: n,
                labels: pod_labels("u1", None),
                ..Default::default()
            };
            world.sandbox_statuses.insert(id(n), status);

            let labels = pod_labels("u1", Some("app"));
            world.containers.push(cri::Container { id: id(n), labels: labels.clone(), ..Default::default() });
            let status = cri::ContainerStatus {
                id: id(n),
                metadata: Some(cri::ContainerMetadata { name: "app".to_owned(), attempt: 0 }),
                created_at: n,
                labels,
                image: Some(cri::ImageSpec { image: "i".to_owned(), ..Default::default() }),
                image_ref: "r".to_owned(),
                ..Default::default()
            };
            world.container_statuses.insert(id(n), status);
        }
    });
    let seen = setup.runtime.inspect(&"u1".into(), Instant::START).await.expect("answers");
    let sandboxes: Vec<_> = seen.sandboxes.iter().map(|s| s.id.as_str()).collect();
    let containers: Vec<_> = seen.containers.iter().map(|c| c.id.as_str()).collect();
    assert_eq!((sandboxes, containers), (vec!["x3", "x2", "x1"], vec!["x3", "x2", "x1"]));
}

#[tokio::test]
async fn hints_are_unimplemented_where_events_are() {
    let setup = Setup::up();
    let outcome = setup.runtime.hints().await.map(drop);
    assert_eq!(kind(outcome), RpcErrorKind::Unimplemented);
}

#[tokio::test]
async fn an_event_names_the_pod_even_after_its_sandbox_is_gone() {
    use cri::ContainerEventType::{
        ContainerCreatedEvent as Created, ContainerDeletedEvent as Deleted, ContainerStartedEvent as Started,
        ContainerStoppedEvent as Stopped,
    };
    let event = |id: &str, kind: cri::ContainerEventType, uid: Option<&str>| cri::ContainerEventResponse {
        container_id: id.to_owned(),
        container_event_type: kind.into(),
        pod_sandbox_status: uid
            .map(|uid| cri::PodSandboxStatus { labels: pod_labels(uid, None), ..Default::default() }),
        ..Default::default()
    };
    let mut setup = Setup::up();
    setup.change(|world| {
        world.events = Some(vec![
            event("c", Created, Some("u1")),
            event("c", Started, Some("u1")),
            event("nobody's", Stopped, None),
            event("c", Stopped, None),
            event("c", Deleted, None),
            event("c", Deleted, None),
            event("d", Started, Some("u2")),
        ]);
    });
    let mut hints = setup.runtime.hints().await.expect("events are known");
    let mut seen = Vec::new();
    for _ in 0..5 {
        let hint = hints.next().await.expect("not over").expect("no error");
        seen.push(hint.uid.to_string());
    }
    assert_eq!(seen, ["u1", "u1", "u1", "u1", "u2"]);

    setup.kill();
    assert_eq!(kind(hints.next().await.expect("says why")), RpcErrorKind::Unavailable);
    assert!(hints.next().await.is_none(), "and ends");
}

#[tokio::test]
async fn an_event_stream_without_events_is_open() {
    let setup = Setup::up();
    setup.change(|world| world.hanging.push("get_container_events"));
    let _hints = setup.runtime.hints().await.expect("silence is no refusal");
}

#[tokio::test]
async fn every_call_is_counted_cri_04() {
    let setup = Setup::up();
    setup.runtime.start_container(&"c".into()).await.expect("starts");
    setup.change(|world| world.failing.extend([("stop_container", Status::not_found("gone"))]));
    setup.runtime.stop_container(&"c".into(), Duration::ZERO).await.expect("gone is done");
    let counts: Vec<_> = setup.metrics.snapshot().into_iter().map(|c| (c.operation, c.total, c.errors)).collect();
    // Upstream counts the error before it is ignored.
    assert_eq!(counts, [("start_container", 1, 0), ("stop_container", 1, 1)]);
}

#[tokio::test]
async fn a_session_request_carries_its_streams_http_03() {
    let setup = Setup::up();
    let (runtime, id) = (&setup.runtime, "c".into());
    let wanted = StdStreams { stdin: true, stdout: true, stderr: false, tty: true };
    check(runtime.attach(&id, wanted).await, expect!["Garbage / attach: the runtime returned no URL"]);
    setup.change(|world| world.session = "http://127.0.0.1:1/token".to_owned());
    let command = ["sh".to_owned(), "-c".to_owned()];
    let quiet = StdStreams { stderr: true, ..StdStreams::default() };
    let session = Session::Url("http://127.0.0.1:1/token".to_owned());
    for answer in [
        runtime.exec(&id, &command, wanted).await,
        runtime.exec(&id, &command, quiet).await,
        runtime.attach(&id, wanted).await,
        runtime.port_forward(&"s".into(), &[]).await,
        runtime.port_forward(&"s".into(), &[80, 65535]).await,
    ] {
        assert_eq!(answer.as_ref(), Ok(&session));
    }
    expect![[r#"
        attach AttachRequest { container_id: "c", stdin: true, tty: true, stdout: true, stderr: false }
        exec ExecRequest { container_id: "c", cmd: ["sh", "-c"], tty: true, stdin: true, stdout: true, stderr: false }
        exec ExecRequest { container_id: "c", cmd: ["sh", "-c"], tty: false, stdin: false, stdout: false, stderr: true }
        attach AttachRequest { container_id: "c", stdin: true, tty: true, stdout: true, stderr: false }
        port_forward PortForwardRequest { pod_sandbox_id: "s", port: [] }
        port_forward PortForwardRequest { pod_sandbox_id: "s", port: [80, 65535] }"#]]
    .assert_eq(&setup.calls());
}
