//! Quality of service: a pod's class, its place in the cgroup tree, and the values written there (section 19).

use std::collections::BTreeMap;

/// A cgroup by its logical names below the cgroup root, such as `kubepods / burstable / pod1234`.
///
/// How the names are spelt on disk depends on the driver (CG-01, CG-02).
#[doc(alias = "CgroupName")]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CgroupPath(Vec<String>);

impl CgroupPath {
    /// The path with these names, outermost first.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }

    /// The names, outermost first.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// The cgroup `name` below this one.
    #[must_use]
    pub fn child(&self, name: impl Into<String>) -> Self {
        let mut names = self.0.clone();
        names.push(name.into());
        Self(names)
    }

    /// As the cgroupfs driver spells it: `/kubepods/burstable/pod1234`.
    pub fn cgroupfs(&self) -> String {
        format!("/{}", self.0.join("/"))
    }
}

/// Values of one cgroup; `None` leaves a setting as it is. CPU is on v1's scale: the adapter converts for v2 (CG-05).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupValues {
    /// CPU shares.
    pub cpu_shares: Option<u64>,
    /// CFS quota in microseconds per period; -1 is none.
    pub cpu_quota: Option<i64>,
    /// CFS period in microseconds.
    pub cpu_period: Option<u64>,
    /// Memory limit in bytes; -1 is none.
    pub memory_limit: Option<i64>,
    /// Most processes; -1 is no limit.
    pub pids_limit: Option<i64>,
    /// Limit per huge page size, such as (`2MB`, bytes).
    pub hugepages: BTreeMap<String, u64>,
    /// cgroup v2 files by name.
    pub unified: BTreeMap<String, String>,
}
