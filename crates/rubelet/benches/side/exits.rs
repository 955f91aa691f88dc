//! Exit of a container → its status at the watch; exit → restarted.
//!
//! The exit is ours: the container's process is killed on the host, and the clock runs from `kill(2)`.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::agent::signal;
use crate::bench::Bench;
use crate::burst::Asked;
use crate::plan::PATIENCE;
use crate::process::with_argument;
use crate::raw::Phase;
use crate::sight::Seen;

/// Seconds that nobody else sleeps for; each container's are one more than those of the one before.
const SECONDS: u32 = 71_000_000;

impl Bench {
    pub(crate) async fn exits(&mut self) -> anyhow::Result<()> {
        self.killed("exit-status", self.plan.exits, "Never", |seen| seen.ended).await?;
        self.killed("exit-restarted", self.plan.restarts, "Always", |seen| seen.restarted).await
    }

    /// Kills containers one after another, and waits until each is seen.
    async fn killed(
        &mut self,
        figure: &str,
        count: usize,
        restart: &str,
        seen: impl Fn(&Seen) -> Option<Instant> + Copy,
    ) -> anyhow::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let _phase = Phase::begin(figure);
        let mut pods = Vec::new();
        let mut asleep = Vec::new();
        for n in 0..u32::try_from(count)? {
            let (name, seconds) = (self.new_name("exit"), (SECONDS + n).to_string());
            pods.push((name.clone(), self.pods.sleeper(&name, &seconds, restart)));
            asleep.push((name, seconds));
        }
        let made: Asked = self.create(pods).await?;
        self.ready(&made).await?;
        let mut times = Vec::new();
        for (n, (name, seconds)) in (0..).zip(&asleep) {
            // What starts a pod has come to rest, and the kill is not in step with what happens once per second.
            sleep(Duration::from_millis(700 + 130 * (n % 8))).await;
            let &[pid] = with_argument(seconds).as_slice() else { bail!("no single process sleeps for {seconds} s") };
            let killed = Instant::now();
            signal(pid, Signal::KILL)?;
            let shown = self.sight.all(std::slice::from_ref(name), "an exit in the status", PATIENCE, seen).await?;
            times.extend(shown.iter().map(|at| at.saturating_duration_since(killed)));
        }
        self.raw.times(figure, "1", &times);
        self.delete(&made).await.context("clean up")?;
        Ok(())
    }
}
