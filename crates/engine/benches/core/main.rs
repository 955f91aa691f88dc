//! What the engine costs with 1,000 fake pods, and what one decision costs: `make bench-core`.
//!
//! No containers, no files, one thread, virtual time: the figures depend on the machine's speed alone, and the counts
//! among them on nothing. What the fakes need for themselves is measured apart. `-- -o json` prints JSON.

#![expect(clippy::print_stdout, reason = "a benchmark speaks to people")]

mod kernel;
#[path = "../../tests/sim/laws.rs"]
mod laws;
mod nobody;
mod pods;
#[expect(dead_code, reason = "of the simulation only its settings and its world are used here")]
#[path = "../../tests/sim/sim.rs"]
mod sim;
mod world;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::inputs::{NodeInputs, PodInputs};
use rubelet_core::manifest::{Gates, Origin, static_pod};
use rubelet_core::observe::PodObservation;
use rubelet_core::plan::{PlanGates, ProbeView, plan_pod};
use rubelet_core::status::pod_status;
use rubelet_engine::ports::RuntimeView;
use rubelet_testkit::{FakeRuntime, Manner};
use serde_json::json;

use world::{World, probed_pod, typical_pod, typical_pods};

/// How many pods the node has.
const PODS: usize = 1000;
/// How many containers are probed every second, and for how long.
const PROBED: u16 = 500;
const MINUTE: Duration = Duration::from_secs(60);
/// How much virtual time an idle node is watched for.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Measurements of which the median counts: other processes disturb some of them.
const ROUNDS: usize = 3;
/// Calls that are timed together, and how many such batches.
const BATCH: usize = 100;
const BATCHES: usize = 501;
/// Asks this program to measure memory in a process of its own, where nothing was allocated before.
const MEMORY: &str = "memory";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == MEMORY) {
        measure_memory();
        return;
    }
    let mut figures = vec![];
    figures.extend(idle_node());
    figures.extend(memory_per_pod());
    figures.extend(probing());
    figures.extend(decisions());
    if args.windows(2).any(|pair| pair == ["-o", "json"]) {
        let all: serde_json::Map<_, _> = figures.iter().map(|f| (f.key.to_owned(), json!(f.value))).collect();
        println!("{}", json!(all));
    } else {
        println!("| figure, {PODS} fake pods of two containers | value |\n|---|---|");
        figures.iter().for_each(|f| println!("| {} | {} {} |", f.what, rounded(f.value), f.unit));
    }
}

struct Figure {
    key: &'static str,
    what: &'static str,
    value: f64,
    unit: &'static str,
}

fn figure(key: &'static str, what: &'static str, value: f64, unit: &'static str) -> Figure {
    Figure { key, what, value, unit }
}

fn rounded(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Thirty virtual minutes of a node on which nothing happens. Every pod is looked at each 60 to 90 s all the same.
fn idle_node() -> Vec<Figure> {
    let rounds: Vec<Idle> = (0..ROUNDS).map(|_| virtually(idle_round())).collect();
    let of = |part: fn(&Idle) -> f64| median(rounds.iter().map(part).collect());
    vec![
        figure("start_cpu_ms", "CPU to start all of them, the fakes' included", of(|r| r.start), "ms"),
        figure("resync_cpu_ms", "CPU per full resync", of(|r| r.resync), "ms"),
        figure("resync_fakes_cpu_ms", "… of it in the fake runtime", of(|r| r.fakes), "ms"),
        figure("idle_wakeups_per_s", "wake-ups per second when idle", of(|r| r.wake_ups), ""),
        figure("idle_cpu_percent", "CPU when idle", of(|r| r.cpu), "% of a core"),
    ]
}

struct Idle {
    start: f64,
    resync: f64,
    fakes: f64,
    wake_ups: f64,
    cpu: f64,
}

async fn idle_round() -> Idle {
    let mut world = World::new();
    let (pods, began) = (typical_pods(PODS), kernel::cpu());
    world.start(pods).await;
    let start = millis(kernel::cpu() - began);
    let metrics = tokio::runtime::Handle::current().metrics();
    let runtime = world.sim.runtime.clone();
    let looks = || {
        let counts = runtime.counts();
        counts.iter().filter(|(call, _)| **call == "podsandbox_status").map(|(_, count)| *count).sum::<u64>()
    };
    let (cpu, parks, looked) = (kernel::cpu(), metrics.worker_park_count(0), looks());
    tokio::time::sleep(IDLE).await;
    let cpu = kernel::cpu() - cpu;
    let parks = whole(metrics.worker_park_count(0) - parks);
    let resyncs = whole(looks() - looked) / whole(PODS as u64);
    assert!(resyncs > 1.0, "pods are looked at now and then: {:?}", runtime.counts());
    let (resync, fakes) = (millis(cpu) / resyncs, fakes_alone(&runtime).await);
    let idle = IDLE.as_secs_f64();
    Idle { start, resync, fakes, wake_ups: parks / idle, cpu: 100.0 * cpu.as_secs_f64() / idle }
}

/// A virtual minute of containers that are all asked every second whether they are ready, the fakes' work included.
fn probing() -> Vec<Figure> {
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| virtually(probing_round())).collect();
    vec![
        figure("probe_cpu_us", "CPU per probe, 500 a second", median(rounds.iter().map(|r| r.0).collect()), "µs"),
        figure(
            "probe_wakeups_per_s",
            "wake-ups per second meanwhile",
            median(rounds.iter().map(|r| r.1).collect()),
            "",
        ),
    ]
}

async fn probing_round() -> (f64, f64) {
    let mut world = World::new();
    let ports = 1000..1000 + PROBED;
    ports.clone().for_each(|port| world.sim.probes.set(port, Manner::Answers(200)));
    world.start(ports.clone().map(probed_pod).collect()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = || ports.clone().map(|port| world.sim.probes.times(port).len()).sum::<usize>();
    let metrics = tokio::runtime::Handle::current().metrics();
    let (before, cpu, parks) = (asked(), kernel::cpu(), metrics.worker_park_count(0));
    tokio::time::sleep(MINUTE).await;
    let (cpu, parks) = (kernel::cpu() - cpu, metrics.worker_park_count(0) - parks);
    let probes = whole((asked() - before) as u64);
    assert!(probes > whole(u64::from(PROBED)) * 55.0, "every container is asked every second: {probes}");
    (millis(cpu) * 1000.0 / probes, whole(parks) / MINUTE.as_secs_f64())
}

/// What the fake runtime needs to show every pod once.
async fn fakes_alone(runtime: &FakeRuntime) -> f64 {
    const TIMES: u32 = 20;
    let uids: Vec<PodUid> = typical_pods(PODS).iter().map(|pod| PodRef::of(pod).uid).collect();
    let began = kernel::cpu();
    for _ in 0..TIMES {
        for uid in &uids {
            let seen = runtime.inspect(uid, runtime.clock().now().mono).await;
            black_box(seen.expect("it answers"));
        }
    }
    millis((kernel::cpu() - began) / TIMES)
}

/// One figure with the fake world, which holds what a real runtime would, and one without: of a second engine that finds
/// the same pods running.
fn memory_per_pod() -> Vec<Figure> {
    let rounds: Vec<Vec<f64>> = (0..ROUNDS)
        .map(|_| {
            let this = std::env::current_exe().expect("this program has a path");
            let child = std::process::Command::new(this).arg(MEMORY).output().expect("it can be started again");
            assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
            serde_json::from_slice(&child.stdout).expect("it prints a list of numbers")
        })
        .collect();
    let of = |index: usize| median(rounds.iter().filter_map(|r| r.get(index).copied()).collect());
    vec![
        figure("pod_rss_kib", "memory per pod (RSS), the fake world included", of(0), "KiB"),
        figure("pod_pss_kib", "the same as PSS", of(1), "KiB"),
        figure("pod_engine_rss_kib", "memory per pod (RSS) of an engine that finds them running", of(2), "KiB"),
    ]
}

/// Runs in a process of its own.
fn measure_memory() {
    let figures = virtually(async {
        let mut world = World::new();
        // The first pods pay for tables, threads and buffers that the others share.
        world.start(typical_pods(1)).await;
        let before = kernel::memory();
        let mut world = World::new();
        world.start(typical_pods(PODS)).await;
        let first = kernel::memory();
        world.start(typical_pods(PODS)).await;
        let second = kernel::memory();
        let per_pod = |kib: f64| kib / whole(PODS as u64);
        [per_pod(first.rss - before.rss), per_pod(first.pss - before.pss), per_pod(second.rss - first.rss)]
    });
    println!("{}", json!(figures));
}

/// One call of each of the two functions that every look at a pod needs.
fn decisions() -> Vec<Figure> {
    let pod = typical_pod("web-0");
    let seen = virtually(async {
        let mut world = World::new();
        world.start(vec![pod.clone()]).await;
        let runtime = &world.sim.runtime;
        runtime.inspect(&PodRef::of(&pod).uid, runtime.clock().now().mono).await.expect("it answers")
    });
    let (probes, host_ips) = (Arc::<ProbeView>::default(), vec![sim::NODE_IP]);
    let gates = PlanGates::default();
    let node = NodeInputs { runtime_name: "fake", host_ips: &host_ips, recursive_read_only: false, gates };
    let inputs = PodInputs::new(&pod, &probes, node);
    let nothing = PodObservation { sandboxes: Vec::new(), containers: Vec::new(), ..seen.clone() };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let decided = pod_status(&inputs, &seen, &PodStatus::default(), now);
    vec![
        figure("plan_running_ns", "plan_pod, all is as it should be", nanos(|| plan_pod(&inputs, &seen)), "ns"),
        figure("plan_new_ns", "plan_pod, nothing is there yet", nanos(|| plan_pod(&inputs, &nothing)), "ns"),
        figure("status_ns", "pod_status", nanos(|| pod_status(&inputs, &seen, &decided, now)), "ns"),
        figure("manifest_us", "static_pod, from JSON to a pod with its UID", manifest() / 1000.0, "µs"),
    ]
}

/// A manifest as people write it becomes a pod.
fn manifest() -> f64 {
    let mut raw = json!(*typical_pod("web-0"));
    if let Some(metadata) = raw.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
        metadata.retain(|field, _| field == "name" || field == "labels");
    }
    let origin = Origin::File("/etc/kubernetes/manifests/web.yaml".into());
    nanos(|| static_pod(&raw, &origin, "node", &Gates::default()).expect("a valid pod"))
}

/// Nanoseconds per call: the median over many short batches, few of which are disturbed by other processes.
#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
fn nanos<T>(mut call: impl FnMut() -> T) -> f64 {
    let batches = (0..BATCHES).map(|_| {
        let began = std::time::Instant::now();
        for _ in 0..BATCH {
            black_box(call());
        }
        began.elapsed().as_secs_f64() * 1e9 / whole(BATCH as u64)
    });
    median(batches.collect())
}

/// On one thread, in virtual time.
fn virtually<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime on this thread").block_on(what)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().expect("something was measured")
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^53")]
fn whole(count: u64) -> f64 {
    count as f64
}
