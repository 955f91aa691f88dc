//! Node allocatable is enforced, and stays so.

use rubelet_core::node::{NodeCgroups, ReservedCgroup, ReservedKind};
use rubelet_core::qos::{CgroupPath, CgroupValues, QosClass};
use rubelet_engine::node_cgroups::prepare;

use crate::sim::{Sim, settings, static_pod};

const ENFORCED: &str = "Normal NodeAllocatableEnforced: Updated Node Allocatable limit across pods";

fn shares(shares: u64) -> CgroupValues {
    CgroupValues { cpu_shares: Some(shares), ..CgroupValues::default() }
}

fn root() -> CgroupPath {
    settings().launch.tree.root()
}

fn daemons() -> CgroupPath {
    CgroupPath::new(["daemons"])
}

/// A node whose pods are limited, and whose daemons have a cgroup.
fn limited(seed: u64) -> Sim {
    let mut sim = Sim::stopped(seed);
    let reserved = ReservedCgroup {
        kind: ReservedKind::Kube,
        name: "/daemons".to_owned(),
        path: daemons(),
        values: CgroupValues { memory_limit: Some(1 << 30), ..shares(512) },
    };
    sim.node_cgroups = NodeCgroups {
        pods: CgroupValues { memory_limit: Some(4 << 30), ..shares(2048) },
        reserved: vec![reserved],
        agent: "/daemons/agent".to_owned(),
        system: "/rest".to_owned(),
    };
    sim.cgroups.tamper(&daemons(), CgroupValues::default());
    sim.files.push([]);
    sim
}

fn count(sim: &Sim, line: &str) -> usize {
    sim.events.node_lines().iter().filter(|event| event.contains(line)).count()
}

/// What a start does before the engine runs.
async fn prepared(sim: &Sim) -> Result<(), String> {
    let mut settings = settings();
    settings.node_cgroups = sim.node_cgroups.clone();
    prepare(&sim.cgroups, &settings).await.map_err(|err| err.to_string())
}

#[tokio::test(start_paused = true)]
async fn cg_21_22_limits_are_set_once_and_events_tell_so() {
    let mut sim = limited(1);
    prepared(&sim).await.unwrap();
    sim.start().await;
    sim.pass(5).await;
    assert_eq!(sim.cgroups.values(&root()), Some(sim.node_cgroups.pods.clone()));
    assert_eq!(sim.cgroups.values(&daemons()), Some(sim.node_cgroups.reserved[0].values.clone()));
    let writes = sim.cgroups.writes();
    sim.pass(3600).await;
    assert_eq!(sim.cgroups.writes(), writes, "nothing differs, so nothing is written");
    assert_eq!(count(&sim, ENFORCED), 1);
    let reserved = "Normal NodeAllocatableEnforced: Updated limits on kube reserved cgroup /daemons";
    assert_eq!(count(&sim, reserved), 1);
    let asked = sim.processes.asked();
    for what in ["agent /daemons/agent", "system /rest"] {
        assert!((55..=65).contains(&asked[what]), "CG-24, each minute: {asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn cg_10_22_values_that_somebody_changed_are_set_right_within_a_minute() {
    let mut sim = limited(2);
    prepared(&sim).await.unwrap();
    sim.start().await;
    sim.pass(5).await;
    let tree = settings().launch.tree;
    let levels = [QosClass::Burstable, QosClass::BestEffort].map(|class| tree.level(class));
    let wanted: Vec<_> = [root(), daemons()].into_iter().chain(levels).collect();
    let before: Vec<_> = wanted.iter().map(|path| sim.cgroups.values(path)).collect();
    for path in &wanted {
        sim.cgroups.tamper(path, shares(7));
    }
    sim.pass(62).await;
    let now: Vec<_> = wanted.iter().map(|path| sim.cgroups.values(path)).collect();
    assert_eq!(now, before);
    assert_eq!(count(&sim, "NodeAllocatableEnforced"), 2, "a repair is logged, and makes no event");
}

#[tokio::test(start_paused = true)]
async fn cg_11_values_of_a_pod_that_somebody_changed_are_set_right_and_others_are_not_written() {
    let mut sim = Sim::stopped(5);
    sim.files.push([]);
    sim.start().await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.pass(120).await;
    let uid = sim.cgroups.pod_uids().pop().expect("a pod with a cgroup");
    let path = settings().launch.tree.pod(QosClass::BestEffort, &uid);
    let before = sim.cgroups.values(&path).expect("the pod's cgroup");
    let writes = sim.cgroups.writes();
    sim.pass(600).await;
    assert_eq!(sim.cgroups.writes(), writes, "nothing differs, so nothing is written");
    sim.cgroups.tamper(&path, shares(7));
    sim.pass(120).await;
    assert_eq!(sim.cgroups.values(&path), Some(before));
}

#[tokio::test(start_paused = true)]
async fn cg_22_a_limit_that_pods_exceed_is_tried_again_each_minute_and_pods_run_meanwhile() {
    let mut sim = limited(3);
    sim.cgroups.tamper(&root(), CgroupValues::default());
    sim.cgroups.set_refused(&root(), true);
    prepared(&sim).await.expect("the node starts all the same");
    sim.start().await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.pass(240).await;
    let failed = "Warning FailedNodeAllocatableEnforcement: Failed to update Node Allocatable Limits [\"kubepods\"]: ";
    assert!((4..=6).contains(&count(&sim, failed)), "{:#?}", sim.events.node_lines());
    assert_eq!(count(&sim, ENFORCED), 0);
    sim.cgroups.set_refused(&root(), false);
    sim.pass(62).await;
    assert_eq!(count(&sim, ENFORCED), 1);
    assert_eq!(sim.cgroups.values(&root()), Some(sim.node_cgroups.pods.clone()));
}

#[tokio::test(start_paused = true)]
async fn cg_22_a_reserved_cgroup_must_be_there_at_the_start_and_may_go_later() {
    let mut sim = limited(4);
    sim.node_cgroups.reserved[0].path = CgroupPath::new(["elsewhere"]);
    let err = prepared(&sim).await.expect_err("nobody made it");
    let text =
        "Failed to enforce Kube Reserved Cgroup Limits on \"/daemons\": cgroup /daemons has some missing paths: ";
    assert!(err.starts_with(text), "{err}");
    assert_eq!(sim.cgroups.values(&CgroupPath::new(["elsewhere"])), None, "it is not made");

    let mut sim = limited(4);
    prepared(&sim).await.unwrap();
    sim.start().await;
    sim.pass(5).await;
    let path = daemons();
    rubelet_engine::ports::Cgroups::destroy(&sim.cgroups, &path).await.unwrap();
    sim.pass(300).await;
    assert_eq!(count(&sim, "Warning FailedNodeAllocatableEnforcement: Failed to enforce Kube Reserved"), 1);
    sim.cgroups.tamper(&path, CgroupValues::default());
    sim.pass(62).await;
    assert_eq!(sim.cgroups.values(&path), Some(sim.node_cgroups.reserved[0].values.clone()));
}

#[tokio::test(start_paused = true)]
async fn cg_10_a_restart_leaves_the_shares_of_running_pods() {
    let mut sim = limited(5);
    let burstable = settings().launch.tree.level(QosClass::Burstable);
    sim.cgroups.tamper(&burstable, shares(3000));
    prepared(&sim).await.unwrap();
    assert_eq!(sim.cgroups.values(&burstable).and_then(|values| values.cpu_shares), Some(3000));
    sim.start().await;
    sim.pass(5).await;
    assert_eq!(sim.cgroups.values(&burstable).and_then(|values| values.cpu_shares), Some(2), "no pod counts for it");
}

#[tokio::test(start_paused = true)]
async fn hk_11_cg_13_a_cgroup_stays_with_few_shares_until_the_volumes_are_gone() {
    let sim = Sim::seeded(6).await;
    sim.files.put(static_pod("web").uid("u").empty_dir("data", "/data").build());
    sim.until_ready(&["web"], 5).await;
    let cgroup = sim.cgroups.paths().into_iter().find(|path| path.ends_with("/podu")).expect("its cgroup");
    let path = CgroupPath::parse_cgroupfs(&cgroup);
    sim.cgroups.tamper(&path, shares(700));
    sim.volumes.set_stuck("data", true);
    sim.files.take_away("web");
    sim.pass(120).await;
    assert_eq!(sim.cgroups.values(&path), Some(shares(2)));
    sim.volumes.set_stuck("data", false);
    sim.until_gone("web", 150).await;
    assert_eq!(sim.cgroups.values(&path), None);
}
