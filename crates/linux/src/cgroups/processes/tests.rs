use std::process::{Child, Command};

use rubelet_core::qos::{CgroupDriver, CgroupPath, CgroupTree};
use rubelet_engine::ports::Cgroups;

use super::super::KernelCgroups;
use super::*;
use crate::testing::{needs_node_tests, temp_dir};

#[test]
fn cg_24_a_path_that_leads_elsewhere_or_to_the_root_is_refused() {
    assert_eq!(rel_path("/system.slice/kubelet.service").unwrap(), Path::new("system.slice/kubelet.service"));
    for bad in ["", "/", "//", "/a/../b", "/."] {
        assert!(rel_path(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn cg_24_pid_1_kernel_threads_and_processes_of_others_stay() {
    let dir = temp_dir();
    let (cgroup, proc) = (dir.path().join("cgroup"), dir.path().join("proc"));
    std::fs::create_dir_all(&cgroup).unwrap();
    for pid in ["1", "7", "9"] {
        std::fs::create_dir_all(proc.join(pid)).unwrap();
        if pid != "7" {
            std::os::unix::fs::symlink("/bin/sh", proc.join(pid).join("exe")).unwrap();
        }
    }
    std::fs::write(cgroup.join(PROCS), "0\n1\n7\n9\n11\n").unwrap();
    let processes = KernelProcesses::below(Layout::v2(cgroup), proc, PathBuf::new());
    assert_eq!(processes.inner.loose().unwrap(), [9], "0 is of another namespace, 7 a kernel thread, 11 has ended");
}

/// A process that ends with the test.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Moves processes between cgroups that the test made; the machine's own stay where they are. On v2 only the real root may
/// have processes beside children with controllers.
#[tokio::test]
async fn cg_24_node_v1_processes_of_the_root_are_moved_in_every_tree() {
    needs_node_tests();
    let layout = Layout::discover(Path::new("/proc")).unwrap();
    let root = PathBuf::from(format!("rubelet-root-{}", std::process::id()));
    let target = root.join("system");
    let processes = KernelProcesses::below(layout.clone(), "/proc".into(), root.clone());
    processes.inner.make(&root).unwrap();
    let sleepers: Vec<_> = (0..3).map(|_| Sleeper(Command::new("sleep").arg("300").spawn().unwrap())).collect();
    for sleeper in &sleepers {
        processes.inner.enter_all(&root, i32::try_from(sleeper.0.id()).unwrap()).unwrap();
    }
    assert_eq!(processes.keep_system(target.to_str().unwrap()).await.unwrap(), 3);
    assert_eq!(processes.keep_system(target.to_str().unwrap()).await.unwrap(), 0, "nothing is left to move");
    let mut wanted: Vec<_> = sleepers.iter().map(|sleeper| i32::try_from(sleeper.0.id()).unwrap()).collect();
    wanted.sort_unstable();
    for tree in layout.own_trees() {
        let mut there = pids(&tree.root.join(&target)).unwrap();
        there.sort_unstable();
        assert_eq!(there, wanted, "{}", tree.root.display());
        assert_eq!(pids(&tree.root.join(&root)).unwrap(), [0; 0]);
    }
    drop(sleepers);
    // The kernel needs a moment after the last process has exited: destroying waits for it.
    let cgroups = KernelCgroups::new(layout, CgroupTree::new("/", CgroupDriver::Cgroupfs, true));
    cgroups.destroy(&CgroupPath::parse_cgroupfs(root.to_str().unwrap())).await.unwrap();
}

/// A child stands in for the agent: the test's own process stays in the cgroup that it was started in.
#[tokio::test]
async fn cg_24_node_a_process_is_moved_once_into_a_cgroup_that_is_made() {
    needs_node_tests();
    let layout = Layout::discover(Path::new("/proc")).unwrap();
    let name = format!("/rubelet-agent-{}", std::process::id());
    let processes = KernelProcesses::new(layout.clone(), "/proc".into(), 0);
    let agent = Sleeper(Command::new("sleep").arg("300").spawn().unwrap());
    let pid = agent.0.id();
    for _ in 0..2 {
        processes.inner.keep_process(&name, pid).unwrap();
        for tree in layout.own_trees() {
            let there = pids(&tree.root.join(rel_path(&name).unwrap())).unwrap();
            assert_eq!(there, [i32::try_from(pid).unwrap()], "{}", tree.root.display());
        }
    }
    drop(agent);
    let cgroups = KernelCgroups::new(layout, CgroupTree::new("/", CgroupDriver::Cgroupfs, true));
    cgroups.destroy(&CgroupPath::parse_cgroupfs(&name)).await.unwrap();
}

#[test]
fn boot_06_a_changed_oom_score_is_set_right() {
    let (dir, cgroup) = (temp_dir(), temp_dir());
    let score = dir.path().join("self/oom_score_adj");
    std::fs::create_dir_all(score.parent().unwrap()).unwrap();
    std::fs::write(&score, "0\n").unwrap();
    let processes = KernelProcesses::new(Layout::v2(cgroup.path().into()), dir.path().into(), -999);
    processes.inner.keep_agent(None).unwrap();
    assert_eq!(std::fs::read_to_string(&score).unwrap(), "-999");

    std::fs::remove_file(&score).unwrap();
    std::fs::create_dir(&score).unwrap();
    let err = processes.inner.keep_agent(None).unwrap_err();
    assert!(err.to_string().contains("set the OOM score of the agent"), "{err}");
}
