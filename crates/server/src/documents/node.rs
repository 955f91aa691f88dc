//! The node in words: what it has, what is kept from pods, what is requested and used, how far each eviction threshold is,
//! and what holds the disk. For `rubelet explain node` and the page.

use std::collections::BTreeMap;

use rubelet_core::lifecycle::Stage;
use rubelet_core::resources::{Amount, Amounts, CPU, EPHEMERAL_STORAGE, MEMORY, PODS, pod_requests};
use rubelet_core::usage::{FsStats, NodeUsage, PodUsage};
use rubelet_engine::eviction::{EvictionView, SignalView};
use rubelet_engine::sync_loop::NodeView;
use serde::{Deserialize, Serialize};

use super::top::of_node;

/// How many pods are listed by what they hold of the disk.
const DISK_PODS: usize = 10;
/// A threshold is near when less than this share of the way to it is left, in hundredths.
const NEAR: u64 = 10;

/// What the configuration and the machine fix for the node. Made once, at start-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLimits {
    /// All that the machine has.
    pub capacity: Amounts,
    /// What is kept from pods: for the system, for the agent, and up to the hard eviction thresholds.
    pub reserved: Amounts,
    /// `evictionHard`.
    pub hard: BTreeMap<String, String>,
    /// `evictionSoft`.
    pub soft: BTreeMap<String, String>,
    /// `evictionSoftGracePeriod`.
    pub soft_grace: BTreeMap<String, String>,
}

/// The node in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStory {
    /// Name of the node.
    pub node: String,
    /// The version that the agent reports.
    pub kubelet_version: String,
    /// Its resources.
    pub resources: Vec<ResourceDocument>,
    /// Its eviction thresholds, as configured.
    pub thresholds: Vec<ThresholdDocument>,
    /// Its file systems.
    pub disks: Vec<DiskDocument>,
    /// What holds the disk; `None` if it was not measured.
    pub disk_use: Option<DiskUseDocument>,
    /// Why nothing could be measured, if so.
    pub usage_problem: Option<String>,
}

/// One resource of the node. CPU is in thousandths, all else in bytes or pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDocument {
    /// Its name, such as `memory`.
    pub name: String,
    /// `millicores`, `bytes` or `count`.
    pub unit: Unit,
    /// What the machine has.
    pub capacity: i64,
    /// What is kept from pods.
    pub reserved: i64,
    /// What pods may request.
    pub allocatable: i64,
    /// What the pods of the node have requested.
    pub requested: i64,
    /// What is in use on the machine, by pods and by all else; `None` if it was not measured.
    pub used: Option<i64>,
}

/// In what a number is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Thousandths of a CPU.
    Millicores,
    /// Bytes.
    Bytes,
    /// Pieces.
    Count,
}

/// One eviction threshold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdDocument {
    /// The signal, such as `memory.available`.
    pub signal: String,
    /// It is hard: pods are evicted as soon as it is crossed.
    pub hard: bool,
    /// For a soft one, how long it has to be crossed.
    pub grace: Option<String>,
    /// As configured, such as `10%`.
    pub configured: String,
    /// In what the numbers below are counted.
    pub unit: Unit,
    /// Below this it is crossed.
    pub threshold: Option<u64>,
    /// What is available now.
    pub available: Option<u64>,
    /// What there is in all.
    pub capacity: Option<u64>,
    /// How it stands.
    pub state: ThresholdState,
    /// How much less is available each minute, by the evictor's last looks; negative if it is more.
    pub taken_per_minute: Option<i64>,
}

/// How a threshold stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThresholdState {
    /// There is room.
    Far,
    /// Less than a tenth of the way is left.
    Near,
    /// Less is available than it asks for.
    Crossed,
    /// It was not measured.
    Unknown,
}

/// One file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskDocument {
    /// `nodefs`, `imagefs` or `containerfs`, several if they are one: `nodefs, imagefs`.
    pub name: String,
    /// Size in bytes.
    pub capacity: u64,
    /// Bytes in use.
    pub used: u64,
    /// Bytes that may still be written.
    pub available: u64,
    /// Inodes; zero if the file system has no fixed number.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
}

/// What holds the disk, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUseDocument {
    /// Images.
    pub images: Option<u64>,
    /// Writable layers of containers.
    pub layers: Option<u64>,
    /// Logs of containers.
    pub logs: u64,
    /// Volumes on this node's disk.
    pub volumes: u64,
    /// Hosts files and the like.
    pub own_files: u64,
    /// The pods that hold most, the largest first.
    pub pods: Vec<PodDiskDocument>,
}

/// What one pod holds of the disk, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodDiskDocument {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// All of it.
    pub total: u64,
    /// Writable layers.
    pub layers: u64,
    /// Logs.
    pub logs: u64,
    /// Volumes.
    pub volumes: u64,
}

/// The inputs of [`node_story`], besides the sync loop's view.
#[derive(Clone, Copy, Debug)]
pub struct NodeFigures<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// The version that the agent reports.
    pub version: &'a str,
    /// What is fixed.
    pub limits: &'a NodeLimits,
    /// What pods may request now.
    pub allocatable: &'a Amounts,
    /// CPU, memory and processes in use, or why they are not known.
    pub usage: Result<&'a NodeUsage, &'a str>,
    /// The use of disks, which is measured less often.
    pub disks: Option<&'a NodeUsage>,
    /// The evictor's last look, with trends.
    pub eviction: Option<&'a EvictionView>,
}

/// The node in words.
#[must_use]
pub fn node_story(view: &NodeView, figures: &NodeFigures<'_>) -> NodeStory {
    NodeStory {
        node: figures.node.to_owned(),
        kubelet_version: figures.version.to_owned(),
        resources: resources(view, figures),
        thresholds: thresholds(figures),
        disks: figures.disks.map(disks).unwrap_or_default(),
        disk_use: figures.disks.and_then(disk_use),
        usage_problem: figures.usage.err().map(str::to_owned),
    }
}

/// Every resource that the node has, CPU and memory first.
fn resources(view: &NodeView, figures: &NodeFigures<'_>) -> Vec<ResourceDocument> {
    let limits = figures.limits;
    let requested = requested(view);
    let first = [CPU, MEMORY, EPHEMERAL_STORAGE, PODS];
    let rank = |name: &str| first.iter().position(|known| *known == name).unwrap_or(first.len());
    let mut names: Vec<&String> = limits.capacity.keys().chain(figures.allocatable.keys()).collect();
    names.sort_by_key(|name| (rank(name), *name));
    names.dedup();
    let document = |name: &String| {
        let unit = unit(name);
        let of = |amounts: &Amounts| number(amounts.get(name).copied().unwrap_or_default(), unit);
        ResourceDocument {
            name: name.clone(),
            unit,
            capacity: of(&limits.capacity),
            reserved: of(&limits.reserved),
            allocatable: of(figures.allocatable),
            requested: of(&requested),
            used: used(name, figures, &requested),
        }
    };
    names.into_iter().map(document).collect()
}

/// What the pods that run or may run have requested, and how many they are.
fn requested(view: &NodeView) -> Amounts {
    let mut sum = Amounts::new();
    for pod in &view.pods {
        let holds = match pod.stage {
            Stage::Waiting | Stage::Syncing { .. } | Stage::Terminating { .. } => true,
            Stage::Terminated { .. } | Stage::Finished => false,
        };
        let Some(spec) = pod.spec.as_ref().filter(|_| holds) else { continue };
        let one = (PODS.to_owned(), Amount::units(1));
        for (name, amount) in pod_requests(spec).into_iter().filter(|(name, _)| name != PODS).chain([one]) {
            let entry = sum.entry(name).or_default();
            *entry = *entry + amount;
        }
    }
    sum
}

fn used(name: &str, figures: &NodeFigures<'_>, requested: &Amounts) -> Option<i64> {
    let usage = figures.usage.ok();
    let whole = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    match name {
        CPU => of_node(usage?).cpu_nanocores.map(|nanos| whole(nanos / 1_000_000)),
        MEMORY => of_node(usage?).memory_bytes.map(whole),
        EPHEMERAL_STORAGE => figures.disks?.disks.nodefs.map(|fs| whole(fs.used)),
        PODS => Some(requested.get(PODS).copied().unwrap_or_default().value()),
        _ => None,
    }
}

fn unit(name: &str) -> Unit {
    match name {
        CPU => Unit::Millicores,
        MEMORY | EPHEMERAL_STORAGE => Unit::Bytes,
        name if name.starts_with(rubelet_core::resources::HUGEPAGES_PREFIX) => Unit::Bytes,
        _ => Unit::Count,
    }
}

fn number(amount: Amount, unit: Unit) -> i64 {
    match unit {
        Unit::Millicores => amount.millis(),
        Unit::Bytes | Unit::Count => amount.value(),
    }
}

/// The configured thresholds, hard ones first.
fn thresholds(figures: &NodeFigures<'_>) -> Vec<ThresholdDocument> {
    let limits = figures.limits;
    let hard = limits.hard.iter().map(|(signal, text)| (signal, text, true));
    let soft = limits.soft.iter().map(|(signal, text)| (signal, text, false));
    hard.chain(soft).map(|(signal, text, hard)| threshold(figures, (signal, text, hard))).collect()
}

fn threshold(figures: &NodeFigures<'_>, (signal, text, hard): (&String, &String, bool)) -> ThresholdDocument {
    let measured = measured(figures, signal);
    let (available, capacity) = measured.unzip();
    let threshold = amount(text, capacity);
    ThresholdDocument {
        signal: signal.clone(),
        hard,
        grace: figures.limits.soft_grace.get(signal).cloned().filter(|_| !hard),
        configured: text.clone(),
        unit: if signal.ends_with("inodesFree") || signal.starts_with("pid.") { Unit::Count } else { Unit::Bytes },
        threshold,
        available,
        capacity,
        state: match (threshold, available, capacity) {
            (Some(threshold), Some(available), Some(capacity)) => state(threshold, available, capacity),
            (_, _, _) => ThresholdState::Unknown,
        },
        taken_per_minute: figures.eviction.and_then(|view| {
            let of_signal = |one: &&SignalView| one.threshold.signal.as_str() == signal;
            view.signals.iter().find(of_signal)?.per_minute
        }),
    }
}

fn state(threshold: u64, available: u64, capacity: u64) -> ThresholdState {
    let left = available.saturating_sub(threshold);
    let way = capacity.saturating_sub(threshold);
    if available < threshold {
        ThresholdState::Crossed
    } else if left < way / 100 * NEAR {
        ThresholdState::Near
    } else {
        ThresholdState::Far
    }
}

/// What is available of a signal, of how much.
fn measured(figures: &NodeFigures<'_>, signal: &str) -> Option<(u64, u64)> {
    let usage = figures.usage.ok();
    let disks = figures.disks.map(|usage| usage.disks).unwrap_or_default();
    let bytes = |fs: Option<FsStats>| fs.map(|fs| (fs.available, fs.capacity));
    let inodes = |fs: Option<FsStats>| fs.filter(|fs| fs.inodes > 0).map(|fs| (fs.inodes_free, fs.inodes));
    match signal {
        "memory.available" => {
            let capacity = u64::try_from(figures.limits.capacity.get(MEMORY)?.value()).ok()?;
            Some((capacity.saturating_sub(of_node(usage?).memory_bytes?), capacity))
        }
        "nodefs.available" => bytes(disks.nodefs),
        "nodefs.inodesFree" => inodes(disks.nodefs),
        "imagefs.available" => bytes(disks.imagefs),
        "imagefs.inodesFree" => inodes(disks.imagefs),
        "containerfs.available" => bytes(disks.containerfs),
        "containerfs.inodesFree" => inodes(disks.containerfs),
        "pid.available" => usage?.processes.map(|pids| (pids.max.saturating_sub(pids.current), pids.max)),
        _ => None,
    }
}

/// `100Mi`, or a share such as `10%` of the capacity.
fn amount(text: &str, capacity: Option<u64>) -> Option<u64> {
    let Some(percent) = text.strip_suffix('%') else {
        return u64::try_from(Amount::parse(text).ok()?.value()).ok();
    };
    // Thousandths of a per cent: Go reads a decimal here.
    let thousandths = u128::try_from(Amount::parse(percent).ok()?.millis()).ok()?;
    u64::try_from(u128::from(capacity?) * thousandths / 100_000).ok()
}

/// The file systems, each once.
fn disks(usage: &NodeUsage) -> Vec<DiskDocument> {
    let all = &usage.disks;
    let mut found: Vec<(u64, DiskDocument)> = Vec::new();
    for (name, fs) in [("nodefs", all.nodefs), ("imagefs", all.imagefs), ("containerfs", all.containerfs)] {
        let Some(fs) = fs else { continue };
        if let Some((_, same)) = found.iter_mut().find(|(device, _)| *device == fs.device) {
            same.name = format!("{}, {name}", same.name);
            continue;
        }
        let FsStats { device, capacity, available, used, inodes, inodes_free } = fs;
        found.push((device, DiskDocument { name: name.to_owned(), capacity, used, available, inodes, inodes_free }));
    }
    found.into_iter().map(|(_, disk)| disk).collect()
}

/// What holds the disk; `None` if disks were not measured.
fn disk_use(usage: &NodeUsage) -> Option<DiskUseDocument> {
    usage.disks.nodefs?;
    let mut pods: Vec<PodDiskDocument> = usage.pods.iter().map(pod_disk).collect();
    let sum = |of: fn(&PodDiskDocument) -> u64| pods.iter().map(of).fold(0_u64, u64::saturating_add);
    let (logs, volumes) = (sum(|pod| pod.logs), sum(|pod| pod.volumes));
    let own_files = usage.pods.iter().filter_map(|pod| pod.own_files).map(|own| own.bytes).sum();
    pods.retain(|pod| pod.total > 0);
    pods.sort_by(|a, b| (b.total, &a.namespace, &a.name).cmp(&(a.total, &b.namespace, &b.name)));
    pods.truncate(DISK_PODS);
    Some(DiskUseDocument {
        images: usage.disks.images.map(|images| images.bytes),
        layers: usage.disks.layers.map(|layers| layers.bytes),
        logs,
        volumes,
        own_files,
        pods,
    })
}

fn pod_disk(pod: &PodUsage) -> PodDiskDocument {
    let layers = pod.containers.iter().filter_map(|container| container.layer?.bytes).sum();
    let logs = pod.containers.iter().filter_map(|container| container.logs).map(|logs| logs.bytes).sum();
    let local = pod.volumes.iter().filter(|volume| !volume.elsewhere);
    let volumes = local.map(|volume| volume.used.bytes).sum();
    let own = pod.own_files.map_or(0, |own| own.bytes);
    PodDiskDocument {
        namespace: pod.pod.namespace.to_string(),
        name: pod.pod.name.to_string(),
        total: layers + logs + volumes + own,
        layers,
        logs,
        volumes,
    }
}
