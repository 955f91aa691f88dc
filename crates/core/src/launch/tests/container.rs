//! RT-43, RT-46, RT-99, section 7.8, and the three kinds of containers.

use expect_test::expect;
use serde_json::json;

use super::super::*;
use super::{Given, configured, node, one, pod};
use crate::plan::StartContainer;
use crate::pod::{PodExt, Role};

/// RT-43, RT-46, 7.8: everything but resources and security, which have their own tables.
#[test]
fn rt_43_a_containers_config() {
    let own = json!({
        "command": ["sh", "-c", "echo $(GREETING) $(NOBODY) $$(GREETING)"], "args": ["$(GREETING)"],
        "workingDir": "/srv", "stdin": true, "stdinOnce": true, "tty": true,
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
        "lifecycle": {"preStop": {"exec": {"command": ["bye"]}}, "stopSignal": "SIGUSR1"}});
    let mut pod = one(own, json!({"terminationGracePeriodSeconds": 30}));
    pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    pod.metadata.deletion_grace_period_seconds = Some(5);
    let extra = ExtraOptions {
        envs: vec![("DEVICE".to_owned(), "0".to_owned())],
        cdi_devices: vec!["vendor.com/gpu=0".to_owned()],
        annotations: [
            ("vendor".to_owned(), "x".to_owned()),
            ("io.kubernetes.container.hash".to_owned(), "forged".to_owned()),
        ]
        .into(),
        ..ExtraOptions::default()
    };
    let given = Given { envs: vec![("GREETING".to_owned(), "hello".to_owned())], extra, ..Given::default() };
    let inputs = ContainerInputs { restart_count: 2, ..given.inputs(&pod.regular()[0]) };
    let config = container_config(&node(), &pod, &inputs).expect("a config");
    let config =
        ContainerConfig { resources: LinuxResources::default(), security: ContainerSecurity::default(), ..config };
    expect![[r#"
        ContainerConfig {
            name: "app",
            attempt: 2,
            image: ImageSpec {
                image: "sha256:1234",
                user_specified_image: "foo/image:v1",
                runtime_handler: "",
                annotations: {},
            },
            command: [
                "sh",
                "-c",
                "echo hello $(NOBODY) $(GREETING)",
            ],
            args: [
                "hello",
            ],
            working_dir: "/srv",
            envs: [
                (
                    "DEVICE",
                    "0",
                ),
                (
                    "GREETING",
                    "hello",
                ),
            ],
            mounts: [],
            devices: [],
            cdi_devices: [
                "vendor.com/gpu=0",
            ],
            labels: {
                "io.kubernetes.container.name": "app",
                "io.kubernetes.pod.name": "web",
                "io.kubernetes.pod.namespace": "default",
                "io.kubernetes.pod.uid": "12345678-1234",
            },
            annotations: {
                "io.kubernetes.container.hash": "8e45cbd0",
                "io.kubernetes.container.ports": "[{\"containerPort\":80,\"name\":\"http\",\"protocol\":\"TCP\"}]",
                "io.kubernetes.container.preStopHandler": "{\"exec\":{\"command\":[\"bye\"]}}",
                "io.kubernetes.container.restartCount": "2",
                "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
                "io.kubernetes.container.terminationMessagePolicy": "File",
                "io.kubernetes.pod.deletionGracePeriod": "5",
                "io.kubernetes.pod.terminationGracePeriod": "30",
                "vendor": "x",
            },
            log_path: "app/2.log",
            stdin: true,
            stdin_once: true,
            tty: true,
            resources: LinuxResources {
                cpu_period: 0,
                cpu_quota: 0,
                cpu_shares: 0,
                memory_limit_in_bytes: 0,
                oom_score_adj: 0,
                cpuset_cpus: "",
                cpuset_mems: "",
                hugepage_limits: [],
                unified: {},
                memory_swap_limit_in_bytes: 0,
            },
            security: ContainerSecurity {
                add_capabilities: [],
                drop_capabilities: [],
                privileged: false,
                namespaces: Namespaces {
                    network: Pod,
                    pid: Pod,
                    ipc: Pod,
                    user: None,
                },
                selinux: None,
                run_as_user: None,
                run_as_group: None,
                run_as_username: "",
                readonly_rootfs: false,
                supplemental_groups: [],
                supplemental_groups_policy: Merge,
                no_new_privs: false,
                masked_paths: [],
                readonly_paths: [],
                seccomp: Unconfined,
                apparmor: None,
            },
            stop_signal: None,
        }
    "#]]
    .assert_debug_eq(&config);
}

#[test]
fn rt_99_stop_signals_only_with_their_gate() {
    let pod = one(json!({"lifecycle": {"stopSignal": "SIGUSR1"}}), json!({}));
    let signal = |stop_signals| {
        let ctx = LaunchContext { gates: LaunchGates { stop_signals, ..LaunchGates::default() }, ..node() };
        configured(&ctx, &pod, &Given::default()).expect("a config").stop_signal
    };
    assert_eq!(signal(false), None);
    assert_eq!(signal(true), Some("SIGUSR1".to_owned()));
}

#[test]
fn every_kind_of_container_can_be_launched() {
    let pod = pod(json!({
        "containers": [{"name": "app"}],
        "initContainers": [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}],
        "ephemeralContainers": [{"name": "debug", "targetContainerName": "app", "image": "busybox", "tty": true}]}));
    let name = |role, index| {
        let container = container_of(&pod, &StartContainer { role, index })?;
        let given = Given::default();
        Some(container_config(&node(), &pod, &given.inputs(&container)).expect("a config").log_path)
    };
    assert_eq!(name(Role::Regular, 0).as_deref(), Some("app/0.log"));
    assert_eq!(name(Role::Init, 0).as_deref(), Some("init/0.log"));
    assert_eq!(name(Role::Sidecar, 1).as_deref(), Some("side/0.log"));
    assert_eq!(name(Role::Ephemeral, 0).as_deref(), Some("debug/0.log"));
    assert_eq!(name(Role::Ephemeral, 1), None);
    assert_eq!(as_container(&pod.ephemeral()[0]).tty, Some(true));
}

/// Each of these is a few KB in the manifest. The environment counts, too: it is handed over together with them.
#[test]
fn command_and_arguments_that_expand_without_end_are_refused() {
    let (small, large) = ("x".repeat(1024), "x".repeat(5 * 1024 * 1024));
    let references = |n: usize| "$(V)".repeat(n);
    for (what, value, own, fits) in [
        ("a few references", &small, json!({"command": [references(100)], "args": [references(100)]}), true),
        ("a command of many", &small, json!({"command": [references(7000)]}), false),
        ("an argument of many", &small, json!({"args": [references(7000)]}), false),
        (
            "many words of few",
            &small,
            json!({"command": vec![references(1); 4000], "args": vec![references(1); 4000]}),
            false,
        ),
        ("a large environment", &large, json!({"args": ["x"]}), true),
        ("one reference to a large variable", &large, json!({"args": [references(1)]}), false),
    ] {
        let pod = one(own, json!({}));
        let given = Given { envs: vec![("V".to_owned(), value.clone())], ..Given::default() };
        let made = container_config(&node(), &pod, &given.inputs(&pod.regular()[0]));
        assert_eq!(made.is_ok(), fits, "{what}");
        if let Err(err) = made {
            assert!(
                err.to_string().starts_with("environment, command and arguments of container \"app\" expand"),
                "{err}"
            );
        }
    }
}
