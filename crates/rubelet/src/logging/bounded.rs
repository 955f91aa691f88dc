//! Text lines of bounded length.
//!
//! A field may hold text from a pod, a client or a server: an error, the answer to a probe. The bound applies while the line
//! is formatted, not afterwards, because the buffer is reused and would stay as large as the longest line.

use std::fmt::{self, Write};

use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// Most bytes of a line, or of the fields of one span. journald cuts lines at 48 KiB.
pub(super) const MAX_LINE: usize = 16 * 1024;

/// A formatter whose output is cut.
pub(super) struct Bounded<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for Bounded<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut cut = Cut::new(&mut out);
        self.0.format_event(context, Writer::new(&mut cut), event)?;
        match cut.left_out {
            0 => Ok(()),
            bytes => writeln!(out, "… ({bytes} bytes of this line were cut)"),
        }
    }
}

impl<'w, F> FormatFields<'w> for Bounded<F>
where
    F: for<'a> FormatFields<'a>,
{
    fn format_fields<R: RecordFields>(&self, mut out: Writer<'w>, fields: R) -> fmt::Result {
        let mut cut = Cut::new(&mut out);
        self.0.format_fields(Writer::new(&mut cut), fields)?;
        if cut.left_out > 0 { out.write_str("…") } else { Ok(()) }
    }
}

/// Passes on the first bytes and counts the rest.
pub(super) struct Cut<W> {
    out: W,
    room: usize,
    pub(super) left_out: usize,
}

impl<W: Write> Cut<W> {
    pub(super) fn new(out: W) -> Self {
        Self::with_room(out, MAX_LINE)
    }

    /// With room for so many bytes.
    pub(super) fn with_room(out: W, room: usize) -> Self {
        Self { out, room, left_out: 0 }
    }
}

impl<W: Write> Write for Cut<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.floor_char_boundary(self.room);
        let (now, rest) = text.split_at(fits);
        self.left_out += rest.len();
        // Nothing is passed on after the first cut: later text would look like its continuation.
        self.room = if rest.is_empty() { self.room - fits } else { 0 };
        self.out.write_str(now)
    }
}
