//! The laws of the ports, on the real adapters: what the simulation relies on holds here too.

use std::sync::Arc;

use rubelet_core::launch::NamespaceMode;
use rubelet_core::qos::{CgroupDriver, CgroupPath, CgroupTree, QosClass};
use rubelet_core::resources::Amounts;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{VolumePlugin, VolumeRequest};
use rubelet_linux::cgroups::{KernelCgroups, Layout};
use rubelet_linux::logs::{DiskLogs, LogDirs};
use rubelet_linux::pod_dirs::RootPods;
use rubelet_linux::volume_dirs::{Payloads, RootVolumes};
use rubelet_testkit::contract::{self, Rig};
use rubelet_testkit::{FakeObjects, FakeTokens};
use rubelet_volume::{Content, DownwardApi, EmptyDir, HostPath, ObjectVolumes, Projected};

use crate::rig::{BUSYBOX, Setup};

fn check_runtime(network: NamespaceMode) {
    let node = Setup::default().prepare();
    let mut rig = Rig::new(node.cri.clone(), node.images.clone(), BUSYBOX, &node.name);
    rig.log_root = Some(node.logs());
    rig.cgroup_parent = format!("/{}", node.cgroup());
    rig.network = network;
    node.block_on(contract::check_runtime(&rig));
    assert_eq!(node.list(), [], "the laws leave nothing behind");
}

#[test]
fn containerd_obeys_every_law_on_pod_networks() {
    check_runtime(NamespaceMode::Pod);
}

#[test]
fn containerd_obeys_every_law_on_the_nodes_network() {
    check_runtime(NamespaceMode::Node);
}

#[test]
fn the_kernels_cgroups_obey_their_laws() {
    let node = Setup::default().prepare();
    let tree = CgroupTree::new(&format!("/{}", node.cgroup()), CgroupDriver::Cgroupfs, true);
    let layout = Layout::discover("/proc".as_ref()).expect("the machine has cgroups");
    let cgroups = KernelCgroups::new(layout, tree.clone());
    for class in [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort] {
        let level: CgroupPath = tree.level(class);
        node.block_on(contract::check_cgroups(&cgroups, &level));
    }
}

#[test]
fn the_disks_directories_and_logs_obey_their_laws() {
    let node = Setup::default().prepare();
    node.block_on(contract::check_pod_dirs(&RootPods::new(node.root())));
    let dirs = LogDirs { pods: node.logs(), containers: node.host_dir("containers") };
    node.block_on(contract::check_pod_logs(&DiskLogs::new(dirs)));
}

#[test]
fn volumes_obey_their_laws() {
    let node = Setup::default().prepare();
    let dirs = Arc::new(RootVolumes::new(node.root()));
    let on_host = node.host_dir("volume");
    let on_host = on_host.to_str().expect("we named it");
    let memory = rubelet_testkit::pod("web").empty_dir("scratch", "/scratch").build();
    let mut in_memory = (*memory).clone();
    let volumes = in_memory.spec.as_mut().and_then(|spec| spec.volumes.as_mut()).expect("it has a volume");
    volumes[0].empty_dir.as_mut().expect("it is one").medium = Some("Memory".into());
    let host = rubelet_testkit::pod("web").host_path("files", on_host, "/files").build();
    let empty_dir = EmptyDir::new(dirs, 1 << 30);
    let checks: [(&dyn VolumePlugin, _); 3] =
        [(&empty_dir, memory), (&empty_dir, Arc::new(in_memory)), (&HostPath, host)];
    for (plugin, pod) in checks {
        let volume = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).expect("it has a volume")[0].clone();
        node.block_on(contract::check_volume_plugin(plugin, &VolumeRequest { pod, volume, fs_group: None }));
    }
    assert_eq!(crate::rig::mounts_below(&node.root()), Vec::<String>::new());
}

#[test]
fn volumes_that_we_write_obey_their_laws_and_can_be_read() {
    let node = Setup::default().prepare();
    let dirs = RootVolumes::new(node.root());
    let content = Content::new(Arc::new(dirs.clone()), Arc::new(Payloads::new(dirs, Clock::real())), 1 << 30);
    let (objects, tokens) = (Arc::new(FakeObjects::default()), Arc::new(FakeTokens::default()));
    objects.put_config_map("c", [("key", "value")]);
    objects.put_secret("s", [("key", "value")]);
    let name = serde_json::json!([{"path": "key", "fieldRef": {"fieldPath": "metadata.name"}}]);
    let token = serde_json::json!([{"serviceAccountToken": {"path": "key"}}]);
    let none = Amounts::default();
    let checks: [(Box<dyn VolumePlugin>, _, _); 4] = [
        (
            Box::new(ObjectVolumes::config_maps(content.clone(), objects.clone())),
            serde_json::json!({"name": "v", "configMap": {"name": "c"}}),
            "value",
        ),
        (
            Box::new(ObjectVolumes::secrets(content.clone(), objects.clone())),
            serde_json::json!({"name": "v", "secret": {"secretName": "s"}}),
            "value",
        ),
        (
            Box::new(DownwardApi::new(content.clone(), none.clone())),
            serde_json::json!({"name": "v", "downwardAPI": {"items": name}}),
            "web",
        ),
        (
            Box::new(Projected::new(content, objects, tokens, none)),
            serde_json::json!({"name": "v", "projected": {"sources": token}}),
            "/#0",
        ),
    ];
    for (plugin, volume, expected) in checks {
        let volume = serde_json::from_value(volume).expect("a volume");
        let request = VolumeRequest { pod: rubelet_testkit::pod("web").build(), volume, fs_group: Some(2000) };
        node.block_on(contract::check_volume_plugin(plugin.as_ref(), &request));
        let ready = node.block_on(plugin.set_up(&request)).expect("it can be set up");
        assert_eq!(std::fs::read_to_string(ready.path.join("key")).expect("it can be read"), expected);
        node.block_on(plugin.tear_down(&"web-uid".into(), "v")).expect("it can be undone");
        assert!(!ready.path.exists());
    }
    assert_eq!(crate::rig::mounts_below(&node.root()), Vec::<String>::new());
}
