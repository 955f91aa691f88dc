//! Memory and CPU of the agent while its pods are idle, or do nothing but answer probes.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::bench::Bench;
use crate::plan::Probing;
use crate::pods::EXEC_DELAY_SECONDS;
use crate::process::{CpuMeter, memory};
use crate::raw::Phase;

/// How often memory and threads are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Pods with probes.
const PROBED: usize = 100;

impl Bench {
    /// Watches the agent once things have settled.
    pub(crate) async fn idle(&mut self, case: &str, window: Duration) -> anyhow::Result<()> {
        let _phase = Phase::begin(&format!("idle with {case} pods, {window:?} after {:?}", self.plan.settle));
        sleep(self.plan.settle).await;
        self.watched(case, window).await
    }

    /// Watches the agent from now on.
    pub(crate) async fn watched(&mut self, case: &str, window: Duration) -> anyhow::Result<()> {
        let pid = self.agent.pid;
        let (mut rss, mut pss) = (Vec::new(), Vec::new());
        let began = Instant::now();
        let mut meter = CpuMeter::start(pid)?;
        let mut looks = 0_u32;
        while began.elapsed() < window {
            sleep(LOOK).await;
            meter.look()?;
            looks += 1;
            // Each look walks the process's page tables: every few seconds is enough.
            if looks % 5 == 1 {
                let now = memory(pid)?;
                rss.push(now.rss);
                pss.push(now.pss);
            }
        }
        let (cpu, took) = (meter.used()?, began.elapsed());
        let mean = |values: &[f64]| {
            let count = u32::try_from(values.len()).unwrap_or(1).max(1);
            values.iter().sum::<f64>() / f64::from(count)
        };
        println!("      memory           {case:<11} rss {:.1}, pss {:.1} MiB", mean(&rss), mean(&pss));
        self.raw.add("rss", case, "MiB", rss);
        self.raw.add("pss", case, "MiB", pss);
        self.raw.value("cpu", case, "%", 100.0 * cpu.as_secs_f64() / took.as_secs_f64());
        Ok(())
    }

    /// 100 pods that are asked every second whether they are ready. The last kind is left to the end of the node.
    pub(crate) async fn probing(&mut self, probing: Probing) -> anyhow::Result<()> {
        let case = match probing {
            Probing::Exec => "100-exec",
            Probing::Http => "100-http",
        };
        let phase = Phase::begin(&format!("{case}: create"));
        let pods = self.named_pods(PROBED, |pods, name| pods.probed(name, probing));
        let made = self.create(pods).await?;
        match probing {
            Probing::Http => drop(self.ready(&made).await?),
            Probing::Exec => {
                self.running(&made).await?;
                sleep(Duration::from_secs(u64::from(EXEC_DELAY_SECONDS))).await;
            }
        }
        drop(phase);
        let window = self.plan.window;
        let phase = Phase::begin(&format!("{case}: probes every second, {window:?} after {:?}", self.plan.settle / 2));
        sleep(self.plan.settle / 2).await;
        let (began, before) = (Instant::now(), self.place.probes());
        self.watched(case, window).await?;
        // The machine may not manage all probes: the cost is to be read together with the rate that was reached.
        if let Some((before, after)) = before.zip(self.place.probes()) {
            self.raw.value("probe-rate", case, "1/s", (after - before) / began.elapsed().as_secs_f64());
        }
        drop(phase);
        if self.plan.probes.last() != Some(&probing) {
            let _phase = Phase::begin(&format!("{case}: delete"));
            self.delete(&made).await?;
        }
        Ok(())
    }
}
