//! The options of a log request.
//! upstream: kubelet/server/server.go getContainerLogs, apis/core/v1/validation ValidatePodLogOptions (v1.36)

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use rubelet_engine::ports::{LogStreams, LogWish};

use super::answers::Refusal;
use crate::url::query_values;

/// The options, and the instance of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogOptions {
    pub(super) wish: LogWish,
    /// The log of the previous instance.
    pub(super) previous: bool,
}

const UNREADABLE: &str = r#"{"message": "Unable to decode query."}"#;
const INVALID: &str = r#"{"message": "Invalid request."}"#;

impl LogOptions {
    pub(super) fn parse(query: Option<&str>, now: Timestamp, split_streams: bool) -> Result<Self, Refusal> {
        let first = |key: &str| query_values(query, key).into_iter().next();
        let unreadable = || (StatusCode::BAD_REQUEST, UNREADABLE.to_owned());
        let invalid = || (StatusCode::UNPROCESSABLE_ENTITY, INVALID.to_owned());
        let number = |key: &str| first(key).map(|text| text.parse::<i64>()).transpose().map_err(|_| unreadable());
        let at_least = |least: i64| {
            move |number: Option<i64>| match number.map(|number| (number >= least, u64::try_from(number))) {
                None => Ok(None),
                Some((true, Ok(number))) => Ok(Some(number)),
                Some(_) => Err(invalid()),
            }
        };

        // `tail` is what older clients send.
        let tail_lines = match first("tail").filter(|tail| !tail.is_empty()).as_deref() {
            Some("all") => None,
            Some(tail) => Some(tail.parse::<i64>().map_err(|_| unreadable())?),
            None => number("tailLines")?,
        };
        let (limit_bytes, since_seconds) = (number("limitBytes")?, number("sinceSeconds")?);
        let since_time = match first("sinceTime").filter(|text| !text.is_empty()) {
            Some(text) => Some(text.parse::<Timestamp>().map_err(|_| unreadable())?),
            None => None,
        };
        let tail_lines = at_least(0)(tail_lines)?;
        let limit_bytes = at_least(1)(limit_bytes)?;
        let since = match (since_seconds, since_time) {
            (Some(_), Some(_)) => return Err(invalid()),
            (Some(seconds), None) if seconds < 1 => return Err(invalid()),
            (Some(seconds), None) => now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
            (None, time) => time,
        };
        let stream = first("stream").filter(|stream| !stream.is_empty());
        let streams = match stream.as_deref() {
            None | Some("All") => LogStreams::All,
            Some("Stdout") if tail_lines.is_none() => LogStreams::Stdout,
            Some("Stderr") if tail_lines.is_none() => LogStreams::Stderr,
            Some(_) => return Err(invalid()),
        };
        if streams != LogStreams::All && !split_streams {
            let why = format!(
                "unable to return the given log stream: {:?}. Please enable PodLogsQuerySplitStreams feature gate in kubelet",
                stream.unwrap_or_default()
            );
            return Err((StatusCode::BAD_REQUEST, why));
        }
        let (follow, timestamps) = (truth(first("follow")), truth(first("timestamps")));
        let wish = LogWish { follow, timestamps, since, tail_lines, limit_bytes, streams };
        Ok(Self { wish, previous: truth(first("previous")) })
    }
}

/// Every value except `0` and `false` is true. upstream: apimachinery/pkg/runtime Convert_Slice_string_To_bool (v1.36)
fn truth(value: Option<String>) -> bool {
    value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_05_every_option_is_parsed_and_validated() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let time = |text: &str| Some(text.parse().unwrap());
        let all = LogWish::default;
        for (query, expected) in [
            ("", Ok(all())),
            ("follow=true&timestamps=true", Ok(LogWish { follow: true, timestamps: true, ..all() })),
            ("follow=1&timestamps=", Ok(LogWish { follow: true, timestamps: true, ..all() })),
            ("follow=false&timestamps=0&follow=true", Ok(all())),
            ("tailLines=0", Ok(LogWish { tail_lines: Some(0), ..all() })),
            ("tailLines=10&tail=5", Ok(LogWish { tail_lines: Some(5), ..all() })),
            ("tailLines=10&tail=all", Ok(all())),
            ("tailLines=-1", Err(422)),
            ("tailLines=many", Err(400)),
            ("tailLines=", Err(400)),
            ("limitBytes=1", Ok(LogWish { limit_bytes: Some(1), ..all() })),
            ("limitBytes=0", Err(422)),
            ("sinceSeconds=60", Ok(LogWish { since: time("2026-01-01T00:00:00Z"), ..all() })),
            ("sinceSeconds=0", Err(422)),
            ("sinceSeconds=9223372036854775807", Ok(all())),
            ("sinceTime=2026-01-01T01:00:00%2B01:00", Ok(LogWish { since: time("2026-01-01T00:00:00Z"), ..all() })),
            ("sinceTime=yesterday", Err(400)),
            ("sinceTime=", Ok(all())),
            ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", Err(422)),
            ("stream=All", Ok(all())),
            ("stream=Stdout", Ok(LogWish { streams: LogStreams::Stdout, ..all() })),
            ("stream=Stderr", Ok(LogWish { streams: LogStreams::Stderr, ..all() })),
            ("stream=Stderr&tailLines=1", Err(422)),
            ("stream=stdin", Err(422)),
            ("container=c&insecureSkipTLSVerifyBackend=true&unknown=1", Ok(all())),
        ] {
            let found = LogOptions::parse(Some(query), now, true);
            assert_eq!(found.map(|options| options.wish).map_err(|(status, _)| status.as_u16()), expected, "{query}");
        }
        assert!(LogOptions::parse(Some("previous=true"), now, false).unwrap().previous);
        let (status, words) = LogOptions::parse(Some("stream=Stdout"), now, false).unwrap_err();
        assert_eq!(status.as_u16(), 400);
        assert!(words.starts_with("unable to return the given log stream: \"Stdout\""), "{words}");
    }
}
