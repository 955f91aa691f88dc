//! When the last shutdown began and ended: on disk, for metrics after the reboot (SHUT-04).

use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use rubelet_core::shutdown::ShutdownTimes;
use tracing::warn;

use super::Work;
use crate::chain::Chain;
use crate::metrics::Metrics;
use crate::ports::Checkpoints;

/// Upstream's name of the file. upstream: nodeshutdown_manager.go localStorageStateFile (v1.36)
const STATE: &str = "graceful_node_shutdown_state";

/// The times of the last shutdown.
pub(super) struct Record {
    checkpoints: Arc<dyn Checkpoints>,
    metrics: Arc<Metrics>,
    times: ShutdownTimes,
}

impl Record {
    pub(super) fn new(checkpoints: Arc<dyn Checkpoints>, metrics: Arc<Metrics>) -> Self {
        metrics.set_shutdown_times(ShutdownTimes::default());
        Self { checkpoints, metrics, times: ShutdownTimes::default() }
    }

    /// Reads what the process before wrote.
    pub(super) async fn load(&mut self) {
        match self.checkpoints.read(STATE).await {
            Ok(Some(text)) => match ShutdownTimes::parse(&text) {
                Some(times) => self.set(times),
                None => warn!(file = STATE, "Cannot read when the last shutdown was"),
            },
            Ok(None) => {}
            Err(err) => warn!(err = %Chain(&err), "Cannot read when the last shutdown was"),
        }
    }

    fn set(&mut self, times: ShutdownTimes) {
        self.times = times;
        self.metrics.set_shutdown_times(times);
    }

    pub(super) fn began(&mut self, at: Timestamp) -> impl Future<Output = Work> + Send + use<> {
        self.set(ShutdownTimes { start: Some(at), end: None });
        self.store()
    }

    pub(super) fn ended(&mut self, at: Timestamp) -> impl Future<Output = Work> + Send + use<> {
        self.set(ShutdownTimes { start: self.times.start, end: Some(at) });
        self.store()
    }

    fn store(&self) -> impl Future<Output = Work> + Send + use<> {
        let (checkpoints, text) = (Arc::clone(&self.checkpoints), self.times.text());
        async move {
            if let Err(err) = checkpoints.write(STATE, &text).await {
                warn!(err = %Chain(&err), "Cannot record the time of the shutdown");
            }
            Work::Done
        }
    }
}
