use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState as ApiState, ContainerStateRunning};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;
use crate::observe::{ContainerSummary, SandboxSummary};
use crate::time::{Instant, Now};
use crate::usage::{CgroupSample, Limits, Traffic, Usage};

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).expect("a time")
}

fn sample(cgroups: Vec<(&str, CgroupKind)>) -> Sample {
    let cgroup = |kind| CgroupSample { kind, created_at: None, usage: Usage::default(), limits: Limits::default() };
    let cgroups = cgroups.into_iter().map(|(path, kind)| (path.to_owned(), cgroup(kind))).collect();
    Sample { at: Now { mono: Instant::START + Duration::from_secs(1), wall: at(0) }, cgroups }
}

fn container_cgroup(pod: &str, id: &str) -> CgroupKind {
    CgroupKind::Container { pod: pod.into(), id: id.into() }
}

/// The pod `web` with the containers `app` and `log`, and volumes of several kinds.
fn pod() -> NamedPod {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "team", "name": "web", "uid": "1"},
        "spec": {
            "containers": [
                {"name": "app", "image": "registry/app:1", "volumeMounts": [
                    {"name": "scratch", "mountPath": "/a"}, {"name": "memory", "mountPath": "/b"},
                    {"name": "host", "mountPath": "/c"}, {"name": "config", "mountPath": "/d"}]},
                {"name": "log", "image": "registry/log:1"}],
            "volumes": [
                {"name": "scratch", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}},
                {"name": "host", "hostPath": {"path": "/"}}, {"name": "config", "configMap": {"name": "x"}},
                {"name": "unused", "emptyDir": {}}],
        },
    }))
    .expect("a pod");
    let running = |name: &str, id: &str, secs| ContainerStatus {
        name: name.to_owned(),
        container_id: Some(format!("containerd://{id}")),
        state: Some(ApiState {
            running: Some(ContainerStateRunning { started_at: Some(Time(at(secs))) }),
            ..ApiState::default()
        }),
        ..ContainerStatus::default()
    };
    let status = PodStatus {
        start_time: Some(Time(at(7))),
        container_statuses: Some(vec![running("app", "app-2", 22)]),
        ..PodStatus::default()
    };
    NamedPod { reference: PodRef::of(&pod), pod: Arc::new(pod), status: Arc::new(status) }
}

fn listed() -> PodSummary {
    let container = |name: &str, state, created| ContainerSummary {
        name: name.to_owned(),
        state,
        created_at: at(created),
        restart_count: 0,
        sandbox: "box-2".into(),
        image_id: "sha256:app".into(),
    };
    let sandbox = |state, attempt| SandboxSummary { state, attempt, created_at: at(10) };
    PodSummary {
        pod: pod().reference,
        sandboxes: BTreeMap::from([
            ("box-1".into(), sandbox(SandboxState::NotReady, 0)),
            ("box-2".into(), sandbox(SandboxState::Ready, 1)),
        ]),
        containers: BTreeMap::from([
            ("app-1".into(), container("app", ContainerStateKind::Exited, 11)),
            ("app-2".into(), container("app", ContainerStateKind::Running, 20)),
            ("log-1".into(), container("log", ContainerStateKind::Running, 21)),
        ]),
    }
}

fn cgroups() -> Sample {
    sample(vec![
        ("/", CgroupKind::Root),
        ("/kubepods/pod1", CgroupKind::Pod("1".into())),
        ("/kubepods/pod1/app-2", container_cgroup("1", "app-2")),
        ("/kubepods/pod1/box-2", container_cgroup("1", "box-2")),
    ])
}

fn known(pods: Vec<NamedPod>) -> BTreeMap<PodUid, NamedPod> {
    pods.into_iter().map(|pod| (pod.reference.uid.clone(), pod)).collect()
}

#[test]
fn sts_03_containers_that_run_have_names_and_ended_ones_are_left_out() {
    let sample = cgroups();
    let pods = name_pods(&CgroupIndex::of(&sample), &known(vec![pod()]), Some(&[listed()]));
    let web = &pods[0];
    assert_eq!((web.cgroup.as_deref(), web.started_at, web.host_network), (Some("/kubepods/pod1"), Some(at(7)), false));
    let sandbox = web.sandbox.as_ref().expect("a sandbox");
    assert_eq!((sandbox.id.as_str(), sandbox.cgroup.as_deref()), ("box-2", Some("/kubepods/pod1/box-2")));
    let names: Vec<_> = web.containers.iter().map(|c| (c.name.as_str(), c.id.as_str(), c.cgroup.is_some())).collect();
    assert_eq!(names, [("app", "app-2", true), ("log", "log-1", false)]);
    let images: Vec<_> = web.containers.iter().map(|c| (c.image.as_str(), c.started_at)).collect();
    assert_eq!(
        images,
        [("registry/app:1", at(22)), ("registry/log:1", at(21))],
        "without a status, when it was created"
    );
}

#[test]
fn sts_03_a_pod_that_the_kubelet_does_not_know_is_named_by_the_runtime() {
    let sample = cgroups();
    let pods = name_pods(&CgroupIndex::of(&sample), &BTreeMap::new(), Some(&[listed()]));
    assert_eq!((pods[0].pod.clone(), pods[0].started_at), (pod().reference, None));
    assert_eq!(pods[0].containers[0].image, "sha256:app");
}

#[test]
fn sts_03_a_pod_without_anything_that_runs_is_left_out() {
    let mut ended = listed();
    ended.sandboxes.values_mut().for_each(|sandbox| sandbox.state = SandboxState::NotReady);
    ended.containers.values_mut().for_each(|container| container.state = ContainerStateKind::Exited);
    let sample = cgroups();
    assert_eq!(name_pods(&CgroupIndex::of(&sample), &known(vec![pod()]), Some(&[ended])), []);
}

#[test]
fn sts_03_without_a_list_statuses_name_the_containers() {
    let sample = cgroups();
    let pods = name_pods(&CgroupIndex::of(&sample), &known(vec![pod()]), None);
    let names: Vec<_> =
        pods[0].containers.iter().map(|c| (c.name.as_str(), c.id.as_str(), c.cgroup.is_some())).collect();
    assert_eq!((names, pods[0].sandbox.is_none()), (vec![("app", "app-2", true)], true));
}

#[test]
fn a_list_is_old_when_a_cgroup_appears_that_it_does_not_have() {
    let sample = cgroups();
    let index = CgroupIndex::of(&sample);
    assert!(index.is_explained_by(&[listed()]));
    let mut exact = listed();
    exact.sandboxes.retain(|id, _| index.container(id.as_str()).is_some());
    exact.containers.retain(|id, _| index.container(id.as_str()).is_some());
    assert!(index.is_shown_by(std::slice::from_ref(&exact)));
    let mut another = exact.containers.values().next().expect("one").clone();
    another.state = ContainerStateKind::Running;
    exact.containers.insert("ended".into(), another);
    assert!(!index.is_shown_by(&[exact]), "a container of it has no cgroup any more");
    assert!(!index.is_explained_by(&[]));
}

#[test]
fn sts_04_the_network_of_a_pod_is_that_of_its_sandbox_and_none_on_the_nodes_network() {
    let sample = cgroups();
    let mut pods = name_pods(&CgroupIndex::of(&sample), &known(vec![pod()]), Some(&[listed()]));
    let network = NetworkUsage {
        interfaces: vec![crate::usage::Interface {
            name: "eth0".into(),
            receive: Traffic::default(),
            transmit: Traffic::default(),
        }],
    };
    let networks = BTreeMap::from([("/kubepods/pod1/box-2".to_owned(), network.clone())]);
    pods[0].set_network(&networks);
    assert_eq!(pods[0].network, Some(network));
    pods[0].host_network = true;
    pods[0].set_network(&networks);
    assert_eq!(pods[0].network, None);
}

#[test]
fn sts_02_directories_of_a_pod_are_filled_in() {
    let places = PodPlaces { root: "/root".into(), logs: "/logs".into() };
    let sample = cgroups();
    let known = pod();
    let mut usage = name_pods(&CgroupIndex::of(&sample), &self::known(vec![pod()]), Some(&[listed()])).remove(0);
    let all: Vec<_> = places.of(&usage, Some(&known)).into_iter().collect();
    let shown: Vec<_> =
        all.iter().map(|(path, own)| (path.to_str().expect("text"), *own == OwnFileSystem::Maybe)).collect();
    assert_eq!(
        shown,
        [
            ("/root/pods/1/etc-hosts", false),
            ("/root/pods/1/containers", false),
            ("/logs/team_web_1/app", false),
            ("/logs/team_web_1/log", false),
            ("/root/pods/1/volumes/kubernetes.io~empty-dir/scratch", false),
            ("/root/pods/1/volumes/kubernetes.io~empty-dir/memory", true),
            ("/root/pods/1/volumes/kubernetes.io~configmap/config", false),
        ],
        "hostPath has no directory of its own, and an unused volume none at all"
    );
    let one = |on| Measured { used: DiskUsage { bytes: 4096, inodes: 1 }, on, at: at(99) };
    let own = FsStats { device: 2, ..FsStats::default() };
    let node = FsStats { device: 1, ..FsStats::default() };
    let measured = all
        .iter()
        .map(|(path, kind)| (path.clone().into_os_string(), one((*kind == OwnFileSystem::Maybe).then_some(own))))
        .collect();
    let layers = BTreeMap::from([("app-2".into(), LayerUsage { at: None, bytes: Some(5), inodes: None })]);
    places.fill(&mut usage, Some(&known), &measured, (Some(node), &layers));
    assert_eq!(usage.own_files, Some(DiskUsage { bytes: 8192, inodes: 2 }));
    assert_eq!(usage.containers[0].layer.and_then(|layer| layer.bytes), Some(5));
    assert_eq!((usage.containers[0].logs.map(|logs| logs.bytes), usage.containers[1].layer), (Some(4096), None));
    let volumes: Vec<_> =
        usage.volumes.iter().map(|v| (v.name.as_str(), v.elsewhere, v.on.map(|on| on.device))).collect();
    assert_eq!(volumes, [("scratch", false, Some(1)), ("memory", true, Some(2)), ("config", false, Some(1))]);
}
