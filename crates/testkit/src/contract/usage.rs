//! Laws of [`Stats`] and [`Disks`].

use std::path::Path;

use rubelet_core::usage::{CgroupKind, DiskUsage};
use rubelet_engine::ports::{Detail, Disks, Stats, Walked};

/// Every sample has the root and no two cgroups of one container, and time only goes forward.
pub async fn check_stats(stats: &dyn Stats) {
    let first = stats.sample(Detail::Everything).await.expect("a sample");
    let second = stats.sample(Detail::Usage).await.expect("another sample");
    assert!(second.at.mono >= first.at.mono);
    for sample in [&first, &second] {
        assert_eq!(sample.cgroups["/"].kind, CgroupKind::Root);
        let mut containers: Vec<_> =
            sample.cgroups.values().filter(|cgroup| matches!(cgroup.kind, CgroupKind::Container { .. })).collect();
        containers.sort_by(|a, b| a.kind.cmp(&b.kind));
        assert!(containers.windows(2).all(|pair| pair[0].kind != pair[1].kind), "a container has one cgroup");
        assert!(sample.cgroups.keys().all(|path| path.starts_with('/')));
    }
    let cpu = |sample: &rubelet_core::usage::Sample| sample.cgroups["/"].usage.cpu.map(|cpu| cpu.total);
    assert!(cpu(&second) >= cpu(&first), "CPU time never goes back");
    assert!(stats.networks(&["/no/such/cgroup".to_owned()]).await.is_empty());
    let processes = stats.processes().await.expect("processes");
    assert!(processes.current > 0 && processes.max >= processes.current, "{processes:?}");
    assert_eq!(stats.machine().await, stats.machine().await);
}

/// What is missing takes nothing, and `at` is on a file system.
pub async fn check_disks(disks: &dyn Disks, at: &Path) {
    let missing = at.join("no-such-directory");
    let answers = disks.usage(std::slice::from_ref(&missing)).await;
    assert_eq!(answers.get(&missing), Some(&Walked::Whole(DiskUsage::default())));
    assert!(disks.usage(&[]).await.is_empty());
    let size = disks.file_system(at).await.expect("a file system");
    assert!(size.available <= size.capacity && size.used <= size.capacity, "{size:?}");
}
