//! `/metrics/cadvisor`: every cgroup with all that is measured of it, and the machine.
//!
//! The page is made part by part, so that it takes the memory of one part however many containers there are, and whatever
//! clients do with it. Labels are written once; a family then copies them.
//!
//! Rows: the root, the cgroups between it and the pods, each pod, its sandbox and its containers, and what containers made
//! below their own. As with containerd upstream, a sandbox has an empty label `container` and the pod's network.
//! upstream: kubelet/server/server.go containerPrometheusLabelsFunc (v1.36), cadvisor metrics/prometheus.go (v0.56)

mod families;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::families::FAMILIES;
use super::machine_metrics::write_machine;
use super::prometheus::{Kind, LONGEST_VALUE, family, label, stamp};
use super::{CgroupKind, CgroupSample, MachineInfo, NetworkUsage, NodeUsage, PodUsage};

/// Parts are about this long. Much larger ones would be held in memory for each client, much smaller ones cost time.
const PART: usize = 64 * 1024;
/// The most cgroups that are nobody's by name: a container may make as many below its own as it likes.
const MOST_OTHERS: usize = 256;

/// The page: an iterator over its parts.
#[derive(Debug)]
pub struct CadvisorPage {
    usage: Option<Arc<NodeUsage>>,
    machine: MachineInfo,
    /// The labels of each cgroup of the sample, in its order; `None` for one that is not shown.
    rows: Vec<Option<Labels>>,
    stamp: String,
    /// The family that comes next.
    next: usize,
}

#[derive(Debug)]
struct Labels {
    text: String,
    network: Network,
}

/// Whose network a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    None,
    Node,
    /// Of the pod at this place.
    Pod(usize),
}

/// One cgroup, as families see it.
struct Row<'a> {
    labels: &'a str,
    cgroup: &'a CgroupSample,
    network: Option<&'a NetworkUsage>,
    usage: &'a NodeUsage,
    machine: &'a MachineInfo,
}

impl CadvisorPage {
    /// The page; without `usage`, which could not be measured, it has the machine and an error.
    pub fn new(usage: Option<Arc<NodeUsage>>, machine: MachineInfo) -> Self {
        let rows = usage.as_deref().map(rows).unwrap_or_default();
        let stamp = usage.as_ref().map(|usage| stamp(usage.sample.at.wall)).unwrap_or_default();
        Self { usage, machine, rows, stamp, next: 0 }
    }

    /// Writes the family at `next`. Answers whether there was one.
    fn write_next(&mut self, out: &mut String) -> bool {
        let at = self.next;
        self.next += 1;
        if let Some((name, kind, help, timed, write)) = FAMILIES.get(at) {
            let Some(usage) = self.usage.as_deref() else { return true };
            let stamp = if *timed { self.stamp.as_str() } else { "" };
            family(out, (name, *kind, help), stamp, |samples| {
                for (labels, cgroup) in self.rows.iter().zip(usage.sample.cgroups.values()) {
                    let Some(labels) = labels else { continue };
                    let network = match labels.network {
                        Network::None => None,
                        Network::Node => usage.network.as_ref(),
                        Network::Pod(at) => usage.pods.get(at).and_then(|pod| pod.network.as_ref()),
                    };
                    write(samples, &Row { labels: &labels.text, cgroup, network, usage, machine: &self.machine });
                }
            });
            return true;
        }
        if at == FAMILIES.len() {
            self.write_rest(out);
            return true;
        }
        false
    }

    fn write_rest(&self, out: &mut String) {
        let mut labels = String::new();
        for (name, value) in [
            ("cadvisorRevision", ""),
            ("cadvisorVersion", ""),
            ("dockerVersion", ""),
            ("kernelVersion", self.machine.kernel.as_str()),
            ("osVersion", self.machine.os.as_str()),
        ] {
            label(&mut labels, name, value);
        }
        let head = ("cadvisor_version_info", Kind::Gauge, "Always 1; the kernel and the operating system.");
        family(out, head, "", |samples| samples.add(&labels, &[], 1_u64));
        let failed = u64::from(self.usage.is_none());
        let head = ("container_scrape_error", Kind::Gauge, "1 if nothing could be measured, else 0.");
        family(out, head, "", |samples| samples.add("", &[], failed));
        write_machine(out, &self.machine);
    }
}

impl Iterator for CadvisorPage {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut out = String::with_capacity(PART);
        while out.len() < PART && self.write_next(&mut out) {}
        (!out.is_empty()).then_some(out)
    }
}

/// What is known of a cgroup by its path.
struct Named<'a> {
    pod: &'a PodUsage,
    /// Container, id and image; empty for the pod's own.
    container: &'a str,
    name: &'a str,
    image: &'a str,
    network: Network,
}

fn rows(usage: &NodeUsage) -> Vec<Option<Labels>> {
    let named = named(usage);
    let mut others = 0;
    let row = |(path, cgroup): (&String, &CgroupSample)| {
        // Two cgroups whose labels were cut could become one series.
        if path.len() > LONGEST_VALUE {
            return None;
        }
        let known = named.get(path.as_str());
        let node = if cgroup.kind == CgroupKind::Root { Network::Node } else { Network::None };
        match (&cgroup.kind, known) {
            // Its name is not known yet, or no longer.
            (CgroupKind::Container { .. } | CgroupKind::Pod(_), None) => return None,
            (CgroupKind::Other, _) => {
                others += 1;
                if others > MOST_OTHERS {
                    return None;
                }
            }
            (
                CgroupKind::Root
                | CgroupKind::AllPods
                | CgroupKind::PodsOfClass
                | CgroupKind::Pod(_)
                | CgroupKind::Container { .. }
                | CgroupKind::System(_),
                _,
            ) => {}
        }
        let pod = known.map(|known| &known.pod.pod);
        let mut text = String::with_capacity(384);
        for (name, value) in [
            ("container", known.map(|known| known.container)),
            ("id", Some(path.as_str())),
            ("image", known.map(|known| known.image)),
            ("name", known.map(|known| known.name)),
            ("namespace", pod.map(|pod| &*pod.namespace)),
            ("pod", pod.map(|pod| &*pod.name)),
        ] {
            label(&mut text, name, value.unwrap_or_default());
        }
        Some(Labels { text, network: known.map_or(node, |known| known.network) })
    };
    usage.sample.cgroups.iter().map(row).collect()
}

fn named(usage: &NodeUsage) -> BTreeMap<&str, Named<'_>> {
    let mut named = BTreeMap::new();
    for (at, pod) in usage.pods.iter().enumerate() {
        // A pod on the node's network would show the node's counters (STS-04).
        let network = if pod.host_network { Network::None } else { Network::Pod(at) };
        let there = |path: &&String| usage.sample.cgroups.contains_key(path.as_str());
        let sandbox = pod.sandbox.as_ref().and_then(|sandbox| Some((sandbox, sandbox.cgroup.as_ref().filter(there)?)));
        if let Some(path) = &pod.cgroup {
            // Without a cgroup of its own the sandbox has no row, and the pod's has its network.
            let network = if sandbox.is_none() { network } else { Network::None };
            named.insert(path.as_str(), Named { pod, container: "", name: "", image: "", network });
        }
        if let Some((sandbox, path)) = sandbox {
            let (name, image) = (sandbox.id.as_str(), sandbox.image.as_str());
            named.insert(path.as_str(), Named { pod, container: "", name, image, network });
        }
        for container in &pod.containers {
            let Some(path) = &container.cgroup else { continue };
            let (name, image) = (container.id.as_str(), container.image.as_str());
            let network = Network::None;
            named.insert(path.as_str(), Named { pod, container: &container.name, name, image, network });
        }
    }
    named
}

#[cfg(test)]
mod tests;
