//! One JSON object per line, with upstream's keys.

use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::bounded::{Cut, MAX_LINE};

/// Marks the end of a value that was cut.
const CUT: &str = "… (cut)";

/// The lines.
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
            fields.values.extend(object(formatted));
        }
        event.record(&mut fields);
        let place = metadata.file().zip(metadata.line()).map(|(file, line)| format!("{file}:{line}"));
        line(&mut out, *metadata.level(), place.as_deref(), fields)
    }
}

/// A line of this level with nothing but a message.
pub(super) fn message(level: Level, text: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = line(&mut out, level, None, Fields { message: text.to_owned(), ..Fields::default() });
    out
}

fn line(out: &mut dyn fmt::Write, level: Level, place: Option<&str>, fields: Fields) -> fmt::Result {
    write!(out, "{{\"ts\":{:.3}", now_millis())?;
    if let Some(place) = place {
        write!(out, ",\"caller\":{}", Value::from(place))?;
    }
    write!(out, ",\"level\":\"{}\"", level.as_str().to_ascii_lowercase())?;
    if let Some(verbosity) = verbosity(level) {
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

/// The fields of a span, as a JSON object.
pub(super) struct SpanFields;

impl<'w> FormatFields<'w> for SpanFields {
    fn format_fields<R: RecordFields>(&self, mut out: Writer<'w>, fields: R) -> fmt::Result {
        let mut recorded = Fields::default();
        fields.record(&mut recorded);
        write!(out, "{}", Value::Object(recorded.into_object()))
    }

    fn add_fields(&self, current: &'w mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        let mut recorded = Fields { values: object(current), ..Fields::default() };
        fields.record(&mut recorded);
        current.fields = Value::Object(recorded.into_object()).to_string();
        Ok(())
    }
}

fn object<N: ?Sized>(formatted: &FormattedFields<N>) -> Map<String, Value> {
    serde_json::from_str(formatted.as_str()).unwrap_or_default()
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

/// What a span or an event carries, its texts cut so that all of them together have at most [`MAX_LINE`] bytes.
struct Fields {
    message: String,
    values: Map<String, Value>,
    room: usize,
}

impl Default for Fields {
    fn default() -> Self {
        Self { message: String::new(), values: Map::new(), room: MAX_LINE }
    }
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

    fn put_text(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let mut text = String::new();
        let mut cut = Cut::with_room(&mut text, self.room);
        // Writing to a string cannot fail, and an error of a foreign `Debug` must not lose the line.
        let _ = cut.write_fmt(value);
        let left_out = cut.left_out > 0;
        self.room -= text.len();
        if left_out {
            text += CUT;
        }
        self.put(field, text);
    }

    fn into_object(mut self) -> Map<String, Value> {
        if !self.message.is_empty() {
            self.values.insert("message".to_owned(), self.message.into());
        }
        self.values
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_text(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, format_args!("{value}"));
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
