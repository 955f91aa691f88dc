//! The machine, on the page of cAdvisor. Its samples have no time stamp.
//!
//! cAdvisor itself also has caches, NUMA nodes and threads of a core; the kubelet of upstream leaves them out, and so does
//! rubelet.
//! upstream: cadvisor metrics/prometheus_machine.go (v0.56), kubelet/server/server.go InstallAuthNotRequiredHandlers (v1.36)

use super::MachineInfo;
use super::prometheus::{Kind, family, label};

/// Appends the families `machine_*`.
pub(super) fn write_machine(out: &mut String, machine: &MachineInfo) {
    let mut labels = String::new();
    label(&mut labels, "boot_id", &machine.boot_id);
    label(&mut labels, "machine_id", &machine.machine_id);
    label(&mut labels, "system_uuid", &machine.system_uuid);
    let one = |out: &mut String, name, help, value: u64| {
        family(out, (name, Kind::Gauge, help), "", |samples| samples.add(&labels, &[], value));
    };
    one(out, "machine_cpu_books", "CPU books, which only some machines have.", 0);
    one(out, "machine_cpu_cores", "Logical CPUs.", machine.cpus.into());
    one(out, "machine_cpu_drawers", "CPU drawers, which only some machines have.", 0);
    one(out, "machine_cpu_physical_cores", "Physical cores.", machine.physical_cores.into());
    one(out, "machine_cpu_sockets", "CPU sockets.", machine.sockets.into());
    one(out, "machine_memory_bytes", "Memory in bytes.", machine.memory_bytes);
    one(out, "machine_nvm_avg_power_budget_watts", "Not measured: always 0.", 0);
    family(out, ("machine_nvm_capacity", Kind::Gauge, "Not measured: always 0."), "", |samples| {
        for mode in ["app_direct_mode", "memory_mode"] {
            samples.add(&labels, &[("mode", mode)], 0_u64);
        }
    });
    family(out, ("machine_scrape_error", Kind::Gauge, "1 if the machine could not be read, else 0."), "", |samples| {
        samples.add("", &[], 0_u64);
    });
    one(out, "machine_swap_bytes", "Swap in bytes.", machine.swap_bytes);
}
