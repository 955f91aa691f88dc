//! The systemd driver in a machine whose PID 1 is systemd. These tests run inside it; the variable
//! `RUBELET_SYSTEMD_MACHINE=1` says so, because they re-execute systemd and restart its bus.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rubelet_engine::task::TaskGroup;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::dbus::{Bus, Endpoint};
use crate::testing::needs_machine;

struct Machine {
    cgroups: KernelCgroups,
    layout: Layout,
    tree: CgroupTree,
    tasks: TaskGroup,
}

impl Machine {
    fn new(root: &str) -> Self {
        needs_machine();
        let layout = Layout::discover(Path::new("/proc")).unwrap();
        let tree = CgroupTree::new(root, CgroupDriver::Systemd, true);
        let mut tasks = TaskGroup::new(&CancellationToken::new());
        let units = Units::new(Bus::start(Endpoint::systemd(None), &mut tasks));
        Self { cgroups: KernelCgroups::with_systemd(layout.clone(), tree.clone(), units), layout, tree, tasks }
    }

    fn pod(&self, uid: &str) -> CgroupPath {
        self.tree.pod(QosClass::Burstable, &PodUid::from(uid))
    }

    fn read(&self, path: &CgroupPath, v1: (&str, &str), v2: &str) -> String {
        let rel_path = self.tree.literal(path);
        let (tree, file) = match self.layout.version() {
            CgroupVersion::V1 => (self.layout.v1_tree(v1.0).unwrap(), v1.1),
            CgroupVersion::V2 => (self.layout.unified().unwrap(), v2),
        };
        let text = fs::read_to_string(tree.root.join(rel_path.trim_start_matches('/')).join(file)).unwrap();
        text.trim().to_owned()
    }

    fn memory(&self, path: &CgroupPath) -> String {
        self.read(path, ("memory", "memory.limit_in_bytes"), "memory.max")
    }

    fn exists(&self, path: &CgroupPath) -> bool {
        let rel_path = self.tree.literal(path);
        self.layout.trees().any(|tree| tree.root.join(rel_path.trim_start_matches('/')).exists())
    }

    async fn clean(self) {
        let root = self.tree.root();
        self.cgroups.destroy(&root).await.unwrap();
        assert!(!self.exists(&root));
        self.tasks.stop().await;
    }
}

fn limits(memory: i64, quota: i64) -> CgroupValues {
    CgroupValues {
        cpu_shares: Some(512),
        cpu_quota: Some(quota),
        cpu_period: Some(100_000),
        memory_limit: Some(memory),
        pids_limit: Some(100),
        ..CgroupValues::default()
    }
}

fn systemctl(args: &[&str]) -> String {
    let out = Command::new("systemctl").args(args).stderr(Stdio::inherit()).output().unwrap();
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn cg_05_node_systemd_makes_sets_and_removes_a_slice() {
    let machine = Machine::new("/rubelet-a");
    let pod = machine.pod("12-ab");
    machine.cgroups.ensure(&pod, &limits(100 << 20, 20_000)).await.unwrap();
    let unit = "rubelet_a-kubepods-burstable-pod12_ab.slice";
    assert_eq!(systemctl(&["is-active", unit]), "active");
    assert_eq!(machine.memory(&pod), "104857600");
    assert_eq!(machine.read(&pod, ("cpu", "cpu.cfs_quota_us"), "cpu.max").split(' ').next(), Some("20000"));
    assert_eq!(machine.read(&pod, ("pids", "pids.max"), "pids.max"), "100");
    let memory = if machine.layout.version() == CgroupVersion::V1 { "MemoryLimit" } else { "MemoryMax" };
    let property = format!("--property={memory}");
    assert_eq!(systemctl(&["show", unit, "--value", &property]), "104857600");

    // A value between per cents is rounded, by systemd and by us alike, and a second look asks for nothing.
    let next = limits(200 << 20, 12_345);
    machine.cgroups.ensure(&pod, &next).await.unwrap();
    assert_eq!(machine.memory(&pod), "209715200");
    assert_eq!(machine.read(&pod, ("cpu", "cpu.cfs_quota_us"), "cpu.max").split(' ').next(), Some("13000"));
    assert_eq!(machine.cgroups.look(&pod, &next).await.unwrap(), CgroupState::AsWanted);
    let other = machine.cgroups.look(&pod, &limits(1 << 30, 12_345)).await.unwrap();
    assert!(matches!(other, CgroupState::Differs(_)), "{other:?}");

    // A process in a scope of the slice, as a container is; it writes a line when it runs there.
    let slice = format!("--slice={unit}");
    let args = ["--scope", "--quiet", &slice, "--unit=rubelet-a-test.scope", "sh", "-c", "echo there; exec sleep 1000"];
    let mut scope = Command::new("systemd-run").args(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(scope.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "there\n");
    let procs = "rubelet-a-test.scope/cgroup.procs";
    assert_ne!(machine.read(&pod, ("memory", procs), procs), "");
    machine.cgroups.destroy(&pod).await.unwrap();
    scope.wait().unwrap();
    assert!(!machine.exists(&pod));
    assert_eq!(systemctl(&["is-active", unit]), "inactive");
    assert_eq!(systemctl(&["list-units", "--all", "--no-legend", unit]), "");
    machine.cgroups.destroy(&pod).await.unwrap();
    machine.clean().await;
}

/// On v1, properties of v2 outrank those that the driver sets. Only systemd's next look at the slice shows which of them
/// counts: a unit that starts in it is one.
#[tokio::test]
async fn cg_11_node_systemd_limits_that_somebody_set_are_set_right_for_good() {
    let machine = Machine::new("/rubelet-c");
    let pod = machine.pod("12-cd");
    let wanted = limits(100 << 20, 20_000);
    machine.cgroups.ensure(&pod, &wanted).await.unwrap();
    let unit = "rubelet_c-kubepods-burstable-pod12_cd.slice";
    systemctl(&["set-property", "--runtime", unit, "MemoryMax=700M", "CPUWeight=77", "TasksMax=7"]);
    assert_eq!(machine.memory(&pod), "734003200");
    machine.cgroups.ensure(&pod, &wanted).await.unwrap();
    let slice = format!("--slice={unit}");
    for round in 0..2 {
        assert_eq!(machine.cgroups.look(&pod, &wanted).await.unwrap(), CgroupState::AsWanted, "{round}");
        let ran = Command::new("systemd-run").args(["--scope", "--quiet", &slice, "true"]).status().unwrap();
        assert!(ran.success());
    }
    machine.clean().await;
}

/// Slices are made while systemd re-executes itself and while the bus is restarted.
#[tokio::test(flavor = "multi_thread")]
async fn cg_05_node_systemd_and_its_bus_may_be_replaced_meanwhile() {
    let machine = Machine::new("/rubelet-b");
    for (round, disturb) in
        [["daemon-reexec", ""], ["restart", "dbus.service"], ["kill", "dbus.service"]].iter().enumerate()
    {
        let args: Vec<&'static str> = disturb.iter().copied().filter(|arg| !arg.is_empty()).collect();
        let meanwhile = std::thread::spawn(move || systemctl(&args));
        for number in 0..20 {
            let pod = machine.pod(&format!("{round}-{number}"));
            machine.cgroups.ensure(&pod, &limits((number + 1) << 20, 20_000)).await.unwrap();
            assert_eq!(machine.memory(&pod), ((number + 1) << 20).to_string());
        }
        meanwhile.join().unwrap();
        for number in 0..20 {
            let pod = machine.pod(&format!("{round}-{number}"));
            assert_eq!(machine.memory(&pod), ((number + 1) << 20).to_string(), "it keeps its limits");
            machine.cgroups.destroy(&pod).await.unwrap();
            assert!(!machine.exists(&pod));
        }
    }
    machine.clean().await;
}
