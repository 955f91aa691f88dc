//! When the last shutdown began and ended, in the words of upstream's file (SHUT-04).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Go's time of nothing.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// When the last graceful shutdown began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownTimes {
    /// When it began.
    pub start: Option<Timestamp>,
    /// When it ended; `None` while it goes on, or if the machine went down before.
    pub end: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    start_time: String,
    end_time: String,
}

impl ShutdownTimes {
    /// As the file has it. upstream: nodeshutdown/storage.go (v1.36)
    pub fn text(&self) -> String {
        let text = |time: Option<Timestamp>| time.map_or_else(|| NEVER.to_owned(), |time| time.to_string());
        let file = serde_json::json!({"startTime": text(self.start), "endTime": text(self.end)});
        file.to_string()
    }

    /// From the file; `None` if it is no such file.
    pub fn parse(text: &str) -> Option<Self> {
        let File { start_time, end_time } = serde_json::from_str(text).ok()?;
        let time = |text: &str| match text {
            NEVER => Some(None),
            text => text.parse().ok().map(Some),
        };
        Some(Self { start: time(&start_time)?, end: time(&end_time)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_upstreams() {
        let start: Timestamp = "2026-11-18T12:00:00.5Z".parse().expect("a time");
        let times = ShutdownTimes { start: Some(start), end: None };
        assert_eq!(times.text(), r#"{"endTime":"0001-01-01T00:00:00Z","startTime":"2026-11-18T12:00:00.5Z"}"#);
        assert_eq!(ShutdownTimes::parse(&times.text()), Some(times));
        let of_go = r#"{"startTime":"2026-11-18T13:00:00.5+01:00","endTime":"0001-01-01T00:00:00Z"}"#;
        assert_eq!(ShutdownTimes::parse(of_go), Some(times));
        for bad in ["", "{}", "[]", r#"{"startTime":"x","endTime":"y"}"#] {
            assert_eq!(ShutdownTimes::parse(bad), None, "{bad}");
        }
    }
}
