//! A cgroup tree in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use rubelet_core::id::{ContainerId, PodUid};
use rubelet_core::qos::{CgroupPath, CgroupValues};
use rubelet_engine::ports::{CgroupError, CgroupState, Cgroups};

use crate::runtime::FakeRuntime;

/// A cgroup tree in memory. Clones share it.
#[derive(Clone, Default)]
pub struct FakeCgroups(Arc<Mutex<Tree>>);

#[derive(Default)]
struct Tree {
    groups: BTreeMap<CgroupPath, CgroupValues>,
    stuck: BTreeSet<CgroupPath>,
    full: bool,
    refused: BTreeSet<CgroupPath>,
    writes: usize,
    memory: u64,
    /// The runtime whose containers are in the cgroups of pods.
    processes: Option<FakeRuntime>,
}

impl FakeCgroups {
    /// The values of a cgroup, if it exists.
    pub fn values(&self, path: &CgroupPath) -> Option<CgroupValues> {
        self.tree().groups.get(path).cloned()
    }

    /// Every cgroup as the cgroupfs driver names it, in order.
    pub fn paths(&self) -> Vec<String> {
        self.tree().groups.keys().map(CgroupPath::cgroupfs).collect()
    }

    /// Pods that have a cgroup.
    pub fn pod_uids(&self) -> Vec<PodUid> {
        self.tree().groups.keys().filter_map(pod_of).collect()
    }

    /// Puts an unkillable process into `path`, or takes it out.
    pub fn set_stuck(&self, path: &CgroupPath, stuck: bool) {
        let mut tree = self.tree();
        if stuck {
            tree.stuck.insert(path.clone())
        } else {
            tree.stuck.remove(path)
        };
    }

    /// Makes every further `ensure` fail, as on a full disk, or succeed again.
    pub fn set_full(&self, full: bool) {
        self.tree().full = full;
    }

    /// Makes every further `ensure` of this cgroup fail, as the kernel does for a limit below what is in use, or succeed
    /// again.
    pub fn set_refused(&self, path: &CgroupPath, refused: bool) {
        let mut tree = self.tree();
        if refused {
            tree.refused.insert(path.clone())
        } else {
            tree.refused.remove(path)
        };
    }

    /// Changes a cgroup as somebody else would, and makes it if it is missing.
    pub fn tamper(&self, path: &CgroupPath, values: CgroupValues) {
        self.tree().groups.insert(path.clone(), values);
    }

    /// How often a cgroup was made or set.
    pub fn writes(&self) -> usize {
        self.tree().writes
    }

    /// Puts the containers of `runtime` into the cgroups of their pods: destroying a cgroup kills them.
    pub fn hold_processes_of(&self, runtime: &FakeRuntime) {
        self.tree().processes = Some(runtime.clone());
    }

    /// Sets the bytes in use in every cgroup.
    pub fn set_all_memory_used(&self, bytes: u64) {
        self.tree().memory = bytes;
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Cgroups for FakeCgroups {
    async fn ensure(&self, path: &CgroupPath, values: &CgroupValues) -> Result<(), CgroupError> {
        let mut tree = self.tree();
        if tree.full {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(CgroupError::Io { action: "make", path: path.cgroupfs(), source });
        }
        if tree.refused.contains(path) {
            let source = std::io::Error::from(std::io::ErrorKind::ResourceBusy);
            return Err(CgroupError::Io { action: "write", path: path.cgroupfs(), source });
        }
        tree.writes += 1;
        let mut above = CgroupPath::default();
        for name in path.names() {
            above = above.child(name);
            tree.groups.entry(above.clone()).or_default();
        }
        merge(tree.groups.entry(path.clone()).or_default(), values);
        Ok(())
    }

    async fn look(&self, path: &CgroupPath, values: &CgroupValues) -> Result<CgroupState, CgroupError> {
        let tree = self.tree();
        let Some(has) = tree.groups.get(path) else { return Ok(CgroupState::Missing(vec![path.cgroupfs()])) };
        let mut wanted = has.clone();
        merge(&mut wanted, values);
        let differs = || CgroupState::Differs(vec![format!("{} is {has:?}", path.cgroupfs())]);
        Ok(if wanted == *has { CgroupState::AsWanted } else { differs() })
    }

    async fn memory_used(&self, _path: &CgroupPath, _container: Option<&ContainerId>) -> Result<u64, CgroupError> {
        Ok(self.tree().memory)
    }

    async fn destroy(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        let mut tree = self.tree();
        if let Some(stuck) = tree.stuck.iter().find(|stuck| is_below(stuck, path)) {
            return Err(CgroupError::Busy { path: stuck.cgroupfs(), left: 1 });
        }
        let pods = tree.groups.keys().filter(|other| is_below(other, path)).filter_map(pod_of);
        let left: usize = match &tree.processes {
            Some(runtime) => pods.map(|uid| runtime.kill_all_of(&uid)).sum(),
            None => 0,
        };
        if left > 0 {
            return Err(CgroupError::Busy { path: path.cgroupfs(), left });
        }
        tree.groups.retain(|other, _| !is_below(other, path));
        Ok(())
    }

    async fn pods(&self) -> Result<Vec<(PodUid, CgroupPath)>, CgroupError> {
        let tree = self.tree();
        Ok(tree.groups.keys().filter_map(|path| Some((pod_of(path)?, path.clone()))).collect())
    }
}

/// The pod of a cgroup.
fn pod_of(path: &CgroupPath) -> Option<PodUid> {
    Some(PodUid::from(path.names().last()?.strip_prefix("pod")?))
}

/// `path` is `above` or lies below it.
fn is_below(path: &CgroupPath, above: &CgroupPath) -> bool {
    path.names().starts_with(above.names())
}

/// An unset value stays as it is.
fn merge(old: &mut CgroupValues, new: &CgroupValues) {
    let CgroupValues { cpu_shares, cpu_quota, cpu_period, memory_limit, pids_limit, hugepages, unified } = new.clone();
    old.cpu_shares = cpu_shares.or(old.cpu_shares);
    old.cpu_quota = cpu_quota.or(old.cpu_quota);
    old.cpu_period = cpu_period.or(old.cpu_period);
    old.memory_limit = memory_limit.or(old.memory_limit);
    old.pids_limit = pids_limit.or(old.pids_limit);
    old.hugepages.extend(hugepages);
    old.unified.extend(unified);
}
