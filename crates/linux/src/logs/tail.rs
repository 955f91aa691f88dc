//! The end of a log, for a container without a termination message (RT-110).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::format::parse_line;

/// How much is read at a time, from the end of the file.
const BLOCK: u64 = 16 * 1024;

/// The most that is read: the container decides the length of its lines.
const MAX_SCAN: u64 = 2 * 1024 * 1024;

/// The last `lines` lines of the container's output, at most the last `bytes` bytes of that.
///
/// A part of a long line counts as a line, as upstream counts it. Malformed lines are skipped; if all are malformed,
/// the file is not a log.
/// upstream: kuberuntime_container.go readLastStringFromContainerLogs, cri-client/pkg/logs/tail.go (v1.36)
pub(super) fn tail(file: &mut File, lines: usize, bytes: usize) -> io::Result<Vec<u8>> {
    let raw = last_lines(file, lines)?;
    let mut out = Vec::new();
    let mut understood = false;
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        if let Some(line) = parse_line(line) {
            understood = true;
            out.extend_from_slice(&line.text);
        }
    }
    if !understood && !raw.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "unsupported log format"));
    }
    let start = out.len().saturating_sub(bytes);
    out.drain(..start);
    Ok(out)
}

/// The end of the file, from the `lines`-th newline from the end.
fn last_lines(file: &mut File, lines: usize) -> io::Result<Vec<u8>> {
    let mut start = file.metadata()?.len();
    let stop = start.saturating_sub(MAX_SCAN);
    let mut newlines = 0;
    let mut blocks = Vec::new();
    while start > stop && newlines <= lines {
        let from = start.saturating_sub(BLOCK).max(stop);
        file.seek(SeekFrom::Start(from))?;
        let mut block = Vec::new();
        Read::by_ref(file).take(start - from).read_to_end(&mut block)?;
        newlines += block.iter().filter(|byte| **byte == b'\n').count();
        blocks.push(block);
        start = from;
    }
    let raw: Vec<u8> = blocks.into_iter().rev().flatten().collect();
    // If the scan stopped at the bound, the first line has lost its beginning.
    let too_many = newlines.saturating_sub(lines).max(usize::from(start > 0 && newlines > 0));
    let skipped: usize = raw.split_inclusive(|byte| *byte == b'\n').take(too_many).map(<[u8]>::len).sum();
    Ok(raw.get(skipped..).unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn log(content: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    fn line(text: &str) -> String {
        format!("2016-10-06T00:17:09.669794202Z stdout {text}\n")
    }

    #[test]
    fn rt_110_the_last_lines_and_bytes() {
        let three = [line("F one"), line("F two"), line("F three")].concat();
        for (content, lines, bytes, expected) in [
            ("", 80, 2048, ""),
            (&*three, 80, 2048, "one\ntwo\nthree\n"),
            (&*three, 2, 2048, "two\nthree\n"),
            (&*three, 0, 2048, ""),
            (&*three, 80, 7, "\nthree\n"),
            (&*[line("P long "), line("F line"), line("F next")].concat(), 80, 100, "long line\nnext\n"),
            (&*[line("P long "), line("F line"), line("F next")].concat(), 2, 100, "line\nnext\n"),
            (&*[line("F whole"), "2016-10-06T00:17:09Z stdout F cut o".to_owned()].concat(), 80, 100, "whole\ncut o"),
            (&*["garbage\n".to_owned(), line("F good")].concat(), 80, 100, "good\n"),
        ] {
            let got = tail(&mut log(content), lines, bytes).unwrap();
            assert_eq!(String::from_utf8(got).unwrap(), expected, "{content:?} {lines} {bytes}");
        }
    }

    #[test]
    fn a_file_that_is_not_a_log_is_an_error() {
        assert_eq!(tail(&mut log("text\n"), 80, 100).unwrap_err().to_string(), "unsupported log format");
    }

    #[test]
    fn lines_over_many_blocks_and_a_line_beyond_the_bound() {
        let many: String = (0..5_000).map(|i| line(&format!("F {i}"))).collect();
        let got = tail(&mut log(&many), 80, 1 << 20).unwrap();
        let expected: String = (4_920..5_000).map(|i| format!("{i}\n")).collect();
        assert_eq!(String::from_utf8(got).unwrap(), expected);

        let endless = [line(&format!("F {}", "x".repeat(3 << 20))), line("F end")].concat();
        assert_eq!(tail(&mut log(&endless), 80, 100).unwrap(), b"end\n");
    }
}
