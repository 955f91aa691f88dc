//! Moves the agent, and the processes that are in no cgroup, into cgroups of their own (CG-24).
//!
//! Plain paths and plain writes under either driver, as upstream does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rubelet_engine::blocking::CGROUPS;
use rubelet_engine::ports::{CgroupError, CgroupVersion, NodeProcesses};

use super::{Layout, enable_controllers, error, inherit_cpuset, missing, values};
use crate::beneath;

const PROCS: &str = "cgroup.procs";

/// A process may fork while its siblings are listed, so that its child is left behind: the list is read again.
/// upstream: cm/container_manager_linux.go ensureSystemCgroups (v1.36)
const ROUNDS: usize = 11;

/// The processes of this host.
#[derive(Clone, Debug)]
pub struct KernelProcesses {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    layout: Layout,
    proc: PathBuf,
    oom_score: i32,
    /// The cgroup that counts as the root, below the root of each tree.
    root: PathBuf,
}

impl KernelProcesses {
    /// Processes below `proc`, in the trees of `layout`; `oom_score` is the agent's.
    pub fn new(layout: Layout, proc: PathBuf, oom_score: i32) -> Self {
        Self { inner: Arc::new(Inner { layout, proc, oom_score, root: PathBuf::new() }) }
    }

    /// The same, as if `root` were the root cgroup: tests must not move processes of others.
    #[cfg(test)]
    fn below(layout: Layout, proc: PathBuf, root: PathBuf) -> Self {
        Self { inner: Arc::new(Inner { layout, proc, oom_score: 0, root }) }
    }
}

#[async_trait]
impl NodeProcesses for KernelProcesses {
    async fn keep_agent(&self, cgroup: Option<&str>) -> Result<(), CgroupError> {
        let inner = Arc::clone(&self.inner);
        let cgroup = cgroup.map(str::to_owned);
        CGROUPS.run("processes", move || inner.keep_agent(cgroup.as_deref())).await
    }

    async fn keep_system(&self, cgroup: &str) -> Result<usize, CgroupError> {
        let inner = Arc::clone(&self.inner);
        let cgroup = cgroup.to_owned();
        CGROUPS.run("processes", move || inner.keep_system(&cgroup)).await
    }
}

impl Inner {
    /// upstream: cm/container_manager_linux.go ensureProcessInContainerWithOOMScore (v1.36)
    fn keep_agent(&self, cgroup: Option<&str>) -> Result<(), CgroupError> {
        let score = self.proc.join("self/oom_score_adj");
        let wanted = self.oom_score.to_string();
        let scored = match std::fs::read_to_string(&score) {
            Ok(has) if has.trim() == wanted => Ok(()),
            _ => std::fs::write(&score, wanted),
        };
        let scored = scored.map_err(error("set the OOM score of the agent in", score.display().to_string()));
        let Some(cgroup) = cgroup else { return scored };
        if self.is_on_host().map_err(error("find the PID namespace of the agent for", cgroup))? {
            self.keep_process(cgroup, std::process::id())?;
        }
        scored
    }

    /// Moves a process into the cgroup in each tree where it is elsewhere.
    fn keep_process(&self, cgroup: &str, pid: u32) -> Result<(), CgroupError> {
        let rel_path = rel_path(cgroup)?;
        for dir in self.layout.own_trees().map(|tree| tree.root.join(&rel_path)) {
            let there = pids(&dir).unwrap_or_default();
            if !i32::try_from(pid).is_ok_and(|pid| there.contains(&pid)) {
                self.make(&rel_path)?;
                enter(&dir, &pid.to_string())?;
            }
        }
        Ok(())
    }

    /// A process in a container of its own is not touched: the container's owner decides where it is.
    fn is_on_host(&self) -> io::Result<bool> {
        let namespace = |pid: &str| std::fs::read_link(self.proc.join(pid).join("ns/pid"));
        Ok(namespace("1")? == namespace("self")?)
    }

    fn keep_system(&self, cgroup: &str) -> Result<usize, CgroupError> {
        let rel_path = rel_path(cgroup)?;
        let mut moved = 0;
        let mut failure = None;
        for _ in 0..ROUNDS {
            let found: Vec<i32> = self.loose()?;
            if found.is_empty() {
                return Ok(moved);
            }
            self.make(&rel_path)?;
            failure = None;
            for pid in found {
                match self.enter_all(&rel_path, pid) {
                    Ok(()) => moved += 1,
                    Err(err) => failure = Some(err),
                }
            }
        }
        failure.map_or(Ok(moved), Err)
    }

    /// Processes in the root cgroup, but for PID 1, the kernel's threads, and those of other PID namespaces, which are
    /// listed as 0: a zero that is written means the writer.
    fn loose(&self) -> Result<Vec<i32>, CgroupError> {
        let tree = match self.layout.version() {
            CgroupVersion::V1 => self.layout.v1_tree("devices").or_else(|| self.layout.v1_tree("memory")),
            CgroupVersion::V2 => self.layout.unified(),
        };
        let dir = tree.ok_or_else(|| missing("devices"))?.root.join(&self.root);
        let all = pids(&dir).map_err(error("list processes of", dir.display().to_string()))?;
        Ok(all.into_iter().filter(|pid| *pid > 1 && !self.is_kernel_thread(*pid)).collect())
    }

    /// Kernel threads have no program. A process that has just ended has none either.
    fn is_kernel_thread(&self, pid: i32) -> bool {
        let program = std::fs::read_link(self.proc.join(pid.to_string()).join("exe"));
        program.is_err_and(|err| err.kind() == io::ErrorKind::NotFound)
    }

    fn enter_all(&self, rel_path: &Path, pid: i32) -> Result<(), CgroupError> {
        self.layout.own_trees().try_for_each(|tree| enter(&tree.root.join(rel_path), &pid.to_string()))
    }

    fn make(&self, rel_path: &Path) -> Result<(), CgroupError> {
        for tree in self.layout.own_trees() {
            if self.layout.version() == CgroupVersion::V2 {
                let mut dir = tree.root.clone();
                for name in rel_path {
                    enable_controllers(&dir);
                    dir.push(name);
                    make_dir(&dir)?;
                }
                continue;
            }
            make_dir(&tree.root.join(rel_path))?;
            if tree.controllers.contains("cpuset") {
                inherit_cpuset(&tree.root, rel_path)?;
            }
        }
        Ok(())
    }
}

fn make_dir(dir: &Path) -> Result<(), CgroupError> {
    std::fs::create_dir_all(dir).map_err(error("make", dir.display().to_string()))
}

/// A process that has ended meanwhile need not be moved.
fn enter(dir: &Path, pid: &str) -> Result<(), CgroupError> {
    match values::write(dir, PROCS, pid) {
        Err(CgroupError::Io { source, .. })
            if rustix::io::Errno::from_io_error(&source) == Some(rustix::io::Errno::SRCH) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// The path below the root of a tree. A name that would lead elsewhere is refused, and so is the root itself.
fn rel_path(cgroup: &str) -> Result<PathBuf, CgroupError> {
    let names = cgroup.split('/').filter(|name| !name.is_empty());
    let path: PathBuf = names.map(beneath::name).collect::<Result<_, _>>().map_err(error("spell", cgroup))?;
    if path.as_os_str().is_empty() {
        return Err(error("spell", cgroup)(io::Error::new(io::ErrorKind::InvalidInput, "it is the root cgroup")));
    }
    Ok(path)
}

fn pids(dir: &Path) -> io::Result<Vec<i32>> {
    Ok(std::fs::read_to_string(dir.join(PROCS))?.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

#[cfg(test)]
mod tests;
