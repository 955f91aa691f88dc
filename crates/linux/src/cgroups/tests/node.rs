//! Tests on the machine's own cgroups. `make test` runs these in a virtual machine with v2; run by hand on a v1 host,
//! they check v1.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};

use super::*;
use crate::testing::needs_node_tests;

/// A separate subtree in the real hierarchies. After a failed test it may stay, without processes.
struct Node {
    cgroups: KernelCgroups,
    tree: CgroupTree,
    root: CgroupPath,
    version: CgroupVersion,
    trees: Vec<PathBuf>,
    freezer: PathBuf,
}

impl Node {
    fn new(name: &str) -> Self {
        let layout = Layout::discover(Path::new("/proc")).unwrap();
        let root = CgroupPath::new([format!("rubelet-{name}-{}", std::process::id())]);
        let tree = CgroupTree::new(&root.cgroupfs(), CgroupDriver::Cgroupfs, true);
        let trees: Vec<_> = layout.own_trees().map(|tree| tree.root.clone()).collect();
        let freezer = layout.v1_tree("freezer").or(layout.unified()).unwrap().root.clone();
        let version = layout.version();
        Self { cgroups: KernelCgroups::new(layout, tree.clone()), tree, root, version, trees, freezer }
    }

    fn pod(&self) -> CgroupPath {
        self.tree.pod(QosClass::Burstable, &PodUid::from("1"))
    }

    fn dirs(&self, path: &CgroupPath) -> Vec<PathBuf> {
        self.trees.iter().map(|tree| below_root(tree, path)).collect()
    }

    /// The one directory on v2.
    fn dir(&self, path: &CgroupPath) -> PathBuf {
        self.dirs(path).remove(0)
    }

    fn freeze(&self, path: &CgroupPath) {
        let dir = below_root(&self.freezer, path);
        match self.version {
            CgroupVersion::V1 => fs::write(dir.join("freezer.state"), "FROZEN").unwrap(),
            CgroupVersion::V2 => fs::write(dir.join("cgroup.freeze"), "1").unwrap(),
        }
    }

    fn join(&self, pid: u32, path: &CgroupPath) {
        for dir in self.dirs(path) {
            fs::write(dir.join("cgroup.procs"), pid.to_string()).unwrap();
        }
    }

    async fn clean(self) {
        self.cgroups.destroy(&self.root).await.unwrap();
        for dir in self.dirs(&self.root) {
            assert!(!dir.exists(), "{}", dir.display());
        }
    }
}

fn below_root(tree: &Path, path: &CgroupPath) -> PathBuf {
    tree.join(path.cgroupfs().trim_start_matches('/'))
}

/// A process that ends with the test, in its own process group so that its children end too.
struct Sleeper(Child);

impl Sleeper {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.process_group(0).spawn().unwrap())
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        if !self.has_ended() {
            let group = Pid::from_child(&self.0);
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// As [`needs_node_tests`], on a kernel with cgroup v2. Such a test has `node_v2_` in its name.
fn needs_cgroup_v2() {
    needs_node_tests();
    let version = Layout::discover(Path::new("/proc")).unwrap().version();
    assert_eq!(version, CgroupVersion::V2, "this test needs cgroup v2: TIERS=vm make test has it on every machine");
}

/// No process is put beside a child cgroup: v2 forbids that once controllers are enabled for children.
#[tokio::test]
async fn cg_13_node_processes_are_killed_frozen_ones_too_and_the_cgroup_removed() {
    needs_node_tests();
    let node = Node::new("kill");
    node.cgroups.check().await.unwrap();
    let pod = node.pod();
    let values = CgroupValues {
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory_limit: Some(64 << 20),
        pids_limit: Some(100),
        ..CgroupValues::default()
    };
    node.cgroups.ensure(&pod, &values).await.unwrap();
    assert_eq!(node.cgroups.pods().await.unwrap(), [(PodUid::from("1"), pod.clone())]);
    let mut sleepers = [Sleeper::start("exec sleep 300"), Sleeper::start("exec sleep 300")];
    for (sleeper, path) in sleepers.iter().zip([pod.child("app"), pod.child("more").child("inner")]) {
        node.cgroups.ensure(&path, &CgroupValues::default()).await.unwrap();
        node.join(sleeper.0.id(), &path);
    }
    node.freeze(&pod);
    node.cgroups.destroy(&pod).await.unwrap();
    assert_eq!(node.cgroups.pods().await.unwrap(), []);
    assert_eq!(sleepers.each_mut().map(Sleeper::has_ended), [true, true]);
    node.clean().await;
}

/// Each process forks a child and exits. Listing and killing one by one would lose the race; `cgroup.kill` cannot.
#[tokio::test]
async fn cg_13_node_v2_a_fork_chain_is_killed() {
    needs_cgroup_v2();
    let node = Node::new("fork");
    let app = node.pod().child("app");
    node.cgroups.ensure(&app, &CgroupValues::default()).await.unwrap();
    let mut runner = Sleeper::start("read go; run() { test $1 -gt 0 && run $(($1 - 1)) & }; run 20000; echo off");
    node.join(runner.0.id(), &app);
    drop(runner.0.stdin.take());
    io::Read::read_exact(runner.0.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
    assert_ne!(read(node.dir(&app).join("cgroup.procs")), "", "the first process has exited, its children run");
    node.cgroups.destroy(&node.pod()).await.unwrap();
    node.clean().await;
}

#[tokio::test]
async fn cg_05_node_v2_the_kernel_takes_every_value() {
    needs_cgroup_v2();
    let node = Node::new("values");
    let (pod, dir) = (node.pod(), node.dir(&node.pod()));
    node.cgroups.ensure(&pod, &some_values()).await.unwrap();
    for (file, value) in [
        ("cgroup.controllers", "cpuset cpu io memory hugetlb pids"),
        ("cgroup.subtree_control", ""),
        ("cpu.weight", "39"),
        ("cpu.max", "50000 100000"),
        ("memory.max", "1048576"),
        ("memory.high", "897024"),
        ("pids.max", "max"),
        ("hugetlb.2MB.max", "4194304"),
        ("hugetlb.2MB.rsvd.max", "4194304"),
    ] {
        assert!(read(dir.join(file)).starts_with(value), "{file}: {}", read(dir.join(file)));
    }
    for level in dir.ancestors().skip(1).take_while(|level| level.starts_with(node.dir(&node.root))) {
        let handed_on = layout::v2_subtree(level).unwrap();
        assert_eq!(handed_on, layout::v2_controllers(level).unwrap(), "{}", level.display());
    }
    let quota_only = CgroupValues { cpu_quota: Some(20_000), ..CgroupValues::default() };
    node.cgroups.ensure(&pod, &quota_only).await.unwrap();
    assert_eq!(read(dir.join("cpu.max")), "20000 100000");
    let period_only = CgroupValues { cpu_period: Some(50_000), ..CgroupValues::default() };
    node.cgroups.ensure(&pod, &period_only).await.unwrap();
    assert_eq!(read(dir.join("cpu.max")), "20000 50000");
    let unlimited = CgroupValues {
        cpu_quota: Some(-1),
        memory_limit: Some(-1),
        pids_limit: Some(7),
        unified: BTreeMap::from([("memory.oom.group".to_owned(), "1".to_owned())]),
        ..CgroupValues::default()
    };
    node.cgroups.ensure(&pod, &unlimited).await.unwrap();
    for (file, value) in [("cpu.max", "max 50000"), ("memory.max", "max"), ("pids.max", "7"), ("memory.oom.group", "1")]
    {
        assert_eq!(read(dir.join(file)), value, "{file}");
    }
    let unknown = BTreeMap::from([("memory.no_such".to_owned(), "1".to_owned())]);
    let err = node.cgroups.ensure(&pod, &CgroupValues { unified: unknown, ..CgroupValues::default() }).await;
    assert!(matches!(err, Err(CgroupError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound));
    node.clean().await;
}

/// A cgroup that holds a process cannot enable controllers for children, so a pod below it would have no limits. That
/// is an error that names the first missing controller.
#[tokio::test]
async fn cg_04_node_v2_a_pod_without_controllers_is_refused() {
    needs_cgroup_v2();
    let node = Node::new("busy");
    node.cgroups.ensure(&node.root, &CgroupValues::default()).await.unwrap();
    let sleeper = Sleeper::start("exec sleep 300");
    node.join(sleeper.0.id(), &node.root);
    let err = node.cgroups.ensure(&node.pod(), &CgroupValues::default()).await.unwrap_err();
    assert!(matches!(err, CgroupError::MissingController { .. }), "{err:?}");
    node.clean().await;
}

#[tokio::test]
async fn node_the_contract_holds() {
    needs_node_tests();
    let node = Node::new("contract");
    rubelet_testkit::contract::check_cgroups(&node.cgroups, &node.tree.level(QosClass::BestEffort)).await;
    node.clean().await;
}

/// Values that somebody changed are found and set right; a second look finds nothing to write. The kernel rounds memory
/// down to whole pages, which is no difference.
#[tokio::test]
async fn cg_22_node_what_somebody_changed_is_found_on_the_real_files() {
    needs_node_tests();
    let node = Node::new("look");
    let root = node.tree.root();
    let values = CgroupValues {
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory_limit: Some((64 << 20) + 100),
        pids_limit: Some(100),
        hugepages: BTreeMap::from([("2MB".to_owned(), (4 << 20) + 1)]),
        ..CgroupValues::default()
    };
    assert!(matches!(node.cgroups.look(&root, &values).await.unwrap(), CgroupState::Missing(_)));
    node.cgroups.ensure(&root, &values).await.unwrap();
    assert_eq!(node.cgroups.look(&root, &values).await.unwrap(), CgroupState::AsWanted);
    let (shares, pids) = match node.version {
        CgroupVersion::V1 => ("cpu.shares", "pids.max"),
        CgroupVersion::V2 => ("cpu.weight", "pids.max"),
    };
    let file = |name: &str| node.dirs(&root).into_iter().map(|dir| dir.join(name)).find(|file| file.exists()).unwrap();
    fs::write(file(shares), "77").unwrap();
    fs::write(file(pids), "max").unwrap();
    let CgroupState::Differs(found) = node.cgroups.look(&root, &values).await.unwrap() else { panic!("as wanted") };
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().any(|line| line.contains("pids.max is max, not 100")), "{found:?}");
    node.cgroups.ensure(&root, &values).await.unwrap();
    assert_eq!(node.cgroups.look(&root, &values).await.unwrap(), CgroupState::AsWanted);
    node.clean().await;
}

/// A cgroup of daemons that exists in some trees only is not there: each missing directory is named.
#[tokio::test]
async fn cg_22_node_a_half_made_cgroup_is_missing() {
    needs_node_tests();
    let node = Node::new("half");
    let path = node.root.child("daemons");
    node.cgroups.ensure(&path, &CgroupValues::default()).await.unwrap();
    assert_eq!(node.cgroups.look(&path, &CgroupValues::default()).await.unwrap(), CgroupState::AsWanted);
    let layout = Layout::discover(Path::new("/proc")).unwrap();
    let pids = layout.v1_tree("pids").or(layout.unified()).unwrap().root.clone();
    let dir = below_root(&pids, &path);
    fs::remove_dir(&dir).unwrap();
    let found = node.cgroups.look(&path, &CgroupValues::default()).await.unwrap();
    assert_eq!(found, CgroupState::Missing(vec![dir.display().to_string()]));
    node.clean().await;
}

/// v1 refuses a memory limit below what is in use; the other values stay as they were set.
#[tokio::test]
async fn cg_22_node_a_limit_below_usage_is_an_error_or_is_taken() {
    needs_node_tests();
    let node = Node::new("usage");
    let root = node.tree.root();
    node.cgroups.ensure(&root, &CgroupValues::default()).await.unwrap();
    let script = "read go; data=$(head -c 30000000 /dev/zero | tr '\\0' x); echo big; exec sleep 300";
    let mut hog = Sleeper::start(script);
    node.join(hog.0.id(), &root);
    drop(hog.0.stdin.take());
    io::Read::read_exact(hog.0.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
    assert!(!hog.has_ended());
    let low = CgroupValues { memory_limit: Some(1 << 20), ..CgroupValues::default() };
    let set = node.cgroups.ensure(&root, &low).await;
    match node.version {
        CgroupVersion::V1 => {
            let busy =
                matches!(&set, Err(CgroupError::Io { source, .. }) if source.kind() == io::ErrorKind::ResourceBusy);
            assert!(busy || set.is_ok(), "{set:?}");
        }
        CgroupVersion::V2 => set.unwrap(),
    }
    node.clean().await;
}
