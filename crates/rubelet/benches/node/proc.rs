//! What the kernel says of another process.

use std::fs;
use std::time::Duration;

/// Length of a tick in `/proc/PID/stat`, the same on every Linux that Rust runs on.
const TICK: Duration = Duration::from_millis(10);

/// What a process has used so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// How often one of its threads went to sleep of its own accord, and so had to be woken.
    pub(crate) sleeps: u64,
    pub(crate) threads: usize,
    pub(crate) rss_kib: u64,
    pub(crate) pss_kib: u64,
    /// What no file backs: heap and stacks.
    pub(crate) anonymous_kib: u64,
}

pub(crate) fn usage(pid: u32) -> Usage {
    let stat = read(&format!("/proc/{pid}/stat"));
    // The second field is a name in brackets, which may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|n| n.parse::<u32>().ok()).expect("a count of ticks");
    let tasks: Vec<_> = fs::read_dir(format!("/proc/{pid}/task")).expect("rubelet runs").flatten().collect();
    // A thread that ends between two looks takes its count with it.
    let sleeps = tasks.iter().filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let memory = read(&format!("/proc/{pid}/smaps_rollup"));
    Usage {
        cpu: TICK * (ticks(11) + ticks(12)),
        sleeps: sleeps.map(|status| number(&status, "voluntary_ctxt_switches:")).sum(),
        threads: tasks.len(),
        rss_kib: number(&memory, "Rss:"),
        pss_kib: number(&memory, "Pss:"),
        anonymous_kib: number(&memory, "Anonymous:"),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|err| panic!("{path}: {err}; did rubelet end?"))
}

fn number(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {key} in {text}"))
}
