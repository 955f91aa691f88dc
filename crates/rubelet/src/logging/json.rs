//! One JSON object per line, with upstream's keys.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

pub(super) struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        for span in context.event_scope().into_iter().flat_map(tracing_subscriber::registry::Scope::from_root) {
            let extensions = span.extensions();
            let Some(formatted) = extensions.get::<FormattedFields<N>>() else { continue };
            if let Ok(Value::Object(of_span)) = serde_json::from_str(formatted.as_str()) {
                fields.values.extend(of_span);
            }
        }
        event.record(&mut fields);
        write!(out, "{{\"ts\":{:.3}", now_millis())?;
        if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
            write!(out, ",\"caller\":{}", Value::from(format!("{file}:{line}")))?;
        }
        write!(out, ",\"level\":\"{}\"", metadata.level().as_str().to_ascii_lowercase())?;
        if let Some(verbosity) = verbosity(*metadata.level()) {
            write!(out, ",\"v\":{verbosity}")?;
        }
        write!(out, ",\"msg\":{}", Value::from(fields.message))?;
        for (name, value) in fields.values {
            // A field cannot take the place of a key of the line itself.
            let taken = matches!(name.as_str(), "ts" | "caller" | "level" | "v" | "msg");
            let name = if taken { format!("{name}_") } else { name };
            write!(out, ",{}:{value}", Value::from(name))?;
        }
        writeln!(out, "}}")
    }
}

/// klog's number for a level; errors and warnings have none.
const fn verbosity(level: Level) -> Option<u8> {
    match level {
        Level::INFO => Some(0),
        Level::DEBUG => Some(4),
        Level::TRACE => Some(6),
        _ => None,
    }
}

#[expect(clippy::disallowed_methods, reason = "a log line carries the wall time at which it was written")]
fn now_millis() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1000.0)
}

#[derive(Default)]
struct Fields {
    message: String,
    values: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        match (field.name(), value.into()) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => {
                self.values.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}
