//! Usage: measured when somebody asks, once for all who ask, and part by part.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::id::ContainerId;
use rubelet_core::usage::{CgroupKind, DiskUsage, FsStats, NodeUsage, PodPlaces, PodUsage};
use rubelet_engine::ports::{Detail, UsageReader, Wanted};
use rubelet_engine::usage::UsageParts;
use rubelet_testkit::FakeStats;
use tokio::task::JoinSet;

use crate::sim::{Sim, static_pod};

/// What cgroups alone show.
const CGROUPS: Wanted = Wanted { detail: Detail::Usage, networks: false, disks: false, max_age: Duration::ZERO };
const ALL: Wanted =
    Wanted { detail: Detail::Everything, networks: true, disks: true, max_age: Duration::from_millis(1) };

fn parts(stats: &FakeStats) -> UsageParts {
    UsageParts {
        stats: Arc::new(stats.clone()),
        disks: Arc::new(stats.clone()),
        runtime: Arc::new(stats.clone()),
        places: PodPlaces { root: "/var/lib/kubelet".into(), logs: "/var/log/pods".into() },
    }
}

/// A node on which `web` runs, and its counters.
async fn node() -> (Sim, FakeStats, Arc<dyn UsageReader>) {
    let mut sim = Sim::stopped(1);
    let stats = FakeStats::new(sim.clock);
    stats.set_disk("/", FsStats { capacity: 100, available: 60, used: 40, ..FsStats::default() });
    sim.usage = Some(parts(&stats));
    sim.files.push([static_pod("web").empty_dir("scratch", "/scratch").build()]);
    sim.start().await;
    sim.until_ready(&["web"], 60).await;
    let reader = sim.reader();
    (sim, stats, reader)
}

fn web(usage: &NodeUsage) -> &PodUsage {
    usage.pods.iter().find(|pod| &*pod.pod.name == "web").expect("the pod is shown")
}

fn scratch(pod: &PodUsage) -> PathBuf {
    let place = format!("/var/lib/kubelet/pods/{}/volumes/kubernetes.io~empty-dir/scratch", pod.pod.uid);
    PathBuf::from(place)
}

#[tokio::test(start_paused = true)]
async fn sts_01_nothing_is_measured_while_nobody_asks() {
    let (sim, stats, reader) = node().await;
    sim.pass(3600).await;
    assert_eq!(stats.looks(), []);
    reader.usage(CGROUPS).await.expect("usage");
    sim.pass(3600).await;
    assert_eq!(stats.looks().len(), 2, "one look, and one more so that the next caller finds rates");
}

#[tokio::test(start_paused = true)]
async fn sts_01_callers_share_one_look() {
    let (_sim, stats, reader) = node().await;
    let mut callers = JoinSet::new();
    for _ in 0..50 {
        let reader = Arc::clone(&reader);
        callers.spawn(async move { reader.usage(CGROUPS).await.expect("usage") });
    }
    while callers.join_next().await.is_some() {}
    assert!(stats.looks().len() <= 2, "those who came during the first look share the second: {:?}", stats.looks());
}

#[tokio::test(start_paused = true)]
async fn sts_01_an_older_look_serves_a_caller_that_accepts_its_age() {
    let (sim, stats, reader) = node().await;
    reader.usage(ALL).await.expect("usage");
    sim.pass(5).await;
    let patient = Wanted { max_age: Duration::from_secs(10), ..CGROUPS };
    reader.usage(patient).await.expect("usage");
    assert_eq!(stats.looks(), [Detail::Everything]);
    reader.usage(Wanted { max_age: Duration::from_secs(2), ..CGROUPS }).await.expect("usage");
    assert_eq!(stats.looks().len(), 2, "too old");
    reader.usage(Wanted { max_age: Duration::from_secs(10), ..ALL }).await.expect("usage");
    assert_eq!(stats.looks().len(), 3, "it shows less than what is wanted");
}

#[tokio::test(start_paused = true)]
async fn sts_03_the_second_caller_finds_rates() {
    let (sim, stats, reader) = node().await;
    let first = reader.usage(CGROUPS).await.expect("usage");
    assert!(first.cpu_rates.is_empty());
    sim.pass(11).await;
    stats.set_cgroup("/", CgroupKind::Root, Duration::from_secs(20), 0);
    sim.pass(9).await;
    let second = reader.usage(CGROUPS).await.expect("usage");
    assert!(second.cpu_rates["/"] > 1_000_000_000, "{:?}", second.cpu_rates);
    sim.pass(60).await;
    let third = reader.usage(CGROUPS).await.expect("usage");
    assert_eq!(third.cpu_rates["/"], 0);
}

#[tokio::test(start_paused = true)]
async fn sts_02_a_look_shows_pods_with_their_containers_volumes_and_layers() {
    let (sim, stats, reader) = node().await;
    let bare = reader.usage(CGROUPS).await.expect("usage");
    let container: ContainerId = web(&bare).containers[0].id.clone();
    stats.set_container(&web(&bare).pod.uid, &container, 4096);
    stats.set_layer(&container, 77);
    stats.set_dir(&scratch(web(&bare)), DiskUsage { bytes: 5, inodes: 2 }, 1);
    let usage = reader.usage(ALL).await.expect("usage");
    let pod = web(&usage);
    let cgroup = pod.containers[0].cgroup.as_ref().expect("a cgroup");
    assert_eq!(usage.sample.cgroups[cgroup].usage.memory.map(|memory| memory.usage), Some(4096));
    assert!(pod.sandbox.is_some() && pod.started_at.is_some());
    assert_eq!(pod.containers[0].layer.and_then(|layer| layer.bytes), Some(77));
    assert_eq!((pod.volumes[0].name.as_str(), pod.volumes[0].used.bytes), ("scratch", 5));
    assert_eq!(pod.volumes[0].on.map(|on| on.capacity), Some(100));
    assert_eq!(usage.disks.nodefs.map(|disk| disk.available), Some(60));
    assert_eq!(usage.processes.map(|processes| processes.current), Some(100));
    sim.check_laws();
}

/// EV-11: a pod is to end because a disk is full.
#[tokio::test(start_paused = true)]
async fn ev_11_who_accepts_no_older_look_has_directories_and_layers_measured_anew() {
    let (sim, stats, reader) = node().await;
    let bare = reader.usage(CGROUPS).await.expect("usage");
    let (container, volume) = (web(&bare).containers[0].id.clone(), scratch(web(&bare)));
    let read = |usage: &Arc<NodeUsage>| {
        let pod = web(usage);
        (pod.containers[0].layer.and_then(|layer| layer.bytes), pod.volumes[0].used.inodes)
    };
    stats.set_layer(&container, 1);
    stats.set_dir(&volume, DiskUsage { bytes: 1, inodes: 1 }, 1);
    assert_eq!(read(&reader.usage(ALL).await.expect("usage")), (Some(1), 1));
    sim.pass(5).await;
    stats.set_layer(&container, 1000);
    // A large one: its measurement takes a second and a half.
    stats.set_dir(&volume, DiskUsage { bytes: 1, inodes: 30_000 }, 15);
    assert_eq!(read(&reader.usage(ALL).await.expect("usage")), (Some(1), 1), "measured a moment ago");
    sim.pass(5).await;
    let anew = Wanted { max_age: Duration::ZERO, ..ALL };
    assert_eq!(read(&reader.usage(anew).await.expect("usage")), (Some(1000), 30_000));
}

#[tokio::test(start_paused = true)]
async fn hostile_a_large_volume_delays_no_other_and_shows_when_it_is_whole() {
    let (sim, stats, reader) = node().await;
    let bare = reader.usage(CGROUPS).await.expect("usage");
    let large = scratch(web(&bare));
    stats.set_dir(&large, DiskUsage { bytes: 1 << 40, inodes: 1_000_000 }, 250);
    let container = &web(&bare).containers[0].name;
    let log = format!("/var/log/pods/{}_{}_{}/{container}", web(&bare).pod.namespace, "web", web(&bare).pod.uid);
    stats.set_dir(Path::new(&log), DiskUsage { bytes: 9, inodes: 1 }, 1);
    let begun = sim.clock.elapsed();
    let first = reader.usage(ALL).await.expect("usage");
    assert!(sim.clock.elapsed() - begun < Duration::from_secs(1), "nobody waits for it");
    assert_eq!(web(&first).containers[0].logs.map(|logs| logs.bytes), Some(9));
    assert_eq!(web(&first).volumes, []);
    sim.pass(40).await;
    let later = reader.usage(ALL).await.expect("usage");
    assert_eq!(web(&later).volumes[0].used.inodes, 1_000_000);
}

#[tokio::test(start_paused = true)]
async fn hostile_a_part_that_hangs_costs_its_part_only() {
    for part in ["networks", "processes", "file_system", "usage", "layers"] {
        let (sim, stats, reader) = node().await;
        stats.hang(part);
        let begun = sim.clock.elapsed();
        let usage = reader.usage(ALL).await.expect("usage");
        assert!(sim.clock.elapsed() - begun < Duration::from_secs(10), "{part}");
        assert!(!usage.sample.cgroups.is_empty() && !usage.pods.is_empty(), "{part}");
        assert_eq!(usage.processes.is_some(), part != "processes");
        assert_eq!(usage.disks.nodefs.is_some(), part != "file_system");
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_a_runtime_that_is_away_takes_no_name_from_what_runs() {
    let (sim, _stats, reader) = node().await;
    sim.runtime.go_away(Duration::from_secs(600));
    let usage = reader.usage(ALL).await.expect("usage");
    assert_eq!(web(&usage).containers.len(), 1, "its status names it");
    assert_eq!(usage.disks.imagefs, None);
}

#[tokio::test(start_paused = true)]
async fn hostile_cgroups_that_hang_are_an_error_in_time() {
    let (sim, stats, reader) = node().await;
    stats.hang("sample");
    let begun = sim.clock.elapsed();
    let err = reader.usage(ALL).await.expect_err("no usage without cgroups");
    assert!(err.to_string().contains("in time"), "{err}");
    assert!(sim.clock.elapsed() - begun <= Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_measures_nothing_has_a_reader_that_fails() {
    let sim = Sim::seeded(1).await;
    let err = sim.reader().usage(ALL).await.expect_err("nothing is measured");
    assert_eq!(err.to_string(), "usage is not measured on this node");
}
