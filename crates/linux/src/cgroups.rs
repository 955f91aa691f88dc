//! The cgroup trees: one per controller (v1) or one for all (v2), written directly (the cgroupfs driver) or through
//! systemd's units (the systemd driver).
//!
//! A [`CgroupPath`] counts from the root of a tree, below the node's `cgroupRoot` if it has one. `core::qos` decides
//! the values of a cgroup; this module knows the names and scales of the files (CG-05).

mod destroy;
mod layout;
mod look;
mod processes;
mod units;
mod values;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rubelet_core::id::{ContainerId, PodUid};
use rubelet_core::qos::{CgroupDriver, CgroupPath, CgroupTree, CgroupValues, QosClass, rounded};
use rubelet_engine::blocking::{CGROUPS, SURVEYS};
use rubelet_engine::ports::{CgroupError, CgroupState, CgroupVersion, Cgroups};

pub use self::layout::{Hierarchy, Layout};
pub use self::processes::KernelProcesses;
pub use self::units::{UnitError, Units};
use crate::beneath;

/// Controllers that pods need on v2 (CG-04). `hugetlb` is used where it exists.
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// v1 accounts CPU time in a separate controller.
const NEEDED_V1: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "pids"];

/// The host's cgroups.
#[derive(Clone, Debug)]
#[doc(alias = "cgroupManager")]
pub struct KernelCgroups {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    layout: Layout,
    tree: CgroupTree,
    /// Of the systemd driver.
    units: Option<Units>,
}

impl KernelCgroups {
    /// Cgroups in `layout`, named as the driver of `tree` names them, and written directly.
    pub fn new(layout: Layout, tree: CgroupTree) -> Self {
        Self { inner: Arc::new(Inner { layout, tree, units: None }) }
    }

    /// Cgroups in `layout`, as slices of the systemd that `units` reaches.
    pub fn with_systemd(layout: Layout, tree: CgroupTree, units: Units) -> Self {
        Self { inner: Arc::new(Inner { layout, tree, units: Some(units) }) }
    }

    /// Fails with the first controller that pods need and the host lacks (CG-04).
    #[doc(alias = "validateSystemRequirements")]
    pub async fn check(&self) -> Result<(), CgroupError> {
        let inner = Arc::clone(&self.inner);
        CGROUPS
            .run("/", move || match inner.layout.missing_controllers().map_err(error("read controllers of", "/"))? {
                missing if missing.is_empty() => Ok(()),
                missing => Err(CgroupError::MissingController { controller: missing.join(", ") }),
            })
            .await
    }
}

#[async_trait]
impl Cgroups for KernelCgroups {
    async fn ensure(&self, path: &CgroupPath, values: &CgroupValues) -> Result<(), CgroupError> {
        let (inner, at, values) = (Arc::clone(&self.inner), path.clone(), values.clone());
        match (&self.inner.units, self.inner.tree.driver()) {
            (Some(units), CgroupDriver::Systemd) => self.ensure_slice(units, path, &values).await,
            (None, CgroupDriver::Systemd) => {
                let unsupported = io::Error::new(io::ErrorKind::Unsupported, "there is no connection to systemd");
                Err(error("make", path.cgroupfs())(unsupported))
            }
            (_, CgroupDriver::Cgroupfs) => CGROUPS.run(&path.cgroupfs(), move || inner.ensure(&at, &values)).await,
        }
    }

    async fn look(&self, path: &CgroupPath, values: &CgroupValues) -> Result<CgroupState, CgroupError> {
        let (inner, at) = (Arc::clone(&self.inner), path.clone());
        let values = match self.inner.tree.driver() {
            CgroupDriver::Cgroupfs => values.clone(),
            CgroupDriver::Systemd => rounded(values),
        };
        CGROUPS.run(&path.cgroupfs(), move || look::look(&inner, &at, &values)).await
    }

    async fn destroy(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        let rel_path = self.inner.rel_path(path)?;
        destroy::destroy(Arc::clone(&self.inner), path, rel_path).await
    }

    async fn memory_used(&self, path: &CgroupPath, container: Option<&ContainerId>) -> Result<u64, CgroupError> {
        let rel_path = self.inner.rel_path(path)?;
        let child = container.map(|id| beneath::name(id.as_str()).map(str::to_owned)).transpose();
        let child = child.map_err(error("read", path.cgroupfs()))?;
        let inner = Arc::clone(&self.inner);
        CGROUPS.run(&path.cgroupfs(), move || inner.memory_used(&rel_path, child.as_deref())).await
    }

    async fn pods(&self) -> Result<Vec<(PodUid, CgroupPath)>, CgroupError> {
        let inner = Arc::clone(&self.inner);
        SURVEYS.run("pod cgroups", move || inner.pods()).await
    }
}

impl KernelCgroups {
    /// Asks systemd only for what is not so already: a node at rest sends nothing to the bus.
    async fn ensure_slice(&self, units: &Units, path: &CgroupPath, values: &CgroupValues) -> Result<(), CgroupError> {
        let version = self.inner.layout.version();
        let state = self.look(path, values).await?;
        let values = rounded(values);
        let (inner, rel_path) = (Arc::clone(&self.inner), self.inner.rel_path(path)?);
        // Somebody else's slice lacks the trees that systemd does not make, so a look calls it missing.
        let there = CGROUPS.run(&path.cgroupfs(), move || inner.is_anywhere(&rel_path)).await;
        if let CgroupState::Missing(_) = state {
            units.start(path, version).await?;
        }
        if !matches!(state, CgroupState::AsWanted) {
            units.set(path, &values, version).await?;
        }
        if version == CgroupVersion::V1 {
            let outranked = match state {
                CgroupState::AsWanted => false,
                CgroupState::Missing(_) => there,
                CgroupState::Differs(_) => matches!(self.look(path, &values).await?, CgroupState::Differs(_)),
            };
            if outranked {
                units.unset_v2(path).await?;
            }
        }
        // The trees that systemd does not make, and the values that it has no property for.
        let (inner, at) = (Arc::clone(&self.inner), path.clone());
        CGROUPS.run(&path.cgroupfs(), move || inner.ensure(&at, &values)).await
    }
}

impl Inner {
    fn memory_used(&self, rel_path: &Path, container: Option<&str>) -> Result<u64, CgroupError> {
        let (tree, file) = match self.layout.version() {
            CgroupVersion::V1 => {
                let tree = self.layout.own_trees().find(|tree| tree.controllers.contains("memory"));
                (tree, "memory.usage_in_bytes")
            }
            CgroupVersion::V2 => (self.layout.unified(), "memory.current"),
        };
        let pod = tree.ok_or_else(|| missing("memory"))?.root.join(rel_path);
        let path = match (container, self.tree.driver()) {
            (None, _) => pod.join(file),
            (Some(id), CgroupDriver::Cgroupfs) => pod.join(id).join(file),
            (Some(id), CgroupDriver::Systemd) => pod.join(scope_name(&pod, id)).join(file),
        };
        let number = |text: String| text.trim().parse().map_err(|err| io::Error::new(io::ErrorKind::InvalidData, err));
        let read = std::fs::read_to_string(&path).and_then(number);
        read.map_err(error("read", path.display().to_string()))
    }

    /// Whether any tree has the cgroup.
    fn is_anywhere(&self, rel_path: &Path) -> bool {
        self.layout.trees().any(|tree| tree.root.join(rel_path).is_dir())
    }

    fn ensure(&self, path: &CgroupPath, values: &CgroupValues) -> Result<(), CgroupError> {
        let rel_path = self.rel_path(path)?;
        match self.layout.version() {
            CgroupVersion::V1 => {
                self.make_v1(&rel_path)?;
                values::write_v1(&self.layout, &rel_path, values)
            }
            CgroupVersion::V2 => {
                let dir = self.make_v2(&rel_path)?;
                values::write_v2(&dir, values)
            }
        }
    }

    fn make_v1(&self, rel_path: &Path) -> Result<(), CgroupError> {
        for tree in self.layout.own_trees() {
            let dir = tree.root.join(rel_path);
            std::fs::create_dir_all(&dir).map_err(error("make", dir.display().to_string()))?;
            if tree.controllers.contains("cpuset") {
                inherit_cpuset(&tree.root, rel_path)?;
            }
        }
        Ok(())
    }

    /// On the way down each cgroup delegates all its controllers to its children.
    /// upstream: opencontainers/cgroups fs2 CreateCgroupPath, as of v1.36
    fn make_v2(&self, rel_path: &Path) -> Result<PathBuf, CgroupError> {
        let tree = self.layout.unified().ok_or_else(|| missing("cgroup2"))?;
        let mut dir = tree.root.clone();
        for name in rel_path {
            enable_controllers(&dir);
            dir.push(name);
            match std::fs::create_dir(&dir) {
                Ok(()) => {}
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
                Err(err) => return Err(error("make", dir.display().to_string())(err)),
            }
        }
        let has = layout::v2_controllers(&dir).map_err(error("read controllers of", dir.display().to_string()))?;
        match NEEDED.into_iter().find(|needed| !has.contains(*needed)) {
            Some(controller) => Err(missing(controller)),
            None => Ok(dir),
        }
    }

    /// A pod that has a cgroup in any tree is listed, so that leftovers of a failed removal are removed next time.
    /// upstream: pod_container_manager_linux.go GetAllPodsFromCgroups (v1.36)
    fn pods(&self) -> Result<Vec<(PodUid, CgroupPath)>, CgroupError> {
        let mut found = std::collections::BTreeMap::new();
        for class in [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort] {
            let level = self.tree.level(class);
            if level.names().is_empty() {
                continue;
            }
            let rel_path = self.rel_path(&level)?;
            for tree in self.layout.trees() {
                let dir = tree.root.join(&rel_path);
                let names = dir_names(&dir).map_err(error("list", dir.display().to_string()))?;
                found.extend(names.iter().filter_map(|name| self.tree.pod_at(class, name)));
            }
        }
        Ok(found.into_iter().collect())
    }

    /// The path on disk, relative to the root of a tree. An empty path, or a name that would lead elsewhere, is
    /// refused: a UID may come from a manifest, and the root cgroup must be neither made nor destroyed.
    fn rel_path(&self, path: &CgroupPath) -> Result<PathBuf, CgroupError> {
        let refuse = |err| error("spell", path.cgroupfs())(err);
        if path.names().is_empty() {
            return Err(refuse(io::Error::new(io::ErrorKind::InvalidInput, "the root is not a cgroup of ours")));
        }
        path.names().iter().try_for_each(|name| beneath::name(name).map(drop)).map_err(refuse)?;
        Ok(self.tree.literal(path).trim_start_matches('/').into())
    }
}

/// The scope of a container, which each runtime gives a prefix of its own: `cri-containerd-ID.scope`.
fn scope_name(pod: &Path, id: &str) -> String {
    let suffix = format!("{id}.scope");
    let is_scope =
        |name: &String| name.strip_suffix(&suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('-'));
    dir_names(pod).unwrap_or_default().into_iter().find(is_scope).unwrap_or(suffix)
}

/// A new v1 cpuset has no CPUs and no memory nodes, and no process can enter it: it inherits its parent's, from the top
/// down.
fn inherit_cpuset(root: &Path, rel_path: &Path) -> Result<(), CgroupError> {
    let mut dir = root.to_path_buf();
    for name in rel_path {
        let parent = dir.clone();
        dir.push(name);
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let read = |dir: &Path| std::fs::read_to_string(dir.join(file)).unwrap_or_default();
            if read(&dir).trim().is_empty() {
                values::write(&dir, file, read(&parent).trim())?;
            }
        }
    }
    Ok(())
}

/// Enables all controllers at once, or one by one if the kernel refuses some. The caller checks those that are needed.
fn enable_controllers(dir: &Path) {
    let (Ok(can), Ok(does)) = (layout::v2_controllers(dir), layout::v2_subtree(dir)) else { return };
    let wanted: Vec<_> = can.difference(&does).map(|name| format!("+{name}")).collect();
    if wanted.is_empty() || values::write(dir, layout::SUBTREE_CONTROL, &wanted.join(" ")).is_ok() {
        return;
    }
    for one in wanted {
        if let Err(err) = values::write(dir, layout::SUBTREE_CONTROL, &one) {
            tracing::debug!(controller = one, dir = %dir.display(), err = %err, "Controller is not delegated");
        }
    }
}

/// Names of the directories in `dir`; none if it does not exist.
fn dir_names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn missing(controller: &str) -> CgroupError {
    CgroupError::MissingController { controller: controller.to_owned() }
}

fn error(action: &'static str, path: impl Into<String>) -> impl FnOnce(io::Error) -> CgroupError {
    move |source| CgroupError::Io { action, path: path.into(), source }
}

#[cfg(test)]
mod tests;
