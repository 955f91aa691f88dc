use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::kernel_mounts::parse_mountinfo;
use crate::testing::{TempDir, temp_dir};

mod node;
mod systemd;

fn tree(root: &Path, controllers: &[&str]) -> Hierarchy {
    let root = root.join(controllers.join(","));
    fs::create_dir_all(&root).unwrap();
    Hierarchy { root, controllers: controllers.iter().map(|name| (*name).to_owned()).collect() }
}

/// A fake v1 host: plain directories, in which files appear when they are written.
fn v1(trees: &[&[&str]]) -> (TempDir, KernelCgroups) {
    let dir = temp_dir();
    let trees: Vec<_> = trees.iter().map(|names| tree(dir.path(), names)).collect();
    for tree in &trees {
        if tree.controllers.contains("cpuset") {
            fs::write(tree.root.join("cpuset.cpus"), "0-1\n").unwrap();
            fs::write(tree.root.join("cpuset.mems"), "0\n").unwrap();
        }
    }
    let cgroups = KernelCgroups::new(Layout::v1(trees), CgroupTree::new("/", CgroupDriver::Cgroupfs, true));
    (dir, cgroups)
}

const USUAL_V1: [&[&str]; 6] = [&["cpu", "cpuacct"], &["cpuset"], &["memory"], &["pids"], &["systemd"], &["freezer"]];

/// A fake v2 host. A real kernel creates a new cgroup's files; here those of the path under test exist from the start.
fn v2(path: &CgroupPath) -> (TempDir, KernelCgroups) {
    let dir = temp_dir();
    let mut at = dir.path().to_path_buf();
    for name in [""].into_iter().chain(path.names().iter().map(String::as_str)) {
        at.push(name);
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("cgroup.controllers"), "cpuset cpu io memory hugetlb pids\n").unwrap();
        fs::write(at.join("cgroup.subtree_control"), "\n").unwrap();
    }
    let layout = Layout::v2(dir.path().to_path_buf());
    let cgroups = KernelCgroups::new(layout, CgroupTree::new("/", CgroupDriver::Cgroupfs, true));
    (dir, cgroups)
}

fn pod() -> CgroupPath {
    CgroupPath::new(["kubepods", "burstable", "pod1234-ab"])
}

fn some_values() -> CgroupValues {
    CgroupValues {
        cpu_shares: Some(1024),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory_limit: Some(1 << 20),
        pids_limit: Some(-1),
        hugepages: BTreeMap::from([("2MB".to_owned(), 4 << 20)]),
        unified: BTreeMap::from([("memory.high".to_owned(), "900000".to_owned())]),
    }
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path.as_ref()).unwrap_or_else(|err| format!("{err}")).trim().to_owned()
}

#[test]
fn a_hybrid_host_is_v1_and_each_controller_is_found_once() {
    let table = parse_mountinfo(
        b"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        36 31 0:32 / /mnt/again rw - cgroup cgroup rw,memory\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    let layout = Layout::from_mounts(&table);
    assert_eq!(layout.version(), CgroupVersion::V1);
    assert_eq!(layout.v1_tree("cpu"), layout.v1_tree("cpuacct"));
    assert_eq!(layout.v1_tree("memory").unwrap().root, Path::new("/sys/fs/cgroup/memory"));
    assert_eq!(layout.own_trees().count(), 4);
    assert_eq!(layout.trees().count(), 5, "a pod may have a cgroup in the v2 tree");
    assert_eq!(layout.missing_controllers().unwrap(), ["pids"]);
}

#[test]
fn a_host_with_one_tree_at_the_usual_place_is_v2() {
    let table = parse_mountinfo(b"30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
    let layout = Layout::from_mounts(&table);
    assert_eq!(layout.version(), CgroupVersion::V2);
    assert_eq!(layout.own_trees().count(), 1);
}

#[tokio::test]
async fn cg_04_a_missing_controller_is_named() {
    let (_dir, cgroups) = v1(&USUAL_V1);
    cgroups.check().await.unwrap();
    let (_dir, cgroups) = v1(&[&["cpu"], &["memory"]]);
    let err = cgroups.check().await.unwrap_err();
    assert_eq!(err.to_string(), "cgroup controller cpuacct, cpuset, pids is not available");
    let (dir, cgroups) = v2(&pod());
    cgroups.check().await.unwrap();
    fs::write(dir.path().join("cgroup.controllers"), "cpu cpuset memory").unwrap();
    let err = cgroups.check().await.unwrap_err();
    assert_eq!(err.to_string(), "cgroup controller pids is not available");
}

#[tokio::test]
async fn cg_05_v1_values_go_to_the_trees_of_their_controllers() {
    let (dir, cgroups) = v1(&USUAL_V1);
    for _ in 0..2 {
        cgroups.ensure(&pod(), &some_values()).await.unwrap();
    }
    let at = |file: &str| {
        let (tree, file) = file.split_once('/').unwrap();
        read(dir.path().join(tree).join("kubepods/burstable/pod1234-ab").join(file))
    };
    assert_eq!(at("cpu,cpuacct/cpu.shares"), "1024");
    assert_eq!(at("cpu,cpuacct/cpu.cfs_quota_us"), "50000");
    assert_eq!(at("cpu,cpuacct/cpu.cfs_period_us"), "100000");
    assert_eq!(at("memory/memory.limit_in_bytes"), "1048576");
    assert_eq!(at("pids/pids.max"), "max");
    for level in ["kubepods", "kubepods/burstable", "kubepods/burstable/pod1234-ab"] {
        assert_eq!(read(dir.path().join("cpuset").join(level).join("cpuset.cpus")), "0-1", "{level}");
        assert_eq!(read(dir.path().join("cpuset").join(level).join("cpuset.mems")), "0", "{level}");
    }
    assert!(dir.path().join("systemd/kubepods/burstable/pod1234-ab").is_dir());
}

#[tokio::test]
async fn cg_05_v1_huge_pages_are_limited_where_the_host_has_them() {
    let trees: Vec<&[&str]> = USUAL_V1.into_iter().chain([["hugetlb"].as_slice()]).collect();
    let (dir, cgroups) = v1(&trees);
    cgroups.ensure(&pod(), &some_values()).await.unwrap();
    let pod = dir.path().join("hugetlb/kubepods/burstable/pod1234-ab");
    assert_eq!(read(pod.join("hugetlb.2MB.limit_in_bytes")), "4194304");
}

#[tokio::test]
async fn unset_values_are_not_written() {
    let (dir, cgroups) = v1(&USUAL_V1);
    cgroups.ensure(&pod(), &CgroupValues::default()).await.unwrap();
    let cpu = dir.path().join("cpu,cpuacct/kubepods/burstable/pod1234-ab");
    assert_eq!(fs::read_dir(cpu).unwrap().count(), 0);
}

#[tokio::test]
async fn cg_05_v2_values_and_controllers_along_the_path() {
    let (dir, cgroups) = v2(&pod());
    cgroups.ensure(&pod(), &some_values()).await.unwrap();
    let at = dir.path().join("kubepods/burstable/pod1234-ab");
    for (file, value) in [
        ("cpu.weight", "39"),
        ("cpu.max", "50000 100000"),
        ("memory.max", "1048576"),
        ("pids.max", "max"),
        ("hugetlb.2MB.max", "4194304"),
        ("memory.high", "900000"),
        ("cgroup.subtree_control", ""),
    ] {
        assert_eq!(read(at.join(file)), value, "{file}");
    }
    for level in ["", "kubepods", "kubepods/burstable"] {
        let handed_on = read(dir.path().join(level).join("cgroup.subtree_control"));
        assert_eq!(handed_on, "+cpu +cpuset +hugetlb +io +memory +pids", "{level}");
    }
    let unlimited = CgroupValues { cpu_quota: Some(-1), memory_limit: Some(-1), ..CgroupValues::default() };
    cgroups.ensure(&pod(), &unlimited).await.unwrap();
    assert_eq!(read(at.join("cpu.max")), "max 100000");
    assert_eq!(read(at.join("memory.max")), "max");
    fs::write(at.join("cgroup.controllers"), "cpu memory pids").unwrap();
    let err = cgroups.ensure(&pod(), &unlimited).await.unwrap_err();
    assert_eq!(err.to_string(), "cgroup controller cpuset is not available");
}

#[tokio::test]
async fn a_limit_of_zero_is_not_written() {
    let (dir, cgroups) = v1(&USUAL_V1);
    let zero = CgroupValues { cpu_quota: Some(0), memory_limit: Some(0), ..CgroupValues::default() };
    cgroups.ensure(&pod(), &zero).await.unwrap();
    for tree in ["cpu,cpuacct", "memory"] {
        let written = fs::read_dir(dir.path().join(tree).join("kubepods/burstable/pod1234-ab")).unwrap().count();
        assert_eq!(written, 0, "{tree}");
    }
}

#[tokio::test]
async fn a_hostile_cgroup_path_is_refused() {
    let (_dir, cgroups) = v1(&USUAL_V1);
    for bad in [vec![], vec!["kubepods", "..", ".."], vec!["kubepods", "pod../../x"], vec![""], vec!["kubepods", "."]] {
        let path = CgroupPath::new(bad);
        assert!(cgroups.ensure(&path, &CgroupValues::default()).await.is_err(), "{path:?}");
        assert!(cgroups.destroy(&path).await.is_err(), "{path:?}");
    }
}

#[tokio::test]
async fn hk_01_pods_are_found_in_any_tree_at_any_level() {
    let (dir, cgroups) = v1(&USUAL_V1);
    assert_eq!(cgroups.pods().await.unwrap(), []);
    for path in ["cpuset/kubepods/podg", "memory/kubepods/burstable/podb-1", "pids/kubepods/besteffort/pode/container"]
    {
        fs::create_dir_all(dir.path().join(path)).unwrap();
    }
    fs::create_dir_all(dir.path().join("cpuset/kubepods/system")).unwrap();
    fs::create_dir_all(dir.path().join("cpuset/kubepods/pod")).unwrap();
    fs::write(dir.path().join("cpuset/kubepods/podfile"), "").unwrap();
    let expected = [
        ("b-1", CgroupPath::new(["kubepods", "burstable", "podb-1"])),
        ("e", CgroupPath::new(["kubepods", "besteffort", "pode"])),
        ("g", CgroupPath::new(["kubepods", "podg"])),
    ];
    assert_eq!(cgroups.pods().await.unwrap(), expected.map(|(uid, path)| (PodUid::from(uid), path)));
    for (_, path) in cgroups.pods().await.unwrap() {
        cgroups.destroy(&path).await.unwrap();
    }
    assert_eq!(cgroups.pods().await.unwrap(), []);
}

#[tokio::test]
async fn cg_01_systemds_spelling_is_read_and_a_cgroup_root_comes_first() {
    let (dir, _) = v1(&USUAL_V1);
    let layout = Layout::v1(vec![tree(dir.path(), &["memory"])]);
    let tree = CgroupTree::new("/my-root", CgroupDriver::Systemd, true);
    let cgroups = KernelCgroups::new(layout, tree.clone());
    let pod = "memory/my_root.slice/my_root-kubepods.slice/my_root-kubepods-burstable.slice/\
        my_root-kubepods-burstable-pod12_ab.slice";
    fs::create_dir_all(dir.path().join(pod).join("cri-containerd-1.scope")).unwrap();
    let path = tree.pod(QosClass::Burstable, &PodUid::from("12-ab"));
    assert_eq!(cgroups.pods().await.unwrap(), [(PodUid::from("12-ab"), path.clone())]);
    cgroups.destroy(&path).await.unwrap();
    assert!(!dir.path().join(pod).exists());
    assert!(cgroups.ensure(&path, &CgroupValues::default()).await.is_err(), "systemd makes it");
}

#[tokio::test]
async fn cg_13_destroying_a_missing_cgroup_succeeds() {
    let (_dir, cgroups) = v1(&USUAL_V1);
    for _ in 0..2 {
        cgroups.destroy(&pod()).await.unwrap();
    }
}
