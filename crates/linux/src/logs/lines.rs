//! From the bytes of a log to the bytes that a reader of it gets: which lines, in what form, and when it is enough.
//! upstream: cri-client/pkg/logs/logs.go ReadLogs, logWriter.write (v1.36)

use std::io;

use rubelet_engine::ports::{LogStreams, LogWish};

use super::format::{Stream, parse_line};

/// The longest line that is held. Runtimes cut lines at 16 KiB unless told otherwise; what comes after this is no log.
const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// Takes in a log piece by piece.
#[derive(Debug)]
pub(super) struct Lines {
    wish: LogWish,
    /// Lines that may still be given. Only a log that is not followed counts them: it must not grow while it is read.
    lines_left: Option<u64>,
    bytes_left: Option<u64>,
    /// What comes next begins a line: parts of a long one get one time.
    at_start: bool,
    /// A line was understood, so this is a log.
    understood: bool,
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
}

impl Lines {
    pub(super) fn new(wish: LogWish) -> Self {
        Self {
            lines_left: wish.tail_lines.filter(|_| !wish.follow),
            bytes_left: wish.limit_bytes,
            wish,
            at_start: true,
            understood: false,
            rest: Vec::new(),
        }
    }

    /// Nothing more will be given.
    pub(super) fn is_enough(&self) -> bool {
        self.lines_left == Some(0) || self.bytes_left == Some(0)
    }

    /// What the reader gets of the next piece of the log.
    pub(super) fn feed(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(piece.len());
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if part.last() != Some(&b'\n') {
                if self.rest.len() + part.len() > LONGEST_LINE {
                    return Err(invalid("a line is too long"));
                }
                self.rest.extend_from_slice(part);
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

    /// The file has ended: the last line will get no end any more.
    pub(super) fn end(&mut self) -> io::Result<Vec<u8>> {
        let (mut out, line) = (Vec::new(), std::mem::take(&mut self.rest));
        if !line.is_empty() {
            self.line(&line, &mut out)?;
        }
        Ok(out)
    }

    fn line(&mut self, raw: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if self.is_enough() {
            return Ok(());
        }
        let Some(line) = parse_line(raw) else {
            // The first line says whether this is a log; one that is broken later on is left out.
            return if self.understood { Ok(()) } else { Err(invalid("unsupported log format")) };
        };
        self.understood = true;
        let new_enough = self.wish.since.is_none_or(|since| line.at >= since);
        if new_enough && self.wants(line.stream) {
            let before = out.len();
            if self.wish.timestamps && self.at_start {
                out.extend_from_slice(time_prefix(raw, line.at).as_bytes());
            }
            out.extend_from_slice(&line.text);
            if let Some(left) = &mut self.bytes_left {
                let most = usize::try_from(*left).unwrap_or(usize::MAX);
                out.truncate(before.saturating_add(most));
                *left = left.saturating_sub(u64::try_from(out.len() - before).unwrap_or(u64::MAX));
            }
        }
        if let Some(left) = &mut self.lines_left {
            *left = left.saturating_sub(1);
        }
        self.at_start = line.text.last().is_none_or(|byte| *byte == b'\n');
        Ok(())
    }

    fn wants(&self, stream: Stream) -> bool {
        match self.wish.streams {
            LogStreams::All => true,
            LogStreams::Stdout => stream == Stream::Stdout,
            LogStreams::Stderr => stream == Stream::Stderr,
        }
    }
}

/// The line's time with nine digits after the second, in the zone in which the runtime wrote it.
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
