//! Parsing of one line of a container log (LOG-03).

use jiff::Timestamp;

/// The container's output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When the runtime read the line.
    pub at: Timestamp,
    /// The stream.
    pub stream: Stream,
    /// The text with its newline; a part of a long line (`P`) has none.
    pub text: Vec<u8>,
}

/// Reads a line of CRI's format, `<time> <stream> <P|F>[:tags] <text>`, or of Docker's JSON. `None` if it is neither.
/// upstream: cri-client/pkg/logs/logs.go parseCRILog, parseDockerJSONLog (v1.36)
pub fn parse_line(line: &[u8]) -> Option<LogLine> {
    parse_cri(line).or_else(|| parse_docker(line))
}

fn parse_cri(line: &[u8]) -> Option<LogLine> {
    let CriLine { at, stream, partial, text } = split_cri(line)?;
    let text = if partial { text.strip_suffix(b"\n").unwrap_or(text) } else { text };
    Some(LogLine { at, stream, text: text.to_vec() })
}

/// A line of CRI's format, whose end may be missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct CriLine<'a> {
    pub(super) at: Timestamp,
    pub(super) stream: Stream,
    /// Part of a longer line: the newline was added by the runtime, not written by the container.
    pub(super) partial: bool,
    /// The text after the fields, with the newline if it is there.
    pub(super) text: &'a [u8],
}

pub(super) fn split_cri(line: &[u8]) -> Option<CriLine<'_>> {
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let at = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let stream = stream(fields.next()?)?;
    let partial = fields.next()?.split(|byte| *byte == b':').next() == Some(b"P");
    Some(CriLine { at, stream, partial, text: fields.next()? })
}

#[derive(serde::Deserialize)]
struct DockerLine {
    #[serde(default)]
    log: String,
    #[serde(default)]
    stream: String,
    time: Timestamp,
}

fn parse_docker(line: &[u8]) -> Option<LogLine> {
    let line: DockerLine = serde_json::from_slice(line).ok()?;
    Some(LogLine { at: line.time, stream: stream(line.stream.as_bytes())?, text: line.log.into_bytes() })
}

fn stream(name: &[u8]) -> Option<Stream> {
    match name {
        b"stdout" => Some(Stream::Stdout),
        b"stderr" => Some(Stream::Stderr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_03_lines_of_both_formats() {
        for (line, text) in [
            ("2016-10-06T00:17:09.669794202Z stdout F full\n", Some("full\n")),
            ("2016-10-06T00:17:09.669794202Z stderr P part\n", Some("part")),
            ("2016-10-06T00:17:09.669794202+02:00 stdout F:new:tag with blanks \n", Some("with blanks \n")),
            ("2016-10-06T00:17:09Z stdout P:x y\n", Some("y")),
            ("2016-10-06T00:17:09Z stdout F \n", Some("\n")),
            ("2016-10-06T00:17:09Z stdout F cut off", Some("cut off")),
            (r#"{"log":"json\n","stream":"stderr","time":"2016-10-20T18:39:20.57606443Z"}"#, Some("json\n")),
            ("", None),
            ("\n", None),
            ("2016-10-06T00:17:09Z stdout\n", None),
            ("2016-10-06T00:17:09Z stdin F x\n", None),
            ("yesterday stdout F x\n", None),
            (r#"{"log":"x","stream":"stdout"}"#, None),
            ("plain text that looks like nothing\n", None),
        ] {
            let parsed = parse_line(line.as_bytes()).map(|line| line.text);
            assert_eq!(parsed.as_deref(), text.map(str::as_bytes), "{line:?}");
        }
    }

    #[test]
    fn text_need_not_be_utf_8() {
        let line = parse_line(b"2016-10-06T00:17:09Z stderr F \xff\xfe\n").unwrap();
        assert_eq!((line.stream, &*line.text), (Stream::Stderr, b"\xff\xfe\n".as_slice()));
    }

    proptest::proptest! {
        #[test]
        fn no_log_line_panics(line in proptest::collection::vec(0_u8.., 0..200)) {
            parse_line(&line);
        }
    }
}
