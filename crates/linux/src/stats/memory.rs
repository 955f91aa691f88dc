//! `memory.stat` of both versions.

use rubelet_core::usage::MemoryUsage;

use super::parse::{pair, pairs};

/// The values of `memory.stat` on cgroup v1, of the cgroup with all below it, and the swap. `total_` is not there for a
/// cgroup without hierarchy, which no kernel of today makes.
/// upstream: cadvisor container/libcontainer/handler.go setMemoryStats, as of v1.36
pub(super) fn stat_v1(text: &str) -> (MemoryUsage, Option<u64>) {
    let (mut memory, mut swap) = (MemoryUsage::default(), None);
    // Half of the lines are those of the cgroup alone.
    let wanted = |line: &&str| line.starts_with("total_") || line.starts_with("pg");
    for (key, value) in text.lines().filter(wanted).filter_map(pair) {
        match key {
            "total_cache" => memory.cache = value,
            "total_rss" => memory.rss = value,
            "total_mapped_file" => memory.mapped_file = value,
            "total_active_file" => memory.active_file = value,
            "total_inactive_file" => memory.inactive_file = value,
            "total_pgfault" => memory.page_faults = value,
            "total_pgmajfault" => memory.major_page_faults = value,
            "pgfault" => memory.own_page_faults = value,
            "pgmajfault" => memory.own_major_page_faults = value,
            "total_swap" => swap = Some(value),
            _ => {}
        }
    }
    (memory, swap)
}

/// The same on cgroup v2, which counts swap in another file.
pub(super) fn stat_v2(text: &str) -> MemoryUsage {
    let mut memory = MemoryUsage::default();
    for (key, value) in pairs(text) {
        match key {
            "file" => memory.cache = value,
            "anon" => memory.rss = value,
            "kernel" => memory.kernel = Some(value),
            "file_mapped" => memory.mapped_file = value,
            "active_file" => memory.active_file = value,
            "inactive_file" => memory.inactive_file = value,
            "pgfault" => (memory.page_faults, memory.own_page_faults) = (value, value),
            "pgmajfault" => (memory.major_page_faults, memory.own_major_page_faults) = (value, value),
            _ => {}
        }
    }
    memory
}
