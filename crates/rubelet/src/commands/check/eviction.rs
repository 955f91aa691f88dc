//! Checks that thresholds of eviction can work on this machine.

use std::path::Path;

use rubelet_core::config::KubeletConfiguration;
use rubelet_core::eviction::{EvictionPolicy, Signal, unworkable};
use rubelet_linux::preflight::Finding;

/// What was read of the machine; `None` if it could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Capacity {
    memory: Option<i64>,
    processes: Option<i64>,
}

impl Capacity {
    /// Reads it from `proc`.
    pub(super) fn read(proc: &Path) -> Self {
        let text = |name: &str| std::fs::read_to_string(proc.join(name)).ok();
        let total = text("meminfo").and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()
        });
        Self {
            memory: total.map(|kib| kib.saturating_mul(1024)),
            processes: text("sys/kernel/pid_max").and_then(|text| text.trim().parse().ok()),
        }
    }
}

/// Whether thresholds are beyond what the machine has.
pub(super) fn finding(config: &KubeletConfiguration, machine: Capacity) -> Finding {
    let name = "eviction";
    // An invalid threshold was reported with the configuration.
    let Ok(policy) = EvictionPolicy::of(config, false) else { return Finding::ok(name, "thresholds are invalid") };
    let beyond = unworkable(policy.thresholds.iter(), |signal| match signal {
        Signal::MemoryAvailable => machine.memory,
        Signal::PidAvailable => machine.processes,
        Signal::AllocatableMemoryAvailable
        | Signal::NodeFsAvailable
        | Signal::NodeFsInodesFree
        | Signal::ImageFsAvailable
        | Signal::ImageFsInodesFree
        | Signal::ContainerFsAvailable
        | Signal::ContainerFsInodesFree => None,
    });
    if !beyond.is_empty() {
        return Finding::warn(name, beyond.join("\n"), "lower these thresholds, or give the machine more");
    }
    if policy.thresholds.is_empty() {
        let mend = "configure evictionHard, or start with a --config file, which brings defaults";
        return Finding::warn(name, "no thresholds: the kernel kills processes once memory is used up", mend);
    }
    Finding::ok(name, format!("{} thresholds", policy.thresholds.len()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;

    use super::super::tests::lines;
    use super::*;

    #[test]
    fn thresholds_beyond_the_machine_are_named() {
        let of = |hard: &[(&str, &str)]| {
            let eviction_hard: BTreeMap<String, String> =
                hard.iter().map(|(signal, amount)| ((*signal).to_owned(), (*amount).to_owned())).collect();
            let config = KubeletConfiguration { eviction_hard, ..KubeletConfiguration::default() };
            finding(&config, Capacity { memory: Some(8 << 30), processes: Some(32_768) })
        };
        let found = [
            of(&[("memory.available", "100Mi"), ("nodefs.available", "10%"), ("pid.available", "10%")]),
            of(&[("memory.available", "8Gi"), ("pid.available", "100k")]),
            of(&[]),
        ];
        expect![[r#"
            Ok eviction: 4 thresholds
            Warn eviction: evictionHard memory.available<8Gi: this machine has 8Gi in all, so pods are evicted for ever
            evictionHard pid.available<100k: this machine has 32Ki in all, so pods are evicted for ever
              fix: lower these thresholds, or give the machine more
            Warn eviction: no thresholds: the kernel kills processes once memory is used up
              fix: configure evictionHard, or start with a --config file, which brings defaults
        "#]]
        .assert_eq(&lines(&found));
    }

    #[test]
    fn this_machine_has_memory_and_processes() {
        let machine = Capacity::read(Path::new("/proc"));
        assert!(
            machine.memory.is_some_and(|bytes| bytes > 1 << 20) && machine.processes.is_some_and(|most| most > 100)
        );
        assert_eq!(Capacity::read(Path::new("/nowhere")), Capacity::default());
    }
}
