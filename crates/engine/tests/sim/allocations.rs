//! Every allocation is released once, and not before its pod is down and gone (RSZ-02, HK-05).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_core::pod::RestartPolicy;
use rubelet_core::resize::decode;
use rubelet_testkit::{Behaviour, FakeApi, map, pod};

use crate::sim::Sim;

/// A priority that makes a pod critical.
const CRITICAL: i32 = 2_000_000_000;
/// How often the checkpoint is read: more often than it is written, so that no version of it is missed.
const SAMPLE: Duration = Duration::from_millis(100);
/// For how many samples an allocation may outlive its pod: a restart, a look at all that runs, and the next write.
const LAG: u32 = 150;

/// What became of the allocation of each pod, by UID.
#[derive(Default)]
struct Ledger {
    held: BTreeSet<String>,
    released: BTreeSet<String>,
    /// For how many samples in a row the allocation of a pod was seen that is gone.
    outlived: BTreeMap<String, u32>,
}

impl Ledger {
    /// Reads the checkpoint once. Pods are named after their UID.
    async fn sample(&mut self, sim: &Sim, api: &FakeApi, seed: u64) {
        tokio::time::sleep(SAMPLE).await;
        let text = sim.checkpoints.text("allocated_pods_state");
        let content = text.map(|text| decode(&text).expect("a checkpoint of ours")).unwrap_or_default();
        let now: BTreeSet<String> = content.keys().map(|uid| uid.as_str().to_owned()).collect();
        for uid in self.held.difference(&now).cloned().collect::<Vec<_>>() {
            assert!(sim.runtime.running(&uid).is_empty(), "SIM_SEED={seed}: {uid} runs without an allocation");
            self.released.insert(uid);
        }
        let again: Vec<_> = now.intersection(&self.released).collect();
        assert!(again.is_empty(), "SIM_SEED={seed}: allocated after the release: {again:?}");
        let view = sim.view().await;
        self.outlived.retain(|uid, _| now.contains(uid));
        for uid in &now {
            let is_here = view.pods.iter().any(|p| p.pod.uid.as_str() == uid) || !sim.runtime.running(uid).is_empty();
            let samples = self.outlived.entry(uid.clone()).or_default();
            *samples = if is_here || api.pod(uid).is_some() { 0 } else { *samples + 1 };
            assert!(*samples < LAG, "SIM_SEED={seed}: the allocation of {uid} outlives its pod");
        }
        self.held = now;
    }
}

fn resize(api: &FakeApi, name: &str, cpu: u64) {
    api.edit(name, |pod: &mut Pod| {
        *pod.metadata.generation.get_or_insert_default() += 1;
        let container = pod.spec.as_mut().and_then(|spec| spec.containers.first_mut()).expect("a container");
        let requests = container.resources.get_or_insert_default().requests.get_or_insert_default();
        requests.insert("cpu".to_owned(), Quantity(cpu.to_string()));
    });
}

/// One random thing happens to the node.
async fn step(sim: &mut Sim, api: &FakeApi, number: u64) {
    let name = format!("{}-uid", sim.rng.below(1_000_000) * 100 + number);
    let cpu = 1 + sim.rng.below(20);
    // Every fourth pod takes its time to stop.
    let (container, grace) = if number.is_multiple_of(4) { ("slow", 9) } else { ("app", 1) };
    let new = pod(&name).uid(&name).container(container).request("cpu", &cpu.to_string()).grace_secs(grace);
    let names = api.names();
    let any = usize::try_from(sim.rng.below(names.len().max(1) as u64)).ok().and_then(|n| names.get(n));
    match (sim.rng.below(12), any) {
        (0..=2, _) => api.put(&new.build()),
        (3, _) => api.put(&new.restart(RestartPolicy::Never).build()),
        (4, _) => api.put(&new.request("cpu", &(cpu + 30).to_string()).priority(CRITICAL).build()),
        // Waits for a newer view of the node, and is rejected then.
        (5, _) => api.put(&new.edit_spec(|spec| spec.node_selector = Some(map([("zone", "a")]))).build()),
        (6..=7, Some(pod)) => resize(api, pod, cpu),
        (8, Some(pod)) => api.delete(pod, 1),
        (9, Some(pod)) => api.force_delete(pod),
        (10, Some(pod)) => {
            for container in ["app", "slow"] {
                sim.runtime.end_container(pod, container, 0);
            }
        }
        (11, _) => sim.restart().await,
        (_, _) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn an_allocation_is_released_once_and_not_before_its_pod_is_gone() {
    let seeds = match std::env::var("SIM_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..24).collect::<Vec<u64>>(),
    };
    for seed in seeds {
        let (mut sim, api) = Sim::in_cluster(seed).await;
        sim.runtime.set_latency(Duration::from_millis(20));
        sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_secs(5), 143)]);
        let mut ledger = Ledger::default();
        for number in 0..40 {
            step(&mut sim, &api, number).await;
            for _ in 0..sim.rng.below(20) {
                ledger.sample(&sim, &api, seed).await;
            }
        }
        for name in api.names() {
            api.delete(&name, 1);
        }
        for _ in 0..2 * LAG {
            ledger.sample(&sim, &api, seed).await;
        }
        assert!(ledger.held.is_empty(), "SIM_SEED={seed}: never released: {:?}", ledger.held);
        assert!(!ledger.released.is_empty(), "SIM_SEED={seed}: no pod was admitted");
        sim.check_laws();
    }
}
