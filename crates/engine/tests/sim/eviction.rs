//! The node runs short of memory, disk or process IDs: the right pod ends, and no more than needed (section 17).

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_core::eviction::{EvictionPolicy, parse_thresholds};
use rubelet_core::id::PodRef;
use rubelet_testkit::{Behaviour, FakeApi, FakeNodeApi, Faults, PodBuilder, PodUse, pod};

use crate::node::{condition, parts};
use crate::sim::{Sim, is_ready, static_pod};

const GIB: u64 = 1 << 30;
const CRITICAL: i32 = 2_000_000_000;

fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn policy(
    hard: &[(&str, &str)],
    soft: &[(&str, &str)],
    graces: &[(&str, &str)],
    least: &[(&str, &str)],
) -> EvictionPolicy {
    let thresholds = parse_thresholds(&[], &strings(hard), &strings(soft), &strings(graces), &strings(least));
    EvictionPolicy {
        thresholds: thresholds.expect("valid thresholds"),
        transition: Duration::from_secs(60),
        max_pod_grace: 30,
        local_limits: true,
    }
}

/// Less than 4 of 64 GiB of memory, or than a tenth of a TiB of disk.
fn hard() -> EvictionPolicy {
    policy(&[("memory.available", "4Gi"), ("nodefs.available", "10%"), ("pid.available", "10%")], &[], &[], &[])
}

/// A node in a cluster with its object, that evicts by this policy.
async fn started(seed: u64, policy: EvictionPolicy) -> (Sim, FakeApi, FakeNodeApi) {
    let mut sim = Sim::stopped(seed);
    sim.eviction = Some(policy);
    let api = FakeApi::seeded(sim.clock, seed);
    sim.api = Some(api.clone());
    let node = FakeNodeApi::new();
    let made = node.clone();
    sim.node = Some(Box::new(move || parts(&made)));
    sim.files.push([]);
    sim.start().await;
    (sim, api, node)
}

fn memory(gib: u64) -> PodUse {
    PodUse { memory: gib * GIB, ..PodUse::default() }
}

/// A pod of the API that uses this much while it runs.
fn runs(sim: &Sim, api: &FakeApi, builder: PodBuilder, used: PodUse) {
    let pod = builder.build();
    sim.loaded.set(&PodRef::of(&pod), used);
    api.put(&pod);
}

fn uses(sim: &Sim, api: &FakeApi, name: &str, used: PodUse) {
    let pod = api.pod(name).expect("a pod");
    sim.loaded.set(&PodRef::of(&pod), used);
}

async fn until_ready(sim: &Sim, api: &FakeApi, names: &[&str]) {
    sim.until(20, &format!("{names:?}"), async |_| names.iter().all(|name| is_ready(&api.status(name)))).await;
}

fn evicted(api: &FakeApi, name: &str) -> bool {
    let status = api.status(name);
    (status.phase.as_deref(), status.reason.as_deref()) == (Some("Failed"), Some("Evicted"))
}

fn all_evicted(api: &FakeApi) -> Vec<String> {
    api.names().into_iter().filter(|name| evicted(api, name)).collect()
}

fn three(sim: &Sim, api: &FakeApi) {
    runs(sim, api, pod("modest").request("memory", "20Gi").priority(0), memory(10));
    runs(sim, api, pod("over").request("memory", "1Gi").priority(0), memory(3));
    runs(sim, api, pod("hog").request("memory", "1Gi").priority(0), memory(4));
}

/// EV-04, EV-11, EV-12, EV-14: the hog grows, the kernel wakes the evictor, and the hog alone ends.
#[tokio::test(start_paused = true)]
async fn ev_12_a_memory_hog_is_evicted_at_once_and_nothing_else() {
    let (sim, api, node) = started(500, hard()).await;
    three(&sim, &api);
    until_ready(&sim, &api, &["modest", "over", "hog"]).await;
    sim.pass(30).await;
    assert_eq!(condition(&node, "MemoryPressure").0, "False");
    let began = sim.clock.elapsed();
    uses(&sim, &api, "hog", memory(50));
    sim.until(2, "the hog to be stopped", async |sim| sim.runtime.running("hog").is_empty()).await;
    assert!(sim.clock.elapsed() - began < Duration::from_millis(500), "{:?}", sim.clock.elapsed() - began);
    sim.until(2, "its status", async |_| evicted(&api, "hog")).await;
    sim.pass(120).await;
    assert_eq!(all_evicted(&api), ["hog"]);
    assert!(!sim.runtime.world().contains("hog"), "GC-02: its dead containers are gone: {}", sim.runtime.world());
    let status = api.status("hog");
    let message = "The node was low on resource: memory. Threshold quantity: 4Gi, available: 1Gi. ";
    assert_eq!(status.message.as_deref(), Some(message));
    let target = status.conditions.iter().flatten().find(|one| one.type_ == "DisruptionTarget").expect("a condition");
    assert_eq!((target.reason.as_deref(), target.message.as_deref()), (Some("TerminationByKubelet"), Some(message)));
    let event = sim.events.all().into_iter().find(|event| event.reason == "Evicted").expect("an event");
    assert_eq!((event.message.as_str(), event.annotations["starved_resource"].as_str()), (message, "memory"));
    let lines = sim.events.node_lines();
    assert_eq!(
        lines.iter().filter(|line| *line == "Warning EvictionThresholdMet: Attempting to reclaim memory").count(),
        1
    );
    assert!(sim.metrics().await.contains("kubelet_evictions{eviction_signal=\"memory.available\"} 1"));
    sim.check_laws();
}

/// EV-05: the condition is reported, holds for the transition period, and keeps best-effort pods away.
#[tokio::test(start_paused = true)]
async fn ev_05_pressure_shows_in_the_nodes_conditions_and_in_admission() {
    let (sim, api, node) = started(501, hard()).await;
    three(&sim, &api);
    until_ready(&sim, &api, &["modest", "over", "hog"]).await;
    uses(&sim, &api, "hog", memory(50));
    sim.until(3, "the condition", async |_| condition(&node, "MemoryPressure").0 == "True").await;
    runs(&sim, &api, pod("best-effort"), memory(0));
    runs(&sim, &api, pod("burstable").request("memory", "1Gi"), memory(0));
    runs(&sim, &api, pod("critical").priority(CRITICAL), memory(0));
    until_ready(&sim, &api, &["burstable", "critical"]).await;
    sim.until(3, "a rejection", async |_| evicted(&api, "best-effort")).await;
    let message = "Pod was rejected: The node had condition: [MemoryPressure]. ";
    assert_eq!(api.status("best-effort").message.as_deref(), Some(message));
    sim.until(90, "the end of the pressure", async |_| condition(&node, "MemoryPressure").0 == "False").await;
    runs(&sim, &api, pod("later"), memory(0));
    until_ready(&sim, &api, &["later"]).await;
}

/// Never more than needed: while one pod ends slowly, no second one is asked to.
#[tokio::test(start_paused = true)]
async fn of_two_hogs_the_larger_ends_first_and_the_second_only_if_that_was_not_enough() {
    for (second, ended) in [(20, vec!["first"]), (61, vec!["first", "second"])] {
        let (sim, api, _) = started(502, hard()).await;
        sim.runtime.script("slow", [Behaviour::runs().ignores_term()]);
        runs(&sim, &api, pod("first").container("slow").grace_secs(20), memory(1));
        runs(&sim, &api, pod("second").container("app"), memory(1));
        until_ready(&sim, &api, &["first", "second"]).await;
        uses(&sim, &api, "first", memory(62));
        uses(&sim, &api, "second", memory(second));
        sim.pass(120).await;
        assert_eq!(all_evicted(&api), ended, "{second}");
        sim.check_laws();
    }
}

/// EV-13.
#[tokio::test(start_paused = true)]
async fn ev_13_static_and_critical_pods_are_spared_however_much_they_use() {
    let (sim, api, node) = started(503, hard()).await;
    let etcd = static_pod("etcd").build();
    sim.loaded.set(&PodRef::of(&etcd), memory(30));
    sim.files.put(etcd);
    runs(&sim, &api, pod("proxy").priority(CRITICAL), memory(1));
    runs(&sim, &api, pod("web"), memory(1));
    until_ready(&sim, &api, &["proxy", "web"]).await;
    uses(&sim, &api, "proxy", memory(31));
    sim.until(20, "the only pod that may end", async |_| evicted(&api, "web")).await;
    sim.pass(300).await;
    assert_eq!(all_evicted(&api), ["web"]);
    assert_eq!(sim.runtime.running("etcd").len(), 1);
    assert_eq!(condition(&node, "MemoryPressure").0, "True", "the pressure goes on");
}

/// The API server is away: the pod ends all the same, and its status is written later.
#[tokio::test(start_paused = true)]
async fn a_pod_is_evicted_while_the_api_server_is_away_and_its_status_is_written_later() {
    let (sim, api, node) = started(504, hard()).await;
    three(&sim, &api);
    until_ready(&sim, &api, &["modest", "over", "hog"]).await;
    api.go_away(Duration::from_secs(60));
    node.set_away(true);
    uses(&sim, &api, "hog", memory(50));
    sim.until(2, "the hog to be stopped", async |sim| sim.runtime.running("hog").is_empty()).await;
    sim.pass(50).await;
    assert!(!evicted(&api, "hog"));
    sim.pass(15).await;
    node.set_away(false);
    sim.until(120, "the status", async |_| evicted(&api, "hog")).await;
    sim.pass(60).await;
    assert_eq!(all_evicted(&api), ["hog"]);
}

/// A restart in the middle: the pod that was asked to end ends or stays, and no other ends for it.
#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_an_eviction_ends_no_second_pod() {
    for seed in 505..515 {
        let (mut sim, api, node) = started(seed, hard()).await;
        sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_millis(700), 0)]);
        three(&sim, &api);
        runs(&sim, &api, pod("leak").container("slow"), memory(1));
        until_ready(&sim, &api, &["modest", "over", "hog", "leak"]).await;
        uses(&sim, &api, "leak", memory(50));
        tokio::time::sleep(Duration::from_millis(100 * (seed - 504))).await;
        sim.restart().await;
        sim.until(60, "the eviction", async |sim| sim.runtime.running("leak").is_empty()).await;
        sim.pass(120).await;
        assert_eq!(sim.runtime.running("hog").len() + sim.runtime.running("over").len(), 2, "seed {seed}");
        assert_eq!(condition(&node, "MemoryPressure").0, "False", "seed {seed}");
        sim.check_laws();
    }
}

/// EV-05: a restart does not end a condition before its transition period.
#[tokio::test(start_paused = true)]
async fn ev_05_a_condition_outlives_a_restart_and_running_pods_stay() {
    let mut relaxed = hard();
    relaxed.transition = Duration::from_secs(600);
    let (mut sim, api, node) = started(520, relaxed).await;
    three(&sim, &api);
    runs(&sim, &api, pod("small"), memory(0));
    until_ready(&sim, &api, &["modest", "over", "hog", "small"]).await;
    uses(&sim, &api, "hog", memory(50));
    sim.until(3, "the condition", async |_| condition(&node, "MemoryPressure").0 == "True").await;
    sim.pass(30).await;
    sim.restart().await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(condition(&node, "MemoryPressure").0, "True");
    }
    assert!(is_ready(&api.status("small")), "a best-effort pod that ran before stays: {:?}", api.status("small"));
    runs(&sim, &api, pod("new"), memory(0));
    sim.until(3, "a rejection", async |_| evicted(&api, "new")).await;
    sim.until(700, "the end of the pressure", async |_| condition(&node, "MemoryPressure").0 == "False").await;
}

/// A soft threshold that is crossed now and then, but never for its grace period, ends nothing.
#[tokio::test(start_paused = true)]
async fn ev_03_a_threshold_that_flaps_ends_no_pod_before_its_grace_period() {
    let soft = policy(&[], &[("memory.available", "8Gi")], &[("memory.available", "60s")], &[]);
    let (sim, api, node) = started(521, soft).await;
    runs(&sim, &api, pod("web").grace_secs(20), memory(1));
    until_ready(&sim, &api, &["web"]).await;
    for _ in 0..10 {
        uses(&sim, &api, "web", memory(60));
        sim.pass(40).await;
        uses(&sim, &api, "web", memory(40));
        sim.pass(20).await;
    }
    assert!(all_evicted(&api).is_empty());
    assert_eq!(condition(&node, "MemoryPressure").0, "True");
    let changes = sim.events.node_lines().iter().filter(|line| line.contains("Memory")).count();
    assert!(changes <= 3, "the condition does not flap: {:?}", sim.events.node_lines());
    uses(&sim, &api, "web", memory(60));
    sim.pass(55).await;
    assert!(all_evicted(&api).is_empty());
    sim.until(30, "the eviction", async |_| evicted(&api, "web")).await;
}

/// EV-10: dead containers and images go before pods, and a pod only if that was not enough.
#[tokio::test(start_paused = true)]
async fn ev_10_disk_space_is_reclaimed_before_a_pod_ends() {
    let disk = |gib: u64| PodUse { disk: gib * GIB, ..PodUse::default() };
    let (sim, api, node) = started(522, hard()).await;
    runs(&sim, &api, pod("filler").empty_dir("data", "/data"), disk(1));
    runs(&sim, &api, pod("web").empty_dir("data", "/data"), disk(1));
    until_ready(&sim, &api, &["filler", "web"]).await;
    sim.loaded.set_reclaimable(400 * GIB, 100 * GIB);
    uses(&sim, &api, "filler", disk(500));
    sim.until(30, "the condition", async |_| condition(&node, "DiskPressure").0 == "True").await;
    sim.pass(30).await;
    assert_eq!(sim.loaded.reclaims(), ["containers", "images"]);
    assert!(all_evicted(&api).is_empty(), "enough was freed");
    sim.until(120, "the end of the pressure", async |_| condition(&node, "DiskPressure").0 == "False").await;
    uses(&sim, &api, "filler", disk(1000));
    sim.until(30, "the eviction", async |_| evicted(&api, "filler")).await;
    sim.pass(60).await;
    assert_eq!(all_evicted(&api), ["filler"]);
    let message = api.status("filler").message.unwrap_or_default();
    assert!(message.starts_with("The node was low on resource: ephemeral-storage. Threshold quantity: "), "{message}");
}

/// EV-04: memory that rises over a threshold, falls below it before a pod is chosen, and rises again.
#[tokio::test(start_paused = true)]
async fn ev_04_a_threshold_that_was_met_for_a_moment_is_watched_on() {
    let (sim, api, node) = started(529, hard()).await;
    three(&sim, &api);
    until_ready(&sim, &api, &["modest", "over", "hog"]).await;
    sim.loaded.spike(1000 * GIB);
    sim.until(15, "the look", async |_| condition(&node, "MemoryPressure").0 == "True").await;
    sim.pass(1).await;
    assert!(all_evicted(&api).is_empty(), "enough is free");
    uses(&sim, &api, "hog", memory(50));
    sim.until(2, "the eviction", async |_| evicted(&api, "hog")).await;
    assert_eq!(all_evicted(&api), ["hog"]);
}

/// EV-12: bytes that are about to be freed are waited for.
#[tokio::test(start_paused = true)]
async fn ev_12_a_full_writable_layer_ends_one_pod_and_no_second_before_its_containers_are_removed() {
    let layers = |gib: u64| PodUse { layers: gib * GIB, ..PodUse::default() };
    let (sim, api, _node) = started(528, hard()).await;
    runs(&sim, &api, pod("filler"), layers(1));
    runs(&sim, &api, pod("web"), layers(1));
    until_ready(&sim, &api, &["filler", "web"]).await;
    // Removing a container takes longer than the next look needs.
    sim.runtime.set_latency(Duration::from_secs(2));
    uses(&sim, &api, "filler", layers(1000));
    sim.until(60, "the eviction", async |_| evicted(&api, "filler")).await;
    sim.pass(120).await;
    assert_eq!(all_evicted(&api), ["filler"]);
    sim.check_laws();
}

/// EV-15.
#[tokio::test(start_paused = true)]
async fn ev_15_a_pod_above_a_limit_of_its_own_ends_however_much_is_free() {
    let (sim, api, node) = started(523, hard()).await;
    let limited = |name: &str, limit: &str| {
        let limit = limit.to_owned();
        pod(name).empty_dir("data", "/data").edit_spec(|spec| {
            for dir in spec.volumes.iter_mut().flatten().filter_map(|volume| volume.empty_dir.as_mut()) {
                dir.size_limit = Some(rubelet_quantity(&limit));
            }
        })
    };
    let disk = |gib: u64| PodUse { disk: gib * GIB, ..PodUse::default() };
    runs(&sim, &api, limited("over", "1Gi"), disk(2));
    runs(&sim, &api, limited("under", "4Gi"), disk(2));
    sim.until(130, "the eviction", async |_| evicted(&api, "over")).await;
    sim.pass(200).await;
    assert_eq!(all_evicted(&api), ["over"]);
    let message = api.status("over").message;
    assert_eq!(message.as_deref(), Some("Usage of EmptyDir volume \"data\" exceeds the limit \"1Gi\". "));
    assert_eq!(condition(&node, "DiskPressure").0, "False");
    assert!(sim.metrics().await.contains("kubelet_evictions{eviction_signal=\"emptydirfs.limit\"} 1"));
}

fn rubelet_quantity(text: &str) -> k8s_openapi::apimachinery::pkg::api::resource::Quantity {
    k8s_openapi::apimachinery::pkg::api::resource::Quantity(text.to_owned())
}

/// EV-11: a pod that starts more and more processes.
#[tokio::test(start_paused = true)]
async fn ev_11_a_pid_bomb_is_evicted() {
    let (sim, api, node) = started(524, hard()).await;
    let processes = |count: u64| PodUse { processes: count, ..PodUse::default() };
    runs(&sim, &api, pod("web"), processes(100));
    runs(&sim, &api, pod("bomb"), processes(10));
    until_ready(&sim, &api, &["web", "bomb"]).await;
    uses(&sim, &api, "bomb", processes(4_000_000));
    sim.until(15, "the eviction", async |_| evicted(&api, "bomb")).await;
    sim.pass(30).await;
    assert_eq!(all_evicted(&api), ["bomb"]);
    assert_eq!(condition(&node, "PIDPressure").0, "True");
}

/// A file system that hangs, or a node that cannot be measured at all, ends no pod; memory is watched all the same.
#[tokio::test(start_paused = true)]
async fn ev_01_what_cannot_be_measured_ends_no_pod_and_delays_no_other_signal() {
    let (sim, api, node) = started(525, hard()).await;
    three(&sim, &api);
    until_ready(&sim, &api, &["modest", "over", "hog"]).await;
    sim.loaded.hang_disks(true);
    sim.loaded.fail(true);
    sim.pass(300).await;
    assert!(all_evicted(&api).is_empty());
    sim.loaded.fail(false);
    sim.pass(30).await;
    assert_eq!(condition(&node, "MemoryPressure").0, "False");
    let began = sim.clock.elapsed();
    uses(&sim, &api, "hog", memory(50));
    sim.until(2, "the hog to be stopped", async |sim| sim.runtime.running("hog").is_empty()).await;
    assert!(sim.clock.elapsed() - began < Duration::from_millis(500), "nobody waits for the disk");
    sim.until(12, "the eviction", async |_| evicted(&api, "hog")).await;
    sim.pass(60).await;
    assert_eq!(all_evicted(&api), ["hog"]);
}

/// A runtime that loses replies and is slow: the hog ends, alone.
#[tokio::test(start_paused = true)]
async fn a_runtime_in_trouble_does_not_make_more_pods_end() {
    for seed in 530..540 {
        let (sim, api, _) = started(seed, hard()).await;
        three(&sim, &api);
        until_ready(&sim, &api, &["modest", "over", "hog"]).await;
        sim.runtime.set_faults(Faults::MANY);
        uses(&sim, &api, "hog", memory(50));
        sim.until(120, "the hog to be stopped", async |sim| sim.runtime.running("hog").is_empty()).await;
        sim.pass(60).await;
        let left = ["modest", "over"].iter().filter(|name| !sim.runtime.running(name).is_empty()).count();
        assert_eq!(left, 2, "seed {seed}");
        sim.check_laws();
    }
}

/// The property: whatever the pods use, they end in the order of the ranking, and each end was needed.
#[tokio::test(start_paused = true)]
async fn pods_end_in_the_order_of_the_ranking_and_only_as_long_as_needed() {
    let mut number = 0x5eed_u64;
    let mut random = |below: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) % below
    };
    for seed in 540..560 {
        let (sim, api, _) = started(seed, hard()).await;
        let mut pods: Vec<(String, u64, i32)> = Vec::new();
        for place in 0..6 {
            // No two are equal in the ranking.
            let (used, priority) = (1 + 6 * random(4) + place, i32::try_from(random(3)).unwrap_or_default());
            pods.push((format!("p{place}"), used, priority));
        }
        for (name, _, priority) in &pods {
            runs(&sim, &api, pod(name).priority(*priority), memory(0));
        }
        let names: Vec<&str> = pods.iter().map(|(name, ..)| name.as_str()).collect();
        until_ready(&sim, &api, &names).await;
        for (name, used, _) in &pods {
            uses(&sim, &api, name, memory(*used));
        }
        sim.pass(120).await;
        let mut left: u64 = pods.iter().map(|(_, used, _)| used).sum();
        let mut expected: Vec<String> = Vec::new();
        pods.sort_by_key(|(_, used, priority)| (*priority, std::cmp::Reverse(*used)));
        for (name, used, _) in &pods {
            if left <= 60 {
                break;
            }
            left -= used;
            expected.push(name.clone());
        }
        expected.sort();
        let mut ended = all_evicted(&api);
        ended.sort();
        assert_eq!(ended, expected, "seed {seed}: {pods:?}");
    }
}

/// An idle node is looked at every ten seconds, and the disks of its pods never without a limit.
#[tokio::test(start_paused = true)]
async fn ev_04_an_idle_node_is_looked_at_every_ten_seconds() {
    let (sim, api, _) = started(560, hard()).await;
    three(&sim, &api);
    until_ready(&sim, &api, &["modest", "over", "hog"]).await;
    let before = sim.loaded.looks();
    sim.pass(600).await;
    let (looks, weighed) = sim.loaded.looks();
    assert!((58..=62).contains(&(looks - before.0)), "{looks}");
    assert_eq!(weighed, 0);
}
