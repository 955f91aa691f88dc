//! The laws of the ports, on the real adapters: what the simulation relies on holds here too.

use std::sync::Arc;

use rubelet_core::launch::NamespaceMode;
use rubelet_core::qos::{CgroupDriver, CgroupPath, CgroupTree, QosClass};
use rubelet_engine::ports::{VolumePlugin, VolumeRequest};
use rubelet_linux::cgroups::{KernelCgroups, Layout};
use rubelet_linux::logs::{DiskLogs, LogDirs};
use rubelet_linux::pod_dirs::RootPods;
use rubelet_linux::volume_dirs::RootVolumes;
use rubelet_testkit::contract::{self, Rig};
use rubelet_volume::{EmptyDir, HostPath};

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
