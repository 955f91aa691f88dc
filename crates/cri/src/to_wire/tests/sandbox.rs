//! Fields of a sandbox.

use expect_test::expect;
use rubelet_core::launch::{
    DnsConfig, GroupsPolicy, IdMapping, LinuxResources, NamespaceMode, PortMapping, Protocol, SecurityProfile,
    UserNamespace,
};

use super::{container, map, sandbox, selinux, texts};

#[test]
fn a_sandbox_has_its_names_and_its_network_rt_80() {
    sandbox(|c| c.name = "web".into(), expect![[r#"name: "web","#]]);
    sandbox(|c| c.uid = "u1".into(), expect![[r#"uid: "u1","#]]);
    sandbox(|c| c.namespace = "default".into(), expect![[r#"namespace: "default","#]]);
    sandbox(|c| c.attempt = 3, expect!["attempt: 3, }, ),"]);
    sandbox(|c| c.hostname = "web-0".into(), expect![[r#"hostname: "web-0","#]]);
    sandbox(|c| c.log_directory = "/var/log/pods/x".into(), expect![[r#"log_directory: "/var/log/pods/x","#]]);
    sandbox(
        |c| {
            c.dns = Some(DnsConfig {
                servers: texts(&["10.0.0.10"]),
                searches: texts(&["svc.local"]),
                options: texts(&["ndots:5"]),
            });
        },
        expect![[
            r#"dns_config: Some( DnsConfig { servers: [ "10.0.0.10", ], searches: [ "svc.local", ], options: [ "ndots:5", ], }, ),"#
        ]],
    );
    for (protocol, expected) in [
        (
            Protocol::Tcp,
            expect![[
                r#"port_mappings: [ PortMapping { protocol: Tcp, container_port: 80, host_port: 8080, host_ip: "127.0.0.1", }, ],"#
            ]],
        ),
        (
            Protocol::Udp,
            expect![[
                r#"port_mappings: [ PortMapping { protocol: Udp, container_port: 80, host_port: 8080, host_ip: "127.0.0.1", }, ],"#
            ]],
        ),
        (
            Protocol::Sctp,
            expect![[
                r#"port_mappings: [ PortMapping { protocol: Sctp, container_port: 80, host_port: 8080, host_ip: "127.0.0.1", }, ],"#
            ]],
        ),
    ] {
        let mapping = PortMapping { protocol, container_port: 80, host_port: 8080, host_ip: "127.0.0.1".into() };
        sandbox(|c| c.port_mappings = vec![mapping], expected);
    }
    sandbox(|c| c.labels = map("app", "web"), expect![[r#"labels: { "app": "web", },"#]]);
    sandbox(|c| c.annotations = map("a", "b"), expect![[r#"annotations: { "a": "b", },"#]]);
    // The handler is part of the call instead.
    sandbox(|c| c.runtime_handler = "gvisor".into(), expect![[""]]);
}

#[test]
fn a_sandbox_has_its_linux_side_rt_81() {
    sandbox(|c| c.cgroup_parent = "/kubepods/podu1".into(), expect![[r#"cgroup_parent: "/kubepods/podu1","#]]);
    sandbox(|c| c.sysctls = map("net.ipv4.ip_forward", "1"), expect![[r#"sysctls: { "net.ipv4.ip_forward": "1", },"#]]);
    sandbox(
        |c| c.overhead = Some(LinuxResources { cpu_shares: 2, ..Default::default() }),
        expect![[
            r#"overhead: Some( LinuxContainerResources { cpu_period: 0, cpu_quota: 0, cpu_shares: 2, memory_limit_in_bytes: 0, oom_score_adj: 0, cpuset_cpus: "", cpuset_mems: "", hugepage_limits: [], unified: {}, memory_swap_limit_in_bytes: 0, }, ),"#
        ]],
    );
    sandbox(
        |c| c.resources = Some(LinuxResources { cpu_shares: 2, ..Default::default() }),
        expect![[
            r#"resources: Some( LinuxContainerResources { cpu_period: 0, cpu_quota: 0, cpu_shares: 2, memory_limit_in_bytes: 0, oom_score_adj: 0, cpuset_cpus: "", cpuset_mems: "", hugepage_limits: [], unified: {}, memory_swap_limit_in_bytes: 0, }, ), }, ),"#
        ]],
    );
    sandbox(|c| c.security.run_as_user = Some(0), expect!["run_as_user: Some( Int64Value { value: 0, }, ),"]);
    sandbox(|c| c.security.run_as_group = Some(7), expect!["run_as_group: Some( Int64Value { value: 7, }, ),"]);
    sandbox(|c| c.security.readonly_rootfs = true, expect!["readonly_rootfs: true,"]);
    sandbox(|c| c.security.supplemental_groups = vec![1, 2], expect!["supplemental_groups: [ 1, 2, ],"]);
    sandbox(
        |c| c.security.supplemental_groups_policy = GroupsPolicy::Strict,
        expect!["supplemental_groups_policy: Strict, }, ),"],
    );
    sandbox(|c| c.security.privileged = true, expect!["privileged: true,"]);
    sandbox(|c| c.security.seccomp = SecurityProfile::RuntimeDefault, expect!["profile_type: RuntimeDefault,"]);
    sandbox(
        |c| c.security.selinux = Some(selinux()),
        expect![[r#"selinux_options: Some( SeLinuxOption { user: "u", role: "r", r#type: "t", level: "s0", }, ),"#]],
    );
}

#[test]
fn namespaces_are_the_pods_the_nodes_or_anothers_rt_82() {
    sandbox(|c| c.security.namespaces.network = NamespaceMode::Node, expect!["network: Node,"]);
    sandbox(|c| c.security.namespaces.ipc = NamespaceMode::Node, expect!["ipc: Node,"]);
    sandbox(|c| c.security.namespaces.pid = NamespaceMode::Container, expect!["pid: Container,"]);
    container(
        |c| c.security.namespaces.pid = NamespaceMode::Target("c1".into()),
        expect![[r#"pid: Target, target_id: "c1","#]],
    );
    let ids = |host_id| vec![IdMapping { host_id, container_id: 0, length: 65536 }];
    sandbox(
        |c| c.security.namespaces.user = Some(UserNamespace { uids: ids(65536), gids: ids(131_072) }),
        expect![
            "mode: Pod, uids: [ IdMapping { host_id: 65536, container_id: 0, length: 65536, }, ], gids: [ IdMapping { host_id: 131072, container_id: 0, length: 65536, }, ], }, ), }, ),"
        ],
    );
}
