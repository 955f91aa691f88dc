//! The families of the page, each a function of a cgroup.
//!
//! Those that cAdvisor has on a kubelet and never fills are there with its zeros, so that queries find them: the load
//! averages, the states of tasks, the bursts.
//! upstream: cadvisor metrics/prometheus.go NewPrometheusCollector (v0.56)

use std::borrow::Cow;
use std::time::Duration;

use super::Row;
use crate::usage::prometheus::{Kind, Samples};
use crate::usage::{
    CgroupKind, CpuUsage, DeviceIo, FsStats, Interface, MemoryUsage, NodeUsage, Pressure, Throttling, shown_interfaces,
};
use Kind::{Counter, Gauge};

/// Name, type, help, whether samples have a time stamp, and what writes them.
type Family = (&'static str, Kind, &'static str, bool, fn(&mut Samples<'_>, &Row<'_>));

/// In the order of the page.
pub(super) const FAMILIES: &[Family] = &[
    ("container_blkio_device_usage_total", Counter, "Bytes read and written, by block device.", true, blkio),
    ("container_cpu_cfs_burst_periods_total", Counter, "Periods with a burst.", true, |out, row| {
        throttling(out, row, |_| 0_u64.into());
    }),
    ("container_cpu_cfs_burst_seconds_total", Counter, "Time of bursts in seconds.", true, |out, row| {
        throttling(out, row, |_| 0_u64.into());
    }),
    ("container_cpu_cfs_periods_total", Counter, "Periods of the CPU limit.", true, |out, row| {
        throttling(out, row, |cpu| cpu.periods.into());
    }),
    ("container_cpu_cfs_throttled_periods_total", Counter, "Periods that were throttled.", true, |out, row| {
        throttling(out, row, |cpu| cpu.throttled_periods.into());
    }),
    ("container_cpu_cfs_throttled_seconds_total", Counter, "Throttled time in seconds.", true, |out, row| {
        throttling(out, row, |cpu| cpu.throttled.into());
    }),
    ("container_cpu_load_average_10s", Gauge, "Not measured: always 0.", true, zero),
    ("container_cpu_load_d_average_10s", Gauge, "Not measured: always 0.", true, zero),
    ("container_cpu_system_seconds_total", Counter, "CPU time in the kernel, in seconds.", true, |out, row| {
        cpu(out, row, |cpu| cpu.system);
    }),
    ("container_cpu_usage_seconds_total", Counter, "CPU time in seconds.", true, |out, row| {
        // A cgroup that never ran has no sample, as upstream.
        if let Some(cpu) = row.cgroup.usage.cpu.filter(|cpu| !cpu.total.is_zero()) {
            out.add(row.labels, &[("cpu", "total")], cpu.total);
        }
    }),
    ("container_cpu_user_seconds_total", Counter, "CPU time in user mode, in seconds.", true, |out, row| {
        cpu(out, row, |cpu| cpu.user);
    }),
    ("container_file_descriptors", Gauge, "Open files.", true, |out, row| {
        if let Some(files) = row.cgroup.usage.files {
            out.add(row.labels, &[], files.descriptors);
        }
    }),
    ("container_fs_inodes_free", Gauge, "Free inodes.", true, |out, row| fs(out, row, |fs| fs.inodes_free)),
    ("container_fs_inodes_total", Gauge, "Inodes.", true, |out, row| fs(out, row, |fs| fs.inodes)),
    ("container_fs_limit_bytes", Gauge, "Size of the file system in bytes.", true, |out, row| {
        fs(out, row, |fs| fs.capacity);
    }),
    ("container_fs_reads_bytes_total", Counter, "Bytes read.", true, |out, row| io(out, row, |io| io.read_bytes)),
    ("container_fs_reads_total", Counter, "Reads.", true, |out, row| io(out, row, |io| io.reads)),
    ("container_fs_usage_bytes", Gauge, "Bytes in use of the file system.", true, |out, row| {
        fs(out, row, |fs| fs.used)
    }),
    ("container_fs_writes_bytes_total", Counter, "Bytes written.", true, |out, row| io(out, row, |io| io.write_bytes)),
    ("container_fs_writes_total", Counter, "Writes.", true, |out, row| io(out, row, |io| io.writes)),
    ("container_health_state", Gauge, "Pods have no health check of the runtime: always -1.", true, |out, row| {
        out.add(row.labels, &[], -1_i64);
    }),
    ("container_last_seen", Gauge, "When it was last measured, in seconds since 1970.", true, |out, row| {
        out.add(row.labels, &[], row.usage.sample.at.wall.as_second());
    }),
    ("container_memory_cache", Gauge, "Page cache in bytes.", true, |out, row| memory(out, row, |memory| memory.cache)),
    ("container_memory_failcnt", Counter, "How often the limit was hit.", true, |out, row| {
        memory(out, row, |memory| memory.fail_count.unwrap_or_default());
    }),
    ("container_memory_failures_total", Counter, "Page faults.", true, page_faults),
    ("container_memory_kernel_usage", Gauge, "Memory of the kernel in bytes.", true, |out, row| {
        memory(out, row, |memory| memory.kernel.unwrap_or_default());
    }),
    ("container_memory_mapped_file", Gauge, "Mapped files in bytes.", true, |out, row| {
        memory(out, row, |memory| memory.mapped_file);
    }),
    ("container_memory_max_usage_bytes", Gauge, "The most memory that was ever in use, in bytes.", true, |out, row| {
        memory(out, row, |memory| memory.max_usage.unwrap_or_default());
    }),
    ("container_memory_rss", Gauge, "Anonymous memory in bytes.", true, |out, row| {
        memory(out, row, |memory| memory.rss)
    }),
    ("container_memory_swap", Gauge, "Swap in use, in bytes.", true, |out, row| {
        let swap = row.cgroup.usage.swap_bytes.unwrap_or_default();
        memory(out, row, |_| swap);
    }),
    ("container_memory_total_active_file_bytes", Gauge, "Active page cache in bytes.", true, |out, row| {
        memory(out, row, |memory| memory.active_file);
    }),
    ("container_memory_total_inactive_file_bytes", Gauge, "Inactive page cache in bytes.", true, |out, row| {
        memory(out, row, |memory| memory.inactive_file);
    }),
    ("container_memory_usage_bytes", Gauge, "All memory in use, in bytes.", true, |out, row| {
        memory(out, row, |memory| memory.usage);
    }),
    (
        "container_memory_working_set_bytes",
        Gauge,
        "Memory that cannot be reclaimed at once, in bytes.",
        true,
        |out, row| {
            memory(out, row, MemoryUsage::working_set);
        },
    ),
    ("container_network_receive_bytes_total", Counter, "Bytes received.", true, |out, row| {
        network(out, row, |interface| interface.receive.bytes);
    }),
    ("container_network_receive_errors_total", Counter, "Errors while receiving.", true, |out, row| {
        network(out, row, |interface| interface.receive.errors);
    }),
    (
        "container_network_receive_packets_dropped_total",
        Counter,
        "Received packets that were dropped.",
        true,
        |out, row| {
            network(out, row, |interface| interface.receive.dropped);
        },
    ),
    ("container_network_receive_packets_total", Counter, "Packets received.", true, |out, row| {
        network(out, row, |interface| interface.receive.packets);
    }),
    ("container_network_transmit_bytes_total", Counter, "Bytes sent.", true, |out, row| {
        network(out, row, |interface| interface.transmit.bytes);
    }),
    ("container_network_transmit_errors_total", Counter, "Errors while sending.", true, |out, row| {
        network(out, row, |interface| interface.transmit.errors);
    }),
    (
        "container_network_transmit_packets_dropped_total",
        Counter,
        "Packets to send that were dropped.",
        true,
        |out, row| {
            network(out, row, |interface| interface.transmit.dropped);
        },
    ),
    ("container_network_transmit_packets_total", Counter, "Packets sent.", true, |out, row| {
        network(out, row, |interface| interface.transmit.packets);
    }),
    ("container_oom_events_total", Counter, "Processes that the kernel ended for want of memory.", true, |out, row| {
        out.add(row.labels, &[], row.cgroup.usage.oom_kills.unwrap_or_default());
    }),
    (
        "container_pressure_cpu_stalled_seconds_total",
        Counter,
        "All tasks waited for a CPU, seconds.",
        true,
        |out, row| {
            pressure(out, row, |pressure| pressure.cpu.full.total);
        },
    ),
    (
        "container_pressure_cpu_waiting_seconds_total",
        Counter,
        "Some task waited for a CPU, seconds.",
        true,
        |out, row| {
            pressure(out, row, |pressure| pressure.cpu.some.total);
        },
    ),
    ("container_pressure_io_stalled_seconds_total", Counter, "All tasks waited for I/O, seconds.", true, |out, row| {
        pressure(out, row, |pressure| pressure.io.full.total);
    }),
    ("container_pressure_io_waiting_seconds_total", Counter, "Some task waited for I/O, seconds.", true, |out, row| {
        pressure(out, row, |pressure| pressure.io.some.total);
    }),
    (
        "container_pressure_memory_stalled_seconds_total",
        Counter,
        "All tasks waited for memory, seconds.",
        true,
        |out, row| {
            pressure(out, row, |pressure| pressure.memory.full.total);
        },
    ),
    (
        "container_pressure_memory_waiting_seconds_total",
        Counter,
        "Some task waited for memory, seconds.",
        true,
        |out, row| {
            pressure(out, row, |pressure| pressure.memory.some.total);
        },
    ),
    ("container_processes", Gauge, "Processes.", true, |out, row| {
        if let Some(processes) = row.cgroup.usage.tasks.and_then(|tasks| tasks.processes) {
            out.add(row.labels, &[], processes);
        }
    }),
    ("container_sockets", Gauge, "Open sockets.", true, |out, row| {
        if let Some(files) = row.cgroup.usage.files {
            out.add(row.labels, &[], files.sockets);
        }
    }),
    ("container_spec_cpu_period", Gauge, "Period of the CPU limit in microseconds.", false, |out, row| {
        let period = row.cgroup.limits.cpu_period.unwrap_or_default();
        cpu(out, row, |_| period);
    }),
    ("container_spec_cpu_quota", Gauge, "CPU time in a period, in microseconds.", false, |out, row| {
        if let Some(quota) = quota(row) {
            out.add(row.labels, &[], quota);
        }
    }),
    ("container_spec_cpu_shares", Gauge, "Shares of the CPU.", false, |out, row| {
        let shares = row.cgroup.limits.cpu_shares.unwrap_or_default();
        cpu(out, row, |_| shares);
    }),
    ("container_spec_memory_limit_bytes", Gauge, "Limit of memory in bytes; 0 for none.", false, |out, row| {
        let limit = of_root(row, row.machine.memory_bytes).or(row.cgroup.limits.memory);
        memory(out, row, |_| limit.unwrap_or_default());
    }),
    (
        "container_spec_memory_reservation_limit_bytes",
        Gauge,
        "Reserved memory in bytes; 0 for none.",
        false,
        |out, row| {
            memory(out, row, |_| row.cgroup.limits.memory_reservation.unwrap_or_default());
        },
    ),
    ("container_spec_memory_swap_limit_bytes", Gauge, "Limit of swap in bytes; 0 for none.", false, |out, row| {
        let limit = of_root(row, row.machine.swap_bytes).or(row.cgroup.limits.swap);
        memory(out, row, |_| limit.unwrap_or_default());
    }),
    ("container_start_time_seconds", Gauge, "When it was made, in seconds since 1970.", false, |out, row| {
        if let Some(at) = row.cgroup.created_at {
            out.add(row.labels, &[], at.as_second());
        }
    }),
    ("container_tasks_state", Gauge, "Not measured: always 0.", true, |out, row| {
        for state in ["iowaiting", "running", "sleeping", "stopped", "uninterruptible"] {
            out.add(row.labels, &[("state", state)], 0_u64);
        }
    }),
    ("container_threads", Gauge, "Threads.", true, |out, row| {
        if let Some(tasks) = row.cgroup.usage.tasks {
            out.add(row.labels, &[], tasks.threads);
        }
    }),
    ("container_threads_max", Gauge, "The most threads that are allowed; 0 for no limit.", true, |out, row| {
        if let Some(tasks) = row.cgroup.usage.tasks {
            out.add(row.labels, &[], tasks.threads_max.unwrap_or_default());
        }
    }),
    ("container_ulimits_soft", Gauge, "Soft limits of the first process; -1 for none.", true, ulimits),
];

fn zero(out: &mut Samples<'_>, row: &Row<'_>) {
    out.add(row.labels, &[], 0_u64);
}

fn cpu<N: Into<crate::usage::prometheus::Number>>(
    out: &mut Samples<'_>,
    row: &Row<'_>,
    value: impl Fn(&CpuUsage) -> N,
) {
    if let Some(cpu) = &row.cgroup.usage.cpu {
        out.add(row.labels, &[], value(cpu));
    }
}

/// Only cgroups with a CPU limit have these.
fn throttling(out: &mut Samples<'_>, row: &Row<'_>, value: fn(&Throttling) -> crate::usage::prometheus::Number) {
    let throttling = row.cgroup.usage.cpu.and_then(|cpu| cpu.throttling);
    if let (Some(throttling), Some(_)) = (throttling, quota(row)) {
        out.add(row.labels, &[], value(&throttling));
    }
}

fn quota(row: &Row<'_>) -> Option<i64> {
    row.cgroup.limits.cpu_quota.filter(|quota| *quota > 0)
}

fn memory(out: &mut Samples<'_>, row: &Row<'_>, value: impl Fn(&MemoryUsage) -> u64) {
    if let Some(memory) = &row.cgroup.usage.memory {
        out.add(row.labels, &[], value(memory));
    }
}

fn page_faults(out: &mut Samples<'_>, row: &Row<'_>) {
    let Some(memory) = &row.cgroup.usage.memory else { return };
    for (kind, scope, value) in [
        ("pgfault", "container", memory.own_page_faults),
        ("pgmajfault", "container", memory.own_major_page_faults),
        ("pgfault", "hierarchy", memory.page_faults),
        ("pgmajfault", "hierarchy", memory.major_page_faults),
    ] {
        out.add(row.labels, &[("failure_type", kind), ("scope", scope)], value);
    }
}

fn pressure(out: &mut Samples<'_>, row: &Row<'_>, value: fn(&Pressure) -> Duration) {
    if let Some(pressure) = &row.cgroup.usage.pressure {
        out.add(row.labels, &[], value(pressure));
    }
}

/// The limits of the machine stand for those that its cgroup does not have.
fn of_root(row: &Row<'_>, bytes: u64) -> Option<u64> {
    (row.cgroup.kind == CgroupKind::Root).then_some(bytes)
}

/// A device without a name has its numbers.
fn device(io: &DeviceIo) -> Cow<'_, str> {
    if io.device.is_empty() { Cow::Owned(format!("{}:{}", io.major, io.minor)) } else { Cow::Borrowed(&io.device) }
}

fn io(out: &mut Samples<'_>, row: &Row<'_>, value: fn(&DeviceIo) -> u64) {
    for io in &row.cgroup.usage.io {
        out.add(row.labels, &[("device", &device(io))], value(io));
    }
}

fn blkio(out: &mut Samples<'_>, row: &Row<'_>) {
    for io in &row.cgroup.usage.io {
        let (device, major, minor) = (device(io), io.major.to_string(), io.minor.to_string());
        for (operation, bytes) in [("Read", io.read_bytes), ("Write", io.write_bytes)] {
            let labels =
                [("device", &*device), ("major", major.as_str()), ("minor", minor.as_str()), ("operation", operation)];
            out.add(row.labels, &labels, bytes);
        }
    }
}

/// The file systems of the node are shown at the root. Those of containers are in the summary, as upstream has it with
/// containerd.
fn fs(out: &mut Samples<'_>, row: &Row<'_>, value: fn(&FsStats) -> u64) {
    if row.cgroup.kind != CgroupKind::Root {
        return;
    }
    let disks = &row.usage.disks;
    let mut shown: Vec<u64> = Vec::new();
    for fs in [disks.nodefs, disks.imagefs, disks.containerfs].into_iter().flatten() {
        if !shown.contains(&fs.device) {
            shown.push(fs.device);
            out.add(row.labels, &[("device", &fs_device(row.usage, fs.device))], value(&fs));
        }
    }
}

/// The name of a file system's device. A partition has none among the devices that do I/O; udev's name for it is made of its
/// numbers.
fn fs_device(usage: &NodeUsage, device_number: u64) -> String {
    let major = ((device_number >> 8) & 0xfff) | ((device_number >> 32) & !0xfff);
    let minor = (device_number & 0xff) | ((device_number >> 12) & !0xff & 0xffff_ffff);
    let is_it = |io: &&DeviceIo| u64::from(io.major) == major && u64::from(io.minor) == minor && !io.device.is_empty();
    let root = usage.sample.find(&CgroupKind::Root);
    match root.and_then(|root| root.usage.io.iter().find(is_it)) {
        Some(io) => io.device.clone(),
        None if major == 0 => format!("{major}:{minor}"),
        None => format!("/dev/block/{major}:{minor}"),
    }
}

fn network(out: &mut Samples<'_>, row: &Row<'_>, value: fn(&Interface) -> u64) {
    for interface in row.network.into_iter().flat_map(shown_interfaces) {
        out.add(row.labels, &[("interface", &interface.name)], value(interface));
    }
}

/// Of cgroups whose first process is known: the machine's and those of containers.
fn ulimits(out: &mut Samples<'_>, row: &Row<'_>) {
    let has_first = matches!(row.cgroup.kind, CgroupKind::Root | CgroupKind::Container { .. });
    if let Some(files) = row.cgroup.usage.files.filter(|_| has_first) {
        let limit = files.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        out.add(row.labels, &[("ulimit", "max_open_files")], limit);
    }
}
