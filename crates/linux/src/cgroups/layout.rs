//! The cgroup trees of this host, and their mount points.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rubelet_engine::ports::CgroupVersion;

use super::{NEEDED, NEEDED_V1};
use crate::kernel_mounts::{MountLine, mount_table};

/// The usual mount point of cgroups.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

const CONTROLLERS: &str = "cgroup.controllers";
pub(super) const SUBTREE_CONTROL: &str = "cgroup.subtree_control";

/// Every v1 controller. A v1 mount has other options too.
const V1_CONTROLLERS: [&str; 14] = [
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "misc",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
    "rdma",
];

/// One mounted tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The mount point.
    pub root: PathBuf,
    /// The v1 controllers bound to it; `systemd` for the named tree. A v2 tree lists its controllers in a file.
    pub controllers: BTreeSet<String>,
}

/// The trees of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    version: CgroupVersion,
    v1: Vec<Hierarchy>,
    unified: Option<Hierarchy>,
}

impl Layout {
    /// The trees of this machine, from its mount table.
    pub fn discover(proc: &Path) -> io::Result<Self> {
        Ok(Self::from_mounts(&mount_table(proc)?))
    }

    /// A v1 layout with these trees. `cpu` and `cpuacct` may share one.
    pub fn v1(trees: Vec<Hierarchy>) -> Self {
        Self { version: CgroupVersion::V1, v1: trees, unified: None }
    }

    /// A v2 layout: one tree.
    pub fn v2(root: PathBuf) -> Self {
        let unified = Hierarchy { root, controllers: BTreeSet::new() };
        Self { version: CgroupVersion::V2, v1: Vec::new(), unified: Some(unified) }
    }

    /// A host is v2 if cgroup2 is mounted at the usual place: a hybrid host has a v2 tree without controllers beside
    /// its v1 trees.
    /// upstream: opencontainers/cgroups IsCgroup2UnifiedMode, as of v1.36
    pub(crate) fn from_mounts(table: &[MountLine]) -> Self {
        let mut unified = table.iter().filter(|line| line.fs_type == "cgroup2");
        if unified.clone().any(|line| line.point == Path::new(CGROUP_ROOT)) {
            return Self::v2(CGROUP_ROOT.into());
        }
        let mut seen = BTreeSet::new();
        let mut v1 = Vec::new();
        for line in table.iter().filter(|line| line.fs_type == "cgroup") {
            let named = |option: &String| match option.as_str() {
                "name=systemd" => Some("systemd".to_owned()),
                known if V1_CONTROLLERS.contains(&known) => Some(known.to_owned()),
                _ => None,
            };
            let controllers: BTreeSet<_> = line.super_options.iter().filter_map(named).collect();
            // The same tree may be mounted twice; the first mount point is used.
            if !controllers.is_empty() && controllers.iter().all(|name| seen.insert(name.clone())) {
                v1.push(Hierarchy { root: line.point.clone(), controllers });
            }
        }
        let unified =
            unified.next_back().map(|line| Hierarchy { root: line.point.clone(), controllers: BTreeSet::new() });
        Self { version: CgroupVersion::V1, v1, unified }
    }

    /// The cgroup version that pods use.
    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    /// The trees in which we make cgroups.
    pub(crate) fn own_trees(&self) -> impl Iterator<Item = &Hierarchy> {
        self.v1.iter().chain(self.unified.iter().filter(|_| self.version == CgroupVersion::V2))
    }

    /// Every tree: a runtime may leave a pod's cgroup in any of them, the v2 tree of a hybrid host included.
    pub(super) fn trees(&self) -> impl Iterator<Item = &Hierarchy> {
        self.v1.iter().chain(&self.unified)
    }

    pub(crate) fn unified(&self) -> Option<&Hierarchy> {
        self.unified.as_ref()
    }

    /// The v1 tree of a controller.
    pub(crate) fn v1_tree(&self, controller: &str) -> Option<&Hierarchy> {
        self.v1.iter().find(|tree| tree.controllers.contains(controller))
    }

    /// The root of the tree with the memory controller.
    pub(crate) fn memory_root(&self) -> Option<PathBuf> {
        let tree = match self.version {
            CgroupVersion::V1 => self.v1_tree("memory"),
            CgroupVersion::V2 => self.unified.as_ref(),
        };
        tree.map(|tree| tree.root.clone())
    }

    /// Controllers that pods need and this host lacks (CG-04).
    pub fn missing_controllers(&self) -> io::Result<Vec<&'static str>> {
        Ok(match self.version {
            CgroupVersion::V1 => NEEDED_V1.into_iter().filter(|name| self.v1_tree(name).is_none()).collect(),
            CgroupVersion::V2 => {
                let has = self.unified.as_ref().map(|tree| v2_controllers(&tree.root)).transpose()?.unwrap_or_default();
                NEEDED.into_iter().filter(|name| !has.contains(*name)).collect()
            }
        })
    }
}

/// Controllers available in a v2 cgroup.
pub(super) fn v2_controllers(dir: &Path) -> io::Result<BTreeSet<String>> {
    space_separated(&dir.join(CONTROLLERS))
}

/// Controllers that a v2 cgroup enables for its children.
pub(super) fn v2_subtree(dir: &Path) -> io::Result<BTreeSet<String>> {
    space_separated(&dir.join(SUBTREE_CONTROL))
}

fn space_separated(file: &Path) -> io::Result<BTreeSet<String>> {
    Ok(std::fs::read_to_string(file)?.split_whitespace().map(str::to_owned).collect())
}
