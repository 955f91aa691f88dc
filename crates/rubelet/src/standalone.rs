//! Without an API server: events go to the log, statuses are asked for on the local socket.
use rubelet_engine::ports::{Events, PodEvent, StatusReport, StatusSink};
#[derive(Debug, Default)]
pub(crate) struct LogEvents;
impl Events for LogEvents {
    fn record(&self, e: PodEvent) {
        tracing::info!(reason=%e.reason, "{}", e.message);
    }
}
#[derive(Debug)]
pub(crate) struct NoStatus;
impl StatusSink for NoStatus {
    fn report(&self, _r: StatusReport) {}
}
