//! The floor: the same pods made by bare calls to containerd, with no agent at all.
//!
//! The calls are those that an agent makes for a pod of the benchmark (see [`asked`]). Nothing is watched, and no status is
//! written. Files are made beforehand, and no token is fetched.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rubelet_core::id::{ContainerId, SandboxId};
use rubelet_core::launch::{ContainerConfig, SandboxConfig};
use rubelet_cri::{Connection, ConnectionOptions, CriRuntime, Endpoint, ListMode, OperationMetrics};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{Containers as _, Sandboxes as _};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::asked::asked;
use crate::place::Place;
use crate::plan::{PATIENCE, Plan, QUIET, between};
use crate::raw::{Phase, Raw};

/// Pods at a time. What gives the best total with the smallest burst is taken for the others.
const AT_A_TIME: [usize; 3] = [2, 4, 8];

struct Floor {
    runtime: Arc<CriRuntime>,
    place: Place,
    count: u32,
}

/// A pod, once its container runs.
struct Made {
    sandbox: SandboxId,
    container: ContainerId,
    span: Span,
}

/// When work on a pod began and ended.
type Span = (Instant, Instant);

/// How long pods took.
struct Times {
    /// From the beginning of all, as if each had been asked for then.
    each: Vec<Duration>,
    /// From the beginning of its own calls.
    own: Vec<Duration>,
    all: Duration,
}

pub(crate) async fn run(place: &Place, mut raw: Raw, plan: &Plan) -> anyhow::Result<()> {
    let socket = format!("unix://{}", place.at("containerd/containerd.sock").display());
    let endpoint: Endpoint = socket.parse().context("the runtime's socket")?;
    let clock = Clock::real();
    let options = ConnectionOptions {
        request_timeout: PATIENCE,
        list_mode: ListMode::Whole,
        metrics: Arc::new(OperationMetrics::default()),
        now: Arc::new(move || clock.mono()),
        tracer: rubelet_engine::trace::Tracer::off(),
        kept: None,
    };
    let runtime = Arc::new(CriRuntime::new(Connection::lazy(&endpoint, options)));
    let mut floor = Floor { runtime, place: place.clone(), count: 0 };
    {
        let _phase = Phase::begin("warm-up");
        floor.burst(plan.warm_up, 1, Duration::ZERO).await?;
    }
    {
        let _phase = Phase::begin("1 pod, by bare calls");
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for n in 0..plan.singles {
            // In the rhythm in which an agent gets them: a runtime that is kept busy answers faster.
            let (made, gone) = floor.burst(1, 1, between(n)).await?;
            starts.extend(made.own);
            ends.extend(gone.own);
            tokio::time::sleep(QUIET).await;
        }
        raw.times("create-ready", "1", &starts);
        raw.times("delete-gone", "1-grace30", &ends);
    }
    let mut tries = AT_A_TIME.to_vec();
    for burst in &plan.bursts {
        let case = burst.pods.to_string();
        let mut best: Option<(usize, Times, Times)> = None;
        for at_a_time in std::mem::take(&mut tries) {
            let _phase = Phase::begin(&format!("{case} pods, by bare calls, {at_a_time} at a time"));
            let (made, gone) = floor.burst(burst.pods, at_a_time, Duration::ZERO).await?;
            println!("      all after {:.0} ms", made.all.as_secs_f64() * 1000.0);
            if best.as_ref().is_none_or(|(_, best, _)| made.all < best.all) {
                best = Some((at_a_time, made, gone));
            }
        }
        let Some((at_a_time, made, gone)) = best else { continue };
        println!("      best with {at_a_time} at a time");
        tries = vec![at_a_time];
        raw.times("create-ready", &case, &made.each);
        raw.times("create-ready-all", &case, &[made.all]);
        raw.times("delete-gone", &format!("{case}-grace30"), &gone.each);
        raw.times("delete-gone-all", &format!("{case}-grace30"), &[gone.all]);
    }
    raw.write()
}

impl Floor {
    /// Makes pods, lets them live for a while and removes them again.
    async fn burst(&mut self, pods: usize, at_a_time: usize, life: Duration) -> anyhow::Result<(Times, Times)> {
        let configs = (0..pods).map(|_| {
            self.count += 1;
            asked(&self.place, self.count)
        });
        let configs = configs.collect::<anyhow::Result<Vec<_>>>()?;
        let turns = Arc::new(Semaphore::new(at_a_time));
        let began = Instant::now();
        let mut calls = JoinSet::new();
        for (sandbox, container) in configs {
            let (runtime, turns) = (Arc::clone(&self.runtime), Arc::clone(&turns));
            calls.spawn(async move {
                let _turn = turns.acquire_owned().await.context("a turn")?;
                make(&runtime, &sandbox, &container).await
            });
        }
        let mut made = Vec::new();
        while let Some(call) = calls.join_next().await {
            made.push(call.context("a pod was lost")??);
        }
        let times = times(began, made.iter().map(|pod| pod.span));
        tokio::time::sleep(life).await;
        let began = Instant::now();
        let mut calls = JoinSet::new();
        for pod in made {
            let (runtime, turns) = (Arc::clone(&self.runtime), Arc::clone(&turns));
            calls.spawn(async move {
                let _turn = turns.acquire_owned().await.context("a turn")?;
                let stopped = stop(&runtime, &pod).await?;
                // An agent deletes a pod from the API before its dead containers are removed.
                runtime.remove_sandbox(&pod.sandbox).await.context("remove a sandbox")?;
                anyhow::Ok(stopped)
            });
        }
        let mut gone = Vec::new();
        while let Some(call) = calls.join_next().await {
            gone.push(call.context("a pod was lost")??);
        }
        Ok((times, self::times(began, gone.into_iter())))
    }
}

async fn make(runtime: &CriRuntime, sandbox: &SandboxConfig, container: &ContainerConfig) -> anyhow::Result<Made> {
    let began = Instant::now();
    let id = runtime.run_sandbox(sandbox).await.context("run a sandbox")?;
    let container = runtime.create_container(&id, container, sandbox).await.context("create a container")?;
    runtime.start_container(&container).await.context("start a container")?;
    Ok(Made { sandbox: id, container, span: (began, Instant::now()) })
}

async fn stop(runtime: &CriRuntime, pod: &Made) -> anyhow::Result<Span> {
    let began = Instant::now();
    runtime.stop_container(&pod.container, Duration::from_secs(30)).await.context("stop a container")?;
    runtime.stop_sandbox(&pod.sandbox).await.context("stop a sandbox")?;
    Ok((began, Instant::now()))
}

fn times(began: Instant, spans: impl Iterator<Item = Span>) -> Times {
    let spans: Vec<Span> = spans.collect();
    let each: Vec<Duration> = spans.iter().map(|(_, end)| end.saturating_duration_since(began)).collect();
    let own = spans.iter().map(|(begin, end)| end.saturating_duration_since(*begin)).collect();
    Times { all: each.iter().max().copied().unwrap_or_default(), each, own }
}
