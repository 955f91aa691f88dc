//! The cgroup of each pod, and its name under each cgroup driver.

use k8s_openapi::api::core::v1::Pod;

use super::class::{QosClass, qos_class};
use crate::id::PodUid;

/// The prefix of pod cgroups.
const POD_PREFIX: &str = "pod";
/// The cgroup that holds all pods.
const PODS_NAME: &str = "kubepods";
/// The suffix of systemd's slices.
const SLICE: &str = ".slice";

/// The cgroup driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CgroupDriver {
    /// rubelet writes to the cgroup tree.
    #[default]
    Cgroupfs,
    /// systemd writes to the cgroup tree.
    Systemd,
}

/// The kernel's cgroup layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One tree per controller.
    V1,
    /// One tree for all.
    V2,
}

/// A cgroup by its logical names below the cgroup root, such as `kubepods / burstable / pod1234`.
///
/// The names of directories depend on the driver (CG-01, CG-02).
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

    /// The path under the cgroupfs driver: `/kubepods/burstable/pod1234`.
    #[doc(alias = "ToCgroupfs")]
    pub fn cgroupfs(&self) -> String {
        format!("/{}", self.0.join("/"))
    }

    /// The path under systemd: `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice`. A dash
    /// separates levels there, so that dashes within a name become underscores.
    #[doc(alias = "ToSystemd")]
    pub fn systemd(&self) -> String {
        let mut path = String::new();
        let mut slice = String::new();
        for name in &self.0 {
            if !slice.is_empty() {
                slice.push('-');
            }
            slice.push_str(&name.replace('-', "_"));
            path.push('/');
            path.push_str(&slice);
            path.push_str(SLICE);
        }
        if path.is_empty() { "/".to_owned() } else { path }
    }

    /// Parses a path of the cgroupfs driver.
    #[doc(alias = "ParseCgroupfsToCgroupName")]
    pub fn parse_cgroupfs(path: &str) -> Self {
        Self::new(path.split('/').filter(|name| !name.is_empty()))
    }

    /// Parses a path of systemd: the name of the last slice contains all levels.
    #[doc(alias = "ParseSystemdToCgroupName")]
    pub fn parse_systemd(path: &str) -> Self {
        let base = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let slice = base.strip_suffix(SLICE).unwrap_or(base);
        Self::new(slice.split('-').filter(|name| !name.is_empty()).map(|name| name.replace('_', "-")))
    }
}

/// The cgroups of pods (section 19.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupTree {
    root: CgroupPath,
    driver: CgroupDriver,
    per_qos: bool,
}

impl CgroupTree {
    /// The tree below `cgroupRoot`, with a level per class (`cgroupsPerQOS`) or without (CG-03).
    pub fn new(cgroup_root: &str, driver: CgroupDriver, per_qos: bool) -> Self {
        // The configured root is a plain path under either driver.
        let base = CgroupPath::parse_cgroupfs(cgroup_root);
        let root = if per_qos { base.child(PODS_NAME) } else { base };
        Self { root, driver, per_qos }
    }

    /// The cgroup driver.
    pub fn driver(&self) -> CgroupDriver {
        self.driver
    }

    /// There is a level per class and a cgroup per pod, which rubelet creates.
    pub fn per_qos(&self) -> bool {
        self.per_qos
    }

    /// The cgroup that holds all pods.
    #[doc(alias = "NodeAllocatableRoot")]
    pub fn root(&self) -> CgroupPath {
        self.root.clone()
    }

    /// The cgroup that holds the pods of a class. Guaranteed pods have no level of their own (CG-01).
    pub fn level(&self, class: QosClass) -> CgroupPath {
        match class {
            QosClass::Guaranteed => self.root.clone(),
            QosClass::Burstable => self.root.child("burstable"),
            QosClass::BestEffort => self.root.child("besteffort"),
        }
    }

    /// The cgroup of a pod of this class; without levels per class, the one that holds all pods (CG-03).
    pub fn pod(&self, class: QosClass, uid: &PodUid) -> CgroupPath {
        if self.per_qos { self.level(class).child(format!("{POD_PREFIX}{uid}")) } else { self.root.clone() }
    }

    /// The cgroup of a pod.
    #[doc(alias = "GetPodContainerName")]
    pub fn of_pod(&self, pod: &Pod) -> CgroupPath {
        let uid = PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default());
        self.pod(qos_class(pod), &uid)
    }

    /// The cgroup that a field of the configuration names, in the driver's spelling. systemd names a slice by all its
    /// levels, so only the last name counts there.
    #[doc(alias = "CgroupName")]
    pub fn named(&self, name: &str) -> CgroupPath {
        match self.driver {
            CgroupDriver::Cgroupfs => CgroupPath::parse_cgroupfs(name),
            CgroupDriver::Systemd => CgroupPath::parse_systemd(name),
        }
    }

    /// The path of a cgroup below the mount point of the hierarchy, in the driver's spelling.
    pub fn literal(&self, path: &CgroupPath) -> String {
        match self.driver {
            CgroupDriver::Cgroupfs => path.cgroupfs(),
            CgroupDriver::Systemd => path.systemd(),
        }
    }

    /// The parent cgroup in the sandbox configuration of a pod (CG-02).
    ///
    /// upstream: kubelet_pods.go GetPodCgroupParent (v1.36) gives systemd's slices with their whole path; runtimes look
    /// at the last one only.
    #[doc(alias = "GetPodCgroupParent")]
    pub fn cgroup_parent(&self, pod: &Pod) -> String {
        self.literal(&self.of_pod(pod))
    }

    /// The directories below the mount point that contain pod cgroups, with the class of the pods in each.
    pub fn levels(&self) -> Vec<(QosClass, String)> {
        [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort]
            .into_iter()
            .map(|class| (class, self.literal(&self.level(class))))
            .collect()
    }

    /// The pod whose cgroup is the directory `name` in the level of `class`; `None` if there is no such pod
    /// (HK-01).
    ///
    /// upstream: pod_container_manager_linux.go GetAllPodsFromCgroups (v1.36)
    #[doc(alias = "IsPodCgroup")]
    pub fn pod_at(&self, class: QosClass, name: &str) -> Option<(PodUid, CgroupPath)> {
        if !self.per_qos {
            return None;
        }
        let level = self.level(class);
        let last = match self.driver {
            CgroupDriver::Cgroupfs => name.to_owned(),
            CgroupDriver::Systemd => {
                let names = CgroupPath::parse_systemd(name.strip_suffix(SLICE).map(|_| name)?);
                let (last, above) = names.names().split_last()?;
                (above == level.names()).then(|| last.clone())?
            }
        };
        let uid = last.strip_prefix(POD_PREFIX).filter(|uid| !uid.is_empty())?;
        Some((PodUid::from(uid), level.child(last.as_str())))
    }
}
