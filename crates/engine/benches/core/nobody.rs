//! Who listens to an engine that is measured.

use rubelet_engine::ports::{Events, NodeEvent, PodEvent};

/// Takes everything and keeps nothing, so that what is measured is the engine's.
pub(crate) struct Nobody;

impl Events for Nobody {
    fn record(&self, _event: PodEvent) {}
    fn record_node(&self, _event: NodeEvent) {}
}
