//! Bad days in a cluster: the API server is away, slow, busy, loses answers; rubelet is killed; pods come and go. At the
//! end every pod is right, none has a container too many, and the API was not flooded.

use std::time::Duration;

use rubelet_core::pod::PodExt;
use rubelet_core::status::is_terminal;
use rubelet_engine::ports::Rng as _;
use rubelet_testkit::{ApiFaults, Behaviour, FakeApi, Faults, pod};

use crate::sim::{Sim, is_ready, static_pod};

fn seeds(usual: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var("SIM_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => vec![seed],
        None => usual.collect(),
    }
}

/// What the API shows is what the node says, for every pod.
async fn agrees(sim: &Sim, api: &FakeApi) -> bool {
    let view = sim.view().await;
    api.names().iter().all(|name| {
        let shown = api.status(name);
        let here = view.pods.iter().find(|p| *p.pod.name == **name);
        let refused = view.rejected.iter().any(|r| r.pod.metadata.name.as_ref() == Some(name));
        let right = here.is_some_and(|p| p.status.phase == shown.phase && is_ready(&p.status) == is_ready(&shown));
        (right || refused) && (is_ready(&shown) || is_terminal(&shown))
    })
}

/// A rollout of fifty pods with an outage and a `kill -9` in the middle of it.
#[tokio::test(start_paused = true)]
async fn a_rollout_survives_an_outage_and_our_own_death() {
    for seed in seeds(100..106) {
        let (mut sim, api) = Sim::in_cluster(seed).await;
        sim.runtime.set_latency(Duration::from_millis(20));
        let names: Vec<String> = (0..50).map(|n| format!("web-{n}")).collect();
        for name in &names {
            api.put(&pod(name).build());
        }
        tokio::time::sleep(Duration::from_millis(sim.rng.below(1500))).await;
        api.go_away(Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(sim.rng.below(1500))).await;
        sim.kill();
        sim.start().await;
        sim.until(120, "every pod to be ready in the API", async |_| names.iter().all(|n| is_ready(&api.status(n))))
            .await;
        sim.watch_laws().await;
        for name in &names {
            let status = api.status(name);
            let starts = sim.runtime.calls(name).iter().filter(|line| line.starts_with("start ")).count();
            assert_eq!(starts, 1, "SIM_SEED={seed}: {name} was started more than once: {status:?}");
        }
        let writes = api.writes().len();
        assert!(writes <= 50 * 6, "SIM_SEED={seed}: {writes} writes for 50 pods");
        assert!(api.violations().is_empty(), "SIM_SEED={seed}: {:#?}", api.violations());
        sim.pass(5).await;
        let before = api.calls().len();
        sim.restart().await;
        sim.pass(60).await;
        assert_eq!(api.calls().len(), before, "SIM_SEED={seed}: a restart writes nothing");
    }
}

/// While it is away pods run and restart; what was deleted meanwhile is ended when it is back.
#[tokio::test(start_paused = true)]
async fn while_the_api_is_away_pods_live_on() {
    let (sim, api) = Sim::in_cluster(110).await;
    api.put(&pod("stays").build());
    api.put(&pod("goes").build());
    api.put(&pod("forced").build());
    sim.until_ready(&["stays", "goes", "forced"], 10).await;
    sim.pass(1).await;
    api.go_away(Duration::from_secs(300));
    sim.runtime.end_container("stays", "app", 1);
    api.delete("goes", 30);
    api.force_delete("forced");
    sim.pass(100).await;
    sim.until_ready(&["stays"], 10).await;
    let tries = api.calls().len();
    assert!(!sim.is_gone("goes").await, "the delete cannot be known yet");
    sim.until(250, "the API to be caught up with", async |_| {
        let restarts = api.status("stays").container_statuses.iter().flatten().map(|c| c.restart_count).sum::<i32>();
        restarts == 1 && is_ready(&api.status("stays")) && api.pod("goes").is_none()
    })
    .await;
    sim.until_gone("forced", 10).await;
    assert!(api.calls().len() < tries + 20);
    assert!(api.violations().is_empty(), "{:#?}", api.violations());
}

async fn happen(sim: &mut Sim, api: &FakeApi) {
    let name = format!("p{}", sim.rng.below(6));
    match sim.rng.below(20) {
        0..=5 => {
            if api.pod(&name).is_none() {
                let uid = format!("{name}-{}", sim.rng.next());
                let builder = pod(&name).uid(&uid).grace_secs(i64::try_from(sim.rng.below(10)).expect("small"));
                let builder = match sim.rng.below(4) {
                    0 => builder.init("init").container("app"),
                    1 => builder.restart(rubelet_core::pod::RestartPolicy::Never).container("short"),
                    2 => builder.sidecar("side").container("app"),
                    _ => builder,
                };
                api.put(&builder.build());
            }
        }
        6..=8 => api.delete(&name, 5),
        9 => api.force_delete(&name),
        10 => drop(sim.runtime.end_container(&name, "app", 1)),
        11 => api.go_away(Duration::from_secs(sim.rng.below(30))),
        12 => api.stall_watch(true),
        13 | 14 => api.stall_watch(false),
        15 => sim.restart().await,
        16 => sim.files.put(static_pod("static").uid(&format!("s{}", sim.rng.below(3))).build()),
        17 => sim.files.take_away("static"),
        18 => sim.runtime.reboot(),
        _ => api.edit(&name, |pod| {
            pod.metadata.labels.get_or_insert_default().insert("touched".into(), "yes".into());
        }),
    }
}

#[tokio::test(start_paused = true)]
async fn bad_days_in_a_cluster_end_well() {
    for seed in seeds(200..215) {
        let (mut sim, api) = Sim::in_cluster(seed).await;
        api.set_faults(ApiFaults::MANY);
        sim.runtime.set_faults(Faults::MANY);
        sim.runtime.script("init", [Behaviour::exits_after(Duration::from_millis(200), 0)]);
        sim.runtime.script("short", [Behaviour::exits_after(Duration::from_secs(2), 0)]);
        for _ in 0..60 {
            happen(&mut sim, &api).await;
            let pause = sim.rng.below(4000);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            sim.watch_laws().await;
            assert!(api.violations().is_empty(), "SIM_SEED={seed}: {:#?}", api.violations());
        }
        api.set_faults(ApiFaults::NONE);
        api.stall_watch(false);
        sim.runtime.set_faults(Faults::NONE);
        sim.until(1800, "the API to show every pod as it is", async |sim| agrees(sim, &api).await).await;
        sim.until(120, "what was deleted to be gone", async |_| {
            api.names().iter().all(|name| api.pod(name).is_some_and(|pod| !pod.is_deleted()))
        })
        .await;
        sim.watch_laws().await;
        sim.pass(120).await;
        let before = api.calls().len();
        sim.restart().await;
        sim.pass(200).await;
        let calls = api.calls();
        let after = calls.get(before..).unwrap_or_default();
        assert!(after.is_empty(), "SIM_SEED={seed}: a restart writes nothing: {after:#?}");
    }
}
