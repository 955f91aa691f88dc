//! Removal of unused images (section 8.2), and events of memory that ran out (OOM-01).

use std::time::Duration;

use rubelet_core::image_gc::ImageGcPolicy;
use rubelet_testkit::{Pull, RecordingEvents};

use crate::sim::{Sim, static_pod};

const MIB: u64 = 1 << 20;
const POLICY: ImageGcPolicy =
    ImageGcPolicy { high: 85, low: 80, min_age: Duration::from_secs(120), max_age: Duration::ZERO };

fn node(seed: u64, policy: ImageGcPolicy) -> Sim {
    let mut sim = Sim::stopped(seed);
    sim.image_gc = Some(policy);
    sim.files.push([static_pod("web").build()]);
    for name in ["old:1", "old:2", "old:3"] {
        sim.runtime.add_sized_image(name, 10 * MIB, false);
    }
    sim.runtime.add_sized_image("pause:1", 10 * MIB, true);
    sim
}

fn images(sim: &Sim) -> String {
    let names = sim.runtime.image_names();
    names.into_iter().filter(|name| name.starts_with("old") || name.starts_with("pause")).collect::<Vec<_>>().join(" ")
}

/// The messages of the node's warnings with this reason.
fn events(events: &RecordingEvents, reason: &str) -> Vec<String> {
    let prefix = format!("Warning {reason}: ");
    let lines = events.node_lines().into_iter();
    lines.filter_map(|line| line.strip_prefix(&prefix).map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn igc_01_unused_images_go_until_the_disk_is_below_the_low_threshold() {
    let mut sim = node(1, POLICY);
    sim.runtime.set_image_disk(100 * MIB, 20 * MIB);
    sim.start().await;
    sim.until_ready(&["web"], 30).await;
    sim.pass(600).await;
    assert_eq!(images(&sim), "old:1 old:2 old:3 pause:1", "61 % are used");
    // 86 MiB are used: one image brings it below 80.
    sim.runtime.set_image_disk(100 * MIB, 45 * MIB);
    sim.pass(301).await;
    assert_eq!(images(&sim), "old:2 old:3 pause:1");
    assert!(sim.is_ready("web").await);
    let counted = "kubelet_image_garbage_collected_total{reason=\"space\"} 1";
    assert!(sim.metrics().await.contains(counted), "{}", sim.metrics().await);
    assert_eq!(events(&sim.events, "FreeDiskSpaceFailed"), Vec::<String>::new());
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn igc_02_unused_images_go_by_age_once_the_agent_has_run_for_as_long() {
    let mut sim = node(2, ImageGcPolicy { high: 100, max_age: Duration::from_secs(3600), ..POLICY });
    sim.start().await;
    sim.until_ready(&["web"], 30).await;
    sim.pass(3590).await;
    assert_eq!(images(&sim), "old:1 old:2 old:3 pause:1");
    sim.pass(310).await;
    assert_eq!(images(&sim), "pause:1");
    assert!(sim.metrics().await.contains("kubelet_image_garbage_collected_total{reason=\"age\"} 3"));
    assert!(sim.is_ready("web").await);
}

#[tokio::test(start_paused = true)]
async fn igc_03_failures_are_events_from_the_second_in_a_row_on() {
    let mut sim = node(3, POLICY);
    sim.runtime.set_image_disk(100 * MIB, 90 * MIB);
    sim.start().await;
    sim.until_ready(&["web"], 30).await;
    sim.pass(200).await;
    // The images are too young at the first pass.
    let full = events(&sim.events, "FreeDiskSpaceFailed");
    assert_eq!(full.len(), 1);
    assert!(
        full[0].starts_with(
            "Insufficient free disk space on the node's image filesystem (100% of 100.0 MiB used). Failed to free \
             sufficient space by deleting unused images (freed 0 bytes). Investigate disk usage, as it could be used by \
             active images, logs, volumes, or other data. Images that stay: "
        ),
        "{full:?}"
    );
    assert!(full[0].contains("1 pinned (10.0 MiB), 3 too young (30.0 MiB)"), "{full:?}");
    assert_eq!(events(&sim.events, "ImageGCFailed"), Vec::<String>::new());
    for name in ["old:1", "old:2", "old:3"] {
        sim.runtime.keep_image(name, Some("it is in use"));
    }
    sim.pass(200).await;
    let failed = events(&sim.events, "ImageGCFailed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with("wanted to free "), "{failed:?}");
    assert!(failed[0].ends_with("freed 0 bytes space with errors in image deletion: it is in use"), "{failed:?}");
    sim.runtime.set_image_disk(0, 0);
    sim.pass(300).await;
    assert_eq!(events(&sim.events, "InvalidDiskCapacity"), ["invalid capacity 0 on image filesystem"]);
}

#[tokio::test(start_paused = true)]
async fn igc_03_it_can_be_turned_off_and_still_frees_on_request() {
    let mut sim = node(4, ImageGcPolicy { high: 100, ..POLICY });
    sim.runtime.set_image_disk(100 * MIB, 99 * MIB);
    sim.start().await;
    sim.until_ready(&["web"], 30).await;
    sim.pass(3600).await;
    assert_eq!(images(&sim), "old:1 old:2 old:3 pause:1");
    assert_eq!(sim.image_collector().free_unused().await.unwrap(), 30 * MIB);
    assert_eq!(images(&sim), "pause:1");
    assert_eq!(sim.image_collector().free_unused().await.unwrap(), 0);
    assert!(sim.is_ready("web").await);
}

/// From before its pull until its container is created, an image stays, however full the disk is.
#[tokio::test(start_paused = true)]
async fn igc_01_an_image_that_a_pod_is_about_to_use_is_never_removed() {
    for seed in 0..20 {
        let mut sim = node(seed, ImageGcPolicy { min_age: Duration::ZERO, ..POLICY });
        sim.runtime.set_image_disk(100 * MIB, 95 * MIB);
        sim.runtime.script_pull("slow:1", Pull::Takes(Duration::from_secs(20)));
        sim.start().await;
        sim.until_ready(&["web"], 30).await;
        let with = |name: &str, image: &str| static_pod(name).image(image).build();
        sim.files.push([static_pod("web").build(), with("a", "old:2"), with("b", "slow:1")]);
        // A collection at every moment of the start.
        for _ in 0..60 {
            let _freed = sim.image_collector().free_unused().await;
            tokio::time::sleep(Duration::from_millis(437 + seed)).await;
        }
        sim.until_ready(&["web", "a", "b"], 30).await;
        let missing: Vec<_> = sim.runtime.log().into_iter().filter(|call| call.line.contains("not found")).collect();
        assert!(missing.is_empty(), "a container was created without its image: {missing:?}");
        sim.check_laws();
    }
}

#[tokio::test(start_paused = true)]
async fn oom_01_memory_that_ran_out_on_the_machine_is_an_event_of_the_node() {
    let mut sim = Sim::stopped(7);
    let (kernel, lines) = tokio::sync::mpsc::channel(16);
    sim.kernel_log = Some(lines);
    sim.files.push([static_pod("web").build()]);
    sim.start().await;
    sim.until_ready(&["web"], 30).await;
    for line in [
        "java invoked oom-killer: gfp_mask=0xcc0",
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/x,task=java,\
         pid=42,uid=0",
        "Out of memory: Killed process 42 (java) total-vm:8kB",
        "hog invoked oom-killer: gfp_mask=0xcc0",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods/p,\
         task_memcg=/kubepods/p,task=hog,pid=43,uid=0",
    ] {
        kernel.send(line.to_owned()).await.unwrap();
    }
    sim.pass(1).await;
    let expected = ["System OOM encountered, victim process: java, pid: 42"];
    assert_eq!(events(&sim.events, "SystemOOM"), expected, "a container's own limit is no event of the node");
    // A log that ends does not end the agent.
    drop(kernel);
    sim.pass(60).await;
    assert!(sim.is_ready("web").await);
}
