//! The kernel's own cgroups and namespaces.

use std::process::{Child, Command, Stdio};

use rubelet_core::qos::{CgroupPath, CgroupValues, QosClass};
use rubelet_engine::ports::Cgroups;
use rustix::time::{ClockId, clock_gettime};

use super::*;
use crate::cgroups::KernelCgroups;
use crate::testing::needs_node_tests;

const CONTAINERS: usize = 250;

/// A subtree of the machine's cgroups in which each pod has a sandbox and a container, each with a process.
struct Pods {
    cgroups: KernelCgroups,
    root: CgroupPath,
    stats: KernelStats,
    trees: Vec<std::path::PathBuf>,
    processes: Vec<Child>,
    paths: Vec<String>,
}

impl Pods {
    fn new(name: &str) -> Self {
        let layout = Layout::discover(Path::new("/proc")).expect("the mounts of cgroups");
        let root = CgroupPath::new([format!("rubelet-usage-{name}-{}", std::process::id())]);
        let tree = CgroupTree::new(&root.cgroupfs(), CgroupDriver::Cgroupfs, true);
        let trees = layout.own_trees().map(|tree| tree.root.clone()).collect();
        let cgroups = KernelCgroups::new(layout.clone(), tree.clone());
        let stats = KernelStats::new(layout, Shown { tree, system: Vec::new() }, KernelFiles::default(), Clock::real());
        Self { cgroups, root, stats, trees, processes: Vec::new(), paths: Vec::new() }
    }

    /// Puts a process that runs `command` into a container's cgroup of its own.
    async fn run(&mut self, pod: usize, id: &str, command: &[&str]) {
        let tree = &self.stats.inner.shown.tree;
        let path =
            tree.pod(QosClass::Burstable, &PodUid::from(format!("{pod:08}-0000-0000-0000-000000000000").as_str()));
        let path = path.child(id);
        self.cgroups.ensure(&path, &CgroupValues::default()).await.expect("a cgroup");
        let (program, arguments) = command.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().expect("run");
        for tree in &self.trees {
            let procs = tree.join(path.cgroupfs().trim_start_matches('/')).join("cgroup.procs");
            std::fs::write(procs, child.id().to_string()).expect("joined");
        }
        self.processes.push(child);
        self.paths.push(path.cgroupfs());
    }

    async fn clean(mut self) {
        self.end_processes();
        self.cgroups.destroy(&self.root).await.expect("removed");
    }

    fn end_processes(&mut self) {
        for mut process in self.processes.drain(..) {
            let _ended_already = process.kill();
            let _ended = process.wait();
        }
    }
}

/// After a failed test the cgroups may stay, without processes.
impl Drop for Pods {
    fn drop(&mut self) {
        self.end_processes();
    }
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// What looks cost is printed: `--no-capture` shows it.
#[tokio::test]
async fn sts_01_node_one_look_shows_250_containers() {
    needs_node_tests();
    let mut pods = Pods::new("look");
    for at in 0..CONTAINERS {
        pods.run(at / 2, &format!("{at:064x}"), &["sleep", "1000"]).await;
    }
    for detail in [Detail::Usage, Detail::Everything] {
        let (mut best, mut shown) = (Duration::MAX, 0);
        for _ in 0..20 {
            let before = cpu_time();
            let sample = pods.stats.sample(detail).await.expect("a sample");
            best = best.min(cpu_time() - before);
            shown = sample.cgroups.len();
            let containers =
                sample.cgroups.values().filter(|cgroup| matches!(cgroup.kind, CgroupKind::Container { .. }));
            let mut count = 0;
            for container in containers {
                count += 1;
                assert!(container.usage.memory.is_some() && container.usage.cpu.is_some(), "{container:?}");
                assert_eq!(container.usage.tasks.expect("tasks are counted").processes, Some(1));
                let files = container.usage.files.map(|files| files.descriptors);
                assert_eq!(files.is_some_and(|files| files >= 3), detail == Detail::Everything, "{files:?}");
                assert!(container.created_at.is_some());
            }
            assert_eq!(count, CONTAINERS);
        }
        println!("{detail:?}: {best:?} of CPU for {shown} cgroups, {CONTAINERS} of them containers");
    }
    let before = cpu_time();
    let networks = pods.stats.networks(&pods.paths).await;
    println!("networks: {:?} of CPU", cpu_time() - before);
    assert!(networks.is_empty(), "they are all on the node's own network: {networks:?}");
    pods.clean().await;
}

#[tokio::test]
async fn sts_04_node_a_network_is_that_of_the_pods_namespace() {
    needs_node_tests();
    let mut pods = Pods::new("network");
    pods.run(0, "own", &["unshare", "-n", "sh", "-c", "echo ready; read line"]).await;
    pods.run(1, "nodes", &["sh", "-c", "read line"]).await;
    let mut line = [0; 6];
    let stdout = pods.processes[0].stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(stdout, &mut line).expect("the namespace is there");
    let asked = [vec!["/".to_owned(), "/no/such/cgroup".to_owned()], pods.paths.clone()].concat();
    let networks = pods.stats.networks(&asked).await;
    let names: Vec<_> = networks.keys().collect();
    assert_eq!(
        names,
        ["/", pods.paths[0].as_str()],
        "neither a cgroup on the node's network nor one that is not there"
    );
    let of = |path: &str| networks[path].interfaces.iter().map(|interface| interface.name.clone()).collect::<Vec<_>>();
    assert!(!of(&pods.paths[0]).contains(&"lo".to_owned()));
    assert!(of(&pods.paths[0]).iter().all(|name| !name.starts_with("eth")), "{:?}", of(&pods.paths[0]));
    pods.clean().await;
}
