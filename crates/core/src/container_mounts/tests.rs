//! Section 7.11.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::launch::tests::{Given, node, pod};
use crate::launch::{BlockDevice, HandlerFeatures, IdMapping, UserNamespace, container_config};

fn with_mounts(mounts: Value) -> Pod {
    pod(json!({
        "containers": [{"name": "app", "volumeMounts": mounts, "terminationMessagePath": "/dev/termination-log"}],
        "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "config", "configMap": {"name": "c"}},
            {"name": "host", "hostPath": {"path": "/srv"}}, {"name": "code", "image": {"reference": "code:1"}}]}))
}

fn given() -> Given {
    let place = |name: &str| (name.to_owned(), PathBuf::from(format!("/v/{name}")));
    let code = ImageSpec { image: "code:1".to_owned(), ..ImageSpec::default() };
    Given {
        volumes: [place("scratch"), place("config"), place("host")].into(),
        subpaths: [(0, PathBuf::from("/pods/u/volume-subpaths/scratch/app/0"))].into(),
        image_volumes: [("code".to_owned(), code)].into(),
        envs: vec![("NAME".to_owned(), "n".to_owned()), ("EMPTY".to_owned(), String::new())],
        ..Given::default()
    }
}

fn line(mount: &Mount) -> String {
    let mut text = format!("{} <- {}", mount.container_path, mount.host_path);
    if let Some(image) = &mount.image {
        text.push_str(&format!("image {} {:?}", image.image, mount.image_sub_path));
    }
    let flags = [
        (mount.readonly, " ro"),
        (mount.recursive_read_only, " rro"),
        (mount.selinux_relabel, " relabel"),
        (mount.propagation == MountPropagation::HostToContainer, " from-host"),
        (mount.propagation == MountPropagation::Bidirectional, " both-ways"),
    ];
    text.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, word)| word));
    text
}

fn mounts(ctx: &LaunchContext, features: HandlerFeatures, mounts: Value) -> String {
    let pod = with_mounts(mounts);
    let given = given();
    let ips: [IpAddr; 1] = ["10.0.0.1".parse().expect("an address")];
    let inputs = ContainerInputs {
        features,
        pod_ips: &ips,
        hosts_file: Some(Path::new("/pods/u/etc-hosts")),
        termination_file: Some(Path::new("/pods/u/containers/app/0badcafe")),
        ..given.inputs(&pod.regular()[0])
    };
    match container_config(ctx, &pod, &inputs) {
        Ok(config) => config.mounts.iter().map(line).collect::<Vec<_>>().join("\n"),
        Err(err) => err.to_string(),
    }
}

fn check(list: Value, expected: &Expect) {
    expected.assert_eq(&mounts(&node(), HandlerFeatures::default(), list));
}

/// MNT-01, MNT-03, MNT-04, MNT-05, MNT-07; upstream: kubelet_pods_linux_test.go TestMakeMounts (v1.36)
#[test]
fn mnt_01_volumes_then_hosts_then_the_termination_message() {
    check(
        json!([
            {"name": "scratch", "mountPath": "data"},
            {"name": "config", "mountPath": "/etc/config"},
            {"name": "host", "mountPath": "/srv", "readOnly": true, "mountPropagation": "HostToContainer"},
            {"name": "host", "mountPath": "/srv2", "mountPropagation": "Bidirectional"},
            {"name": "code", "mountPath": "/code", "subPath": "bin"}]),
        &expect![[r#"
            /data <- /v/scratch
            /etc/config <- /v/config ro
            /srv <- /v/host ro from-host
            /srv2 <- /v/host both-ways
            /code <- image code:1 "bin" ro
            /etc/hosts <- /pods/u/etc-hosts
            /dev/termination-log <- /pods/u/containers/app/0badcafe"#]],
    );
    check(
        json!([{"name": "gone", "mountPath": "/x"}]),
        &expect![[r#"cannot find volume "gone" to mount into container "app""#]],
    );
    check(
        json!([{"name": "host", "mountPath": "/x", "mountPropagation": "Odd"}]),
        &expect![[r#"invalid MountPropagation mode: "Odd""#]],
    );
}

#[test]
fn mnt_02_sub_paths_stay_below_the_volume() {
    check(
        json!([{"name": "scratch", "mountPath": "/x", "subPath": "a/b"}]),
        &expect![[r#"
            /x <- /pods/u/volume-subpaths/scratch/app/0
            /etc/hosts <- /pods/u/etc-hosts
            /dev/termination-log <- /pods/u/containers/app/0badcafe"#]],
    );
    let refused = |mount: Value| mounts(&node(), HandlerFeatures::default(), json!([mount]));
    assert_eq!(
        refused(json!({"name": "scratch", "mountPath": "/x", "subPath": "/a"})),
        "error SubPath `/a` must not be an absolute path"
    );
    assert_eq!(
        refused(json!({"name": "scratch", "mountPath": "/x", "subPath": "a/../../b"})),
        "unable to provision SubPath `a/../../b`: must not contain '..'"
    );
    assert_eq!(
        refused(json!({"name": "scratch", "mountPath": "/x", "subPathExpr": "$(NOBODY)/$(EMPTY)/$(NAME)"})),
        "missing value for EMPTY, NOBODY"
    );
    assert_eq!(
        refused(json!({"name": "scratch", "mountPath": "/x", "subPathExpr": "$(NAME)".repeat(5000)})),
        "subPathExpr of volumeMount \"scratch\" expands to more than 4096 bytes"
    );
    let second = json!([{"name": "scratch", "mountPath": "/x"}, {"name": "host", "mountPath": "/y", "subPath": "s"}]);
    assert_eq!(
        mounts(&node(), HandlerFeatures::default(), second),
        "failed to prepare subPath for volumeMount \"host\" of container \"app\""
    );
}

#[test]
fn mnt_02_the_sub_paths_that_the_engine_has_to_prepare() {
    let pod = with_mounts(json!([
        {"name": "scratch", "mountPath": "/a"},
        {"name": "scratch", "mountPath": "/b", "subPathExpr": "x-$(NAME)"},
        {"name": "code", "mountPath": "/c", "subPath": "bin"},
        {"name": "host", "mountPath": "/d", "subPath": "y..z"}]));
    let found = subpaths(&pod, &pod.regular()[0], &given().envs).expect("sub-paths");
    let text: Vec<_> = found.iter().map(|s| format!("{} {} {}", s.index, s.volume, s.path)).collect();
    assert_eq!(text, ["1 scratch x-n", "3 host y..z"]);
}

/// MNT-03; upstream: kubelet_pods_test.go TestResolveRecursiveReadOnly (v1.36)
#[test]
fn mnt_03_read_only_all_the_way_down() {
    let able = HandlerFeatures { recursive_read_only_mounts: true, ..HandlerFeatures::default() };
    let unable = HandlerFeatures::default();
    let first = |features: HandlerFeatures, more: Value| {
        let mut mount = json!({"name": "host", "mountPath": "/x"});
        mount.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        mounts(&node(), features, json!([mount])).lines().next().unwrap_or_default().to_owned()
    };
    let rro = |mode: &str| json!({"readOnly": true, "recursiveReadOnly": mode});
    assert_eq!(first(able, rro("Enabled")), "/x <- /v/host ro rro");
    assert_eq!(first(able, rro("IfPossible")), "/x <- /v/host ro rro");
    assert_eq!(first(able, rro("Disabled")), "/x <- /v/host ro");
    assert_eq!(first(unable, rro("IfPossible")), "/x <- /v/host ro");
    let why = "failed to resolve recursive read-only mode: ";
    assert_eq!(
        first(unable, rro("Enabled")),
        format!("{why}volume \"host\" requested recursive read-only mode, but it is not supported by the runtime")
    );
    assert_eq!(
        first(able, json!({"recursiveReadOnly": "Enabled"})),
        format!("{why}volume \"host\" requested recursive read-only mode, but it is not read-only")
    );
    assert_eq!(
        first(able, json!({"readOnly": true, "recursiveReadOnly": "Enabled", "mountPropagation": "Bidirectional"})),
        format!(
            "{why}volume \"host\" requested recursive read-only mode, but it is not compatible with propagation \"Bidirectional\""
        )
    );
    assert_eq!(first(able, rro("Odd")), format!("{why}unknown recursive read-only mode \"Odd\""));
}

#[test]
fn mnt_04_no_hosts_file_over_a_volume_or_before_an_address() {
    check(
        json!([{"name": "config", "mountPath": "/etc/hosts"}]),
        &expect![[r#"
            /etc/hosts <- /v/config ro
            /dev/termination-log <- /pods/u/containers/app/0badcafe"#]],
    );
    let hosts = |spec: Value| {
        let pod = pod(spec);
        let given = Given::default();
        let inputs = ContainerInputs { hosts_file: Some(Path::new("/h")), ..given.inputs(&pod.regular()[0]) };
        container_config(&node(), &pod, &inputs).expect("a config").mounts.len()
    };
    assert_eq!(hosts(json!({"containers": [{"name": "app"}]})), 0);
    assert_eq!(hosts(json!({"containers": [{"name": "app"}], "hostNetwork": true})), 1);
}

#[test]
fn mnt_04_selinux_labels_where_the_volume_is_ours() {
    let selinux = LaunchContext { selinux: true, ..node() };
    let list = json!([{"name": "scratch", "mountPath": "/a"}, {"name": "host", "mountPath": "/b"}]);
    expect![[r#"
        /a <- /v/scratch relabel
        /b <- /v/host
        /etc/hosts <- /pods/u/etc-hosts relabel
        /dev/termination-log <- /pods/u/containers/app/0badcafe relabel"#]]
    .assert_eq(&mounts(&selinux, HandlerFeatures::default(), list));
}

#[test]
fn mnt_05_user_namespaces_are_mapped_on_every_mount() {
    let ids = || vec![IdMapping { host_id: 65536, container_id: 0, length: 65536 }];
    let users = UserNamespace { uids: ids(), gids: ids() };
    let features = HandlerFeatures { user_namespaces: true, ..HandlerFeatures::default() };
    let mut pod = with_mounts(json!([{"name": "scratch", "mountPath": "/a"}]));
    pod.spec.as_mut().expect("a spec").host_users = Some(false);
    let given = given();
    let inputs = ContainerInputs {
        features,
        user_namespace: Some(&users),
        termination_file: Some(Path::new("/t")),
        ..given.inputs(&pod.regular()[0])
    };
    let mounts = container_config(&node(), &pod, &inputs).expect("a config").mounts;
    assert_eq!(mounts.len(), 2);
    assert!(mounts.iter().all(|mount| mount.uid_mappings == ids() && mount.gid_mappings == ids()));
}

#[test]
fn mnt_06_block_volumes_become_devices() {
    let device = |path: &str, name: &str| {
        pod(json!({"containers": [{"name": "app", "volumeDevices": [{"name": name, "devicePath": path}]}]}))
    };
    let node_of = |readonly| BlockDevice { host_path: "/dev/sdb".into(), readonly };
    let given = Given {
        block_devices: [("disk".to_owned(), node_of(false)), ("seed".to_owned(), node_of(true))].into(),
        ..Given::default()
    };
    let made = |pod: &Pod| match container_config(&node(), pod, &given.inputs(&pod.regular()[0])) {
        Ok(config) => {
            config.devices.iter().map(|d| format!("{} {} {}", d.container_path, d.host_path, d.permissions)).collect()
        }
        Err(err) => err.to_string(),
    };
    assert_eq!(made(&device("/dev/xvda", "disk")), "/dev/xvda /dev/sdb mrw");
    assert_eq!(made(&device("/dev/xvda", "seed")), "/dev/xvda /dev/sdb r");
    assert_eq!(made(&device("xvda", "disk")), "error DevicePath `xvda` must be an absolute path");
    assert_eq!(made(&device("/dev/xvda", "gone")), "cannot find volume \"gone\" to pass into container \"app\"");
}
