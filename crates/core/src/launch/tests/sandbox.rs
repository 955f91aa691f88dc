//! RT-80 … RT-82, CG-02, section 7.8.

use expect_test::expect;
use serde_json::json;

use super::super::*;
use super::{node, one, pod};
use crate::qos::{CgroupDriver, CgroupTree};

fn inputs() -> SandboxInputs {
    SandboxInputs { attempt: 3, ..SandboxInputs::default() }
}

/// RT-80, RT-81, CG-02, 7.8 in one: what a plain pod becomes.
#[test]
fn rt_80_a_plain_pods_sandbox() {
    let mut plain = one(json!({}), json!({}));
    plain.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    plain.metadata.annotations = Some([("kubernetes.io/config.source".to_owned(), "file".to_owned())].into());
    let config = sandbox_config(&node(), &plain, &inputs()).expect("a config");
    expect![[r#"
        SandboxConfig {
            name: "web",
            uid: "12345678-1234",
            namespace: "default",
            attempt: 3,
            hostname: "web",
            log_directory: "/var/log/pods/default_web_12345678-1234",
            dns: None,
            port_mappings: [],
            labels: {
                "app": "web",
                "io.kubernetes.pod.name": "web",
                "io.kubernetes.pod.namespace": "default",
                "io.kubernetes.pod.uid": "12345678-1234",
            },
            annotations: {
                "kubernetes.io/config.source": "file",
            },
            cgroup_parent: "/kubepods/besteffort/pod12345678-1234",
            sysctls: {},
            security: SandboxSecurity {
                namespaces: Namespaces {
                    network: Pod,
                    pid: Container,
                    ipc: Pod,
                    user: None,
                },
                selinux: None,
                run_as_user: None,
                run_as_group: None,
                readonly_rootfs: false,
                supplemental_groups: [],
                supplemental_groups_policy: Merge,
                privileged: false,
                seccomp: RuntimeDefault,
            },
            overhead: Some(
                LinuxResources {
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
            ),
            resources: Some(
                LinuxResources {
                    cpu_period: 100000,
                    cpu_quota: 0,
                    cpu_shares: 2,
                    memory_limit_in_bytes: 0,
                    oom_score_adj: 0,
                    cpuset_cpus: "",
                    cpuset_mems: "",
                    hugepage_limits: [],
                    unified: {
                        "memory.oom.group": "1",
                    },
                    memory_swap_limit_in_bytes: 0,
                },
            ),
            runtime_handler: "",
        }
    "#]]
    .assert_debug_eq(&config);
}

#[test]
fn cg_02_the_parent_is_spelt_by_the_driver() {
    let plain = one(json!({"resources": {"requests": {"cpu": "1"}}}), json!({}));
    let parent = |driver| {
        let ctx = LaunchContext { tree: CgroupTree::new("", driver, true), ..node() };
        sandbox_config(&ctx, &plain, &inputs()).expect("a config").cgroup_parent
    };
    assert_eq!(parent(CgroupDriver::Cgroupfs), "/kubepods/burstable/pod12345678-1234");
    assert_eq!(
        parent(CgroupDriver::Systemd),
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12345678_1234.slice"
    );
}

/// RT-80: regular containers only, duplicates dropped; upstream: container/helpers_test.go TestMakePortMappings (v1.36)
#[test]
fn rt_80_ports_of_regular_containers_each_once() {
    let with_ports = pod(json!({
        "initContainers": [{"name": "i", "ports": [{"containerPort": 1}]}],
        "containers": [
            {"name": "a", "ports": [
                {"containerPort": 80, "hostPort": 8080, "protocol": "TCP"},
                {"containerPort": 80, "hostPort": 8080, "protocol": "TCP"},
                {"containerPort": 80, "hostPort": 8080, "hostIP": "::1"},
                {"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"},
                {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                {"name": "dns", "containerPort": 54, "protocol": "UDP"}]},
            {"name": "b", "ports": [{"containerPort": 9, "protocol": "SCTP"}]}]}));
    let config = sandbox_config(&node(), &with_ports, &inputs()).expect("a config");
    let lines: Vec<_> = config
        .port_mappings
        .iter()
        .map(|p| format!("{:?} {}:{} -> {}", p.protocol, p.host_ip, p.host_port, p.container_port))
        .collect();
    expect![[r#"
        Tcp :8080 -> 80
        Tcp ::1:8080 -> 80
        Tcp 127.0.0.1:8080 -> 80
        Udp :0 -> 53
        Sctp :0 -> 9"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn rt_81_security_of_the_sandbox() {
    let spec = json!({
        "hostNetwork": true,
        "shareProcessNamespace": true,
        "initContainers": [{"name": "i", "securityContext": {"privileged": true}}],
        "securityContext": {
            "runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 1, "supplementalGroups": [3, 4],
            "supplementalGroupsPolicy": "Strict", "seLinuxOptions": {"level": "s0:c1"},
            "sysctls": [{"name": "net/ipv4/conf/eno2.100/rp_filter", "value": "1"}, {"name": "kernel.sem", "value": "2"}]}});
    let given = SandboxInputs { volume_groups: vec![2], ..inputs() };
    let config = sandbox_config(&node(), &one(json!({}), spec), &given).expect("a config");
    expect![[r#"
        (
            "",
            {
                "kernel.sem": "2",
                "net.ipv4.conf.eno2/100.rp_filter": "1",
            },
            SandboxSecurity {
                namespaces: Namespaces {
                    network: Node,
                    pid: Pod,
                    ipc: Pod,
                    user: None,
                },
                selinux: Some(
                    SelinuxOptions {
                        user: "",
                        role: "",
                        type_: "",
                        level: "s0:c1",
                    },
                ),
                run_as_user: Some(
                    1000,
                ),
                run_as_group: Some(
                    2000,
                ),
                readonly_rootfs: false,
                supplemental_groups: [
                    1,
                    2,
                    3,
                    4,
                ],
                supplemental_groups_policy: Strict,
                privileged: true,
                seccomp: RuntimeDefault,
            },
        )
    "#]]
    .assert_debug_eq(&(config.hostname, config.sysctls, config.security));
}

/// RT-81: the sum without overhead, and the overhead apart, asked for and limited alike.
#[test]
fn rt_81_overhead_and_sum_are_kept_apart() {
    let spec = json!({"overhead": {"cpu": "250m", "memory": "64Mi"}});
    let limited = one(json!({"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}), spec);
    let config = sandbox_config(&node(), &limited, &inputs()).expect("a config");
    let short = |r: Option<LinuxResources>| {
        let r = r.expect("resources");
        (r.cpu_shares, r.cpu_quota, r.cpu_period, r.memory_limit_in_bytes)
    };
    assert_eq!(short(config.overhead), (256, 25_000, 100_000, 64 << 20));
    assert_eq!(short(config.resources), (1024, 0, 100_000, 1 << 30));
}

#[test]
fn rt_82_user_namespaces_need_a_handler_that_has_them() {
    let own_users = one(json!({}), json!({"hostUsers": false}));
    let ids = UserNamespace {
        uids: vec![IdMapping { host_id: 65536, container_id: 0, length: 65536 }],
        gids: vec![IdMapping { host_id: 65536, container_id: 0, length: 65536 }],
    };
    let named = |handler: &str| SandboxInputs {
        runtime_handler: handler.to_owned(),
        user_namespace: Some(ids.clone()),
        ..inputs()
    };
    let message =
        |handler: &str| sandbox_config(&node(), &own_users, &named(handler)).expect_err("refused").to_string();
    assert_eq!(message(""), "can't set `spec.hostUsers: false`, runtime does not support user namespaces");
    assert_eq!(
        message("gvisor"),
        "can't set `spec.hostUsers: false`, RuntimeClass handler \"gvisor\" does not support user namespaces"
    );
    let features = HandlerFeatures { user_namespaces: true, ..HandlerFeatures::default() };
    let able = SandboxInputs { features, ..named("") };
    let config = sandbox_config(&node(), &own_users, &able).expect("a config");
    assert_eq!(config.security.namespaces.user, Some(ids));
}

#[test]
fn a_hostname_that_cannot_be_made_stops_the_sandbox() {
    let spec = json!({"subdomain": "a-rather-long-subdomain-of-the-pod", "hostname": "and-a-long-host-name", "setHostnameAsFQDN": true});
    let err = sandbox_config(&node(), &one(json!({}), spec), &inputs()).expect_err("too long");
    expect!["failed to construct FQDN from pod hostname and cluster domain, FQDN and-a-long-host-name.a-rather-long-subdomain-of-the-pod.default.svc.cluster.local is too long (64 characters is the max, 81 characters requested)"]
        .assert_eq(&err.to_string());
}
