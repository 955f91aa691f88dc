//! What the kernel says of another process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use anyhow::Context;

/// Length of a tick in `/proc/PID/stat`, the same on every Linux that Rust runs on.
const TICK: Duration = Duration::from_millis(10);
/// User and system time are cut off to whole ticks each, before and after.
const TICK_ERROR: Duration = Duration::from_millis(20);

/// Memory of a process, in MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) rss: f64,
    pub(crate) pss: f64,
}

pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let text = read(pid, "smaps_rollup")?;
    Ok(Memory { rss: mib(&text, "Rss:")?, pss: mib(&text, "Pss:")? })
}

/// The most that was in memory since the last [`forget_peak`], in MiB.
pub(crate) fn peak(pid: u32) -> anyhow::Result<f64> {
    mib(&read(pid, "status")?, "VmHWM:")
}

/// Lets the peak begin at what is in memory now. A kernel that cannot do it counts from the start of the process.
pub(crate) fn forget_peak(pid: u32) {
    let _old_kernel = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// CPU that all of a process's threads have used, those that have ended among them, in ticks of 10 ms.
pub(crate) fn cpu_ticks(pid: u32) -> anyhow::Result<Duration> {
    let stat = read(pid, "stat")?;
    // The second field is a name in brackets, which may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|n| n.parse::<u32>().ok()).context("a count of ticks");
    Ok(TICK * (ticks(11)? + ticks(12)?))
}

/// Counts the CPU of a process in nanoseconds: an idle agent uses less than a tick per second.
///
/// The kernel counts them by thread, and forgets a thread that ends; so this wants to be looked at often, and what ended
/// threads used since is made good from the ticks.
pub(crate) struct CpuMeter {
    pid: u32,
    threads: BTreeMap<OsString, u64>,
    used: u64,
    ticks: Duration,
}

impl CpuMeter {
    pub(crate) fn start(pid: u32) -> anyhow::Result<Self> {
        Ok(Self { pid, threads: threads(pid)?, used: 0, ticks: cpu_ticks(pid)? })
    }

    pub(crate) fn look(&mut self) -> anyhow::Result<()> {
        let now = threads(self.pid)?;
        for (thread, nanos) in &now {
            self.used += nanos.saturating_sub(self.threads.get(thread).copied().unwrap_or_default());
        }
        self.threads = now;
        Ok(())
    }

    pub(crate) fn used(mut self) -> anyhow::Result<Duration> {
        self.look()?;
        let at_least = cpu_ticks(self.pid)?.saturating_sub(self.ticks).saturating_sub(TICK_ERROR);
        Ok(Duration::from_nanos(self.used).max(at_least))
    }
}

fn threads(pid: u32) -> anyhow::Result<BTreeMap<OsString, u64>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("the agent has ended")?.flatten();
    let tasks = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((task.file_name(), text.split_whitespace().next()?.parse().ok()?))
    });
    Ok(tasks.collect())
}

fn read(pid: u32, name: &str) -> anyhow::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/{name}")).context("the agent has ended")
}

fn mib(text: &str, key: &str) -> anyhow::Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let kib: u32 = line.split_whitespace().next().and_then(|n| n.parse().ok()).with_context(|| format!("no {key}"))?;
    Ok(f64::from(kib) / 1024.0)
}

/// Processes that have this among their arguments.
pub(crate) fn with_argument(argument: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|pid| arguments(*pid).iter().any(|one| one == argument)).collect()
}

pub(crate) fn arguments(pid: u32) -> Vec<String> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_terminator('\0').map(str::to_owned).collect()
}
