//! Durations as Go prints them: tools match on `back-off 5m0s`.

use std::fmt::Write as _;
use std::time::Duration;

/// `duration` as Go's `time.Duration` prints itself: `10s`, `1m20s`, `5m0s`, `1.5s`, `300ms`, `0s`.
pub fn go_duration(duration: Duration) -> String {
    let secs = duration.as_secs();
    let nanos = duration.subsec_nanos();
    if secs == 0 {
        return match nanos {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => format!("{}µs", fraction(u64::from(nanos / 1_000), nanos % 1_000, 3)),
            _ => format!("{}ms", fraction(u64::from(nanos / 1_000_000), nanos % 1_000_000, 6)),
        };
    }
    let (hours, minutes) = (secs / 3600, secs / 60 % 60);
    let mut out = String::new();
    if hours > 0 {
        // Writing to a string cannot fail.
        let _ = write!(out, "{hours}h");
    }
    if secs >= 60 {
        let _ = write!(out, "{minutes}m");
    }
    let _ = write!(out, "{}s", fraction(secs % 60, nanos, 9));
    out
}

/// `whole.part`, where `part` has `digits` digits, without trailing zeros.
fn fraction(whole: u64, part: u32, digits: usize) -> String {
    let text = format!("{whole}.{part:0digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
