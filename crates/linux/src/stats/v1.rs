//! cgroup v1: a tree for each controller.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rubelet_core::usage::{CgroupKind, CpuUsage, DeviceIo, Limits, MemoryUsage, Tasks, Throttling, Usage};
use rubelet_engine::ports::Detail;
use rustix::fs::AtFlags;

use super::files::{Dir, Reader, open_path};
use super::io::{Counted, add_v1};
use super::kept::{Bounds, Open};
use super::parse::pairs;
use super::walk::{self, Place};
use super::{memory, open_files};
use crate::beneath;
use crate::cgroups::Layout;

/// From here on a number of bytes means "no limit": the kernel spells that as the greatest whole number of pages.
const UNLIMITED: u64 = 1 << 62;

/// Files with the bytes and the operations of each device, the ones that count most first.
/// upstream: opencontainers/cgroups fs/blkio.go GetStats, as of v1.36
const IO: [(&str, &str); 4] = [
    ("blkio.bfq.io_service_bytes_recursive", "blkio.bfq.io_serviced_recursive"),
    ("blkio.io_service_bytes_recursive", "blkio.io_serviced_recursive"),
    (THROTTLED_WITH_ALL_BELOW, "blkio.throttle.io_serviced_recursive"),
    (THROTTLED, "blkio.throttle.io_serviced"),
];
const THROTTLED_WITH_ALL_BELOW: &str = "blkio.throttle.io_service_bytes_recursive";
const THROTTLED: &str = "blkio.throttle.io_service_bytes";

/// The trees that are read. A controller may be missing, but for memory.
pub(super) struct Trees {
    memory: OwnedFd,
    cpu: Option<OwnedFd>,
    cpuacct: Option<OwnedFd>,
    blkio: Option<OwnedFd>,
    pids: Option<OwnedFd>,
    /// Those of [`IO`] that this kernel has.
    io: Vec<(&'static str, &'static str)>,
    /// The kernel counts swap.
    swap: bool,
    /// Nanoseconds of one tick.
    tick: u64,
}

impl Trees {
    pub(super) fn open(layout: &Layout) -> io::Result<Self> {
        let tree = |controller| layout.v1_tree(controller).map(|tree| beneath::open_root(&tree.root)).transpose();
        let memory = tree("memory")?.ok_or_else(|| io::Error::other("the memory controller is not mounted"))?;
        let has = |tree: &OwnedFd, file: &str| rustix::fs::accessat(tree, file, ACCESS, AtFlags::empty()).is_ok();
        let swap = has(&memory, "memory.memsw.usage_in_bytes");
        let blkio = tree("blkio")?;
        let mut io: Vec<_> =
            IO.into_iter().filter(|(bytes, _)| blkio.as_ref().is_some_and(|blkio| has(blkio, bytes))).collect();
        // What has no I/O with all below it has none itself.
        if io.iter().any(|(bytes, _)| *bytes == THROTTLED_WITH_ALL_BELOW) {
            io.retain(|(bytes, _)| *bytes != THROTTLED);
        }
        Ok(Self {
            memory,
            cpu: tree("cpu")?,
            cpuacct: tree("cpuacct")?,
            blkio,
            pids: tree("pids")?,
            io,
            swap,
            tick: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
        })
    }

    /// The tree in which processes of a cgroup are listed.
    pub(super) fn into_list(self) -> OwnedFd {
        self.memory
    }

    fn cpu(&self, cgroup: &Place<'_>, open: &mut Open, (reader, detail): (&mut Reader, Detail)) -> Option<CpuUsage> {
        let dir = walk::below(self.cpuacct.as_ref()?, cgroup);
        let [_, _, usage, stat] = &mut open.files;
        let total = reader.kept(usage, dir, "cpuacct.usage")?.trim().parse().ok()?;
        let mut cpu = CpuUsage { total: Duration::from_nanos(total), ..CpuUsage::default() };
        if detail < Detail::Everything {
            return Some(cpu);
        }
        for (key, ticks) in pairs(reader.kept(stat, dir, "cpuacct.stat").unwrap_or_default()) {
            let time = Duration::from_nanos(ticks.saturating_mul(self.tick));
            match key {
                "user" => cpu.user = time,
                "system" => cpu.system = time,
                _ => {}
            }
        }
        Some(cpu)
    }

    /// What the limit of a cgroup did. Without a limit nothing is throttled.
    fn throttling(&self, cgroup: &Place<'_>, open: &mut Open, reader: &mut Reader) -> Option<Throttling> {
        let mut throttling = Throttling::default();
        let [_, _, dir] = &mut open.dirs;
        for (key, value) in pairs(reader.file(kept_dir(self.cpu.as_ref(), cgroup, dir)?, "cpu.stat")?) {
            match key {
                "nr_periods" => throttling.periods = value,
                "nr_throttled" => throttling.throttled_periods = value,
                "throttled_time" => throttling.throttled = Duration::from_nanos(value),
                _ => {}
            }
        }
        Some(throttling)
    }

    fn memory(
        cgroup: &Place<'_>,
        limits: &Limits,
        open: &mut Open,
        (reader, detail): (&mut Reader, Detail),
    ) -> Option<(MemoryUsage, Option<u64>)> {
        let dir = walk::open(cgroup);
        let [usage, stat, ..] = &mut open.files;
        let usage = reader.kept(usage, dir, "memory.usage_in_bytes")?.trim().parse().ok()?;
        let (mut memory, swap) = memory::stat_v1(reader.kept(stat, dir, "memory.stat")?);
        memory.usage = usage;
        if detail == Detail::Everything {
            memory.max_usage = reader.number(dir, "memory.max_usage_in_bytes");
            // What has no limit has never met it.
            memory.fail_count = limits.memory.and_then(|_| reader.number(dir, "memory.failcnt"));
            memory.kernel = reader.number(dir, "memory.kmem.usage_in_bytes");
        }
        Some((memory, swap))
    }

    fn limits_of(&self, cgroup: &Place<'_>, reader: &mut Reader, detail: Detail) -> Limits {
        let mut limits = Limits::default();
        if *cgroup.kind == CgroupKind::Root {
            return limits;
        }
        let dir = walk::open(cgroup);
        let bytes = |reader: &mut Reader, name: &str| reader.number(dir, name).filter(|bytes| *bytes < UNLIMITED);
        limits.memory = bytes(reader, "memory.limit_in_bytes");
        if self.swap {
            limits.swap = bytes(reader, "memory.memsw.limit_in_bytes");
        }
        if detail == Detail::Everything {
            limits.memory_reservation = bytes(reader, "memory.soft_limit_in_bytes");
            if let Some(cpu) = &self.cpu {
                let dir = walk::below(cpu, cgroup);
                limits.cpu_shares = reader.number(dir, "cpu.shares");
                limits.cpu_quota = reader.number(dir, "cpu.cfs_quota_us").and_then(|quota| i64::try_from(quota).ok());
                limits.cpu_period = reader.number(dir, "cpu.cfs_period_us");
            }
        }
        limits
    }

    fn io(&self, cgroup: &Place<'_>, open: &mut Open, reader: &mut Reader) -> Vec<DeviceIo> {
        let [kept, _, _] = &mut open.dirs;
        let Some(dir) = kept_dir(self.blkio.as_ref(), cgroup, kept) else { return Vec::new() };
        let mut io = Vec::new();
        for (bytes, operations) in &self.io {
            add_v1(reader.file(dir, bytes).unwrap_or_default(), Counted::Bytes, &mut io);
            if !io.is_empty() {
                add_v1(reader.file(dir, operations).unwrap_or_default(), Counted::Operations, &mut io);
                break;
            }
        }
        io
    }

    fn tasks(
        &self,
        cgroup: &Place<'_>,
        bounds: &Bounds,
        open: &mut Open,
        (reader, detail): (&mut Reader, Detail),
    ) -> Option<Tasks> {
        // The summary has only the processes of containers.
        if detail < Detail::Usage || (detail == Detail::Usage && !matches!(cgroup.kind, CgroupKind::Container { .. })) {
            return None;
        }
        let [_, kept, _] = &mut open.dirs;
        let threads = reader.number(kept_dir(self.pids.as_ref(), cgroup, kept)?, "pids.current")?;
        Some(Tasks { threads, threads_max: bounds.threads, processes: None })
    }
}

/// The directory of a cgroup in one of the trees, which stays open.
fn kept_dir<'a>(tree: Option<&OwnedFd>, cgroup: &Place<'_>, kept: &'a mut Option<OwnedFd>) -> Option<Dir<'a>> {
    if kept.is_none() {
        let path = if cgroup.path.is_empty() { "." } else { cgroup.path };
        *kept = open_path(tree?, path).ok();
    }
    kept.as_ref().map(|dir| Dir { fd: dir.as_fd(), below: "" })
}

const ACCESS: rustix::fs::Access = rustix::fs::Access::EXISTS;

impl walk::Trees for Trees {
    fn list(&self) -> &OwnedFd {
        &self.memory
    }

    fn birth_file(&self) -> &'static str {
        "cgroup.clone_children"
    }

    fn bounds(&self, cgroup: &Place<'_>, reader: &mut Reader, detail: Detail) -> Bounds {
        let limits = self.limits_of(cgroup, reader, detail);
        if detail < Detail::Everything {
            return Bounds { limits, ..Bounds::default() };
        }
        let threads = self.pids.as_ref().and_then(|pids| reader.number(walk::below(pids, cgroup), "pids.max"));
        let open_files = open_files::limit(walk::open(cgroup), cgroup.kind, reader);
        Bounds { limits, threads, open_files }
    }

    fn usage(
        &self,
        cgroup: &Place<'_>,
        bounds: &Bounds,
        open: &mut Open,
        (reader, detail): (&mut Reader, Detail),
    ) -> Option<(Usage, Vec<u32>)> {
        let limits = &bounds.limits;
        let (memory, swap) = Self::memory(cgroup, limits, open, (&mut *reader, detail))?;
        let mut usage = Usage {
            cpu: self.cpu(cgroup, open, (&mut *reader, detail)),
            memory: Some(memory),
            swap_bytes: swap.filter(|_| self.swap),
            tasks: self.tasks(cgroup, bounds, open, (&mut *reader, detail)),
            ..Usage::default()
        };
        if detail == Detail::Everything {
            if limits.cpu_quota.is_some() {
                let throttling = self.throttling(cgroup, open, reader);
                usage.cpu.iter_mut().for_each(|cpu| cpu.throttling = throttling);
            }
            usage.io = self.io(cgroup, open, reader);
            let oom = reader.file(walk::open(cgroup), "memory.oom_control");
            usage.oom_kills =
                oom.and_then(|text| pairs(text).find(|(key, _)| *key == "oom_kill")).map(|(_, count)| count);
        }
        let kind = (cgroup.kind, bounds.open_files);
        let processes = open_files::count(walk::open(cgroup), kind, reader, detail, &mut usage);
        Some((usage, processes))
    }
}
