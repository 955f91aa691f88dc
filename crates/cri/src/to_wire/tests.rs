//! One row per field: how the message changes when the field is set.

mod container;
mod sandbox;

use expect_test::{Expect, expect};
use rubelet_core::keyring::{Login, LoginOrigin};
use rubelet_core::launch::{ContainerConfig, SandboxConfig, SelinuxOptions};
use rubelet_proto::cri;

use super::*;

/// The lines of `changed` that differ from `plain`.
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

/// A line with only a bracket does not identify a place.
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
fn an_empty_configuration_sets_only_required_fields() {
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

fn selinux() -> SelinuxOptions {
    SelinuxOptions { user: "u".into(), role: "r".into(), type_: "t".into(), level: "s0".into() }
}

#[test]
fn of_a_login_user_and_password_are_sent() {
    let origin = LoginOrigin::Provider("p".into());
    let auth = auth_config(&Login { username: "u".into(), password: "p".into(), origin });
    assert_eq!(auth, cri::AuthConfig { username: "u".into(), password: "p".into(), ..Default::default() });
}

#[test]
fn a_part_of_a_second_is_a_second() {
    let seconds = [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (30_000, 30)];
    for (millis, expected) in seconds {
        assert_eq!(whole_seconds(Duration::from_millis(millis)), expected, "{millis}");
    }
    assert_eq!(whole_seconds(Duration::MAX), i64::MAX);
}
