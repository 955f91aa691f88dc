//! One row per field: what changes in the message when the field is set.

use expect_test::{Expect, expect};
use rubelet_core::launch::{
    ContainerConfig, Device, DnsConfig, GroupsPolicy, IdMapping, ImageSpec, LinuxResources, Mount, MountPropagation,
    NamespaceMode, PortMapping, Protocol, SandboxConfig, SecurityProfile, SelinuxOptions, UserNamespace,
};
use rubelet_engine::ports::RegistryAuth;

use super::*;

/// The lines of `changed` that `plain` does not have at that place.
fn difference(plain: &impl std::fmt::Debug, changed: &impl std::fmt::Debug) -> String {
    let (plain, changed) = (format!("{plain:#?}"), format!("{changed:#?}"));
    let mut old = plain.lines().peekable();
    let mut new = Vec::new();
    for line in changed.lines() {
        if old.peek() == Some(&line) {
            old.next();
        } else if let Some(skipped) = old.clone().position(|other| other == line && !is_bracket(line)) {
            old.nth(skipped);
        } else {
            new.push(line.trim());
        }
    }
    new.join(" ")
}

/// Brackets are everywhere, so that one of them says nothing about the place.
fn is_bracket(line: &str) -> bool {
    line.trim().chars().all(|c| "[](){},".contains(c))
}

fn sandbox(change: impl FnOnce(&mut SandboxConfig), expected: Expect) {
    let mut config = SandboxConfig::default();
    change(&mut config);
    expected.assert_eq(&difference(&sandbox_config(&SandboxConfig::default()), &sandbox_config(&config)));
}

fn container(change: impl FnOnce(&mut ContainerConfig), expected: Expect) {
    let mut config = ContainerConfig::default();
    change(&mut config);
    expected.assert_eq(&difference(&container_config(&ContainerConfig::default()), &container_config(&config)));
}

fn map(key: &str, value: &str) -> std::collections::BTreeMap<String, String> {
    [(key.to_owned(), value.to_owned())].into()
}

fn texts(of: &[&str]) -> Vec<String> {
    of.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn an_empty_configuration_says_only_what_must_be_said() {
    expect![[r#"
        PodSandboxConfig {
            metadata: Some(
                PodSandboxMetadata {
                    name: "",
                    uid: "",
                    namespace: "",
                    attempt: 0,
                },
            ),
            hostname: "",
            log_directory: "",
            dns_config: None,
            port_mappings: [],
            labels: {},
            annotations: {},
            linux: Some(
                LinuxPodSandboxConfig {
                    cgroup_parent: "",
                    security_context: Some(
                        LinuxSandboxSecurityContext {
                            namespace_options: Some(
                                NamespaceOption {
                                    network: Pod,
                                    pid: Pod,
                                    ipc: Pod,
                                    target_id: "",
                                    userns_options: Some(
                                        UserNamespace {
                                            mode: Node,
                                            uids: [],
                                            gids: [],
                                        },
                                    ),
                                },
                            ),
                            selinux_options: None,
                            run_as_user: None,
                            readonly_rootfs: false,
                            supplemental_groups: [],
                            privileged: false,
                            seccomp_profile_path: "",
                            run_as_group: None,
                            seccomp: Some(
                                SecurityProfile {
                                    profile_type: Unconfined,
                                    localhost_ref: "",
                                },
                            ),
                            apparmor: None,
                            supplemental_groups_policy: Merge,
                        },
                    ),
                    sysctls: {},
                    overhead: None,
                    resources: None,
                },
            ),
            windows: None,
        }"#]]
    .assert_eq(&format!("{:#?}", sandbox_config(&SandboxConfig::default())));
    expect![[r#"
        ContainerConfig {
            metadata: Some(
                ContainerMetadata {
                    name: "",
                    attempt: 0,
                },
            ),
            image: Some(
                ImageSpec {
                    image: "",
                    annotations: {},
                    user_specified_image: "",
                    runtime_handler: "",
                    image_ref: "",
                },
            ),
            command: [],
            args: [],
            working_dir: "",
            envs: [],
            mounts: [],
            devices: [],
            labels: {},
            annotations: {},
            log_path: "",
            stdin: false,
            stdin_once: false,
            tty: false,
            linux: Some(
                LinuxContainerConfig {
                    resources: Some(
                        LinuxContainerResources {
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
                    security_context: Some(
                        LinuxContainerSecurityContext {
                            capabilities: None,
                            privileged: false,
                            namespace_options: Some(
                                NamespaceOption {
                                    network: Pod,
                                    pid: Pod,
                                    ipc: Pod,
                                    target_id: "",
                                    userns_options: Some(
                                        UserNamespace {
                                            mode: Node,
                                            uids: [],
                                            gids: [],
                                        },
                                    ),
                                },
                            ),
                            selinux_options: None,
                            run_as_user: None,
                            run_as_username: "",
                            readonly_rootfs: false,
                            supplemental_groups: [],
                            apparmor_profile: "",
                            seccomp_profile_path: "",
                            no_new_privs: false,
                            run_as_group: None,
                            masked_paths: [],
                            readonly_paths: [],
                            seccomp: Some(
                                SecurityProfile {
                                    profile_type: Unconfined,
                                    localhost_ref: "",
                                },
                            ),
                            apparmor: None,
                            supplemental_groups_policy: Merge,
                        },
                    ),
                },
            ),
            windows: None,
            cdi_devices: [],
            stop_signal: RuntimeDefault,
        }"#]]
    .assert_eq(&format!("{:#?}", container_config(&ContainerConfig::default())));
}

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
    // It is part of the call instead.
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

#[test]
fn a_container_has_what_it_runs() {
    container(|c| c.name = "app".into(), expect![[r#"name: "app","#]]);
    container(|c| c.attempt = 2, expect!["attempt: 2, }, ),"]);
    container(
        |c| {
            c.image = ImageSpec {
                image: "sha256:1".into(),
                user_specified_image: "busybox".into(),
                runtime_handler: "gvisor".into(),
                annotations: map("a", "b"),
            };
        },
        expect![[
            r#"image: "sha256:1", annotations: { "a": "b", }, user_specified_image: "busybox", runtime_handler: "gvisor","#
        ]],
    );
    container(|c| c.command = texts(&["sh", "-c"]), expect![[r#"command: [ "sh", "-c", ],"#]]);
    container(|c| c.args = texts(&["true"]), expect![[r#"args: [ "true", ],"#]]);
    container(|c| c.working_dir = "/srv".into(), expect![[r#"working_dir: "/srv","#]]);
    container(|c| c.labels = map("l", "1"), expect![[r#"labels: { "l": "1", },"#]]);
    container(|c| c.annotations = map("a", "1"), expect![[r#"annotations: { "a": "1", },"#]]);
    container(|c| c.log_path = "app/0.log".into(), expect![[r#"log_path: "app/0.log","#]]);
    container(|c| c.stdin = true, expect!["stdin: true,"]);
    container(|c| c.stdin_once = true, expect!["stdin_once: true,"]);
    container(|c| c.tty = true, expect!["tty: true,"]);
    container(
        |c| c.cdi_devices = texts(&["vendor.com/gpu=0"]),
        expect![[r#"cdi_devices: [ CdiDevice { name: "vendor.com/gpu=0", }, ],"#]],
    );
    container(
        |c| {
            c.devices =
                vec![Device { container_path: "/dev/a".into(), host_path: "/dev/b".into(), permissions: "rwm".into() }];
        },
        expect![[r#"devices: [ Device { container_path: "/dev/a", host_path: "/dev/b", permissions: "rwm", }, ],"#]],
    );
    // The value must not show, not even here.
    container(
        |c| c.envs = vec![("TOKEN".into(), "hush".into())],
        expect![[r#"envs: [ KeyValue { key: "TOKEN", .. }, ],"#]],
    );
    let env = container_config(&ContainerConfig { envs: vec![("A".into(), "b".into())], ..Default::default() }).envs;
    assert_eq!((env[0].key.as_str(), env[0].value.as_slice()), ("A", b"b".as_slice()));
}

#[test]
fn mounts_keep_their_order_and_flags() {
    let mount = || Mount { container_path: "/a".into(), host_path: "/b".into(), ..Default::default() };
    container(
        |c| c.mounts = vec![mount()],
        expect![[
            r#"mounts: [ Mount { container_path: "/a", host_path: "/b", readonly: false, selinux_relabel: false, propagation: PropagationPrivate, uid_mappings: [], gid_mappings: [], recursive_read_only: false, image: None, image_sub_path: "", }, ],"#
        ]],
    );
    let ids = vec![IdMapping { host_id: 1, container_id: 2, length: 3 }];
    container(
        |c| {
            c.mounts = vec![Mount {
                readonly: true,
                recursive_read_only: true,
                selinux_relabel: true,
                propagation: MountPropagation::HostToContainer,
                uid_mappings: ids.clone(),
                gid_mappings: ids,
                image: Some(ImageSpec { image: "i".into(), ..Default::default() }),
                image_sub_path: "sub".into(),
                ..mount()
            }];
        },
        expect![[
            r#"mounts: [ Mount { container_path: "/a", host_path: "/b", readonly: true, selinux_relabel: true, propagation: PropagationHostToContainer, uid_mappings: [ IdMapping { host_id: 1, container_id: 2, length: 3, }, ], gid_mappings: [ IdMapping { host_id: 1, container_id: 2, length: 3, }, ], recursive_read_only: true, image: Some( ImageSpec { image: "i", annotations: {}, user_specified_image: "", runtime_handler: "", image_ref: "", }, ), image_sub_path: "sub", }, ],"#
        ]],
    );
    container(
        |c| c.mounts = vec![Mount { propagation: MountPropagation::Bidirectional, ..mount() }],
        expect![[
            r#"mounts: [ Mount { container_path: "/a", host_path: "/b", readonly: false, selinux_relabel: false, propagation: PropagationBidirectional, uid_mappings: [], gid_mappings: [], recursive_read_only: false, image: None, image_sub_path: "", }, ],"#
        ]],
    );
}

#[test]
fn resources_are_copied_as_they_are_rt_90_to_95() {
    container(
        |c| {
            c.resources = LinuxResources {
                cpu_period: 100_000,
                cpu_quota: -1,
                cpu_shares: 1024,
                memory_limit_in_bytes: 5,
                oom_score_adj: -997,
                cpuset_cpus: "0-3".into(),
                cpuset_mems: "0".into(),
                hugepage_limits: vec![("2MB".into(), 9)],
                unified: map("memory.oom.group", "1"),
                memory_swap_limit_in_bytes: 6,
            };
        },
        expect![[
            r#"cpu_period: 100000, cpu_quota: -1, cpu_shares: 1024, memory_limit_in_bytes: 5, oom_score_adj: -997, cpuset_cpus: "0-3", cpuset_mems: "0", hugepage_limits: [ HugepageLimit { page_size: "2MB", limit: 9, }, ], unified: { "memory.oom.group": "1", }, memory_swap_limit_in_bytes: 6, }, ),"#
        ]],
    );
}

fn selinux() -> SelinuxOptions {
    SelinuxOptions { user: "u".into(), role: "r".into(), type_: "t".into(), level: "s0".into() }
}

#[test]
fn a_container_has_its_security_context_rt_96_to_98() {
    container(
        |c| c.security.add_capabilities = texts(&["NET_ADMIN"]),
        expect![[
            r#"capabilities: Some( Capability { add_capabilities: [ "NET_ADMIN", ], drop_capabilities: [], add_ambient_capabilities: [], }, ),"#
        ]],
    );
    container(
        |c| c.security.drop_capabilities = texts(&["ALL"]),
        expect![[
            r#"capabilities: Some( Capability { add_capabilities: [], drop_capabilities: [ "ALL", ], add_ambient_capabilities: [], }, ),"#
        ]],
    );
    container(|c| c.security.privileged = true, expect!["privileged: true,"]);
    container(
        |c| c.security.selinux = Some(selinux()),
        expect![[r#"selinux_options: Some( SeLinuxOption { user: "u", role: "r", r#type: "t", level: "s0", }, ),"#]],
    );
    container(|c| c.security.run_as_user = Some(1000), expect!["run_as_user: Some( Int64Value { value: 1000, }, ),"]);
    container(|c| c.security.run_as_group = Some(1001), expect!["run_as_group: Some( Int64Value { value: 1001, }, ),"]);
    container(|c| c.security.run_as_username = "www".into(), expect![[r#"run_as_username: "www","#]]);
    container(|c| c.security.readonly_rootfs = true, expect!["readonly_rootfs: true,"]);
    container(|c| c.security.supplemental_groups = vec![5], expect!["supplemental_groups: [ 5, ],"]);
    container(
        |c| c.security.supplemental_groups_policy = GroupsPolicy::Strict,
        expect!["supplemental_groups_policy: Strict, }, ), }, ),"],
    );
    container(|c| c.security.no_new_privs = true, expect!["no_new_privs: true,"]);
    container(|c| c.security.masked_paths = texts(&["/proc/kcore"]), expect![[r#"masked_paths: [ "/proc/kcore", ],"#]]);
    container(|c| c.security.readonly_paths = texts(&["/proc/sys"]), expect![[r#"readonly_paths: [ "/proc/sys", ],"#]]);
}

#[test]
fn apparmor_goes_into_the_old_field_too_rt_97() {
    container(|c| c.security.seccomp = SecurityProfile::RuntimeDefault, expect!["profile_type: RuntimeDefault,"]);
    container(
        |c| c.security.seccomp = SecurityProfile::Localhost("/p/a.json".into()),
        expect![[r#"profile_type: Localhost, localhost_ref: "/p/a.json", }, ),"#]],
    );
    container(
        |c| c.security.apparmor = Some(SecurityProfile::Unconfined),
        expect![[
            r#"apparmor_profile: "unconfined", apparmor: Some( SecurityProfile { profile_type: Unconfined, localhost_ref: "", }, ),"#
        ]],
    );
    container(
        |c| c.security.apparmor = Some(SecurityProfile::RuntimeDefault),
        expect![[
            r#"apparmor_profile: "runtime/default", apparmor: Some( SecurityProfile { profile_type: RuntimeDefault, localhost_ref: "", }, ),"#
        ]],
    );
    container(
        |c| c.security.apparmor = Some(SecurityProfile::Localhost("web".into())),
        expect![[
            r#"apparmor_profile: "localhost/web", apparmor: Some( SecurityProfile { profile_type: Localhost, localhost_ref: "web", }, ),"#
        ]],
    );
}

#[test]
fn stop_signals_go_by_name_rt_99() {
    container(|c| c.stop_signal = Some("SIGUSR1".into()), expect!["stop_signal: Sigusr1, }"]);
    container(|c| c.stop_signal = Some("SIGRTMIN+3".into()), expect!["stop_signal: Sigrtminplus3, }"]);
    container(|c| c.stop_signal = Some("SIGRTMAX-1".into()), expect!["stop_signal: Sigrtmaxminus1, }"]);
    container(|c| c.stop_signal = Some("SIGNONSENSE".into()), expect![[""]]);
}

#[test]
fn credentials_go_field_by_field() {
    let auth = auth_config(&RegistryAuth {
        username: "u".into(),
        password: "p".into(),
        server_address: "s".into(),
        identity_token: "i".into(),
        registry_token: "r".into(),
    });
    let fields =
        [auth.username, auth.password, auth.auth, auth.server_address, auth.identity_token, auth.registry_token];
    assert_eq!(fields, ["u", "p", "", "s", "i", "r"]);
}

#[test]
fn a_part_of_a_second_is_a_second() {
    let seconds = [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (30_000, 30)];
    for (millis, expected) in seconds {
        assert_eq!(whole_seconds(Duration::from_millis(millis)), expected, "{millis}");
    }
    assert_eq!(whole_seconds(Duration::MAX), i64::MAX);
}
