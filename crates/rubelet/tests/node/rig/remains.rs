//! What a pod or a node has on the machine, and taking it away.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rubelet_core::id::PodRef;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use super::{Node, OWNER, POLL, PREFIX};

/// Where rubelet links to container logs; not configurable.
pub(crate) const CONTAINER_LOGS: &str = "/var/log/containers";

/// How often what does not die is killed again.
const KILL_ROUNDS: usize = 100;

impl Node {
    /// All that the machine still has of a pod: in the runtime, on disk, in cgroups, mounted.
    pub(crate) fn remains(&self, pod: &PodRef) -> Vec<String> {
        let uid = pod.uid.as_str();
        let mut found = Vec::new();
        if self.list().iter().any(|other| other.pod.uid == pod.uid) {
            found.push("in the runtime".to_owned());
        }
        let log_dir = format!("{}_{}_{uid}", pod.namespace, pod.name);
        let dirs = [self.root().join("pods").join(uid), self.logs().join(log_dir)];
        found.extend(dirs.iter().filter(|dir| dir.exists()).map(|dir| dir.display().to_string()));
        found.extend(links_of(pod).iter().map(|link| link.display().to_string()));
        found.extend(self.pod_cgroups(uid).iter().map(|dir| dir.display().to_string()));
        found.extend(mounts_below(&self.dir).into_iter().filter(|m| m.contains(uid)));
        found
    }

    /// Waits until nothing is left of the pod.
    pub(crate) fn gone(&self, pod: &PodRef) {
        self.until_or(&format!("nothing to be left of {pod}"), || match self.remains(pod) {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:#?}")),
        });
    }

    /// Cgroups of all pods of the node, in every tree.
    pub(crate) fn all_pod_cgroups(&self) -> Vec<String> {
        let levels = ["", "burstable", "besteffort"];
        let all = cgroup_trees()
            .into_iter()
            .flat_map(|tree| levels.map(|level| tree.root.join(self.cgroup()).join("kubepods").join(level)));
        let below = all.flat_map(|level| subdirs(&level)).map(|dir| dir.display().to_string());
        below.filter(|dir| dir.rsplit('/').next().is_some_and(|name| name.starts_with("pod"))).collect()
    }

    /// Cgroups of the pod, in every tree.
    pub(crate) fn pod_cgroups(&self, uid: &str) -> Vec<PathBuf> {
        let levels = ["", "burstable", "besteffort"];
        let all = cgroup_trees().into_iter().flat_map(|tree| {
            levels.map(|level| tree.root.join(self.cgroup()).join("kubepods").join(level).join(format!("pod{uid}")))
        });
        all.filter(|dir| dir.exists()).collect()
    }
}

/// Links to logs of the pod's containers (LOG-02).
pub(crate) fn links_of(pod: &PodRef) -> Vec<PathBuf> {
    let begin = format!("{}_{}_", pod.name, pod.namespace);
    let links = fs::read_dir(CONTAINER_LOGS).into_iter().flatten().flatten();
    links.filter(|link| link.file_name().as_bytes().starts_with(begin.as_bytes())).map(|link| link.path()).collect()
}

/// One mounted tree of cgroups.
pub(crate) struct CgroupTree {
    pub(crate) root: PathBuf,
    /// It is of version 2.
    pub(crate) unified: bool,
    /// Mount options: among them the controllers of a tree of version 1.
    pub(crate) options: Vec<String>,
}

/// Every tree of cgroups, each once.
pub(crate) fn cgroup_trees() -> Vec<CgroupTree> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("there is a mount table");
    let mut trees: Vec<CgroupTree> = Vec::new();
    for line in table.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (left, right): (Vec<_>, Vec<_>) = (left.split(' ').collect(), right.split(' ').collect());
        if right[0].starts_with("cgroup") && trees.iter().all(|tree| tree.root != Path::new(left[4])) {
            let options = right[2].split(',').map(str::to_owned).collect();
            trees.push(CgroupTree { root: left[4].into(), unified: right[0] == "cgroup2", options });
        }
    }
    trees
}

/// Points of mounts at or below a directory, the last made first.
pub(crate) fn mounts_below(dir: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("there is a mount table");
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut below: Vec<_> = points.filter(|point| Path::new(point).starts_with(dir)).map(str::to_owned).collect();
    below.reverse();
    below
}

/// Makes the cgroup in which all of a node's are. A new cpuset of version 1 is empty and takes no process.
pub(super) fn make_cgroup(name: &str) {
    for tree in cgroup_trees() {
        let dir = tree.root.join(name);
        fs::create_dir(&dir).unwrap_or_else(|err| panic!("{}: {err}", dir.display()));
        for file in ["cpuset.mems", "cpuset.cpus"] {
            if !tree.unified && dir.join(file).exists() {
                let all = fs::read(tree.root.join(file)).expect("the root has it too");
                fs::write(dir.join(file), all).expect("the cgroup is ours");
            }
        }
    }
}

/// Takes away all that a node has, and answers with what could not be.
pub(super) fn remove_node(dir: &Path, cgroup: &str) -> Vec<String> {
    let mut left = Vec::new();
    for point in mounts_below(dir) {
        if unmount(&point, UnmountFlags::empty()).or_else(|_| unmount(&point, UnmountFlags::DETACH)).is_err() {
            left.push(format!("mount {point}"));
        }
    }
    for tree in cgroup_trees() {
        let path = tree.root.join(cgroup);
        kill_all_in(&path);
        if let Err(err) = remove_cgroup(&path) {
            left.push(format!("cgroup {}: {err}", path.display()));
        }
    }
    for link in fs::read_dir(CONTAINER_LOGS).into_iter().flatten().flatten() {
        let path = link.path();
        if fs::read_link(&path).is_ok_and(|target| target.starts_with(dir)) {
            let _gone = fs::remove_file(&path);
        }
    }
    if let Err(err) = fs::remove_dir_all(dir) {
        left.push(format!("{}: {err}", dir.display()));
    }
    left
}

/// Kills what is left in the cgroup of a node whose pods are gone: a call to the runtime that was cut off may leave a
/// process that never becomes a container's. Whatever is in there is the test's own.
fn kill_all_in(dir: &Path) {
    for _ in 0..KILL_ROUNDS {
        let pids = processes_in(dir);
        if pids.is_empty() {
            return;
        }
        for pid in &pids {
            let _gone = kill_process(*pid, Signal::KILL);
        }
        #[expect(clippy::disallowed_methods, reason = "nothing else runs on this thread")]
        std::thread::sleep(POLL);
    }
}

fn processes_in(dir: &Path) -> Vec<Pid> {
    let procs = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    let own = procs.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    own.chain(subdirs(dir).iter().flat_map(|sub| processes_in(sub))).collect()
}

fn subdirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Depth first; a cgroup that is gone is removed.
fn remove_cgroup(dir: &Path) -> io::Result<()> {
    for sub in subdirs(dir) {
        remove_cgroup(&sub)?;
    }
    match fs::remove_dir(dir) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Takes away the nodes of tests that were killed.
pub(super) fn sweep_dead_tests() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = fs::read_to_string(entry.path().join(OWNER)).unwrap_or_default();
        let is_ours = name.starts_with(PREFIX) && !owner.is_empty();
        if is_ours && !Path::new("/proc").join(&owner).exists() {
            eprintln!("{name} belonged to a test that was killed: removing it");
            remove_node(&entry.path(), &name);
        }
    }
}
