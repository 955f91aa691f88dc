//! Traces: what a request or a job does, as spans, for a collector of OpenTelemetry (TRC-01).
//!
//! A [`Tracer`] makes spans and puts each into a bounded queue when it ends; an exporter in an adapter takes them out. The span
//! of the running task is kept beside the task ([`within`]), so that a call to the runtime finds its parent without an
//! argument. A tracer that is off makes no span, keeps nothing beside a task, and allocates nothing.
//!
//! Invariant: nothing ever waits for the queue; a span that finds it full is dropped and counted.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::ports::Rng;

/// Spans that wait for the exporter. upstream: OpenTelemetry's BatchSpanProcessor, DefaultMaxQueueSize
const QUEUE: usize = 2048;

tokio::task_local! {
    /// The span in which the running task works.
    static CURRENT: SpanContext;
}

/// What identifies a span in other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// Of the whole trace; not zero.
    pub trace: u128,
    /// Of the span; not zero.
    pub span: u64,
    /// The trace is recorded.
    pub sampled: bool,
}

impl SpanContext {
    /// Reads the header `traceparent`. upstream: W3C Trace Context, version 00
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let hex = |text: Option<&str>, length: usize| {
            let text = text.filter(|text| text.len() == length)?;
            let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.bytes().all(lower).then(|| u128::from_str_radix(text, 16).ok()).flatten()
        };
        let version = hex(parts.next(), 2)?;
        let trace = hex(parts.next(), 32).filter(|id| *id != 0)?;
        let span = hex(parts.next(), 16).and_then(|id| u64::try_from(id).ok()).filter(|id| *id != 0)?;
        let flags = hex(parts.next(), 2)?;
        // A later version may have more parts.
        let good = version != 0xff && (version != 0 || parts.next().is_none());
        good.then_some(Self { trace, span, sampled: flags & 1 == 1 })
    }
}

/// As the header `traceparent`.
impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

/// Runs a future in the span `context`; without one, just runs it.
pub async fn within<F: Future>(context: Option<SpanContext>, future: F) -> F::Output {
    match context {
        Some(context) => CURRENT.scope(context, future).await,
        None => future.await,
    }
}

/// The span in which the running task works.
pub fn current() -> Option<SpanContext> {
    CURRENT.try_with(|context| *context).ok()
}

/// On which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work of our own.
    Internal,
    /// A request that this process serves.
    Server,
    /// A call that this process makes.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedSpan {
    /// Which.
    pub context: SpanContext,
    /// The span of which it is a part; zero for the first of a trace.
    pub parent: u64,
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its side.
    pub kind: SpanKind,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// Further facts.
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it failed.
    pub failure: Option<String>,
}

/// Makes spans, or is off. Clones share the queue.
#[derive(Clone, Default)]
pub struct Tracer {
    on: Option<Arc<On>>,
}

struct On {
    /// A new trace is sampled if 63 bits of its id are below this.
    threshold: u64,
    rng: Arc<dyn Rng>,
    clock: Clock,
    queue: mpsc::Sender<EndedSpan>,
    dropped: Arc<AtomicU64>,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("on", &self.on.is_some()).finish()
    }
}

/// Where the spans of a tracer come out.
#[derive(Debug)]
pub struct EndedSpans {
    queue: mpsc::Receiver<EndedSpan>,
    dropped: Arc<AtomicU64>,
}

impl EndedSpans {
    /// Appends up to `most` spans to `batch` once there is one; the answer is how many, 0 after the last tracer is gone.
    /// Cancel-safe.
    pub async fn next(&mut self, batch: &mut Vec<EndedSpan>, most: usize) -> usize {
        self.queue.recv_many(batch, most).await
    }

    /// Appends spans that are there already, up to `most` of them.
    pub fn take(&mut self, batch: &mut Vec<EndedSpan>, most: usize) {
        batch.extend(std::iter::from_fn(|| self.queue.try_recv().ok()).take(most));
    }

    /// How many spans found the queue full since this was last asked.
    pub fn dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

impl Tracer {
    /// A tracer that makes no spans.
    pub fn off() -> Self {
        Self::default()
    }

    /// A tracer that records so many of a million new traces, and what belongs to a trace that is recorded elsewhere.
    pub fn new(per_million: u32, rng: Arc<dyn Rng>, clock: Clock) -> (Self, EndedSpans) {
        let (send, queue) = mpsc::channel(QUEUE);
        let threshold = (1_u64 << 63) / 1_000_000 * u64::from(per_million.min(1_000_000));
        // All of them: the division above loses some.
        let threshold = if per_million >= 1_000_000 { 1 << 63 } else { threshold };
        let dropped = Arc::<AtomicU64>::default();
        let on = On { threshold, rng, clock, queue: send, dropped: Arc::clone(&dropped) };
        (Self { on: Some(Arc::new(on)) }, EndedSpans { queue, dropped })
    }

    /// Whether spans are made at all.
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Begins a span that is the first of a trace, or part of `parent`. `None` if the tracer is off.
    pub fn start(
        &self,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        parent: Option<SpanContext>,
    ) -> Option<Span> {
        let on = self.on.as_ref()?;
        let span = on.id();
        let context = match parent {
            Some(parent) => SpanContext { span, ..parent },
            None => {
                let (high, low) = (on.id(), on.id());
                let sampled = low >> 1 < on.threshold;
                SpanContext { trace: u128::from(high) << 64 | u128::from(low), span, sampled }
            }
        };
        let record = context.sampled.then(|| {
            let began = on.clock.wall();
            Box::new(EndedSpan {
                context,
                parent: parent.map_or(0, |parent| parent.span),
                name: name.into(),
                kind,
                began,
                ended: began,
                attributes: Vec::new(),
                failure: None,
            })
        });
        Some(Span { context, record, on: Arc::clone(on) })
    }
}

impl On {
    /// A number that is not zero.
    fn id(&self) -> u64 {
        self.rng.next().max(1)
    }
}

/// A span that has not ended. It ends when it is dropped.
pub struct Span {
    context: SpanContext,
    /// `None` if the trace is not recorded.
    record: Option<Box<EndedSpan>>,
    on: Arc<On>,
}

impl Span {
    /// What identifies it.
    pub fn context(&self) -> SpanContext {
        self.context
    }

    /// Adds a fact.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(record) = &mut self.record {
            record.attributes.push((key, value.into()));
        }
    }

    /// Marks it as failed.
    pub fn fail(&mut self, why: &dyn fmt::Display) {
        if let Some(record) = &mut self.record {
            record.failure = Some(why.to_string());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.ended = self.on.clock.wall();
            if self.on.queue.try_send(*record).is_err() {
                self.on.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
