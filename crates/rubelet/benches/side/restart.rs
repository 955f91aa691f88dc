//! Starts of the agent: on an empty node until it is Ready, and under pods until every one is synced.
//!
//! Neither agent has an API that shows when a pod is synced. Both can log it, with verbose logging of that one module, and
//! the benchmark follows the log while they start.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rubelet_cluster::api::DeleteOptions;
use tokio::time::sleep;

use crate::bench::Bench;
use crate::burst::Asked;
use crate::plan::PATIENCE;
use crate::raw::Phase;

/// How often the log is read.
const LOOK: Duration = Duration::from_millis(5);
/// What the restart causes is written by then.
const AFTERMATH: Duration = Duration::from_secs(10);

/// The log line of an agent that has synced a pod, and the flag that makes the agent log it.
struct SyncLine {
    flag: &'static str,
    line: &'static str,
}

impl SyncLine {
    fn of(agent: &str) -> Self {
        match agent {
            // upstream: kubelet.go SyncPod (v1.36): after each sync of a pod.
            "upstream" => Self { flag: "--vmodule=kubelet=4", line: "SyncPod exit" },
            // Also after each sync of a pod, if it went well.
            _ => Self { flag: "--vmodule=workers=4", line: "end=Synced" },
        }
    }
}

impl Bench {
    /// Exec of the agent → its node is Ready, where the node has to be made.
    pub(crate) async fn node_starts(&mut self) -> anyhow::Result<()> {
        let _phase = Phase::begin("agent starts on an empty node");
        let mut times = Vec::new();
        for _ in 0..self.plan.starts {
            self.hold_up().await;
            self.agent.kill().await?;
            let path = format!("/api/v1/nodes/{}", self.place.node());
            self.client.delete(&path, &DeleteOptions::default()).await.context("delete the node")?;
            self.sight.until("the node to be gone", PATIENCE, |world| world.node_ready.is_none().then_some(())).await?;
            let began = self.agent.start(&[])?;
            let ready = self.sight.until("the node to be Ready", PATIENCE, |world| world.node_ready).await?;
            times.push(ready.saturating_duration_since(began));
        }
        self.raw.times("node-ready", "-", &times);
        Ok(())
    }

    /// Kill of the agent under pods, and a start.
    pub(crate) async fn restart(&mut self, pods: &Asked) -> anyhow::Result<()> {
        let _phase = Phase::begin(&format!("restart under {} pods", pods.names.len()));
        let sync_line = SyncLine::of(&self.name);
        let before = self.tally(pods);
        let mut log = self.agent.log()?;
        self.hold_up().await;
        self.agent.kill().await?;
        let began = self.agent.start(&[sync_line.flag])?;
        let mut left: BTreeSet<&str> = pods.names.iter().map(String::as_str).collect();
        let mut synced = began;
        while !left.is_empty() {
            ensure!(synced.duration_since(began) < PATIENCE, "{} pods are not synced after {PATIENCE:?}", left.len());
            sleep(LOOK).await;
            synced = Instant::now();
            for line in log.lines()?.iter().filter(|line| line.contains(sync_line.line)) {
                let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                words.any(|word| left.remove(word));
            }
        }
        sleep(AFTERMATH).await;
        let after = self.tally(pods);
        self.raw.times("restart-synced", "100", &[synced.duration_since(began)]);
        self.raw.value("restart-writes", "100", "count", after.changes - before.changes);
        self.raw.value("restart-flips", "100", "count", after.flips - before.flips);
        self.raw.value("restart-restarts", "100", "count", after.restarts - before.restarts);
        Ok(())
    }

    /// From here on the agent logs no more than it did at first.
    pub(crate) async fn hush(&mut self) -> anyhow::Result<()> {
        let _phase = Phase::begin("restart with the flags that it had");
        self.hold_up().await;
        self.agent.kill().await?;
        self.agent.start(&[])?;
        sleep(AFTERMATH / 2).await;
        Ok(())
    }

    fn tally(&self, pods: &Asked) -> Tally {
        let world = self.sight.world();
        let mut tally = Tally::default();
        for seen in pods.names.iter().filter_map(|name| world.pods.get(name)) {
            tally.changes += f64::from(seen.changes);
            tally.flips += f64::from(seen.flips);
            tally.restarts += f64::from(seen.restarts);
        }
        tally
    }
}

/// What has happened to pods up to now.
#[derive(Default)]
struct Tally {
    changes: f64,
    flips: f64,
    restarts: f64,
}
