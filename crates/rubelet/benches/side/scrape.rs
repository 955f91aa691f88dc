//! Memory and CPU of the agent while monitoring reads its pages, as Prometheus and metrics-server do every 15 s.

use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::sleep;

use crate::bench::Bench;
use crate::raw::Phase;

/// What Prometheus reads, with the scrape configuration that most clusters have, and what metrics-server reads.
const PAGES: [&str; 5] = ["/metrics", "/metrics/cadvisor", "/metrics/probes", "/metrics/resource", "/metrics/resource"];
/// The seconds between two scrapes of one page.
const EVERY: u64 = 15;

impl Bench {
    /// Watches the agent while its pages are read. The first round is over before the window begins: what is measured is the
    /// cost of going on.
    pub(crate) async fn scraped(&mut self, case: &str, window: Duration) -> anyhow::Result<()> {
        let _phase = Phase::begin(&format!("{case} pods, scraped every {EVERY} s for {window:?}"));
        for page in PAGES {
            let status =
                self.place.curl().arg(self.place.page(page)).stdout(Stdio::null()).status().context("run curl")?;
            ensure!(status.success(), "the agent does not serve {page}");
        }
        let mut reader = self.reader(window)?;
        sleep(Duration::from_secs(1)).await;
        let watched = self.watched(&format!("{case}-scraped"), window).await;
        reader.kill().context("stop curl")?;
        reader.wait().context("wait for curl")?;
        watched
    }

    /// One client that keeps its connection, and reads the pages one after another at an even pace.
    fn reader(&self, window: Duration) -> anyhow::Result<Child> {
        let per_minute = 60 * u64::try_from(PAGES.len())? / EVERY;
        let rounds = usize::try_from(window.as_secs() / EVERY + 1)?;
        let mut curl = self.place.curl();
        curl.args(["--rate", &format!("{per_minute}/m")]);
        for page in PAGES.iter().cycle().take(PAGES.len() * rounds) {
            curl.args(["-o", "/dev/null"]).arg(self.place.page(page));
        }
        curl.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("run curl")
    }
}
