//! Fields of a container.

use expect_test::expect;
use rubelet_core::launch::{
    ContainerConfig, Device, GroupsPolicy, IdMapping, ImageSpec, LinuxResources, Mount, MountPropagation,
    SecurityProfile,
};

use super::{container, container_config, map, selinux, texts};

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
    // The value must not be shown, not even here.
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
