//! The fakes obey the laws that the real adapters obey.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::launch::NamespaceMode;
use rubelet_core::qos::CgroupPath;
use rubelet_core::usage::FsStats;
use rubelet_engine::ports::VolumeRequest;
use rubelet_testkit::contract::{self, Rig};
use rubelet_testkit::{
    DEFAULT_IMAGE, FakeCgroups, FakeMachine, FakePodDirs, FakePodLogs, FakeRuntime, FakeStats, FakeVolumes, TestClock,
    pod,
};

fn rig() -> (Rig, FakeRuntime) {
    let runtime = FakeRuntime::new(TestClock::start());
    runtime.add_image(DEFAULT_IMAGE);
    let shared = Arc::new(runtime.clone());
    (Rig::new(shared.clone(), shared, DEFAULT_IMAGE, "contract"), runtime)
}

#[tokio::test(start_paused = true)]
async fn the_fake_runtime_obeys_every_law() {
    let (rig, runtime) = rig();
    contract::check_runtime(&rig).await;
    // One law starts a container twice on purpose, to see it refused.
    let broken: Vec<String> =
        runtime.violations().into_iter().filter(|v| !v.starts_with("contract-starting-twice-fails:")).collect();
    assert_eq!(broken, Vec::<String>::new());
    assert_eq!(runtime.world(), "", "the laws leave nothing behind");
}

#[tokio::test(start_paused = true)]
async fn the_fake_runtime_obeys_every_law_without_hints_on_pod_networks() {
    let (mut rig, runtime) = rig();
    runtime.set_hints(false);
    runtime.set_latency(Duration::ZERO);
    rig.network = NamespaceMode::Pod;
    contract::check_runtime(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn the_other_fakes_obey_their_laws() {
    contract::check_cgroups(&FakeCgroups::default(), &CgroupPath::new(["kubepods", "burstable"])).await;
    contract::check_pod_dirs(&FakePodDirs::default()).await;
    contract::check_pod_logs(&FakePodLogs::default()).await;
    let pod = pod("web").empty_dir("scratch", "/scratch").build();
    let volume = pod.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0].clone();
    contract::check_volume_plugin(&FakeVolumes::default(), &VolumeRequest { pod, volume, fs_group: None }).await;
    let stats = FakeStats::new(TestClock::start());
    stats.set_disk("/", FsStats { capacity: 2, available: 1, used: 1, ..FsStats::default() });
    contract::check_stats(&stats).await;
    contract::check_disks(&stats, Path::new("/var")).await;
    let machine = FakeMachine::default();
    contract::the_state_of_the_machine_comes_first(&machine).await;
    contract::delays_are_independent(&machine).await;
    contract::the_longest_delay_can_be_raised(&machine).await;
    assert_eq!(machine.held(), 0);
}
