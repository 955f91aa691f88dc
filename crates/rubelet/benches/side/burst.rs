//! Create → Running, Ready; delete → gone: one pod after another, and many at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rubelet_cluster::api::DeleteOptions;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::bench::Bench;
use crate::plan::{Burst, PATIENCE, QUIET, between};
use crate::process::{cpu_ticks, forget_peak, peak};
use crate::raw::Phase;
use crate::traffic::Traffic;

/// Requests to the API server at a time: all of a burst are asked for within a second.
const REQUESTS: usize = 16;
/// Events and the last status are written by then, and count.
const AFTERMATH: Duration = Duration::from_secs(3);

/// Pods, and when each was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) names: Vec<String>,
    at: Vec<Instant>,
}

impl Asked {
    fn since(&self, seen: &[Instant]) -> Vec<Duration> {
        self.at.iter().zip(seen).map(|(asked, seen)| seen.saturating_duration_since(*asked)).collect()
    }

    /// From the first request to the last pod.
    fn all(&self, seen: &[Instant]) -> Duration {
        let (first, last) = (self.at.iter().min(), seen.iter().max());
        first.zip(last).map(|(first, last)| last.saturating_duration_since(*first)).unwrap_or_default()
    }
}

impl Bench {
    /// Asks for pods, all at once.
    pub(crate) async fn create(&self, pods: Vec<(String, Value)>) -> anyhow::Result<Asked> {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let turns = Arc::new(Semaphore::new(REQUESTS));
        let mut calls = JoinSet::new();
        for (name, pod) in pods {
            let (client, path, turns) = (self.client.clone(), path.clone(), Arc::clone(&turns));
            calls.spawn(async move {
                let _turn = turns.acquire_owned().await.context("a turn")?;
                let at = Instant::now();
                let _made: Value = client.create(&path, &pod).await.with_context(|| format!("create pod {name}"))?;
                anyhow::Ok((name, at))
            });
        }
        asked(calls).await
    }

    /// Asks for the end of pods, all at once, and waits until they are gone.
    pub(crate) async fn delete(&self, pods: &Asked) -> anyhow::Result<(Asked, Vec<Instant>)> {
        let turns = Arc::new(Semaphore::new(REQUESTS));
        let mut calls = JoinSet::new();
        for name in pods.names.clone() {
            let (client, path, turns) = (self.client.clone(), self.path("pods", &name), Arc::clone(&turns));
            calls.spawn(async move {
                let _turn = turns.acquire_owned().await.context("a turn")?;
                let at = Instant::now();
                client.delete(&path, &DeleteOptions::default()).await.with_context(|| format!("delete pod {name}"))?;
                anyhow::Ok((name, at))
            });
        }
        let asked = asked(calls).await?;
        let gone = self.sight.all(&asked.names, "pods to be gone", PATIENCE, |seen| seen.gone).await?;
        Ok((asked, gone))
    }

    pub(crate) async fn running(&self, asked: &Asked) -> anyhow::Result<Vec<Instant>> {
        self.sight.all(&asked.names, "pods to run", PATIENCE, |seen| seen.running).await
    }

    pub(crate) async fn ready(&self, asked: &Asked) -> anyhow::Result<Vec<Instant>> {
        self.sight.all(&asked.names, "pods to be ready", PATIENCE, |seen| seen.ready).await
    }

    /// One pod after another, with a grace of 1 s and of 30 s by turns.
    pub(crate) async fn singles(&mut self) -> anyhow::Result<()> {
        let _phase = Phase::begin("1 pod: create, delete");
        let (mut running, mut ready) = (Vec::new(), Vec::new());
        let mut gone = [("1-grace1", 1, Vec::new()), ("1-grace30", 30, Vec::new())];
        for n in 0..self.plan.singles {
            let Some((_, grace, ends)) = gone.get_mut(n % 2) else { continue };
            let grace = *grace;
            let pod = self.named_pods(1, |pods, name| pods.idle(name, grace));
            let made = self.create(pod).await?;
            let when = self.ready(&made).await?;
            ready.extend(made.since(&when));
            running.extend(made.since(&self.running(&made).await?));
            sleep(between(n)).await;
            let (asked, when) = self.delete(&made).await?;
            ends.extend(asked.since(&when));
            // An agent may delete a pod from the API before its dead containers are removed: the next burst waits for that.
            sleep(QUIET).await;
        }
        self.raw.times("create-running", "1", &running);
        self.raw.times("create-ready", "1", &ready);
        for (case, _, ends) in &gone {
            self.raw.times("delete-gone", case, ends);
        }
        Ok(())
    }

    /// Many at once, and all that is measured while they are there.
    pub(crate) async fn burst(&mut self, burst: &Burst) -> anyhow::Result<()> {
        let case = burst.pods.to_string();
        for (n, grace) in burst.graces.iter().enumerate() {
            let phase = Phase::begin(&format!("{case} pods: create, grace {grace} s"));
            let pods = self.named_pods(burst.pods, |pods, name| pods.idle(name, *grace));
            let largest = burst.pods == 100;
            let counted = largest && burst.delete;
            let mut traffic = counted.then(|| Traffic::start(&self.place, self.agent.pid)).transpose()?;
            forget_peak(self.agent.pid);
            let before = cpu_ticks(self.agent.pid)?;
            let made = self.create(pods).await?;
            let ready = self.ready(&made).await?;
            let cpu = cpu_ticks(self.agent.pid)?.saturating_sub(before);
            let running = self.running(&made).await?;
            self.raw.times("create-running", &case, &made.since(&running));
            self.raw.times("create-ready", &case, &made.since(&ready));
            self.raw.times("create-ready-all", &case, &[made.all(&ready)]);
            if let Some(traffic) = &mut traffic {
                sleep(AFTERMATH).await;
                traffic.pause()?;
            }
            if largest {
                self.raw.value("cpu-burst", &case, "s", cpu.as_secs_f64());
                self.raw.value("rss-peak", "burst", "MiB", peak(self.agent.pid)?);
            }
            drop(phase);
            if n == 0 && burst.idle {
                let window = if largest { self.plan.long_window } else { self.plan.window };
                self.idle(&case, window).await?;
                if largest {
                    self.scraped(&case, self.plan.scrape_window).await?;
                }
            }
            if n == 0 && burst.restart {
                self.restart(&made).await?;
            }
            if burst.delete {
                if n == 0 && burst.restart {
                    self.hush().await?;
                }
                self.ends(burst.pods, *grace, &made, traffic).await?;
            }
        }
        Ok(())
    }

    async fn ends(&mut self, pods: usize, grace: u32, made: &Asked, traffic: Option<Traffic>) -> anyhow::Result<()> {
        let _phase = Phase::begin(&format!("{pods} pods: delete, grace {grace} s"));
        let mut traffic = traffic;
        if let Some(traffic) = &mut traffic {
            traffic.resume(self.agent.pid)?;
        }
        let (asked, gone) = self.delete(made).await?;
        let case = format!("{pods}-grace{grace}");
        self.raw.times("delete-gone", &case, &asked.since(&gone));
        self.raw.times("delete-gone-all", &case, &[asked.all(&gone)]);
        if let Some(mut traffic) = traffic {
            sleep(AFTERMATH).await;
            traffic.pause()?;
            let count = f64::from(u32::try_from(pods)?);
            self.raw.value("api-requests", "100", "count", traffic.requests()? / count);
            self.raw.value("api-bytes", "100", "KiB", traffic.kib() / count);
        }
        Ok(())
    }
}

async fn asked(mut calls: JoinSet<anyhow::Result<(String, Instant)>>) -> anyhow::Result<Asked> {
    let mut all = Asked::default();
    while let Some(call) = calls.join_next().await {
        let (name, at) = call.context("a request was lost")??;
        all.names.push(name);
        all.at.push(at);
    }
    Ok(all)
}
