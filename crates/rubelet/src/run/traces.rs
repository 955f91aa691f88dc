//! Traces, if `tracing` is configured (TRC-01).

use std::sync::Arc;

use rubelet_engine::task::TaskGroup;
use rubelet_engine::trace::Tracer;
use rubelet_server::traces::{Collector, Exporter};

use super::{Base, into_anyhow};

/// The tracer of this process, and its exporter among `tasks`.
#[doc(alias = "newTracerProvider")]
pub(super) fn tracer(base: &Base<'_>, node: &str, tasks: &mut TaskGroup) -> anyhow::Result<Tracer> {
    let Some(tracing) = &base.loaded.config.tracing else { return Ok(Tracer::off()) };
    let endpoint = tracing.endpoint.as_deref().unwrap_or_default();
    let collector: Collector = endpoint.parse().map_err(into_anyhow)?;
    let rate = tracing.sampling_rate_per_million.and_then(|rate| u32::try_from(rate).ok()).unwrap_or(0);
    let (tracer, spans) = Tracer::new(rate, Arc::clone(&base.rng), base.clock.clone());
    let exporter = Exporter::new(spans, &collector, node.to_owned(), base.clock.clone());
    tasks.start("traces", exporter.run(tasks.cancel_token()));
    Ok(tracer)
}
