//! Random days: pods come and go, containers crash, calls fail or answer late, and we are killed at any moment. Whatever
//! the order, no law is broken, and when the trouble ends the world is as it was asked to be.

use std::time::Duration;

use rubelet_core::pod::RestartPolicy;
use rubelet_testkit::{Behaviour, Faults, Manner};

use crate::sim::{Sim, static_pod};

/// Where pods are asked whether they are ready, and whether they live.
const READY: u16 = 80;
const ALIVE: u16 = 81;

/// How many random days each test lives through. `SIM_SEED=n` lives through that one alone.
const DAYS: u64 = 25;

fn seeds() -> Vec<u64> {
    match std::env::var("SIM_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => vec![seed],
        None => (1000..1000 + DAYS).collect(),
    }
}

/// One random thing happens.
async fn happen(sim: &mut Sim, restarts: bool) {
    let name = format!("p{}", sim.rng.below(6));
    match sim.rng.below(10) {
        0..=3 => {
            let generation = sim.rng.below(3);
            let grace = i64::try_from(sim.rng.below(20)).expect("small");
            let mut pod = static_pod(&name).uid(&format!("{name}-{generation}")).grace_secs(grace);
            if sim.rng.below(4) == 0 {
                pod = pod.container("helper");
            }
            if sim.rng.below(5) == 0 {
                pod = pod.restart(RestartPolicy::OnFailure);
            }
            if sim.rng.below(3) == 0 {
                pod = pod.http_probe(|c| &mut c.readiness_probe, READY, 2, |_| {});
            }
            if sim.rng.below(3) == 0 {
                pod = pod.http_probe(|c| &mut c.liveness_probe, ALIVE, 2, |_| {});
            }
            if sim.rng.below(3) == 0 {
                pod = pod.http_probe(|c| &mut c.startup_probe, ALIVE, 1, |_| {});
            }
            sim.files.put(pod.build());
        }
        4 | 5 => sim.files.take_away(&name),
        6 => {
            sim.runtime.end_container(&name, "app", i32::try_from(sim.rng.below(2)).expect("small"));
        }
        7 => sim.runtime.end_sandbox(&name),
        8 if restarts => sim.restart().await,
        9 => {
            let manners = [Manner::Answers(200), Manner::Answers(500), Manner::Hangs, Manner::Refuses];
            let manner = manners.into_iter().nth(usize::try_from(sim.rng.below(4)).expect("small"));
            let port = if sim.rng.below(2) == 0 { READY } else { ALIVE };
            sim.probes.set(port, manner.expect("one of four"));
        }
        _ => {}
    }
}

/// Lives through a random day, then waits for calm and checks that the world is as desired.
async fn live_through(seed: u64, faults: Faults, hints: bool, restarts: bool) {
    let mut sim = Sim::seeded(seed).await;
    sim.runtime.set_faults(faults);
    sim.runtime.set_hints(hints);
    [READY, ALIVE].into_iter().for_each(|port| sim.probes.set(port, Manner::Answers(200)));
    sim.runtime.script("helper", [Behaviour::runs().on_term(Duration::from_secs(3), 143)]);
    for _ in 0..40 {
        happen(&mut sim, restarts).await;
        let pause = sim.rng.below(4000);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        sim.check_laws();
    }
    sim.runtime.set_faults(Faults::NONE);
    [READY, ALIVE].into_iter().for_each(|port| sim.probes.set(port, Manner::Answers(200)));
    // What ran last is known to the source alone; everything converges to it within the longest back-off.
    let wanted: Vec<String> = sim.files.names();
    sim.until(900, "the world to be as desired", async |sim| {
        for n in 0..6 {
            let name = format!("p{n}");
            let right = if wanted.contains(&name) {
                sim.is_ready(&name).await
                    || sim.pod(&name).await.is_some_and(|p| rubelet_core::status::is_terminal(&p.status))
            } else {
                sim.is_gone(&name).await
            };
            if !right {
                return false;
            }
        }
        true
    })
    .await;
    sim.check_laws();
    let view = sim.view().await;
    assert_eq!(view.job_panics, 0, "SIM_SEED={seed}");
    let leaks = sim.leaks(&view);
    assert!(leaks.is_empty(), "SIM_SEED={seed}: {leaks:#?}");
}

#[tokio::test(start_paused = true)]
async fn calm_days_converge() {
    for seed in seeds() {
        live_through(seed, Faults::NONE, true, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn days_with_many_faults_converge() {
    for seed in seeds() {
        live_through(seed, Faults::MANY, true, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn days_with_faults_and_our_own_death_at_any_moment_converge() {
    for seed in seeds() {
        live_through(seed, Faults::MANY, true, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn days_without_events_converge() {
    for seed in seeds() {
        live_through(seed, Faults::MANY, false, true).await;
    }
}

/// Killed at each await of a pod's first seconds: the next start always finishes what was begun, once.
#[tokio::test(start_paused = true)]
async fn killed_at_any_await_a_start_is_finished_once() {
    for step in 0..60 {
        let mut sim = Sim::seeded(step).await;
        sim.runtime.set_latency(Duration::from_millis(10));
        sim.files.put(static_pod("web").container("two").build());
        tokio::time::sleep(Duration::from_millis(step * 2)).await;
        sim.restart().await;
        sim.until_ready(&["web"], 120).await;
        for container in ["app", "two"] {
            let starts = sim.runtime.calls("web").iter().filter(|c| **c == format!("start {container}")).count();
            assert!(starts <= 2, "killed after {} ms: {starts} starts of {container}", step * 2);
        }
        sim.check_laws();
    }
}

/// Killed at each await of a pod's end: the next start finishes it.
#[tokio::test(start_paused = true)]
async fn killed_at_any_await_an_end_is_finished() {
    for step in 0..60 {
        let mut sim = Sim::seeded(step).await;
        sim.runtime.set_latency(Duration::from_millis(10));
        sim.files.put(static_pod("web").empty_dir("data", "/data").build());
        sim.until_ready(&["web"], 10).await;
        sim.files.take_away("web");
        tokio::time::sleep(Duration::from_millis(step * 2)).await;
        sim.restart().await;
        sim.until_gone("web", 120).await;
        sim.check_laws();
        assert!(
            sim.volumes.made().is_empty() && !sim.cgroups.paths().iter().any(|p| p.contains("/pod")),
            "killed after {} ms",
            step * 2
        );
    }
}

/// A restart of ours with thirty ready pods: nothing is restarted, nothing turns unready (RST-03).
#[tokio::test(start_paused = true)]
async fn a_restart_of_ours_restarts_nothing_and_turns_nothing_unready() {
    let mut sim = Sim::seeded(77).await;
    sim.files.push((0..30).map(|n| static_pod(&format!("p{n:02}")).build()));
    sim.until(60, "all to be ready", async |sim| {
        let view = sim.view().await;
        view.pods.len() == 30 && view.pods.iter().all(|p| crate::sim::is_ready(&p.status))
    })
    .await;
    let changes = |sim: &Sim| sim.runtime.log().iter().len();
    let before = changes(&sim);
    let reports = sim.statuses.all().len();
    for _ in 0..5 {
        sim.restart().await;
        sim.pass(100).await;
    }
    assert_eq!(changes(&sim), before, "nothing was changed");
    let unready = sim.statuses.all().iter().skip(reports).filter(|r| !crate::sim::is_ready(&r.status)).count();
    assert_eq!(unready, 0, "no pod was ever reported unready");
    sim.check_laws();
}
