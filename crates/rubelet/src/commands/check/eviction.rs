//! Checks that thresholds of eviction can work on this machine.

use std::path::Path;

use rubelet_core::config::KubeletConfiguration;
use rubelet_core::eviction::{EvictionPolicy, Signal, unworkable};
use rubelet_core::usage::FsStats;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::Disks;
use rubelet_linux::disks::KernelDisks;
use rubelet_linux::preflight::Finding;

/// What was read of the machine; `None` if it could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Capacity {
    memory: Option<i64>,
    processes: Option<i64>,
    /// The file system of the root directory: bytes and inodes, of which it may have no fixed number.
    disk: Option<(i64, i64)>,
}

impl Capacity {
    /// Reads it from `proc`, and of the file system that `root` is on, or will be.
    pub(super) async fn read(proc: &Path, root: &Path) -> Self {
        let there = root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        let disk = KernelDisks::new(Clock::real()).file_system(there).await.ok();
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let disk = disk.map(|FsStats { capacity, inodes, .. }| (number(capacity), number(inodes)));
        Self { disk, ..Self::of_proc(proc) }
    }

    fn of_proc(proc: &Path) -> Self {
        let text = |name: &str| std::fs::read_to_string(proc.join(name)).ok();
        let total = text("meminfo").and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()
        });
        Self {
            memory: total.map(|kib| kib.saturating_mul(1024)),
            processes: text("sys/kernel/pid_max").and_then(|text| text.trim().parse().ok()),
            disk: None,
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
        Signal::NodeFsAvailable => machine.disk.map(|(bytes, _)| bytes),
        Signal::NodeFsInodesFree => machine.disk.map(|(_, inodes)| inodes).filter(|inodes| *inodes > 0),
        Signal::AllocatableMemoryAvailable
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
    let of_inodes = policy.thresholds.iter().any(|threshold| threshold.signal == Signal::NodeFsInodesFree);
    let never = match machine.disk {
        Some((_, 0)) if of_inodes => "; nodefs.inodesFree is never met: the file system has no fixed number of inodes",
        _ => "",
    };
    Finding::ok(name, format!("{} thresholds{never}", policy.thresholds.len()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;

    use super::super::tests::lines;
    use super::*;

    #[test]
    fn thresholds_beyond_the_machine_are_named() {
        let on = |disk, hard: &[(&str, &str)]| {
            let eviction_hard: BTreeMap<String, String> =
                hard.iter().map(|(signal, amount)| ((*signal).to_owned(), (*amount).to_owned())).collect();
            let config = KubeletConfiguration { eviction_hard, ..KubeletConfiguration::default() };
            finding(&config, Capacity { memory: Some(8 << 30), processes: Some(32_768), disk: Some(disk) })
        };
        let of = |hard| on((10 << 30, 1000), hard);
        let found = [
            of(&[("memory.available", "100Mi"), ("nodefs.available", "10%"), ("pid.available", "10%")]),
            of(&[("memory.available", "8Gi"), ("pid.available", "100k")]),
            of(&[("nodefs.available", "20Gi"), ("nodefs.inodesFree", "1000")]),
            on((10 << 30, 0), &[("nodefs.available", "10%"), ("nodefs.inodesFree", "5%")]),
            of(&[]),
        ];
        expect![[r#"
            Ok eviction: 4 thresholds
            Warn eviction: evictionHard memory.available<8Gi: this machine has 8Gi in all, so pods are evicted for ever
            evictionHard pid.available<100k: this machine has 32Ki in all, so pods are evicted for ever
              fix: lower these thresholds, or give the machine more
            Warn eviction: evictionHard nodefs.available<20Gi: this machine has 10Gi in all, so pods are evicted for ever
            evictionHard nodefs.inodesFree<1k: this machine has 1k in all, so pods are evicted for ever
              fix: lower these thresholds, or give the machine more
            Ok eviction: 2 thresholds; nodefs.inodesFree is never met: the file system has no fixed number of inodes
            Warn eviction: no thresholds: the kernel kills processes once memory is used up
              fix: configure evictionHard, or start with a --config file, which brings defaults
        "#]]
        .assert_eq(&lines(&found));
    }

    #[tokio::test]
    async fn this_machine_has_memory_processes_and_a_disk() {
        let machine = Capacity::read(Path::new("/proc"), Path::new("/var/lib/kubelet")).await;
        assert!(machine.disk.is_some_and(|(bytes, _)| bytes > 1 << 20));
        assert!(
            machine.memory.is_some_and(|bytes| bytes > 1 << 20) && machine.processes.is_some_and(|most| most > 100)
        );
        assert_eq!(Capacity::of_proc(Path::new("/nowhere")), Capacity::default());
    }
}
