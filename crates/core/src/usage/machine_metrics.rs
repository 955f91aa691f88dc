//! The machine, on the page of cAdvisor.
//!
//! The kubelet of upstream leaves the topology out (caches, NUMA nodes, threads of a core); cAdvisor itself has these names.
//! upstream: cadvisor metrics/prometheus_machine.go (v0.56)

use std::collections::BTreeMap;

use super::MachineInfo;
use super::prometheus::{Kind, family, label};

/// Appends the families `machine_*`.
pub(super) fn write_machine(out: &mut String, machine: &MachineInfo, stamp: &str) {
    let mut labels = String::new();
    label(&mut labels, "boot_id", &machine.boot_id);
    label(&mut labels, "machine_id", &machine.machine_id);
    label(&mut labels, "system_uuid", &machine.system_uuid);
    let one = |out: &mut String, name, help, value: u64| {
        family(out, (name, Kind::Gauge, help), stamp, |samples| samples.add(&labels, &[], value));
    };
    let several = |out: &mut String, name, help, names: &[&str], values: &BTreeMap<Vec<String>, u64>| {
        family(out, (name, Kind::Gauge, help), stamp, |samples| {
            for (own, value) in values {
                let more: Vec<_> = names.iter().copied().zip(own.iter().map(String::as_str)).collect();
                samples.add(&labels, &more, *value);
            }
        });
    };
    one(out, "machine_cpu_books", "CPU books, which only some machines have.", 0);
    let names = ["core_id", "level", "node_id", "type"];
    several(out, "machine_cpu_cache_capacity_bytes", "Sizes of caches in bytes.", &names, &caches(machine));
    one(out, "machine_cpu_cores", "Logical CPUs.", machine.cpus.into());
    one(out, "machine_cpu_drawers", "CPU drawers, which only some machines have.", 0);
    one(out, "machine_cpu_physical_cores", "Physical cores.", machine.physical_cores.into());
    one(out, "machine_cpu_sockets", "CPU sockets.", machine.sockets.into());
    one(out, "machine_memory_bytes", "Memory in bytes.", machine.memory_bytes);
    let names = ["node_id", "page_size"];
    several(out, "machine_node_hugepages_count", "Huge pages of a NUMA node.", &names, &huge_pages(machine));
    let memory = machine.numa_nodes.iter().map(|node| (vec![node.id.to_string()], node.memory_bytes)).collect();
    let help = "Memory of a NUMA node in bytes.";
    several(out, "machine_node_memory_capacity_bytes", help, &["node_id"], &memory);
    one(out, "machine_nvm_avg_power_budget_watts", "Not measured: always 0.", 0);
    let modes = ["app_direct_mode", "memory_mode"].map(|mode| (vec![mode.to_owned()], 0));
    several(out, "machine_nvm_capacity", "Not measured: always 0.", &["mode"], &BTreeMap::from(modes));
    let failed = |samples: &mut super::prometheus::Samples<'_>| samples.add("", &[], 0_u64);
    family(out, ("machine_scrape_error", Kind::Gauge, "1 if the machine could not be read, else 0."), "", failed);
    one(out, "machine_swap_bytes", "Swap in bytes.", machine.swap_bytes);
    let names = ["core_id", "node_id", "thread_id"];
    several(out, "machine_thread_siblings_count", "Threads of the same core.", &names, &siblings(machine));
}

fn caches(machine: &MachineInfo) -> BTreeMap<Vec<String>, u64> {
    let cores = machine.numa_nodes.iter().flat_map(|node| node.cores.iter().map(move |core| (node, core)));
    let caches = cores.flat_map(|(node, core)| core.caches.iter().map(move |cache| (node, core, cache)));
    caches
        .map(|(node, core, (level, kind, size))| {
            (vec![core.id.to_string(), level.to_string(), node.id.to_string(), kind.clone()], *size)
        })
        .collect()
}

fn huge_pages(machine: &MachineInfo) -> BTreeMap<Vec<String>, u64> {
    let pages = machine.numa_nodes.iter().flat_map(|node| node.hugepages.iter().map(move |pages| (node, pages)));
    pages.map(|(node, (size, count))| (vec![node.id.to_string(), size.to_string()], *count)).collect()
}

fn siblings(machine: &MachineInfo) -> BTreeMap<Vec<String>, u64> {
    let mut siblings = BTreeMap::new();
    for node in &machine.numa_nodes {
        for core in &node.cores {
            let count = u64::try_from(core.threads.len()).unwrap_or(u64::MAX);
            for thread in &core.threads {
                siblings.insert(vec![core.id.to_string(), node.id.to_string(), thread.to_string()], count);
            }
        }
    }
    siblings
}
