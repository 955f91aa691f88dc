//! From the bytes of a log to the bytes for its reader: selects lines, formats them, and applies the limits.
//! upstream: cri-client/pkg/logs/logs.go ReadLogs, logWriter.write (v1.36)

use std::io;

use rubelet_engine::ports::{LogStreams, LogWish};

use super::format::{Stream, parse_line, split_cri};

/// The most of an unfinished line that is buffered. Runtimes cut lines at 16 KiB unless they are configured otherwise.
/// The text of a longer line in CRI's format is passed on as it arrives; a longer line in another format is not a log.
/// Each reader may hold this much, and the node's API bounds the number of readers.
const MAX_BUFFERED: usize = 128 * 1024;

/// Consumes a log piece by piece.
#[derive(Debug)]
pub(super) struct Lines {
    wish: LogWish,
    /// Lines that may still be returned. Only a log that is not followed counts them: its output must not grow while it
    /// is read.
    lines_left: Option<u64>,
    bytes_left: Option<u64>,
    /// The next text begins a line: the parts of a long line share one timestamp.
    at_start: bool,
    /// A line was parsed, so the file is a log.
    is_log: bool,
    /// The beginning of an unfinished line.
    rest: Vec<u8>,
    /// A long line whose beginning was passed on already.
    long: Option<LongLine>,
}

#[derive(Clone, Copy, Debug)]
struct LongLine {
    wanted: bool,
    /// See [`super::format::CriLine::partial`].
    partial: bool,
}

impl Lines {
    pub(super) fn new(wish: LogWish) -> Self {
        Self {
            lines_left: wish.tail_lines.filter(|_| !wish.follow),
            bytes_left: wish.limit_bytes,
            wish,
            at_start: true,
            is_log: false,
            rest: Vec::new(),
            long: None,
        }
    }

    /// The limit is reached: nothing more will be returned.
    pub(super) fn limit_reached(&self) -> bool {
        self.lines_left == Some(0) || self.bytes_left == Some(0)
    }

    /// The reader's bytes for the next piece of the log.
    pub(super) fn feed(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(piece.len());
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if let Some(long) = self.long {
                self.continue_long(long, part, &mut out);
            } else if part.last() != Some(&b'\n') {
                self.rest.extend_from_slice(part);
                if self.rest.len() > MAX_BUFFERED {
                    self.begin_long(&mut out)?;
                }
            } else if self.rest.is_empty() {
                self.line(part, &mut out)?;
            } else {
                let mut line = std::mem::take(&mut self.rest);
                line.extend_from_slice(part);
                self.line(&line, &mut out)?;
            }
        }
        Ok(out)
    }

    /// The file has ended: the last line will not be completed any more.
    pub(super) fn end(&mut self) -> io::Result<Vec<u8>> {
        let (mut out, line) = (Vec::new(), std::mem::take(&mut self.rest));
        if self.long.take().is_some() {
            self.line_is_over();
        }
        if !line.is_empty() {
            self.line(&line, &mut out)?;
        }
        Ok(out)
    }

    fn line(&mut self, raw: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if self.limit_reached() {
            return Ok(());
        }
        let Some(line) = parse_line(raw) else {
            // The first line shows whether this is a log; a malformed line later on is skipped.
            return if self.is_log { Ok(()) } else { Err(invalid("unsupported log format")) };
        };
        self.is_log = true;
        if self.is_selected(line.at, line.stream) {
            let prefix = self.prefix(raw, line.at);
            self.append(&[prefix.as_bytes(), &line.text], out);
        }
        self.line_is_over();
        self.at_start = line.text.last().is_none_or(|byte| *byte == b'\n');
        Ok(())
    }

    /// Passes on the beginning of a line that is too long to be buffered.
    fn begin_long(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let raw = std::mem::take(&mut self.rest);
        let line = split_cri(&raw).ok_or_else(|| invalid("a line is too long"))?;
        self.is_log = true;
        let wanted = !self.limit_reached() && self.is_selected(line.at, line.stream);
        if wanted {
            let prefix = self.prefix(&raw, line.at);
            self.append(&[prefix.as_bytes(), line.text], out);
        }
        self.at_start = false;
        self.long = Some(LongLine { wanted, partial: line.partial });
        Ok(())
    }

    /// Passes on the next part of a long line.
    fn continue_long(&mut self, long: LongLine, part: &[u8], out: &mut Vec<u8>) {
        let (text, over) = match part.strip_suffix(b"\n") {
            Some(text) if long.partial => (text, true),
            Some(_) => (part, true),
            None => (part, false),
        };
        if long.wanted {
            self.append(&[text], out);
        }
        if over {
            self.long = None;
            self.line_is_over();
            self.at_start = !long.partial;
        }
    }

    /// Appends to the reader's bytes, up to the limit.
    fn append(&mut self, texts: &[&[u8]], out: &mut Vec<u8>) {
        let before = out.len();
        texts.iter().for_each(|text| out.extend_from_slice(text));
        if let Some(left) = &mut self.bytes_left {
            let most = usize::try_from(*left).unwrap_or(usize::MAX);
            out.truncate(before.saturating_add(most));
            *left = left.saturating_sub(u64::try_from(out.len() - before).unwrap_or(u64::MAX));
        }
    }

    fn line_is_over(&mut self) {
        if let Some(left) = &mut self.lines_left {
            *left = left.saturating_sub(1);
        }
    }

    fn prefix(&self, raw: &[u8], at: jiff::Timestamp) -> String {
        if self.wish.timestamps && self.at_start { time_prefix(raw, at) } else { String::new() }
    }

    fn is_selected(&self, at: jiff::Timestamp, stream: Stream) -> bool {
        self.wish.since.is_none_or(|since| at >= since) && self.wants(stream)
    }

    fn wants(&self, stream: Stream) -> bool {
        match self.wish.streams {
            LogStreams::All => true,
            LogStreams::Stdout => stream == Stream::Stdout,
            LogStreams::Stderr => stream == Stream::Stderr,
        }
    }
}

/// The line's timestamp with nine fractional digits, in the time zone in which the runtime wrote it.
/// upstream: cri-client/pkg/logs/logs.go RFC3339NanoFixed (v1.36)
fn time_prefix(raw: &[u8], at: jiff::Timestamp) -> String {
    let written = raw.split(|byte| *byte == b' ').next().and_then(|word| std::str::from_utf8(word).ok());
    written.and_then(fixed).unwrap_or_else(|| format!("{at:.9} "))
}

fn fixed(written: &str) -> Option<String> {
    let (time, zone) = written.split_at_checked(written.rfind(['Z', '+', '-'])?)?;
    let (second, fraction) = time.split_once('.').unwrap_or((time, ""));
    let plain = second.len() == "2016-10-06T00:17:09".len() && fraction.len() <= 9;
    let zone = if matches!(zone, "+00:00" | "-00:00") { "Z" } else { zone };
    plain.then(|| format!("{second}.{fraction:0<9}{zone} "))
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    /// A reader's output for `log`, fed in pieces of this size.
    fn read(wish: LogWish, log: &[u8], piece: usize) -> String {
        let mut lines = Lines::new(wish);
        let mut all = Vec::new();
        for piece in log.chunks(piece) {
            all.extend(lines.feed(piece).expect("a log"));
            // With as many readers as the API serves, 256 MiB in all.
            let most = 512 * 1024 + 2 * piece.len().saturating_sub(64 * 1024);
            assert!(lines.rest.capacity() <= most, "{} bytes are held", lines.rest.capacity());
        }
        all.extend(lines.end().expect("a log"));
        String::from_utf8(all).expect("text")
    }

    #[test]
    fn a_line_of_any_length_is_returned_whole_with_bounded_memory() {
        let long = "x".repeat(8 * MIB);
        let line = |stream: &str, tag: &str, text: &str| format!("2026-01-01T00:00:01Z {stream} {tag} {text}\n");
        let log = [
            line("stdout", "F", "one"),
            line("stdout", "F", &long),
            line("stderr", "P", &long),
            line("stderr", "F", "end"),
            line("stdout", "F", "last"),
        ]
        .concat();
        for piece in [4096, 64 * 1024, 64 * MIB] {
            let expected = format!("one\n{long}\n{long}end\nlast\n");
            assert!(read(LogWish::default(), log.as_bytes(), piece) == expected, "{piece}");
            let stdout = LogWish { streams: LogStreams::Stdout, ..LogWish::default() };
            assert!(read(stdout, log.as_bytes(), piece) == format!("one\n{long}\nlast\n"), "{piece}");
            let limited = LogWish { limit_bytes: Some(1024 * 1024), ..LogWish::default() };
            assert!(read(limited, log.as_bytes(), piece) == expected[..MIB], "{piece}");
            let first = LogWish { tail_lines: Some(3), ..LogWish::default() };
            assert!(read(first, log.as_bytes(), piece) == format!("one\n{long}\n{long}"), "{piece}");
            let timed = LogWish { timestamps: true, ..LogWish::default() };
            let at = "2026-01-01T00:00:01.000000000Z ";
            let expected = format!("{at}one\n{at}{long}\n{at}{long}end\n{at}last\n");
            assert!(read(timed, log.as_bytes(), piece) == expected, "{piece}");
            let late = LogWish { since: "2026-01-01T00:00:02Z".parse().ok(), ..LogWish::default() };
            assert_eq!(read(late, log.as_bytes(), piece), "");
        }
        // A line cut off by a rotation is returned as it is.
        let cut = &log.as_bytes()[..MIB];
        assert_eq!(read(LogWish::default(), cut, 4096).len(), MIB - 2 * "2026-01-01T00:00:01Z stdout F ".len());
    }

    #[test]
    fn a_long_line_that_is_not_a_log_is_refused_before_it_is_buffered() {
        let mut lines = Lines::new(LogWish::default());
        let refused = (0..).map_while(|_| lines.feed(&[b'{'; 64 * 1024]).ok()).count();
        assert!(refused <= 4, "{refused} pieces were held");
    }
}
