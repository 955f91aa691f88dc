//! The parts of the machine that never change while it runs, and when it started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rubelet_core::usage::{Core, MachineInfo, NumaNode};

use super::files::Reader;
use super::parse::{cpu_list, meminfo, pairs};
use crate::host::KernelFiles;

/// Most CPUs, NUMA nodes and caches of a CPU that are looked at.
const MOST_CPUS: usize = 8192;

/// Reads the machine. What cannot be read stays empty.
/// upstream: cadvisor machine/info.go Info, utils/sysinfo/sysinfo.go GetNodesInfo, as of v1.36
#[doc(alias = "GetMachineInfo")]
pub(super) fn machine(files: &KernelFiles) -> MachineInfo {
    let mut reader = Reader::default();
    let KernelFiles { proc, sys } = files;
    let memory = reader.path(&proc.join("meminfo")).map(|text| (meminfo(text, "MemTotal"), meminfo(text, "SwapTotal")));
    let (memory, swap) = memory.unwrap_or_default();
    let cpus = sys.join("devices/system/cpu");
    let online = reader.path(&cpus.join("online")).map(|list| cpu_list(list, MOST_CPUS)).unwrap_or_default();
    let all: Vec<Cpu> = online.iter().map(|cpu| cpu_at(&cpus, *cpu, &mut reader)).collect();
    let mut cores: Vec<(u32, u32)> = all.iter().map(|cpu| (cpu.socket, cpu.core)).collect();
    cores.sort_unstable();
    cores.dedup();
    let mut sockets: Vec<u32> = cores.iter().map(|(socket, _)| *socket).collect();
    sockets.dedup();
    let host = proc.parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
    let mut first = |paths: &[&str]| {
        let text = paths.iter().find_map(|path| reader.path(&host.join(path)).map(|text| text.trim().to_owned()));
        text.unwrap_or_default()
    };
    let machine_id = first(&["etc/machine-id", "var/lib/dbus/machine-id"]);
    let system_uuid = first(&["sys/class/dmi/id/product_uuid", "proc/device-tree/vm,uuid", "etc/machine-id"]);
    let boot_id = first(&["proc/sys/kernel/random/boot_id"]);
    let os = first(&["etc/os-release", "usr/lib/os-release"]);
    let os = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux").trim_matches('"');
    let total = memory.unwrap_or_default();
    MachineInfo {
        cpus: count(online.len()),
        physical_cores: count(cores.len()),
        sockets: count(sockets.len()),
        memory_bytes: total,
        swap_bytes: swap.unwrap_or_default(),
        numa_nodes: numa_nodes(sys, &all, total, &mut reader),
        boot_time: boot_time(proc, &mut reader),
        machine_id,
        system_uuid,
        boot_id,
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        os: os.to_owned(),
    }
}

/// When the machine started. upstream: cadvisor machine/machine.go, as of v1.36, computes it from the uptime
pub(super) fn boot_time(proc: &Path, reader: &mut Reader) -> Option<Timestamp> {
    let (_, seconds) = pairs(reader.path(&proc.join("stat"))?).find(|(key, _)| *key == "btime")?;
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

/// The cgroup of this process, for `kubeletCgroups` that are not configured; `None` in the root.
/// upstream: cm/container_manager_linux.go getContainer (v1.36)
#[doc(alias = "GetKubeletContainer")]
pub fn own_cgroup(proc: &Path) -> Option<String> {
    let text = Reader::default().path(&proc.join("self/cgroup"))?.to_owned();
    let of = |wanted: &str| {
        text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|controller| controller == wanted).then_some(path)
        })
    };
    // With cgroup v1 a process may be elsewhere in each tree; without one of CPU and memory there is only the one of v2.
    let path = match (of("cpu"), of("memory")) {
        (Some(cpu), Some(memory)) => {
            Some(cpu).filter(|cpu| *cpu == memory).map(|cpu| of("name=systemd").unwrap_or(cpu))
        }
        (None, None) => of(""),
        _ => None,
    };
    path.filter(|path| *path != "/").map(str::to_owned)
}

/// One logical CPU.
struct Cpu {
    id: u32,
    core: u32,
    socket: u32,
    node: u32,
    caches: Vec<(u32, String, u64)>,
}

fn cpu_at(cpus: &Path, id: u32, reader: &mut Reader) -> Cpu {
    let dir = cpus.join(format!("cpu{id}"));
    let mut number = |file: &str| reader.path(&dir.join(file)).and_then(|text| text.trim().parse::<u32>().ok());
    let core = number("topology/core_id").unwrap_or(id);
    let socket = number("topology/physical_package_id").unwrap_or_default();
    let node = std::fs::read_dir(&dir).ok().and_then(|entries| {
        let names = entries.flatten().take(MOST_CPUS).filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
    });
    Cpu { id, core, socket, node: node.unwrap_or_default(), caches: caches(&dir.join("cache"), reader) }
}

fn caches(dir: &Path, reader: &mut Reader) -> Vec<(u32, String, u64)> {
    let mut caches = Vec::new();
    for index in 0..16 {
        let dir = dir.join(format!("index{index}"));
        let mut text = |file: &str| reader.path(&dir.join(file)).map(|text| text.trim().to_owned());
        let (Some(level), Some(kind), Some(size)) = (text("level"), text("type"), text("size")) else { break };
        let (Ok(level), Some(size)) = (level.parse(), bytes(&size)) else { break };
        caches.push((level, kind, size));
    }
    caches
}

/// `32K`, `8M`.
fn bytes(size: &str) -> Option<u64> {
    let (number, unit) = match size.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => size.strip_suffix('M').map_or((size, 1), |number| (number, 1 << 20)),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// The NUMA nodes. A kernel without them has one, of all CPUs and all memory.
fn numa_nodes(sys: &Path, cpus: &[Cpu], memory: u64, reader: &mut Reader) -> Vec<NumaNode> {
    let dir = sys.join("devices/system/node");
    let online = reader.path(&dir.join("online")).map(|list| cpu_list(list, MOST_CPUS)).unwrap_or_default();
    let ids = if online.is_empty() { vec![0] } else { online.clone() };
    let mut nodes = Vec::new();
    for id in ids {
        let (at, pages) = if online.is_empty() {
            (None, sys.join("kernel/mm/hugepages"))
        } else {
            let at = dir.join(format!("node{id}"));
            let pages = at.join("hugepages");
            (Some(at), pages)
        };
        // Its lines begin with the number of the node.
        let own = at.and_then(|at| {
            let text = reader.path(&at.join("meminfo"))?;
            meminfo(&text.replace(&format!("Node {id} "), ""), "MemTotal")
        });
        nodes.push(NumaNode {
            id,
            memory_bytes: own.unwrap_or(memory),
            hugepages: hugepages(&pages, reader),
            cores: cores(cpus.iter().filter(|cpu| cpu.node == id)),
        });
    }
    nodes
}

fn hugepages(dir: &Path, reader: &mut Reader) -> Vec<(u64, u64)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut pages = Vec::new();
    for entry in entries.flatten().take(64) {
        let name = entry.file_name();
        let size = name.to_str().and_then(|name| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok());
        let count = reader.path(&entry.path().join("nr_hugepages")).and_then(|text| text.trim().parse().ok());
        pages.extend(size.zip(count));
    }
    pages.sort_unstable();
    pages
}

fn cores<'a>(cpus: impl Iterator<Item = &'a Cpu>) -> Vec<Core> {
    let mut cores: BTreeMap<(u32, u32), Core> = BTreeMap::new();
    for cpu in cpus {
        let core = cores.entry((cpu.socket, cpu.core)).or_insert_with(|| Core {
            id: cpu.core,
            socket: cpu.socket,
            threads: Vec::new(),
            caches: cpu.caches.clone(),
        });
        core.threads.push(cpu.id);
    }
    cores.into_values().collect()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
