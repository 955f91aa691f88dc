//! What the kernel says this process has used.

use std::time::Duration;

/// CPU time of this thread, to the nanosecond; up to one tick late.
pub(crate) fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts CPU time");
    let nanos = text.split_whitespace().next().and_then(|n| n.parse().ok()).expect("its first number is nanoseconds");
    Duration::from_nanos(nanos)
}

/// Memory of this process, in KiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) rss: f64,
    pub(crate) pss: f64,
}

pub(crate) fn memory() -> Memory {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel sums up memory");
    let kib = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).expect("the sum has this line");
        line.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number of KiB")
    };
    Memory { rss: kib("Rss:"), pss: kib("Pss:") }
}
