//! Sends spans to a collector of OpenTelemetry, over OTLP with gRPC (TRC-01).
//!
//! Spans wait in the bounded queue of `engine::trace`; this module takes them out in batches. A batch that the collector does
//! not take in time is dropped: no work on this node ever waits for a collector. While there are no spans there is nothing to
//! do, and the collector is dialled by the first batch.
//! upstream: component-base/tracing NewProvider (v1.36); OpenTelemetry's BatchSpanProcessor

mod endpoint;

use std::time::Duration;

use rubelet_engine::clock::Clock;
use rubelet_engine::trace::{EndedSpan, EndedSpans, SpanKind, Value};
use rubelet_proto::otlp;
use rubelet_proto::otlp::trace_service_client::TraceServiceClient;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tracing::{debug, warn};

pub use self::endpoint::{Collector, EndpointError};
use crate::log_limiter::LogLimiter;

/// Most spans of one batch, and how long the first of them waits for others.
/// upstream: OpenTelemetry's DefaultMaxExportBatchSize, DefaultScheduleDelay
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_secs(5);
/// upstream: otlptracegrpc's DefaultTimeout
const EXPORT_WITHIN: Duration = Duration::from_secs(10);
/// At the end of the process the last batch gets less.
const LAST_WITHIN: Duration = Duration::from_secs(1);
const SCOPE: &str = "k8s.io/kubernetes/pkg/kubelet";
/// upstream: cmd/kubelet/app/server.go newTracerProvider (v1.36)
const SERVICE: &str = "kubelet";
/// Longest text of an attribute or of a failure: paths and errors are others' texts.
const LONGEST_TEXT: usize = 1024;

/// Sends spans until cancelled; the last ones are sent then.
pub struct Exporter {
    spans: EndedSpans,
    client: TraceServiceClient<Channel>,
    node: String,
    failures: LogLimiter,
}

impl Exporter {
    /// Sends `spans` of this node to `collector`. Must be called within a tokio runtime.
    pub fn new(spans: EndedSpans, collector: &Collector, node: String, clock: Clock) -> Self {
        let client = TraceServiceClient::new(collector.channel());
        Self { spans, client, node, failures: LogLimiter::new(clock) }
    }

    /// Runs.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            let mut batch = Vec::new();
            let last = tokio::select! {
                biased;
                () = cancel.cancelled() => true,
                taken = self.spans.next(&mut batch, BATCH) => taken == 0,
            };
            let last = last || self.gather(&mut batch, &cancel).await;
            if last {
                let most = BATCH - batch.len();
                self.spans.take(&mut batch, most);
            }
            if !batch.is_empty() {
                self.export(batch, if last { LAST_WITHIN } else { EXPORT_WITHIN }).await;
            }
            if last {
                return;
            }
        }
    }

    /// Waits for more spans, until the batch is full or has waited for long enough; whether it is the last.
    async fn gather(&mut self, batch: &mut Vec<EndedSpan>, cancel: &CancellationToken) -> bool {
        let patience = tokio::time::sleep(GATHER);
        tokio::pin!(patience);
        while batch.len() < BATCH {
            let most = BATCH - batch.len();
            tokio::select! {
                biased;
                () = cancel.cancelled() => return true,
                taken = self.spans.next(batch, most) => if taken == 0 { return true },
                () = &mut patience => return false,
            }
        }
        false
    }

    async fn export(&mut self, batch: Vec<EndedSpan>, within: Duration) {
        let count = batch.len();
        let request = otlp::ExportTraceServiceRequest { resource_spans: vec![self.wire(batch)] };
        let answer = tokio::time::timeout(within, self.client.export(request)).await;
        let problem = match answer {
            Ok(Ok(_)) => None,
            Ok(Err(status)) => Some(status.message().to_owned()),
            Err(_elapsed) => Some(format!("no answer within {within:?}")),
        };
        let full = self.spans.dropped();
        if (problem.is_some() || full > 0)
            && let Some(suppressed) = self.failures.permit()
        {
            let err = problem.unwrap_or_else(|| "the queue was full".to_owned());
            warn!(spans = count, full, err, suppressed, "Spans were dropped: the collector did not take them");
        } else {
            debug!(spans = count, "Sent spans");
        }
    }

    fn wire(&self, batch: Vec<EndedSpan>) -> otlp::ResourceSpans {
        let text = |key: &str, value: &str| key_value(key, Value::Text(value.to_owned().into()));
        let attributes = vec![text("service.name", SERVICE), text("host.name", &self.node)];
        let scope = Some(otlp::InstrumentationScope { name: SCOPE.to_owned() });
        let scope_spans = vec![otlp::ScopeSpans { scope, spans: batch.into_iter().map(span).collect() }];
        otlp::ResourceSpans { resource: Some(otlp::Resource { attributes }), scope_spans }
    }
}

fn span(span: EndedSpan) -> otlp::Span {
    let kind = match span.kind {
        SpanKind::Internal => otlp::SpanKind::Internal,
        SpanKind::Server => otlp::SpanKind::Server,
        SpanKind::Client => otlp::SpanKind::Client,
    };
    let nanos = |time: jiff::Timestamp| u64::try_from(time.as_nanosecond()).unwrap_or_default();
    let status = span.failure.map(|why| otlp::Status { message: cut(why), code: otlp::StatusCode::Error.into() });
    otlp::Span {
        trace_id: span.context.trace.to_be_bytes().into(),
        span_id: span.context.span.to_be_bytes().into(),
        parent_span_id: if span.parent == 0 { Vec::new() } else { span.parent.to_be_bytes().into() },
        name: span.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: nanos(span.began),
        end_time_unix_nano: nanos(span.ended),
        attributes: span.attributes.into_iter().map(|(key, value)| key_value(key, value)).collect(),
        status,
    }
}

fn key_value(key: &str, value: Value) -> otlp::KeyValue {
    let value = match value {
        Value::Text(text) => otlp::any_value::Value::StringValue(cut(text.into_owned())),
        Value::Number(number) => otlp::any_value::Value::IntValue(number),
    };
    otlp::KeyValue { key: key.to_owned(), value: Some(otlp::AnyValue { value: Some(value) }) }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_TEXT));
    text
}

#[cfg(test)]
mod tests;
