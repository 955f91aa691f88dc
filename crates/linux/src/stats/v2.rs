//! cgroup v2: one tree.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rubelet_core::usage::{CgroupKind, CpuUsage, Limits, MemoryUsage, Pressure, Tasks, Throttling, Usage};
use rubelet_engine::ports::Detail;

use super::files::{Dir, Reader};
use super::kept::{Bounds, Open};
use super::parse::{pairs, stalls};
use super::walk::{self, Place};
use super::{io as devices, memory, open_files};
use crate::beneath;
use crate::cgroups::Layout;

/// The tree.
pub(super) struct Tree {
    root: OwnedFd,
}

impl Tree {
    pub(super) fn open(layout: &Layout) -> io::Result<Self> {
        let tree = layout.unified().ok_or_else(|| io::Error::other("cgroup2 is not mounted"))?;
        Ok(Self { root: beneath::open_root(&tree.root)? })
    }

    /// The tree in which processes of a cgroup are listed.
    pub(super) fn into_list(self) -> OwnedFd {
        self.root
    }
}

impl walk::Trees for Tree {
    fn list(&self) -> &OwnedFd {
        &self.root
    }

    fn birth_file(&self) -> &'static str {
        "cgroup.events"
    }

    fn bounds(&self, cgroup: &Place<'_>, reader: &mut Reader, detail: Detail) -> Bounds {
        let dir = walk::open(cgroup);
        let limits = match cgroup.kind {
            CgroupKind::Root => Limits::default(),
            _ => limits(dir, reader, detail),
        };
        if detail < Detail::Everything {
            return Bounds { limits, ..Bounds::default() };
        }
        let threads = reader.number(dir, "pids.max");
        Bounds { limits, threads, open_files: open_files::limit(dir, cgroup.kind, reader) }
    }

    fn usage(
        &self,
        cgroup: &Place<'_>,
        bounds: &Bounds,
        open: &mut Open,
        (reader, detail): (&mut Reader, Detail),
    ) -> Option<(Usage, Vec<u32>)> {
        let (dir, is_root) = (walk::open(cgroup), *cgroup.kind == CgroupKind::Root);
        let [used, stat, time, swap] = &mut open.files;
        let cpu = reader.kept(time, dir, "cpu.stat").and_then(cpu);
        let current = if is_root { Some(None) } else { reader.kept(used, dir, "memory.current").map(number) };
        let stat = reader.kept(stat, dir, "memory.stat").map(memory::stat_v2);
        let memory = current.zip(stat).and_then(|(current, stat)| memory(current, stat, is_root));
        if cpu.is_none() && memory.is_none() && !is_root {
            return None;
        }
        let mut usage = Usage {
            cpu,
            memory,
            swap_bytes: if is_root { None } else { reader.kept(swap, dir, "memory.swap.current").and_then(number) },
            tasks: if detail < Detail::Usage { None } else { tasks(dir, reader, bounds) },
            pressure: if detail < Detail::Usage { None } else { pressure(dir, reader) },
            ..Usage::default()
        };
        if detail == Detail::Everything {
            let peak = if is_root { None } else { reader.number(dir, "memory.peak") };
            usage.memory.iter_mut().for_each(|memory| memory.max_usage = peak);
            usage.io = reader.file(dir, "io.stat").map(devices::stat_v2).unwrap_or_default();
            for (key, value) in pairs(reader.file(dir, "memory.events").unwrap_or_default()) {
                match (key, &mut usage.memory) {
                    ("oom_kill", _) => usage.oom_kills = Some(value),
                    ("max", Some(memory)) => memory.fail_count = Some(value),
                    _ => {}
                }
            }
        }
        let kind = (cgroup.kind, bounds.open_files);
        let processes = open_files::count(dir, kind, reader, detail, &mut usage);
        Some((usage, processes))
    }
}

fn cpu(text: &str) -> Option<CpuUsage> {
    let (mut cpu, mut throttling, mut total, mut limited) = (CpuUsage::default(), Throttling::default(), None, false);
    for (key, value) in pairs(text) {
        match key {
            "usage_usec" => total = Some(Duration::from_micros(value)),
            "user_usec" => cpu.user = Duration::from_micros(value),
            "system_usec" => cpu.system = Duration::from_micros(value),
            "nr_periods" => (throttling.periods, limited) = (value, true),
            "nr_throttled" => throttling.throttled_periods = value,
            "throttled_usec" => throttling.throttled = Duration::from_micros(value),
            _ => {}
        }
    }
    Some(CpuUsage { total: total?, throttling: limited.then_some(throttling), ..cpu })
}

/// upstream: opencontainers/cgroups fs2/memory.go rootStatsFromMeminfo, as of v1.36: the root has no `memory.current`
fn memory(current: Option<u64>, stat: MemoryUsage, is_root: bool) -> Option<MemoryUsage> {
    let usage = if is_root { stat.rss.saturating_add(stat.cache) } else { current? };
    Some(MemoryUsage { usage, ..stat })
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn tasks(dir: Dir<'_>, reader: &mut Reader, bounds: &Bounds) -> Option<Tasks> {
    let threads = reader.number(dir, "pids.current")?;
    Some(Tasks { threads, threads_max: bounds.threads, processes: None })
}

fn pressure(dir: Dir<'_>, reader: &mut Reader) -> Option<Pressure> {
    let cpu = stalls(reader.file(dir, "cpu.pressure")?)?;
    let mut rest = |name| reader.file(dir, name).and_then(stalls).unwrap_or_default();
    Some(Pressure { cpu, memory: rest("memory.pressure"), io: rest("io.pressure") })
}

fn limits(dir: Dir<'_>, reader: &mut Reader, detail: Detail) -> Limits {
    let mut limits = Limits {
        memory: reader.number(dir, "memory.max"),
        swap: reader.number(dir, "memory.swap.max"),
        ..Limits::default()
    };
    if detail == Detail::Everything {
        // upstream: cadvisor container/common/helpers.go getSpecInternal, as of v1.36
        limits.memory_reservation = reader.number(dir, "memory.min").filter(|bytes| *bytes > 0);
        limits.cpu_shares = reader.number(dir, "cpu.weight").and_then(shares);
        if let Some((quota, period)) = reader.file(dir, "cpu.max").and_then(|text| text.trim().split_once(' ')) {
            (limits.cpu_quota, limits.cpu_period) = (quota.parse().ok(), period.parse().ok());
        }
    }
    limits
}

/// upstream: cadvisor container/common/helpers.go convertCPUWeightToCPULimit, as of v1.36
fn shares(weight: u64) -> Option<u64> {
    (1..=10_000).contains(&weight).then(|| 2 + (weight - 1) * 262_142 / 9_999)
}
