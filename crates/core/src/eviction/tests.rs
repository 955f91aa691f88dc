//! Tables of section 17.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::*;
use crate::time::{Instant, Now};

const MIB: i64 = 1 << 20;

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
        transition: Duration::from_secs(300),
        max_pod_grace: 60,
        local_limits: true,
    }
}

fn seen(at: u64, signals: &[(Signal, i64, i64)]) -> Observations {
    let mut all = Observations::default();
    for (signal, available, capacity) in signals {
        let at = Instant::from_secs(at);
        all.insert(*signal, Observation { available: *available, capacity: *capacity, at });
    }
    all
}

fn memory(at: u64, mib: i64) -> Observations {
    seen(at, &[(Signal::MemoryAvailable, mib * MIB, 1024 * MIB)])
}

fn starved(decision: &Decision) -> Vec<&'static str> {
    decision.starved.iter().map(|one| one.signal.as_str()).collect()
}

fn pod(value: Value) -> Arc<Pod> {
    Arc::new(serde_json::from_value(value).expect("a pod"))
}

/// A pod of one container that requests so much memory, in MiB.
fn memory_pod(name: &str, priority: i32, request: i64) -> Arc<Pod> {
    pod(json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"priority": priority, "containers": [
            {"name": "app", "resources": {"requests": {"memory": format!("{request}Mi")}}}
        ]},
    }))
}

fn uses(mib: u64) -> Option<PodStats> {
    Some(PodStats { memory: Some(mib << 20), ..PodStats::default() })
}

fn ranked(signal: Signal, layout: DiskLayout, candidates: Vec<(Arc<Pod>, Option<PodStats>)>) -> Vec<String> {
    let mut all: Vec<Candidate> = candidates.into_iter().map(|(pod, stats)| Candidate { pod, stats }).collect();
    rank(signal, layout, &mut all);
    all.iter().map(|one| one.pod.metadata.name.clone().unwrap_or_default()).collect()
}

#[test]
fn ev_02_thresholds_come_from_the_configuration() {
    let check = |hard: &[(&str, &str)],
                 soft: &[(&str, &str)],
                 graces: &[(&str, &str)],
                 least: &[(&str, &str)],
                 expected: Expect| {
        let enforced = ["pods".to_owned()];
        let answer = parse_thresholds(&enforced, &strings(hard), &strings(soft), &strings(graces), &strings(least));
        let text = match answer {
            Ok(all) => all
                .iter()
                .map(|one| {
                    let least = one.min_reclaim.as_ref().map(|least| least.of(1000).to_string()).unwrap_or_default();
                    format!("{}<{} {:?} {least}", one.signal, one.value.of(1000), one.grace)
                })
                .collect::<Vec<_>>()
                .join("; "),
            Err(err) => err.to_string(),
        };
        expected.assert_eq(&text);
    };
    check(
        &[("memory.available", "100Mi"), ("nodefs.available", "10%")],
        &[("imagefs.available", "20%")],
        &[("imagefs.available", "1m30s")],
        &[("nodefs.available", "500M"), ("memory.available", "1%")],
        expect![
            "memory.available<100Mi 0ns 9; nodefs.available<100 0ns 500M; imagefs.available<200 90s ; allocatableMemory.available<100Mi 0ns 9"
        ],
    );
    check(&[("pid.available", "0%"), ("memory.available", "100%")], &[], &[], &[], expect![""]);
    check(&[("memory.free", "1Mi")], &[], &[], &[], expect!["unsupported eviction signal memory.free"]);
    check(
        &[("memory.available", "0")],
        &[],
        &[],
        &[],
        expect!["eviction threshold memory.available must be positive: 0"],
    );
    check(
        &[("memory.available", "-1Gi")],
        &[],
        &[],
        &[],
        expect!["eviction threshold memory.available must be positive: -1Gi"],
    );
    check(
        &[("memory.available", "101%")],
        &[],
        &[],
        &[],
        expect!["eviction percentage threshold memory.available must be <= 100%: 101%"],
    );
    check(
        &[("memory.available", "-3%")],
        &[],
        &[],
        &[],
        expect!["eviction percentage threshold memory.available must be >= 0%: -3%"],
    );
    check(
        &[],
        &[("memory.available", "1Gi")],
        &[],
        &[],
        expect!["grace period must be specified for the soft eviction threshold memory.available"],
    );
    check(
        &[],
        &[],
        &[("memory.available", "-1s")],
        &[],
        expect!["invalid eviction grace period specified: -1s, must be a positive value"],
    );
    check(
        &[],
        &[],
        &[],
        &[("memory.available", "0%")],
        expect!["eviction percentage minimum reclaim memory.available must be positive: 0%"],
    );
    check(
        &[],
        &[],
        &[],
        &[("memory.available", "-1")],
        expect!["negative eviction minimum reclaim specified for memory.available"],
    );
}

#[test]
fn ev_03_a_hard_threshold_leads_to_eviction_at_once_and_its_condition_stays_for_the_transition_period() {
    let mut state = EvictionState::new(policy(&[("memory.available", "100Mi")], &[], &[], &[]));
    let at = Instant::from_secs;
    let well = state.step(&memory(10, 100), at(10));
    assert!(well.starved.is_empty() && !well.pressure.memory, "the threshold itself is not below it");
    let low = state.step(&memory(20, 99), at(20));
    assert_eq!((starved(&low), low.pressure.memory), (vec!["memory.available"], true));
    let again = state.step(&memory(20, 99), at(21));
    assert!(again.starved.is_empty(), "nothing is acted on twice for one measurement");
    let healed = state.step(&memory(30, 500), at(30));
    assert!(healed.starved.is_empty() && healed.pressure.memory);
    assert_eq!(healed.due, Some(at(321)));
    assert!(state.step(&memory(320, 500), at(320)).pressure.memory);
    assert!(!state.step(&memory(321, 500), at(321)).pressure.memory);
}

#[test]
fn ev_03_a_soft_threshold_waits_for_its_grace_period_and_a_break_starts_it_again() {
    let soft = policy(&[], &[("memory.available", "200Mi")], &[("memory.available", "30s")], &[]);
    let mut state = EvictionState::new(soft);
    let mut step = |secs: u64, mib: i64| {
        let decision = state.step(&memory(secs, mib), Instant::from_secs(secs));
        (decision.starved.len(), decision.pressure.memory, decision.due.map(Instant::since_start))
    };
    assert_eq!(step(0, 150), (0, true, Some(Duration::from_secs(30))));
    assert_eq!(step(20, 250), (0, true, Some(Duration::from_secs(300))));
    assert_eq!(step(25, 150), (0, true, Some(Duration::from_secs(55))));
    assert_eq!(step(54, 150).0, 0);
    assert_eq!(step(55, 150).0, 1);
}

#[test]
fn ev_03_after_an_eviction_the_minimum_reclaim_has_to_be_free_too() {
    let hard = policy(&[("memory.available", "100Mi")], &[], &[], &[("memory.available", "50Mi")]);
    let mut state = EvictionState::new(hard);
    let mut step = |secs: u64, mib: i64| starved(&state.step(&memory(secs, mib), Instant::from_secs(secs))).len();
    assert_eq!(step(0, 120), 0, "it is not met yet");
    assert_eq!(step(10, 90), 1);
    assert_eq!(step(20, 120), 1, "too little was freed");
    assert_eq!(step(30, 150), 0);
    assert_eq!(step(40, 120), 0);
}

#[test]
fn ev_03_memory_is_acted_on_first_and_hard_before_soft() {
    let both = policy(
        &[("memory.available", "100Mi"), ("nodefs.available", "10%"), ("pid.available", "10%")],
        &[("memory.available", "200Mi")],
        &[("memory.available", "0s")],
        &[],
    );
    let soft = Threshold { grace: Duration::from_secs(1), ..both.thresholds[3].clone() };
    let mut state = EvictionState::new(EvictionPolicy {
        thresholds: both.thresholds.iter().take(3).cloned().chain([soft]).collect(),
        ..both
    });
    let low = |at: u64| {
        seen(
            at,
            &[
                (Signal::PidAvailable, 1, 100),
                (Signal::NodeFsAvailable, 1, 100),
                (Signal::MemoryAvailable, 90 * MIB, 1024 * MIB),
            ],
        )
    };
    assert_eq!(
        starved(&state.step(&low(1), Instant::from_secs(1))),
        ["memory.available", "nodefs.available", "pid.available"]
    );
    let second = state.step(&low(3), Instant::from_secs(3));
    let hard: Vec<_> = second.starved.iter().map(|one| (one.signal.as_str(), one.is_hard())).collect();
    assert_eq!(hard[..2], [("memory.available", true), ("memory.available", false)]);
}

/// What cannot be measured is no shortage, and delays none of the other signals.
#[test]
fn ev_01_a_signal_that_cannot_be_measured_meets_no_threshold() {
    let both = policy(&[("memory.available", "100Mi"), ("nodefs.available", "10%")], &[], &[], &[]);
    let mut state = EvictionState::new(both);
    let low = state.step(&memory(1, 10), Instant::from_secs(1));
    assert_eq!(starved(&low), ["memory.available"]);
    assert!(!low.pressure.disk);
}

#[test]
fn ev_05_conditions_of_before_a_restart_hold_for_the_rest_of_their_period() {
    let now = Now { mono: Instant::from_secs(2), wall: "2026-01-01T00:10:00Z".parse().expect("a time") };
    let node: Node = serde_json::from_value(json!({"status": {"conditions": [
        {"type": "MemoryPressure", "status": "True", "lastHeartbeatTime": "2026-01-01T00:08:00Z",
         "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "DiskPressure", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"},
        {"type": "PIDPressure", "status": "False", "lastTransitionTime": "2026-01-01T00:09:00Z"},
        {"type": "Ready", "status": "True"},
    ]}}))
    .expect("a node");
    let recalled = Recalled::of(&node, now);
    let mut state = EvictionState::new(policy(&[("memory.available", "100Mi")], &[], &[], &[]));
    state.recall(&recalled, now.mono);
    let step = |state: &mut EvictionState, secs: u64| state.step(&memory(secs, 500), Instant::from_secs(secs)).pressure;
    let pressure = step(&mut state, 3);
    assert_eq!((pressure.memory, pressure.disk, pressure.pid), (true, false, false), "the disk's period is over");
    assert!(step(&mut state, 181).memory);
    assert!(!step(&mut state, 182).memory);
}

#[test]
fn ev_11_memory_overuse_first_then_priority_then_the_largest_overuse() {
    let order = ranked(
        Signal::MemoryAvailable,
        DiskLayout::One,
        vec![
            (memory_pod("modest", 0, 500), uses(400)),
            (memory_pod("over", 10, 100), uses(150)),
            (memory_pod("hog", 10, 100), uses(900)),
            (memory_pod("low", -5, 100), uses(101)),
            (memory_pod("unseen", 1000, 100), None),
            (memory_pod("small", 0, 500), uses(300)),
        ],
    );
    assert_eq!(order, ["unseen", "low", "hog", "over", "modest", "small"]);
}

#[test]
fn ev_11_process_ids_by_priority_then_by_number() {
    let of = |count| Some(PodStats { processes: Some(count), ..PodStats::default() });
    let order = ranked(
        Signal::PidAvailable,
        DiskLayout::One,
        vec![(memory_pod("few", 0, 1), of(3)), (memory_pod("bomb", 0, 1), of(3000)), (memory_pod("low", -1, 1), of(1))],
    );
    assert_eq!(order, ["low", "bomb", "few"]);
}

#[test]
fn ev_11_ev_16_disks_count_what_is_on_them() {
    let disk_pod = |name: &str| {
        pod(json!({
            "metadata": {"name": name, "uid": name},
            "spec": {"containers": [{"name": "app"}], "volumes": [{"name": "data", "emptyDir": {}}, {"name": "ram", "emptyDir": {"medium": "Memory"}}]},
        }))
    };
    let stats = |layer: u64, logs: u64, data: u64, ram: u64| {
        let used = |bytes| FsUse { bytes: Some(bytes), inodes: Some(1) };
        Some(PodStats {
            containers: vec![ContainerStats {
                name: "app".into(),
                layer: Some(used(layer)),
                logs: Some(used(logs)),
                memory: None,
            }],
            volumes: vec![("data".into(), used(data)), ("ram".into(), used(ram))],
            ..PodStats::default()
        })
    };
    let pods = || {
        vec![
            (disk_pod("layer"), stats(100, 0, 0, 0)),
            (disk_pod("logs"), stats(0, 90, 0, 0)),
            (disk_pod("data"), stats(0, 0, 80, 0)),
            (disk_pod("ram"), stats(0, 0, 0, 1000)),
        ]
    };
    let node = |layout| ranked(Signal::NodeFsAvailable, layout, pods());
    let images = |layout| ranked(Signal::ImageFsAvailable, layout, pods());
    assert_eq!(node(DiskLayout::One), ["layer", "logs", "data", "ram"]);
    assert_eq!(node(DiskLayout::SeparateImages)[..2], ["logs", "data"]);
    assert_eq!(images(DiskLayout::SeparateImages)[..1], ["layer"]);
    assert_eq!(node(DiskLayout::SplitLayers)[..1], ["layer"]);
    assert_eq!(images(DiskLayout::SplitLayers), ["data", "layer", "logs", "ram"], "no pod has anything there");
}

#[test]
fn ev_14_the_message_and_its_annotations() {
    let web = pod(json!({
        "metadata": {"name": "web", "uid": "web"},
        "spec": {"containers": [
            {"name": "app", "resources": {"requests": {"memory": "100Mi"}}}, {"name": "side"},
        ]},
    }));
    let used = |name: &str, mib: u64| ContainerStats {
        name: name.into(),
        memory: Some(mib << 20),
        ..ContainerStats::default()
    };
    let stats =
        PodStats { containers: vec![used("app", 300), used("side", 1), used("gone", 9)], ..PodStats::default() };
    let threshold = policy(&[("memory.available", "100Mi")], &[], &[], &[]).thresholds[0].clone();
    let observed = memory(0, 50).get(Signal::MemoryAvailable);
    let candidates = [Candidate { pod: web, stats: Some(stats) }];
    let victim = victim_of_threshold(&candidates, &threshold, observed, 60).expect("a victim");
    expect![[r#"
        The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container app was using 300Mi, request is 100Mi, has larger consumption of memory. Container side was using 1Mi, request is 0, has larger consumption of memory. 
        {"offending_containers": "app,side", "offending_containers_usage": "300Mi,1Mi", "starved_resource": "memory"}
        memory.available 1s"#]]
    .assert_eq(&format!("{}\n{:?}\n{} {:?}", victim.message, victim.annotations, victim.signal, victim.grace));
    let ending = victim.ending();
    let reason = ending.reason.expect("a reason");
    assert_eq!((reason.reason.as_ref(), reason.disruption.as_deref()), ("Evicted", Some(victim.message.as_str())));
}

#[test]
fn ev_12_a_softly_evicted_pod_gets_its_own_grace_but_no_more_than_the_limit() {
    let soft = policy(&[], &[("memory.available", "1Gi")], &[("memory.available", "1s")], &[]).thresholds[0].clone();
    let of = |own: Option<i64>, most: i64| {
        let web =
            json!({"metadata": {"name": "web"}, "spec": {"terminationGracePeriodSeconds": own, "containers": []}});
        let candidates = [Candidate { pod: pod(web), stats: None }];
        victim_of_threshold(&candidates, &soft, None, most).expect("a victim").grace.as_secs()
    };
    assert_eq!((of(Some(30), 60), of(Some(90), 60), of(None, 60), of(Some(30), 0)), (30, 60, 60, 0));
}

#[test]
fn ev_13_critical_pods_are_passed_over() {
    let threshold = policy(&[("memory.available", "100Mi")], &[], &[], &[]).thresholds[0].clone();
    let of = |annotations: Value, priority: i32| {
        pod(
            json!({"metadata": {"name": "x", "annotations": annotations}, "spec": {"priority": priority, "containers": []}}),
        )
    };
    let none = json!({});
    let critical = [
        of(json!({"kubernetes.io/config.source": "file"}), 0),
        of(json!({"kubernetes.io/config.mirror": "h"}), 0),
        of(none.clone(), 2_000_000_000),
    ];
    let mut candidates: Vec<Candidate> =
        critical.iter().map(|pod| Candidate { pod: Arc::clone(pod), stats: None }).collect();
    assert!(victim_of_threshold(&candidates, &threshold, None, 0).is_none());
    for pod in &critical {
        let limit = LocalLimit { signal: "emptydirfs.limit", message: String::new() };
        assert!(victim_of_limit(pod, limit).is_none());
    }
    candidates.push(Candidate { pod: of(none, 1_999_999_999), stats: None });
    assert!(victim_of_threshold(&candidates, &threshold, None, 0).is_some());
}

#[test]
fn ev_15_limits_on_local_storage() {
    let limited = pod(json!({
        "metadata": {"name": "web", "uid": "web"},
        "spec": {
            "containers": [
                {"name": "app", "resources": {"limits": {"ephemeral-storage": "1Gi"}}},
                {"name": "side", "resources": {"limits": {"ephemeral-storage": "1G"}}},
            ],
            "volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "0.5Gi"}}],
        },
    }));
    let gib = 1_u64 << 30;
    let stats = |volume: u64, layer: u64, logs: u64, all: u64| {
        let used = |bytes| Some(FsUse { bytes: Some(bytes), inodes: None });
        PodStats {
            containers: vec![ContainerStats { name: "app".into(), memory: None, layer: used(layer), logs: used(logs) }],
            volumes: vec![("cache".into(), FsUse { bytes: Some(volume), inodes: None })],
            ephemeral: Some(all),
            ..PodStats::default()
        }
    };
    let of = |stats: PodStats, layout| over_limit(&limited, &stats, layout).map(|limit| (limit.signal, limit.message));
    assert_eq!(of(stats(gib / 2, gib, 0, gib), DiskLayout::One), None, "a limit itself is not above it");
    let (signal, message) = of(stats(gib / 2 + 1, 0, 0, 0), DiskLayout::One).expect("above");
    assert_eq!(
        (signal, message.as_str()),
        ("emptydirfs.limit", "Usage of EmptyDir volume \"cache\" exceeds the limit \"512Mi\". ")
    );
    let (signal, message) = of(stats(0, 0, 0, 3 * gib), DiskLayout::One).expect("above");
    assert_eq!(signal, "ephemeralpodfs.limit");
    assert_eq!(message, "Pod ephemeral local storage usage exceeds the total limit of containers 2073741824. ");
    let (signal, message) = of(stats(0, gib, 1, 0), DiskLayout::One).expect("above");
    assert_eq!(signal, "ephemeralcontainerfs.limit");
    assert_eq!(message, "Container app exceeded its local ephemeral storage limit \"1Gi\". ");
    assert_eq!(of(stats(0, gib, 1, 0), DiskLayout::SeparateImages), None, "layers are on another disk");
    assert!(has_local_limit(&limited) && !has_local_limit(&memory_pod("plain", 0, 1)));
}

#[test]
fn ev_16_thresholds_of_writable_layers_follow_the_file_system_that_they_are_on() {
    let hard = [("nodefs.available", "10%"), ("imagefs.available", "15%"), ("containerfs.available", "99%")];
    let of = |layout: Option<DiskLayout>| {
        let mut state = EvictionState::new(policy(&hard, &[], &[], &[]));
        let observed = Observations::on(layout);
        let _nothing = state.step(&observed, Instant::START);
        let layers = state.thresholds().find(|one| one.signal == Signal::ContainerFsAvailable);
        (layers.map(|one| one.value.of(100).to_string()), state.reclaims(Signal::NodeFsAvailable).len())
    };
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(of(Some(DiskLayout::One)), (text("10"), 2));
    assert_eq!(of(Some(DiskLayout::SeparateImages)), (text("15"), 0));
    assert_eq!(of(Some(DiskLayout::SplitLayers)), (text("10"), 1));
}

#[test]
fn ev_04_marks_and_pauses_follow_the_distance_to_the_nearest_threshold() {
    let hard = [("memory.available", "100Mi"), ("nodefs.available", "10%"), ("pid.available", "10%")];
    let soft = [("memory.available", "200Mi")];
    let all = policy(&hard, &soft, &[("memory.available", "1m")], &[]).thresholds;
    let look = |memory: i64, disk: i64, pids: i64| {
        let gb = 1_000_000_000;
        let observed = seen(
            0,
            &[
                (Signal::MemoryAvailable, memory * MIB, 1024 * MIB),
                (Signal::NodeFsAvailable, disk * gb, 100 * gb),
                (Signal::PidAvailable, pids, 100_000),
            ],
        );
        let used = MemoryUsed { node: Some(1000), pods: None };
        (marks(all.iter(), &observed, used), pause(all.iter(), &observed).as_secs())
    };
    let mark = |mib: u64| vec![MemoryMark { of: MemoryOf::Node, at: 1000 + (mib << 20) + 1 }];
    assert_eq!(look(1000, 50, 100_000), (mark(800), 10));
    assert_eq!(look(150, 12, 100_000), (mark(50), 3), "the soft one is met: the hard one is next");
    assert_eq!(look(50, 11, 14_000), (Vec::new(), 1));
}

/// A threshold beyond the capacity is always met; the node says so and evicts, as upstream does.
#[test]
fn ev_02_a_threshold_beyond_the_capacity_is_always_met() {
    let mut state = EvictionState::new(policy(&[("memory.available", "2Gi")], &[], &[], &[]));
    assert_eq!(starved(&state.step(&memory(0, 1024), Instant::START)), ["memory.available"]);
}

/// Memory from the cgroups of the node and of all pods, with and without page cache; disks by their devices.
#[test]
fn ev_01_a_look_at_the_node_becomes_signals() {
    use crate::usage::{
        CgroupKind, CgroupSample, FsStats, Limits, MemoryUsage, NodeDisks, NodeUsage, ProcessCount, Sample, Usage,
    };
    let cgroup = |kind, usage: u64, limit| {
        let memory = MemoryUsage { usage, inactive_file: 100, active_file: 50, ..MemoryUsage::default() };
        let usage = Usage { memory: Some(memory), ..Usage::default() };
        CgroupSample { kind, created_at: None, usage, limits: Limits { memory: limit, ..Limits::default() } }
    };
    let at = Now { mono: Instant::from_secs(7), wall: jiff::Timestamp::UNIX_EPOCH };
    let cgroups = BTreeMap::from([
        ("/".to_owned(), cgroup(CgroupKind::Root, 600, None)),
        ("/kubepods".to_owned(), cgroup(CgroupKind::AllPods, 500, Some(800))),
    ]);
    let usage = NodeUsage {
        sample: Arc::new(Sample { at, cgroups }),
        cpu_rates: BTreeMap::new(),
        pods: Vec::new(),
        network: None,
        disks: NodeDisks::default(),
        processes: Some(ProcessCount { max: 1000, current: 400 }),
    };
    let fs =
        |device, inodes| FsStats { device, capacity: 90, available: 30, used: 60, inodes, inodes_free: inodes / 2 };
    let disks = NodeDisks { nodefs: Some(fs(1, 0)), imagefs: Some(fs(2, 8)), ..NodeDisks::default() };
    let show = |cache| {
        let seen = Observations::of(&usage, (&disks, Instant::from_secs(5)), 1000, cache);
        let lines = Signal::ALL.iter().filter_map(|signal| {
            let one = seen.get(*signal)?;
            Some(format!("{signal} {}/{} {:?}", one.available, one.capacity, one.at))
        });
        format!("{}\n{:?}", lines.collect::<Vec<_>>().join("\n"), seen.layout)
    };
    expect![[r#"
        memory.available 500/1000 +7s
        allocatableMemory.available 400/800 +7s
        nodefs.available 30/90 +5s
        imagefs.available 30/90 +5s
        imagefs.inodesFree 4/8 +5s
        containerfs.available 30/90 +5s
        containerfs.inodesFree 4/8 +5s
        pid.available 600/1000 +7s
        Some(SeparateImages)"#]]
    .assert_eq(&show(PageCache::Counts));
    assert!(show(PageCache::Reclaimable).starts_with("memory.available 550/1000"));
}
