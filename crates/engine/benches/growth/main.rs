//! What one pod costs on a node of 100 to 2,500 pods, with a fake runtime and a fake API server: whether anything grows
//! faster than the node.
//!
//! Prints lines of raw data as `make bench` keeps them. Each number of pods has a process of its own, in which nothing was
//! allocated before.

#![expect(clippy::print_stdout, reason = "a benchmark speaks to people")]

mod cluster;
#[expect(dead_code, reason = "the other benchmark tells more of what the kernel says")]
#[path = "../core/kernel.rs"]
mod kernel;
#[path = "../../tests/sim/laws.rs"]
mod laws;
#[path = "../core/nobody.rs"]
mod nobody;
#[path = "../core/pods.rs"]
mod pods;
#[expect(dead_code, reason = "of the simulation only its settings and its world are used here")]
#[path = "../../tests/sim/sim.rs"]
mod sim;

use std::cell::Cell;
use std::hint::black_box;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use rubelet_core::id::{PodRef, PodUid};
use rubelet_engine::ports::{OwnMemory, RuntimeView};
use rubelet_linux::heap::Heap;
use serde_json::json;

use cluster::{Cluster, new_pod};

/// How many pods the node has, unless arguments name others.
const PODS: [u32; 4] = [100, 500, 1000, 2500];
/// … in the short form, which need not be optimised: it is there to see whether anything grows that did not.
const QUICK_PODS: [u32; 2] = [100, 1000];
const QUICK: &str = "--quick";
/// Looks at pods over which CPU is measured: enough that the kernel's ticks do not show.
const LOOKS: u32 = 30_000;
const QUICK_LOOKS: u32 = 6_000;
/// How often every pod is looked at when nothing happens: each 60 to 90 s.
const PERIOD: Duration = Duration::from_secs(75);
/// The node is watched for at least so long.
const LEAST: Duration = Duration::from_secs(15 * 60);
/// Processes of which each gives a value.
const ROUNDS: u32 = 3;
/// Pods that are added, one after another.
const MORE: usize = 21;
/// Asks this program to measure, in a process of its own.
const COSTS: &str = "costs";
const MEMORY: &str = "memory";
/// What a look costs whose pod has left the caches, however few pods there are.
const COLD: &str = "cold";
/// Only looks, so many: for a profiler, which sees what each costs in the difference between two runs.
const ONLY_LOOKS: &str = "looks";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u32> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    match (args.first().map(String::as_str), numbers.as_slice()) {
        (Some(COSTS), [pods, looks]) => print(costs(*pods, *looks)),
        (Some(MEMORY), [pods, _]) => print(memory(*pods)),
        (Some(COLD), [pods, looks]) => print(cold(*pods, *looks)),
        (Some(ONLY_LOOKS), [pods, looks]) => only_looks(*pods, *looks),
        (Some(QUICK), _) => measure(&QUICK_PODS, QUICK_LOOKS, 1),
        (_, []) => measure(&PODS, LOOKS, ROUNDS),
        (_, pods) => measure(pods, LOOKS, ROUNDS),
    }
}

fn print(values: serde_json::Value) {
    println!("{values}");
}

/// Prints a line for each figure and number of pods.
fn measure(numbers: &[u32], looks: u32, rounds: u32) {
    for pods in numbers {
        let times = |what: &str| -> Vec<_> { (0..rounds).map(|_| apart(what, *pods, looks)).collect() };
        let (costs, cold) = (times(COSTS), times(COLD));
        let line = |figure: &str, unit: &str, values: Vec<serde_json::Value>| {
            let case = pods.to_string();
            println!(
                "{}",
                json!({"agent": "fake", "round": 1, "figure": figure, "case": case, "unit": unit, "values": values})
            );
        };
        line("growth-cpu", "ms", costs.iter().map(|costs| costs["look"].clone()).collect());
        line("growth-cold", "ms", cold);
        line("growth-memory", "KiB", times(MEMORY));
        let all = |costs: &serde_json::Value| costs["more"].as_array().cloned().unwrap_or_default();
        line("growth-latency", "ms", costs.iter().flat_map(all).collect());
    }
}

/// Measures in a process of its own.
fn apart(what: &str, pods: u32, looks: u32) -> serde_json::Value {
    let this = std::env::current_exe().expect("this program has a path");
    let child = Command::new(this)
        .args([what, &pods.to_string(), &looks.to_string()])
        .output()
        .expect("it can be started again");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    serde_json::from_slice(&child.stdout).expect("it prints what it measured")
}

/// CPU for one pod when every pod is looked at once, and what one more pod takes.
fn costs(pods: u32, looks: u32) -> serde_json::Value {
    virtually(async {
        let mut cluster = Cluster::with(usize::try_from(pods).expect("few enough"));
        cluster.start().await;
        let look = look(&cluster, (pods, looks), || Duration::ZERO).await;
        let mut more = Vec::new();
        for n in 0..MORE {
            more.push(one_more(&cluster, n).await);
        }
        json!({"look": look, "more": more})
    })
}

/// A look as `costs` measures it, with something else that fills a core's caches between every two: on a node, where
/// looks at 100 pods are a second apart, its containers do. In virtual time few pods would never leave them.
fn cold(pods: u32, looks: u32) -> serde_json::Value {
    /// Twice what a core has to itself.
    const CACHES: usize = 4 << 20;
    virtually(async {
        let mut cluster = Cluster::with(usize::try_from(pods).expect("few enough"));
        cluster.start().await;
        let (mut filler, spent) = (vec![0_u8; CACHES], Rc::new(Cell::new(Duration::ZERO)));
        let counter = Rc::clone(&spent);
        let fill = async move {
            loop {
                tokio::time::sleep(PERIOD / pods).await;
                let began = kernel::cpu();
                filler.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
                black_box(&filler);
                counter.set(counter.get() + kernel::cpu() - began);
            }
        };
        let look = look(&cluster, (pods, looks), || spent.get());
        tokio::select! { look = look => json!(look), () = fill => json!(null) }
    })
}

fn only_looks(pods: u32, looks: u32) {
    virtually(async {
        let mut cluster = Cluster::with(usize::try_from(pods).expect("few enough"));
        cluster.start().await;
        tokio::time::sleep(PERIOD * looks / pods).await;
    });
}

/// Milliseconds of CPU for each look at a pod of an idle node, with its share of lists and surveys, and without what the
/// fake runtime needs to answer, nor what was `spent` on something else.
async fn look(cluster: &Cluster, (pods, looks): (u32, u32), spent: impl Fn() -> Duration) -> f64 {
    let runtime = &cluster.sim.runtime;
    let count = |call: &str| runtime.counts().get(call).copied().unwrap_or_default();
    let calls = || (count("podsandbox_status"), count("list_podsandbox"));
    let (cpu, before) = (kernel::cpu(), calls());
    tokio::time::sleep((PERIOD * looks / pods).max(LEAST)).await;
    let (cpu, after) = (kernel::cpu() - cpu - spent(), calls());
    let since = |before: u64, after: u64| u32::try_from(after - before).expect("far fewer");
    let (looks, lists) = (since(before.0, after.0), since(before.1, after.1));
    assert!(looks > pods, "pods are looked at now and then: {:?}", runtime.counts());
    let (inspect, list) = fakes_alone(cluster).await;
    millis(cpu.saturating_sub(inspect * looks + list * lists)) / f64::from(looks)
}

/// What the fake runtime needs to show one pod, and to list all.
async fn fakes_alone(cluster: &Cluster) -> (Duration, Duration) {
    const TIMES: u32 = 5;
    let runtime = &cluster.sim.runtime;
    let uids: Vec<PodUid> =
        cluster.api.names().iter().filter_map(|name| Some(PodRef::of(&*cluster.api.pod(name)?).uid)).collect();
    let began = kernel::cpu();
    for _ in 0..TIMES {
        for uid in &uids {
            black_box(runtime.inspect(uid, runtime.clock().now().mono).await.expect("it answers"));
        }
    }
    let inspected = kernel::cpu();
    for _ in 0..TIMES {
        black_box(runtime.list().await.expect("it answers"));
    }
    let pods = u32::try_from(uids.len()).expect("few enough");
    ((inspected - began) / (pods * TIMES), (kernel::cpu() - inspected) / TIMES)
}

/// Milliseconds from when a pod is made until the API server shows it running: the virtual time of requests and pauses,
/// and the CPU of everything in between, the fakes' included.
async fn one_more(cluster: &Cluster, n: usize) -> f64 {
    // It sorts before the others: the fakes find it at once.
    let name = format!("extra-{n}");
    let pod = new_pod(&name);
    let (cpu, time) = (kernel::cpu(), cluster.sim.clock.elapsed());
    cluster.api.put(&pod);
    let running = || cluster.api.status(&name).phase.as_deref() == Some("Running");
    while !running() {
        assert!(cluster.sim.clock.elapsed() - time < Duration::from_secs(60), "{name} does not run");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let taken = kernel::cpu() - cpu + (cluster.sim.clock.elapsed() - time);
    // What follows from it is over, and time is not at a whole second, where others are looked at.
    tokio::time::sleep(Duration::from_millis(5_300)).await;
    millis(taken)
}

/// KiB of resident memory for each pod, of an engine that finds the pods running.
fn memory(pods: u32) -> serde_json::Value {
    virtually(async {
        // The first pods pay for tables and buffers that the others share.
        Cluster::with(1).start().await;
        let mut cluster = Cluster::with(usize::try_from(pods).expect("few enough"));
        cluster.start().await;
        let plug = plug().await;
        let before = resident().await;
        cluster.start().await;
        let grown = resident().await - before;
        drop(plug);
        json!(grown / f64::from(pods))
    })
}

/// Blocks that fill what the world's making left free between others. With few pods it would else take in a fifth of the
/// next engine, which then seems to need less.
async fn plug() -> Vec<Vec<u8>> {
    /// Between two looks into the heap's books, which take their time.
    const BATCH: usize = 64;
    Heap.trim().await;
    let mut blocks = Vec::with_capacity(1 << 20);
    for size in [4096, 1024, 512, 256, 128, 64, 40, 24] {
        loop {
            let before = Heap.holes();
            blocks.extend((0..BATCH).map(|_| vec![1_u8; size]));
            // They no longer find room between others, or hardly.
            if before.saturating_sub(Heap.holes()) < BATCH * size / 2 {
                break;
            }
        }
    }
    blocks
}

/// KiB that are resident once what was freed has gone back, as the program does when its jobs rest.
async fn resident() -> f64 {
    Heap.trim().await;
    kernel::memory().rss
}

/// On one thread, in virtual time.
fn virtually<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime on this thread").block_on(what)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
