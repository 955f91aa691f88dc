//! Eviction: thresholds, the order of pods, messages, and the manager itself over several rounds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::eviction::{
    Candidate, ContainerStats, DiskLayout, EvictionPolicy, EvictionState, FsUse, NodeLow, Observation, Observations,
    PodStats, Reclaim, Signal, Threshold, Victim, eviction_message, over_limit, parse_thresholds, rank,
    victim_of_limit, victim_of_threshold,
};
use rubelet_core::time::Instant;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::quantities;
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `eviction/helpers.go` `ParseThresholdConfig` (v1.36)
pub(super) struct ParseThresholds;
/// upstream: `eviction/helpers.go` `rankMemoryPressure` (v1.36)
pub(super) struct RankMemory;
/// upstream: `eviction/helpers.go` `rankDiskPressureFunc`, `buildSignalToRankFunc` (v1.36)
pub(super) struct RankDisk;
/// upstream: `eviction/helpers.go` `rankPIDPressure` (v1.36)
pub(super) struct RankPids;
/// upstream: `eviction/helpers.go` `evictionMessage` (v1.36)
pub(super) struct EvictionMessage;
/// upstream: `eviction/eviction_manager.go` `synchronize` (v1.36)
pub(super) struct Synchronize;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Thresholds {
    enforced: Vec<String>,
    hard: BTreeMap<String, String>,
    soft: BTreeMap<String, String>,
    graces: BTreeMap<String, String>,
    reclaims: BTreeMap<String, String>,
    capacity: i64,
}

impl Thresholds {
    fn parse(&self) -> Option<Vec<Threshold>> {
        parse_thresholds(&self.enforced, &self.hard, &self.soft, &self.graces, &self.reclaims).ok()
    }
}

#[derive(Deserialize)]
struct Weighed {
    pod: Pod,
    #[serde(default)]
    stats: Option<Stats>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats {
    memory: Option<u64>,
    processes: Option<u64>,
    containers: Vec<Container>,
    volumes: Vec<Volume>,
    ephemeral: Option<u64>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    memory: Option<u64>,
    #[serde(default)]
    layer: Option<Fs>,
    #[serde(default)]
    logs: Option<Fs>,
}

#[derive(Clone, Copy, Deserialize)]
struct Fs {
    #[serde(default)]
    bytes: Option<u64>,
    #[serde(default)]
    inodes: Option<u64>,
}

#[derive(Deserialize)]
struct Volume {
    name: String,
    #[serde(flatten)]
    used: Fs,
}

impl From<Fs> for FsUse {
    fn from(Fs { bytes, inodes }: Fs) -> Self {
        Self { bytes, inodes }
    }
}

impl From<Stats> for PodStats {
    fn from(stats: Stats) -> Self {
        let container = |c: Container| ContainerStats {
            name: c.name,
            memory: c.memory,
            layer: c.layer.map(FsUse::from),
            logs: c.logs.map(FsUse::from),
        };
        Self {
            memory: stats.memory,
            processes: stats.processes,
            containers: stats.containers.into_iter().map(container).collect(),
            volumes: stats.volumes.into_iter().map(|v| (v.name, v.used.into())).collect(),
            ephemeral: stats.ephemeral,
        }
    }
}

fn candidates(list: Vec<Weighed>) -> Vec<Candidate> {
    let one = |w: Weighed| Candidate { pod: Arc::new(w.pod), stats: w.stats.map(PodStats::from) };
    list.into_iter().map(one).collect()
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn layout(word: &str) -> anyhow::Result<DiskLayout> {
    Ok(match word {
        "one" => DiskLayout::One,
        "separateImages" => DiskLayout::SeparateImages,
        "splitLayers" => DiskLayout::SplitLayers,
        _ => anyhow::bail!("no such layout: {word}"),
    })
}

fn any_layout(rng: &mut Rng) -> &'static str {
    rng.weighted(&[(3, "one"), (2, "separateImages"), (1, "splitLayers")])
}

const AMOUNTS: [&str; 14] =
    ["100Mi", "1Gi", "10%", "15%", "5%", "0.5Gi", "1e9", "500M", "33.3%", "99.9%", "1500m", "1", "7%", "16Gi"];
const WRONG: [&str; 10] = ["0", "-1Gi", "101%", "-5%", "x", "", "%", "1.1.1", "0%", "100%"];
const GRACES: [&str; 7] = ["30s", "1m30s", "0s", "1h", "2m", "10s", "500ms"];
const WRONG_GRACES: [&str; 4] = ["-1s", "30", "", "soon"];

fn amount(rng: &mut Rng, wrong: usize) -> &'static str {
    if rng.chance(wrong) { rng.pick::<&str>(&WRONG) } else { rng.pick::<&str>(&AMOUNTS) }
}

/// Thresholds of some of these signals; in `wrong` of a hundred values something is not as it should be.
fn thresholds(rng: &mut Rng, signals: &[Signal], wrong: usize, capacity: i64) -> Value {
    let mut lists = [Map::new(), Map::new(), Map::new(), Map::new()];
    let [hard, soft, graces, reclaims] = &mut lists;
    for signal in signals {
        let name = signal.as_str();
        if rng.chance(60) {
            hard.insert(name.into(), amount(rng, wrong).into());
        }
        if rng.chance(30) {
            soft.insert(name.into(), amount(rng, wrong).into());
            if wrong == 0 || !rng.chance(wrong / 2) {
                let grace = if rng.chance(wrong) { rng.pick::<&str>(&WRONG_GRACES) } else { rng.pick::<&str>(&GRACES) };
                graces.insert(name.into(), (*grace).into());
            }
        }
        if rng.chance(25) {
            reclaims.insert(name.into(), amount(rng, wrong).into());
        }
    }
    if rng.chance(wrong / 4) {
        hard.insert("memory.free".into(), "1Gi".into());
    }
    let [hard, soft, graces, reclaims] = lists;
    let enforced = if rng.chance(50) { json!(["pods"]) } else { json!(["none"]) };
    json!({
        "enforced": enforced, "hard": hard, "soft": soft, "graces": graces, "reclaims": reclaims, "capacity": capacity,
    })
}

impl Function for ParseThresholds {
    fn name(&self) -> &'static str {
        "ParseThresholdConfig"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["EV-01", "EV-02", "EV-03"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let count = rng.below(size + 1).min(Signal::ALL.len());
        let signals: Vec<Signal> = (0..count).map(|_| *rng.pick(&Signal::ALL)).collect();
        let wrong = rng.weighted(&[(2, 0), (1, 20)]);
        let capacity = rng.between(0, 1 << 45);
        thresholds(rng, &signals, wrong, capacity)
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: Thresholds = read(case)?;
        let Some(all) = case.parse() else { return Ok(json!({ "refused": true })) };
        let mut all: Vec<(&str, u64, String, String)> = all
            .iter()
            .map(|one| {
                let least = one.min_reclaim.as_ref().map(|least| least.of(case.capacity).to_string());
                let grace = u64::try_from(one.grace.as_nanos()).unwrap_or(u64::MAX);
                (one.signal.as_str(), grace, one.value.of(case.capacity).to_string(), least.unwrap_or_default())
            })
            .collect();
        all.sort();
        let shown = all.iter().map(|(signal, grace, value, reclaim)| {
            json!({ "signal": signal, "value": value, "grace": grace, "reclaim": reclaim })
        });
        Ok(json!({ "thresholds": shown.collect::<Vec<_>>() }))
    }
}

/// A number of bytes: near the amounts that pods ask for, so that some are above and some below.
fn bytes(rng: &mut Rng) -> u64 {
    let near: u64 = rng.weighted(&[(2, 1 << 20), (2, 1 << 30), (1, 100 << 20), (1, 100_000_000), (1, 4096), (1, 0)]);
    let off = u64::try_from(rng.between(0, 3)).unwrap_or_default();
    if rng.chance(50) { near + off } else { near * (1 + off) }
}

fn fs(rng: &mut Rng) -> Value {
    match rng.below(8) {
        0 => Value::Null,
        1 => json!({ "bytes": bytes(rng) }),
        _ => json!({ "bytes": bytes(rng), "inodes": rng.below(100) }),
    }
}

fn stats(rng: &mut Rng, pod: &Value) -> Value {
    if rng.chance(10) {
        return Value::Null;
    }
    let mut containers = Vec::new();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            if rng.chance(85) {
                let memory = if rng.chance(10) { Value::Null } else { bytes(rng).into() };
                containers
                    .push(json!({ "name": container["name"], "memory": memory, "layer": fs(rng), "logs": fs(rng) }));
            }
        }
    }
    let mut volumes = Vec::new();
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        if rng.chance(85) {
            volumes.push(json!({ "name": volume["name"], "bytes": bytes(rng), "inodes": rng.below(50) }));
        }
    }
    let some = |rng: &mut Rng, number: u64| if rng.chance(10) { Value::Null } else { number.into() };
    let (memory, ephemeral) = (bytes(rng), bytes(rng));
    let processes = rng.below(5) as u64;
    json!({
        "memory": some(rng, memory), "processes": some(rng, processes), "containers": containers, "volumes": volumes,
        "ephemeral": some(rng, ephemeral),
    })
}

fn pod(rng: &mut Rng, place: usize, size: usize) -> Value {
    let mut pod = quantities::pod_summed_up(rng, size);
    pod["metadata"]["uid"] = format!("u{place}").into();
    pod["metadata"]["name"] = format!("pod{place}").into();
    for container in pod["spec"]["containers"].as_array_mut().into_iter().flatten() {
        if rng.chance(20) {
            container["resources"]["limits"]["ephemeral-storage"] = quantities::bytes(rng).into();
        }
        if rng.chance(20) {
            container["resources"]["requests"]["ephemeral-storage"] = quantities::bytes(rng).into();
        }
    }
    let volumes: Vec<Value> = (0..rng.below(4))
        .map(|v| {
            let name = format!("v{v}");
            match rng.below(6) {
                0 => json!({ "name": name, "hostPath": { "path": "/srv" } }),
                1 => json!({ "name": name, "configMap": { "name": "m" } }),
                2 => json!({ "name": name, "secret": { "secretName": "s" } }),
                3 => json!({ "name": name, "emptyDir": { "medium": "Memory", "sizeLimit": quantities::bytes(rng) } }),
                4 => json!({ "name": name, "emptyDir": { "sizeLimit": quantities::bytes(rng) } }),
                _ => json!({ "name": name, "emptyDir": {} }),
            }
        })
        .collect();
    pod["spec"]["volumes"] = volumes.into();
    if rng.chance(50) {
        pod["spec"]["terminationGracePeriodSeconds"] = rng.between(0, 90).into();
    }
    if rng.chance(30) {
        pod["spec"]["priority"] = rng.between(-1, 1).into();
    }
    pod
}

fn weighed(rng: &mut Rng, place: usize, size: usize) -> Value {
    let pod = pod(rng, place, size);
    json!({ "stats": stats(rng, &pod), "pod": pod })
}

fn ranking(rng: &mut Rng, size: usize, signals: &[Signal]) -> Value {
    let pods: Vec<Value> = (0..1 + rng.below(size)).map(|place| weighed(rng, place, 2)).collect();
    json!({ "signal": rng.pick(signals).as_str(), "layout": any_layout(rng), "pods": pods, "gates": {} })
}

#[derive(Deserialize)]
struct RankCase {
    signal: String,
    layout: String,
    pods: Vec<Weighed>,
}

fn our_ranking(case: &Value) -> anyhow::Result<Value> {
    let case: RankCase = read(case)?;
    let signal = Signal::parse(&case.signal).ok_or_else(|| anyhow::anyhow!("no such signal"))?;
    let mut all = candidates(case.pods);
    rank(signal, layout(&case.layout)?, &mut all);
    Ok(all.iter().map(|one| uid(&one.pod)).collect())
}

impl Function for RankMemory {
    fn name(&self) -> &'static str {
        "rankMemoryPressure"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["EV-11"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        ranking(rng, size, &[Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable])
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        our_ranking(case)
    }
}

impl Function for RankDisk {
    fn name(&self) -> &'static str {
        "rankDiskPressureFunc"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["EV-11", "EV-16"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        ranking(rng, size, &DISKS)
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        our_ranking(case)
    }
}

const DISKS: [Signal; 6] = [
    Signal::NodeFsAvailable,
    Signal::NodeFsInodesFree,
    Signal::ImageFsAvailable,
    Signal::ImageFsInodesFree,
    Signal::ContainerFsAvailable,
    Signal::ContainerFsInodesFree,
];

impl Function for RankPids {
    fn name(&self) -> &'static str {
        "rankPIDPressure"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["EV-11"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        ranking(rng, size, &[Signal::PidAvailable])
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        our_ranking(case)
    }
}

#[derive(Deserialize)]
struct MessageCase {
    signal: String,
    value: String,
    available: i64,
    capacity: i64,
    weighed: Weighed,
}

impl Function for EvictionMessage {
    fn name(&self) -> &'static str {
        "evictionMessage"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["EV-14"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let capacity = rng.between(0, 1 << 40);
        json!({
            "signal": rng.pick(&Signal::ALL).as_str(), "value": rng.pick(&AMOUNTS), "capacity": capacity,
            "available": rng.between(0, capacity), "weighed": weighed(rng, 0, size), "gates": {},
        })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: MessageCase = read(case)?;
        let hard = BTreeMap::from([(case.signal, case.value)]);
        let none = BTreeMap::new();
        let thresholds = parse_thresholds(&[], &hard, &none, &none, &none)?;
        let threshold = thresholds.first().ok_or_else(|| anyhow::anyhow!("no threshold"))?;
        let seen = Observation { available: case.available, capacity: case.capacity, at: Instant::START };
        let stats = case.weighed.stats.map(PodStats::from);
        let (message, annotations) =
            eviction_message(&NodeLow::of(threshold, Some(seen)), &case.weighed.pod, stats.as_ref());
        Ok(json!({ "message": message, "annotations": annotations }))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SynchronizeCase {
    #[serde(default)]
    thresholds: Thresholds,
    layout: String,
    #[serde(default)]
    transition: u64,
    #[serde(default)]
    max_grace: i64,
    #[serde(default)]
    isolation: bool,
    rounds: Vec<Round>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Round {
    after: u64,
    signals: BTreeMap<String, SignalCase>,
    pods: Vec<Weighed>,
}

#[derive(Deserialize)]
struct SignalCase {
    available: i64,
    capacity: i64,
}

/// What one round led to, in the form of the Go handler's answer, and how many thresholds were acted on.
fn play(case: &Value) -> anyhow::Result<(Vec<Value>, usize)> {
    let case: SynchronizeCase = read(case)?;
    let mut state = EvictionState::new(EvictionPolicy {
        thresholds: case.thresholds.parse().ok_or_else(|| anyhow::anyhow!("thresholds are refused"))?,
        transition: Duration::from_secs(case.transition),
        max_pod_grace: case.max_grace,
        local_limits: case.isolation,
    });
    let layout = layout(&case.layout)?;
    let _nothing = state.step(&Observations::on(Some(layout)), Instant::START);
    let (mut now, mut answers, mut most) = (0, Vec::new(), 0);
    for round in case.rounds {
        now += round.after;
        let at = Instant::from_secs(now);
        let mut seen = Observations::on(Some(layout));
        for (name, one) in &round.signals {
            let signal = Signal::parse(name).ok_or_else(|| anyhow::anyhow!("no such signal"))?;
            seen.insert(signal, Observation { available: one.available, capacity: one.capacity, at });
        }
        let decision = state.step(&seen, at);
        most = most.max(decision.starved.len());
        let mut pods = candidates(round.pods);
        let mut ended: Vec<Victim> = Vec::new();
        if case.isolation {
            for one in &pods {
                let limit = one.stats.as_ref().and_then(|stats| over_limit(&one.pod, stats, layout));
                ended.extend(limit.and_then(|limit| victim_of_limit(&one.pod, limit)));
            }
        }
        let (mut reclaimed, mut node_events) = (Vec::new(), Vec::new());
        if let (Some(threshold), true) = (decision.starved.first(), ended.is_empty()) {
            let resource = threshold.signal.resource();
            node_events.push(format!("Warning EvictionThresholdMet Attempting to reclaim %s {resource}"));
            reclaimed = state.reclaims(threshold.signal).to_vec();
            let relieved = !reclaimed.is_empty() && EvictionState::is_relieved(threshold, &seen);
            if !relieved {
                rank(threshold.signal, layout, &mut pods);
                ended.extend(victim_of_threshold(&pods, threshold, seen.get(threshold.signal), case.max_grace));
            }
        }
        answers.push(round_answer(&decision.pressure, &reclaimed, &node_events, &ended));
    }
    Ok((answers, most))
}

fn round_answer(
    pressure: &rubelet_core::node::Pressure,
    reclaimed: &[Reclaim],
    node_events: &[String],
    ended: &[Victim],
) -> Value {
    let conditions: Vec<&str> =
        [("DiskPressure", pressure.disk), ("MemoryPressure", pressure.memory), ("PIDPressure", pressure.pid)]
            .into_iter()
            .filter_map(|(name, holds)| holds.then_some(name))
            .collect();
    let word = |one: &Reclaim| match one {
        Reclaim::DeadContainers => "containers",
        Reclaim::UnusedImages => "images",
    };
    let end = |victim: &Victim| {
        let disrupted = if victim.disrupted {
            format!("DisruptionTarget True TerminationByKubelet {}", victim.message)
        } else {
            String::new()
        };
        json!({
            "pod": uid(&victim.pod), "grace": victim.grace.as_secs(), "phase": "Failed", "reason": "Evicted",
            "message": victim.message, "disrupted": disrupted,
        })
    };
    let event = |victim: &Victim| {
        json!({
            "pod": uid(&victim.pod), "reason": "Warning Evicted", "message": victim.message,
            "annotations": victim.annotations,
        })
    };
    json!({
        "conditions": conditions, "reclaimed": reclaimed.iter().map(word).collect::<Vec<_>>(), "nodeEvents": node_events,
        "ended": ended.iter().map(end).collect::<Vec<_>>(), "events": ended.iter().map(event).collect::<Vec<_>>(),
    })
}

impl Function for Synchronize {
    fn name(&self) -> &'static str {
        "synchronize"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["EV-03", "EV-05", "EV-10", "EV-12", "EV-13", "EV-14", "EV-15", "EV-16"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        const SETS: [&[Signal]; 5] = [
            &[Signal::MemoryAvailable],
            &[Signal::NodeFsAvailable],
            &[Signal::ImageFsInodesFree],
            &[Signal::PidAvailable],
            &[Signal::MemoryAvailable, Signal::NodeFsInodesFree],
        ];
        let chosen = *rng.pick(&SETS);
        let capacity = rng.between(1 << 20, 1 << 35);
        let mut given = thresholds(rng, chosen, 0, capacity);
        given["enforced"] = json!([]);
        let mut rounds = Vec::new();
        for _ in 0..1 + rng.below(size + 2) {
            let mut signals = Map::new();
            for signal in Signal::ALL {
                if rng.chance(90) {
                    let share = rng.weighted(&[(3, 2), (3, 12), (3, 40), (2, 90)]);
                    let available = capacity / 100 * share + rng.between(0, 99);
                    signals.insert(signal.as_str().into(), json!({ "available": available, "capacity": capacity }));
                }
            }
            let pods: Vec<Value> = (0..rng.below(4)).map(|place| weighed(rng, place, 1)).collect();
            let after = rng.weighted(&[(3, 10), (2, 35), (1, 100), (1, 1), (1, 400)]);
            rounds.push(json!({ "after": after, "signals": signals, "pods": pods }));
        }
        json!({
            "thresholds": given, "layout": any_layout(rng), "transition": rng.weighted(&[(2, 300), (1, 20), (1, 1)]),
            "maxGrace": rng.weighted(&[(2, 0), (2, 60), (1, 5)]), "isolation": rng.chance(25), "rounds": rounds,
            "gates": {},
        })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        Ok(play(case)?.0.into())
    }

    fn incomparable(&self, case: &Value) -> Option<&'static str> {
        let (_, most) = play(case).ok()?;
        if most > 1 {
            return Some("upstream acts on one of several thresholds in the order of a map");
        }
        None
    }
}
