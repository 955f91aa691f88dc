//! Splits a watch, which has one JSON object per line, into lines; chunks of the body end anywhere.

/// Splits chunks into lines of at most `limit` bytes.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// Start of the first line that was not returned yet.
    start: usize,
    /// There is no line end before this position.
    searched: usize,
    limit: usize,
}

/// A line exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {limit} bytes")]
pub(super) struct TooLong {
    limit: usize,
}

/// Capacity that an empty buffer keeps: one long line must not hold its memory for ever.
const KEEP: usize = 64 << 10;

impl Lines {
    pub(super) fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, limit }
    }

    pub(super) fn add(&mut self, piece: &[u8]) {
        // Returned lines make room for the new chunk.
        self.buffer.drain(..self.start);
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP {
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(piece);
    }

    /// The next complete line that is not blank.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, TooLong> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                let waiting = self.buffer.len().saturating_sub(self.start);
                return if waiting > self.limit { Err(TooLong { limit: self.limit }) } else { Ok(None) };
            };
            let (start, end) = (self.start, self.searched.saturating_add(end));
            self.start = end.saturating_add(1);
            self.searched = self.start;
            if end.saturating_sub(start) > self.limit {
                return Err(TooLong { limit: self.limit });
            }
            let blank = self.buffer.get(start..end).unwrap_or_default().iter().all(u8::is_ascii_whitespace);
            if !blank {
                return Ok(self.buffer.get(start..end));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `text`, fed in chunks of `size` bytes.
    fn lines(text: &str, size: usize) -> Vec<String> {
        let mut lines = Lines::new(20);
        let mut all = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            lines.add(piece);
            while let Some(line) = lines.next().unwrap() {
                all.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        all
    }

    #[test]
    fn lines_do_not_depend_on_the_chunk_size() {
        for size in 1..30 {
            assert_eq!(
                lines("one\n\ntwo, longer\r\n \nthree\nnot yet", size),
                ["one", "two, longer\r", "three"],
                "{size}"
            );
        }
    }

    #[test]
    fn a_line_without_an_end_is_rejected_when_it_is_too_long() {
        let mut lines = Lines::new(4);
        lines.add(b"1234\n123");
        assert_eq!(lines.next(), Ok(Some(&b"1234"[..])));
        assert_eq!(lines.next(), Ok(None));
        lines.add(b"45");
        assert_eq!(lines.next(), Err(TooLong { limit: 4 }));
    }
}
