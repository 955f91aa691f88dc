//! Long days on which everything happens at once: pods of every shape from two sources that fight over names and UIDs,
//! a disk that fills, a network that goes, a runtime that leaves, forgets and reboots, a clock that jumps, and our own
//! death. No law is broken at any time, and when the trouble ends the world is as it was asked to be.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::PodRef;
use rubelet_core::pod::{RestartPolicy, Source};
use rubelet_engine::ports::{Rng as _, RpcErrorKind};
use rubelet_testkit::{Behaviour, FakeSource, Faults, PodBuilder, Pull};

use crate::sim::{Sim, static_pod};

/// How many such days are lived through: some seconds' worth. `SIM_SEED=n` lives through that one alone, `SIM_DAYS=n`
/// through so many.
const DAYS: u64 = 10;
/// How much happens on a day.
const HAPPENINGS: u64 = 60;
/// How many names the pods share.
const NAMES: u64 = 5;

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("SIM_SEED") {
        Some(seed) => vec![seed],
        None => (7000..7000 + number("SIM_DAYS").unwrap_or(DAYS)).collect(),
    }
}

/// A pod whose shape follows from its UID alone: what differs between two versions is grace and image.
fn shaped(builder: PodBuilder, shape: u64) -> PodBuilder {
    let builder = match shape % 6 {
        0 => builder,
        1 => builder.init("init-0").init("init-1").container("app"),
        2 => builder.sidecar("side-0").init("init-1").container("app"),
        3 => builder.init("init-0").sidecar("side-1").sidecar("side-2").container("app").container("helper"),
        4 => builder.container("app").container("helper").empty_dir("data", "/data"),
        _ => builder.container("app").restart(RestartPolicy::OnFailure),
    };
    if shape.is_multiple_of(7) { builder.host_network() } else { builder }
}

fn one_of<const N: usize>(sim: &Sim, words: [&'static str; N]) -> &'static str {
    let n = usize::try_from(sim.rng.next()).unwrap_or_default() % N;
    words.into_iter().nth(n).unwrap_or_default()
}

fn random_pod(sim: &Sim, source: Source, name: &str) -> Arc<Pod> {
    let shape = sim.rng.below(12);
    // Now and then a UID that another name, or the other source, may have too.
    let uid = if sim.rng.below(8) == 0 { format!("shared-{shape}") } else { format!("{name}-{shape}") };
    let grace = i64::try_from(sim.rng.below(20)).expect("small");
    let image = one_of(sim, ["a:1", "b:1", "sick:1"]);
    let builder = rubelet_testkit::pod(name).static_from(source).uid(&uid).grace_secs(grace);
    shaped(builder, shape)
        .edit_spec(|spec| spec.containers.iter_mut().for_each(|c| c.image = Some(image.into())))
        .build()
}

fn source(sim: &Sim) -> (FakeSource, Source) {
    match &sim.more {
        Some(more) if sim.rng.below(3) == 0 => (more.clone(), Source::Http),
        _ => (sim.files.clone(), Source::File),
    }
}

async fn happen(sim: &mut Sim) {
    let name = format!("p{}", sim.rng.below(NAMES));
    let (from, kind) = source(sim);
    match sim.rng.below(24) {
        0..=6 => from.put(random_pod(sim, kind, &name)),
        7..=9 => from.take_away(&name),
        10 | 11 => {
            let container = one_of(sim, ["app", "helper", "side-0", "side-1", "init-0"]);
            sim.runtime.end_container(&name, container, i32::try_from(sim.rng.below(2)).expect("small"));
        }
        12 => sim.runtime.end_sandbox(&name),
        13 => sim.runtime.reboot(),
        14 => sim.runtime.go_away(Duration::from_secs(sim.rng.below(40))),
        15 => sim.runtime.forget(u32::try_from(sim.rng.below(3)).expect("small")),
        16 => sim.dirs.set_full(sim.rng.below(2) == 0),
        17 => sim.runtime.set_network(sim.rng.below(2) == 0, "cni plugin not initialized"),
        18 => sim.volumes.set_stuck("data", sim.rng.below(2) == 0),
        19 => {
            let jump = i64::try_from(sim.rng.below(7200)).expect("small") - 3600;
            sim.set_wall(SignedDuration::from_secs(jump));
        }
        20 => {
            // A hundred updates within a second.
            for _ in 0..100 {
                from.put(random_pod(sim, kind, &name));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        21 => {
            let fails = Pull::Fails(RpcErrorKind::NotFound, "not found".into());
            let pull = if sim.rng.below(2) == 0 { fails } else { Pull::Takes(Duration::from_secs(5)) };
            sim.runtime.script_pull("sick:1", pull);
        }
        22 => sim.restart().await,
        _ => {}
    }
}

fn end_all_trouble(sim: &Sim) {
    sim.runtime.set_faults(Faults::NONE);
    sim.runtime.forget(0);
    sim.dirs.set_full(false);
    sim.runtime.set_network(true, "");
    sim.volumes.set_stuck("data", false);
    sim.runtime.script_pull("sick:1", Pull::Takes(Duration::from_millis(5)));
}

/// The pods that are to be here. A UID belongs to one pod: within a source to the first that has it, and then to the source
/// that comes first.
fn expected(sim: &Sim) -> Vec<PodRef> {
    let mut pods: Vec<PodRef> = Vec::new();
    for source in [Some(&sim.files), sim.more.as_ref()].into_iter().flatten() {
        for pod in source.pods() {
            let pod = PodRef::of(&pod);
            if !pods.iter().any(|other| other.uid == pod.uid) {
                pods.push(pod);
            }
        }
    }
    pods
}

/// Every desired pod is here, under its name and UID; of pods that share a name, one is ready or has ended, and the others
/// wait. There is no other pod, process, cgroup, volume, directory or log.
async fn is_as_desired(sim: &Sim) -> bool {
    let view = sim.view().await;
    let expected = expected(sim);
    let right = |pod: &rubelet_engine::pod_worker::WorkerView| {
        crate::sim::is_ready(&pod.status) || rubelet_core::status::is_terminal(&pod.status)
    };
    let all_here = expected.iter().all(|pod| view.pods.iter().any(|here| here.pod == *pod));
    let all_right = expected.iter().all(|pod| view.pods.iter().any(|here| here.pod.name == pod.name && right(here)));
    let no_other = view.pods.iter().all(|here| expected.contains(&here.pod));
    if !all_here || !all_right || !no_other || !sim.leaks(&view).is_empty() {
        return false;
    }
    // Every process belongs to a known pod.
    let known: Vec<_> =
        view.pods.iter().filter(|p| p.stage.may_have_running_containers()).map(|p| &p.pod.uid).collect();
    let world = sim.runtime.world();
    let uids = world.lines().filter_map(|line| line.split_once(": ")).map(|(uid, _)| uid.into());
    uids.filter(|uid| !known.contains(&uid)).all(|uid| sim.runtime.is_still(&uid))
}

async fn live_through(seed: u64, hints: bool) {
    let mut sim = Sim::stopped(seed);
    sim.more = Some(FakeSource::new(Source::Http));
    sim.files.push([]);
    sim.more.iter().for_each(|more| more.push([]));
    sim.runtime.set_hints(hints);
    sim.runtime.set_faults(Faults::MANY);
    for init in ["init-0", "init-1"] {
        sim.runtime.script(init, [Behaviour::exits_after(Duration::from_millis(700), 0)]);
    }
    sim.runtime.script("helper", [Behaviour::runs().on_term(Duration::from_secs(3), 143)]);
    sim.runtime.script("side-1", [Behaviour::runs().ignores_term()]);
    sim.start().await;
    for _ in 0..HAPPENINGS {
        happen(&mut sim).await;
        let pause = sim.rng.below(3000);
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(pause / 3)).await;
            sim.watch_laws().await;
        }
    }
    end_all_trouble(&sim);
    // Whatever waits for its back-off, or for an image's, does so for five minutes at most; a clock that is an hour ahead
    // of the runtime's makes no difference to that.
    sim.until(1800, "the world to be as desired", is_as_desired).await;
    sim.watch_laws().await;
    assert_eq!(sim.view().await.job_panics, 0, "SIM_SEED={seed}");
    sim.print_longest_hold_up();
}

#[tokio::test(start_paused = true)]
async fn a_long_day_of_everything_breaks_no_law_and_converges() {
    for seed in seeds() {
        live_through(seed, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_day_without_events_breaks_no_law_and_converges() {
    for seed in seeds() {
        live_through(seed, false).await;
    }
}

/// A day on which hardly anything is slow, but pods come and go faster than they can be started.
#[tokio::test(start_paused = true)]
async fn pods_that_come_and_go_faster_than_they_start_leave_nothing() {
    for seed in 0..6 {
        let mut sim = Sim::seeded(seed).await;
        sim.runtime.set_latency(Duration::from_millis(30));
        for _ in 0..200 {
            let name = format!("p{}", sim.rng.below(3));
            if sim.rng.below(2) == 0 {
                sim.files.put(static_pod(&name).uid(&name).build());
            } else {
                sim.files.take_away(&name);
            }
            let pause = sim.rng.below(60);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            sim.watch_laws().await;
        }
        sim.files.push([]);
        sim.until(120, "nothing to be left", async |sim| {
            sim.runtime.world().is_empty() && sim.view().await.pods.is_empty()
        })
        .await;
        let leaks = sim.leaks(&sim.view().await);
        assert!(leaks.is_empty(), "SIM_SEED={seed}: {leaks:#?}");
    }
}
