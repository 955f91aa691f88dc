//! What node allocatable sets on cgroups of the node: the cgroup of all pods, and those of system and Kubernetes daemons
//! that the configuration names (CG-21 … CG-24).

use std::collections::BTreeMap;

use super::reserved::{ReservedError, cgroup_limit};
use super::resources::ThresholdError;
use super::view::NodeSetup;
use crate::config::KubeletConfiguration;
use crate::qos::{CgroupPath, CgroupTree, CgroupValues, node_values};
use crate::resources::{Amount, Amounts};

/// The reason of the event after limits were set.
#[doc(alias = "SuccessfulNodeAllocatableEnforcement")]
pub const ENFORCED: &str = "NodeAllocatableEnforced";
/// The reason of the event after limits could not be set.
pub const NOT_ENFORCED: &str = "FailedNodeAllocatableEnforcement";
/// The message of the event after the cgroup of all pods got its limits.
pub const PODS_ENFORCED: &str = "Updated Node Allocatable limit across pods";

/// The cgroups of the node itself, and the processes that belong into them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCgroups {
    /// Values of the cgroup of all pods.
    pub pods: CgroupValues,
    /// Cgroups of daemons, in the order in which they are set. They are never made: somebody else owns them.
    pub reserved: Vec<ReservedCgroup>,
    /// `kubeletCgroups`: the cgroup for this agent, as a plain path; empty for none.
    pub agent: String,
    /// `systemCgroups`: the cgroup for all processes that are in none, as a plain path; empty for none.
    pub system: String,
}

/// A cgroup of daemons whose resources are reserved (CG-22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedCgroup {
    /// Which daemons, and how much of the reservation is set.
    pub kind: ReservedKind,
    /// Its name in the configuration.
    pub name: String,
    /// Its path.
    pub path: CgroupPath,
    /// Its values.
    pub values: CgroupValues,
}

/// A word of `enforceNodeAllocatable` that needs a cgroup of daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedKind {
    /// `system-reserved`.
    System,
    /// `kube-reserved`.
    Kube,
    /// `system-reserved-compressible`: CPU alone.
    SystemCompressible,
    /// `kube-reserved-compressible`: CPU alone.
    KubeCompressible,
}

impl ReservedKind {
    /// In the order in which they are set.
    const ALL: [Self; 4] = [Self::System, Self::Kube, Self::SystemCompressible, Self::KubeCompressible];

    /// The word in `enforceNodeAllocatable`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system-reserved",
            Self::Kube => "kube-reserved",
            Self::SystemCompressible => "system-reserved-compressible",
            Self::KubeCompressible => "kube-reserved-compressible",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::System => "System Reserved",
            Self::Kube => "Kube Reserved",
            Self::SystemCompressible => "System Reserved Compressible",
            Self::KubeCompressible => "Kube Reserved Compressible",
        }
    }

    const fn is_system(self) -> bool {
        matches!(self, Self::System | Self::SystemCompressible)
    }

    const fn is_compressible(self) -> bool {
        matches!(self, Self::SystemCompressible | Self::KubeCompressible)
    }
}

impl ReservedCgroup {
    /// The message of the event after the limits were set.
    pub fn enforced(&self) -> String {
        let daemons = if self.kind.is_system() { "system" } else { "kube" };
        format!("Updated limits on {daemons} reserved cgroup {}", self.name)
    }

    /// The message of the event, and of the error that ends a start, after the limits could not be set.
    pub fn not_enforced(&self, why: &str) -> String {
        format!("Failed to enforce {} Cgroup Limits on {:?}: {why}", self.kind.title(), self.name)
    }
}

/// The message of the event after the cgroup of all pods could not get its limits.
pub fn pods_not_enforced(root: &CgroupPath, why: &str) -> String {
    format!("Failed to update Node Allocatable Limits {:?}: {why}", root.names())
}

/// Why the cgroups of the node cannot be as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnforceError {
    /// A quantity cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ReservedError),
    /// A cgroup is to be limited to a reservation, and nothing is reserved.
    #[error("enforceNodeAllocatable has {}, but {field} is empty: there is nothing to set on cgroup {cgroup}", kind.as_str())]
    NothingReserved {
        /// Which daemons.
        kind: ReservedKind,
        /// The field that says how much.
        field: &'static str,
        /// The name of the cgroup.
        cgroup: String,
    },
    /// `systemCgroups` is the root cgroup, where the processes are already.
    #[error("systemCgroups (--system-cgroups) must not be the root cgroup (\"/\")")]
    SystemIsRoot,
}

/// The cgroups of the node, from its configuration.
///
/// upstream: cm/node_container_manager_linux.go enforceNodeAllocatableCgroups, enforceExistingCgroup;
/// container_manager_linux.go setupNode (v1.36)
#[doc(alias = "enforceNodeAllocatableCgroups")]
pub fn node_cgroups(
    config: &KubeletConfiguration,
    setup: &NodeSetup,
    tree: &CgroupTree,
    hugepage_sizes: &[u64],
) -> Result<NodeCgroups, EnforceError> {
    if config.system_cgroups == "/" {
        return Err(EnforceError::SystemIsRoot);
    }
    let limit = cgroup_limit(config, setup).map_err(ReservedError::from)?;
    let asked = |kind: &ReservedKind| config.enforce_node_allocatable.iter().any(|word| word == kind.as_str());
    let reserved = ReservedKind::ALL.into_iter().filter(asked);
    Ok(NodeCgroups {
        pods: node_values(&limit, hugepage_sizes),
        reserved: reserved.map(|kind| reserved_cgroup(kind, config, tree, hugepage_sizes)).collect::<Result<_, _>>()?,
        agent: config.kubelet_cgroups.clone(),
        system: config.system_cgroups.clone(),
    })
}

fn reserved_cgroup(
    kind: ReservedKind,
    config: &KubeletConfiguration,
    tree: &CgroupTree,
    hugepage_sizes: &[u64],
) -> Result<ReservedCgroup, EnforceError> {
    let (field, list, name) = if kind.is_system() {
        ("systemReserved", &config.system_reserved, &config.system_reserved_cgroup)
    } else {
        ("kubeReserved", &config.kube_reserved, &config.kube_reserved_cgroup)
    };
    if list.is_empty() {
        return Err(EnforceError::NothingReserved { kind, field, cgroup: name.clone() });
    }
    let amounts = parse(field, list).map_err(ReservedError::from)?;
    let whole = node_values(&amounts, hugepage_sizes);
    // Upstream also forbids huge pages to a cgroup whose compressible resources alone are enforced, because it forbids
    // every size that a list leaves out. Daemons that use huge pages would fail for a setting about CPU.
    let values = if kind.is_compressible() {
        CgroupValues { cpu_shares: whole.cpu_shares, ..CgroupValues::default() }
    } else {
        whole
    };
    Ok(ReservedCgroup { kind, name: name.clone(), path: tree.named(name), values })
}

fn parse(field: &'static str, list: &BTreeMap<String, String>) -> Result<Amounts, ThresholdError> {
    let one = |(name, text): (&String, &String)| match Amount::parse(text) {
        Ok(amount) => Ok((name.clone(), amount)),
        Err(_) => Err(ThresholdError { field, name: name.clone(), text: text.clone() }),
    };
    list.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Machine;
    use crate::qos::CgroupDriver;

    const MIB: i64 = 1 << 20;

    fn list(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn config(enforce: &[&str]) -> KubeletConfiguration {
        KubeletConfiguration {
            enforce_node_allocatable: enforce.iter().map(|word| (*word).to_owned()).collect(),
            system_reserved: list(&[("cpu", "500m"), ("memory", "100Mi"), ("pid", "1000")]),
            system_reserved_cgroup: "/system.slice".to_owned(),
            kube_reserved: list(&[("cpu", "250m"), ("ephemeral-storage", "1Gi")]),
            kube_reserved_cgroup: "/runtime.slice/runtime-kube.slice".to_owned(),
            ..KubeletConfiguration::default()
        }
    }

    fn cgroups(config: &KubeletConfiguration, driver: CgroupDriver) -> Result<NodeCgroups, EnforceError> {
        let machine =
            Machine { cpu_millis: 2000, memory_bytes: 1024 * MIB, process_ids: Some(32_768), ..Machine::default() };
        let setup = NodeSetup { machine, pods: 110, ..NodeSetup::default() };
        node_cgroups(config, &setup, &CgroupTree::new("/", driver, true), &[2 << 20])
    }

    #[test]
    fn cg_22_each_word_sets_its_cgroup_in_upstreams_order() {
        let none = |sizes: &[&str]| sizes.iter().map(|size| ((*size).to_owned(), 0)).collect::<BTreeMap<_, _>>();
        let system = CgroupValues {
            cpu_shares: Some(512),
            memory_limit: Some(100 * MIB),
            pids_limit: Some(1000),
            hugepages: none(&["2MB"]),
            ..CgroupValues::default()
        };
        let kube = CgroupValues { cpu_shares: Some(256), hugepages: none(&["2MB"]), ..CgroupValues::default() };
        let shares = |shares| CgroupValues { cpu_shares: Some(shares), ..CgroupValues::default() };
        for (enforce, expected) in [
            (&["pods"][..], vec![]),
            (&["none"], vec![]),
            (
                &["kube-reserved", "pods", "system-reserved"],
                vec![("/system.slice", system.clone()), ("/runtime.slice/runtime-kube.slice", kube.clone())],
            ),
            (
                &["kube-reserved", "system-reserved-compressible"],
                vec![("/runtime.slice/runtime-kube.slice", kube), ("/system.slice", shares(512))],
            ),
            (&["kube-reserved-compressible"], vec![("/runtime.slice/runtime-kube.slice", shares(256))]),
        ] {
            for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
                let tree = CgroupTree::new("/", driver, true);
                let made = cgroups(&config(enforce), driver).expect("it can be read");
                let seen: Vec<_> =
                    made.reserved.iter().map(|one| (tree.literal(&one.path), one.values.clone())).collect();
                let expected: Vec<_> =
                    expected.iter().map(|(path, values)| ((*path).to_owned(), values.clone())).collect();
                assert_eq!(seen, expected, "{enforce:?} {driver:?}");
            }
        }
    }

    /// systemd names a slice by all its levels, so that its directory alone counts.
    #[test]
    fn cg_22_a_reserved_cgroup_is_named_as_the_driver_names_it() {
        for (name, cgroupfs, systemd) in [
            ("/system-reserved", "/system-reserved", "/system.slice/system-reserved.slice"),
            ("system.slice", "/system.slice", "/system.slice"),
            ("/a/b", "/a/b", "/b.slice"),
            ("/a.slice/a-b.slice", "/a.slice/a-b.slice", "/a.slice/a-b.slice"),
        ] {
            for (driver, path) in [(CgroupDriver::Cgroupfs, cgroupfs), (CgroupDriver::Systemd, systemd)] {
                let tree = CgroupTree::new("/", driver, true);
                assert_eq!(tree.literal(&tree.named(name)), path, "{name} {driver:?}");
            }
        }
    }

    #[test]
    fn cg_21_23_process_ids_of_all_pods_are_those_of_the_machine_less_the_reserved() {
        let pods = |enforce: &[&str]| cgroups(&config(enforce), CgroupDriver::Cgroupfs).expect("it can be read").pods;
        assert_eq!(pods(&["pods"]).pids_limit, Some(31_768));
        assert_eq!(pods(&["none"]).pids_limit, Some(32_768));
        let mut greedy = config(&["pods"]);
        greedy.system_reserved.insert("pid".to_owned(), "40000".to_owned());
        let limit = cgroups(&greedy, CgroupDriver::Cgroupfs).expect("as upstream, it is no error").pods.pids_limit;
        assert_eq!(limit, Some(0));
    }

    #[test]
    fn cg_22_24_what_cannot_be_enforced_is_refused() {
        let mut nothing = config(&["kube-reserved"]);
        nothing.kube_reserved.clear();
        let root = KubeletConfiguration { system_cgroups: "/".to_owned(), ..config(&["pods"]) };
        for (config, text) in [
            (
                nothing,
                "enforceNodeAllocatable has kube-reserved, but kubeReserved is empty: there is nothing to set on cgroup \
                 /runtime.slice/runtime-kube.slice",
            ),
            (root, "systemCgroups (--system-cgroups) must not be the root cgroup (\"/\")"),
        ] {
            let err = cgroups(&config, CgroupDriver::Cgroupfs).expect_err(text);
            assert_eq!(err.to_string(), text);
        }
    }

    #[test]
    fn cg_22_events_have_upstreams_words() {
        let made = cgroups(&config(&["system-reserved", "kube-reserved-compressible"]), CgroupDriver::Cgroupfs);
        let made = made.expect("it can be read").reserved;
        let [system, kube] = made.as_slice() else { panic!("{made:?}") };
        assert_eq!(system.enforced(), "Updated limits on system reserved cgroup /system.slice");
        assert_eq!(
            system.not_enforced("why"),
            "Failed to enforce System Reserved Cgroup Limits on \"/system.slice\": why"
        );
        assert_eq!(
            kube.not_enforced("why"),
            "Failed to enforce Kube Reserved Compressible Cgroup Limits on \"/runtime.slice/runtime-kube.slice\": why"
        );
        let root = CgroupPath::new(["kubepods"]);
        assert_eq!(pods_not_enforced(&root, "why"), "Failed to update Node Allocatable Limits [\"kubepods\"]: why");
    }
}
