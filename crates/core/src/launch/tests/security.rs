//! RT-82, RT-96 … RT-98.

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::super::*;
use super::{Given, configured, node, one};
use crate::id::ContainerId;
use crate::pod::PodExt;

fn user(uid: Option<i64>, username: &str) -> Given {
    Given { image_user: ImageUser { uid, username: username.to_owned() }, ..Given::default() }
}

fn secured(container: Value, of_pod: Value, given: &Given) -> Result<ContainerSecurity, LaunchError> {
    let pod = one(json!({"securityContext": container}), json!({"securityContext": of_pod}));
    configured(&node(), &pod, given).map(|config| config.security)
}

/// RT-96; upstream: kuberuntime/security_context_others_test.go TestVerifyRunAsNonRoot (v1.36)
#[test]
fn rt_96_non_root_is_verified() {
    fn check(container: Value, of_pod: Value, given: &Given, expected: &Expect) {
        let text = match secured(container, of_pod, given) {
            Ok(security) => format!("{:?} {:?}", security.run_as_user, security.run_as_username),
            Err(err) => err.to_string(),
        };
        expected.assert_eq(&text);
    }
    let strict = || json!({"runAsNonRoot": true});
    check(json!({}), json!({}), &user(None, ""), &expect![[r#"Some(0) """#]]);
    check(json!({}), json!({}), &user(Some(7), ""), &expect![[r#"Some(7) """#]]);
    check(json!({}), json!({}), &user(None, "nginx"), &expect![[r#"None "nginx""#]]);
    check(json!({"runAsUser": 5}), json!({"runAsUser": 6}), &user(None, "nginx"), &expect![[r#"Some(5) """#]]);
    check(json!({}), json!({"runAsUser": 6}), &user(None, "nginx"), &expect![[r#"Some(6) """#]]);
    check(strict(), json!({}), &user(Some(7), ""), &expect![[r#"Some(7) """#]]);
    check(strict(), json!({"runAsUser": 1}), &user(None, "nginx"), &expect![[r#"Some(1) """#]]);
    check(json!({"runAsNonRoot": false}), strict(), &user(Some(0), ""), &expect![[r#"Some(0) """#]]);
    check(
        strict(),
        json!({}),
        &user(Some(0), ""),
        &expect![[
            r#"container has runAsNonRoot and image will run as root (pod: "web_default(12345678-1234)", container: app)"#
        ]],
    );
    check(
        json!({}),
        strict(),
        &user(None, ""),
        &expect![[
            r#"container has runAsNonRoot and image will run as root (pod: "web_default(12345678-1234)", container: app)"#
        ]],
    );
    check(
        strict(),
        json!({}),
        &user(None, "nginx"),
        &expect![[
            r#"container has runAsNonRoot and image has non-numeric user (nginx), cannot verify user is non-root (pod: "web_default(12345678-1234)", container: app)"#
        ]],
    );
    check(
        strict(),
        json!({"runAsUser": 0}),
        &user(Some(7), ""),
        &expect![[
            r#"container's runAsUser breaks non-root policy (pod: "web_default(12345678-1234)", container: app)"#
        ]],
    );
    check(
        strict(),
        json!({}),
        &user(Some(1 << 40), ""),
        &expect![[
            r#"container has runAsNonRoot and image has an invalid user id (1099511627776). (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive (pod: "web_default(12345678-1234)", container: app)"#
        ]],
    );
}

/// RT-97; upstream: kuberuntime/helpers_test.go TestGetSeccompProfile (v1.36)
#[test]
fn rt_97_seccomp_of_the_container_then_the_pod_then_the_node() {
    use SecurityProfile::{Localhost, RuntimeDefault, Unconfined};
    let ctx = |seccomp_default| LaunchContext { seccomp_default, ..node() };
    let seccomp = |default: bool, own: Value, of_pod: Value| {
        let pod = one(json!({"securityContext": own}), json!({"securityContext": of_pod}));
        configured(&ctx(default), &pod, &Given::default()).map(|config| config.security.seccomp)
    };
    let of = |kind: &str| json!({"seccompProfile": {"type": kind}});
    let local = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}});
    assert_eq!(seccomp(false, json!({}), json!({})), Ok(Unconfined));
    assert_eq!(seccomp(true, json!({}), json!({})), Ok(RuntimeDefault));
    assert_eq!(seccomp(true, of("Unconfined"), of("RuntimeDefault")), Ok(Unconfined));
    assert_eq!(seccomp(false, json!({}), of("RuntimeDefault")), Ok(RuntimeDefault));
    assert_eq!(seccomp(false, local, json!({})), Ok(Localhost("/var/lib/kubelet/seccomp/a/b.json".to_owned())));
    assert_eq!(seccomp(false, of("Localhost"), json!({})), Err(LaunchError::SeccompProfileUnnamed));
    let empty = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": ""}});
    assert_eq!(seccomp(false, empty.clone(), json!({})), Err(LaunchError::SeccompProfileUnnamed), "CVE-2023-2431");
    assert_eq!(seccomp(true, json!({}), empty), Err(LaunchError::SeccompProfileUnnamed));
    for unknown in ["", "localhost", "runtimeDefault", "Default", "unconfined", "X"] {
        let refused = Err(LaunchError::SeccompTypeUnknown(unknown.to_owned()));
        assert_eq!(seccomp(false, of(unknown), json!({})), refused, "{unknown:?} of the container");
        assert_eq!(seccomp(true, json!({}), of(unknown)), refused, "{unknown:?} of the pod");
    }
}

/// RT-97; upstream: pkg/security/apparmor/helpers_test.go (v1.36)
#[test]
fn rt_97_apparmor_fields_before_the_annotation_before_the_pod() {
    use SecurityProfile::{Localhost, RuntimeDefault, Unconfined};
    let apparmor = |own: Value, annotation: Option<&str>, of_pod: Value| {
        let mut pod = one(json!({"securityContext": own}), json!({"securityContext": of_pod}));
        let key = "container.apparmor.security.beta.kubernetes.io/app".to_owned();
        pod.metadata.annotations = annotation.map(|value| [(key, value.to_owned())].into());
        configured(&node(), &pod, &Given::default()).map(|config| config.security.apparmor)
    };
    let of = |kind: &str| json!({"appArmorProfile": {"type": kind}});
    let local = json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "k8s-x"}});
    assert_eq!(apparmor(json!({}), None, json!({})), Ok(None));
    assert_eq!(apparmor(of("RuntimeDefault"), Some("unconfined"), json!({})), Ok(Some(RuntimeDefault)));
    assert_eq!(apparmor(json!({}), Some("unconfined"), of("RuntimeDefault")), Ok(Some(Unconfined)));
    assert_eq!(apparmor(json!({}), Some("localhost/p"), json!({})), Ok(Some(Localhost("p".to_owned()))));
    assert_eq!(apparmor(json!({}), Some("runtime/default"), of("Unconfined")), Ok(Some(RuntimeDefault)));
    for unknown in ["nonsense", "", "localhos/p", "Unconfined"] {
        let refused = Err(LaunchError::AppArmorTypeUnknown(unknown.to_owned()));
        assert_eq!(apparmor(json!({}), Some(unknown), of("Unconfined")), refused, "{unknown:?}");
    }
    assert_eq!(apparmor(json!({}), Some("localhost/"), json!({})), Err(LaunchError::AppArmorProfileUnnamed));
    let empty = json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": " "}});
    assert_eq!(apparmor(empty.clone(), None, json!({})), Err(LaunchError::AppArmorProfileUnnamed));
    assert_eq!(apparmor(json!({}), None, empty), Err(LaunchError::AppArmorProfileUnnamed));
    assert_eq!(apparmor(local, None, json!({})), Ok(Some(Localhost("k8s-x".to_owned()))));
    assert_eq!(apparmor(of("Localhost"), None, json!({})), Err(LaunchError::AppArmorProfileUnnamed));
    assert_eq!(
        apparmor(of("X"), None, json!({})).expect_err("refused").to_string(),
        "unknown apparmor profile type: \"X\""
    );
}

#[test]
fn rt_98_the_rest_of_the_security_context() {
    let own = json!({
        "privileged": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "runAsGroup": 9,
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "procMount": "Unmasked"});
    let of_pod = json!({"fsGroup": 1, "supplementalGroups": [2], "runAsGroup": 8, "seLinuxOptions": {"type": "t"}});
    let pod = one(json!({"securityContext": own}), json!({"securityContext": of_pod}));
    let given = Given::default();
    let inputs = ContainerInputs { volume_groups: &[3], ..given.inputs(&pod.regular()[0]) };
    let security = container_config(&node(), &pod, &inputs).expect("a config").security;
    let expected = ContainerSecurity {
        add_capabilities: vec!["NET_ADMIN".to_owned()],
        drop_capabilities: vec!["ALL".to_owned()],
        privileged: true,
        namespaces: Namespaces { pid: NamespaceMode::Container, ..Namespaces::default() },
        selinux: Some(SelinuxOptions { type_: "t".to_owned(), ..SelinuxOptions::default() }),
        run_as_user: Some(0),
        run_as_group: Some(9),
        readonly_rootfs: true,
        supplemental_groups: vec![1, 2, 3],
        no_new_privs: true,
        ..ContainerSecurity::default()
    };
    assert_eq!(security, expected);
}

/// RT-98: the paths of a container that asks for nothing; upstream: pkg/securitycontext/util.go (v1.36)
#[test]
fn rt_98_masked_and_read_only_paths_by_default() {
    let ctx =
        LaunchContext { masked_paths: vec!["/sys/devices/system/cpu/cpu0/thermal_throttle".to_owned()], ..node() };
    let security = configured(&ctx, &one(json!({}), json!({})), &Given::default()).expect("a config").security;
    expect![[r#"
        /proc/asound /proc/acpi /proc/interrupts /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list /proc/timer_stats /proc/sched_debug /proc/scsi /sys/firmware /sys/devices/virtual/powercap /sys/devices/system/cpu/cpu0/thermal_throttle
        /proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger"#]]
    .assert_eq(&format!("{}\n{}", security.masked_paths.join(" "), security.readonly_paths.join(" ")));
}

/// RT-82: an ephemeral container sees its target's processes, unless the pod shares them anyway.
#[test]
fn rt_82_target_of_an_ephemeral_container() {
    let target = ContainerId::from("abc");
    let pid = |pod: &Pod| {
        let given = Given::default();
        let inputs = ContainerInputs { target: Some(&target), ..given.inputs(&pod.regular()[0]) };
        container_config(&node(), pod, &inputs).expect("a config").security.namespaces.pid
    };
    assert_eq!(pid(&one(json!({}), json!({}))), NamespaceMode::Target("abc".to_owned()));
    assert_eq!(pid(&one(json!({}), json!({"shareProcessNamespace": true}))), NamespaceMode::Pod);
    assert_eq!(pid(&one(json!({}), json!({"hostPID": true}))), NamespaceMode::Node);
}

#[test]
fn an_unknown_groups_policy_is_refused() {
    let err = secured(json!({}), json!({"supplementalGroupsPolicy": "Odd"}), &Given::default()).expect_err("refused");
    assert_eq!(err.to_string(), "unsupported supplementalGroupsPolicy: Odd");
}
