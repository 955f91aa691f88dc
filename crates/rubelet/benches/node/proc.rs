//! What the kernel says of another process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

/// Length of a tick in `/proc/PID/stat`, the same on every Linux that Rust runs on.
const TICK: Duration = Duration::from_millis(10);

/// What a process has used so far.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// How often each of its threads went to sleep of its own accord, and so had to be woken.
    sleeps: BTreeMap<OsString, u64>,
    pub(crate) rss_kib: u64,
    pub(crate) pss_kib: u64,
    /// What no file backs: heap and stacks.
    pub(crate) anonymous_kib: u64,
}

impl Usage {
    pub(crate) fn threads(&self) -> usize {
        self.sleeps.len()
    }

    /// Sleeps since `before`. Those of threads that have ended meanwhile are not known any more.
    pub(crate) fn sleeps_since(&self, before: &Self) -> u64 {
        let of_thread = |(id, now): (&OsString, &u64)| now - before.sleeps.get(id).copied().unwrap_or_default();
        self.sleeps.iter().map(of_thread).sum()
    }
}

pub(crate) fn usage(pid: u32) -> Usage {
    let stat = read(&format!("/proc/{pid}/stat"));
    // The second field is a name in brackets, which may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|n| n.parse::<u32>().ok()).expect("a count of ticks");
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("rubelet runs").flatten();
    let sleeps = threads.filter_map(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        Some((thread.file_name(), number(&status, "voluntary_ctxt_switches:")))
    });
    let memory = read(&format!("/proc/{pid}/smaps_rollup"));
    Usage {
        cpu: TICK * (ticks(11) + ticks(12)),
        sleeps: sleeps.collect(),
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
