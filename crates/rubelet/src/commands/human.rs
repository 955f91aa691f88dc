//! Times and texts for people.

use std::fmt::Write as _;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// A duration in two or three figures, as `kubectl get` shows ages: `90s`, `5m30s`, `7h30m`, `5d4h`.
/// upstream: apimachinery/pkg/util/duration/duration.go HumanDuration (v1.36)
pub(super) fn age(seconds: u64) -> String {
    let two = |(large, word): (u64, char), (small, other): (u64, char)| match (seconds / large, seconds % large / small)
    {
        (whole, 0) => format!("{whole}{word}"),
        (whole, rest) => format!("{whole}{word}{rest}{other}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two((MINUTE, 'm'), (1, 's')),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two((HOUR, 'h'), (MINUTE, 'm')),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two((DAY, 'd'), (HOUR, 'h')),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two((YEAR, 'y'), (DAY, 'd')),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// How long something took: `250 ms`, `1.5 s`, `2m5s`.
pub(super) fn took(seconds: f64) -> String {
    match seconds {
        s if s < 0.0005 => "under 1 ms".to_owned(),
        s if s < 0.9995 => format!("{:.0} ms", s * 1000.0),
        s if s < 60.0 => format!("{s:.1} s"),
        s => age(std::time::Duration::try_from_secs_f64(s).unwrap_or_default().as_secs()),
    }
}

/// CPU in thousandths of a core: `250m`, `2 cores`.
pub(super) fn cpu(millis: i64) -> String {
    match millis {
        1000 => "1 core".to_owned(),
        millis if millis != 0 && millis % 1000 == 0 => format!("{} cores", millis / 1000),
        millis => format!("{millis}m"),
    }
}

/// A size in two or three figures: `512`, `45Mi`, `3.1Gi`.
pub(super) fn bytes(size: i64) -> String {
    const UNITS: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    // Tenths of the unit, rounded to the nearest.
    let (mut unit, mut tenths) = ("", i128::from(size) * 10);
    for next in UNITS {
        if tenths.abs() < 10_240 {
            break;
        }
        (unit, tenths) = (next, (tenths + 512) / 1024);
    }
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, _) if whole >= 10 => format!("{}{unit}", (tenths + 5) / 10),
        (whole, tenth) => format!("{whole}.{tenth}{unit}"),
    }
}

/// `39%`.
pub(super) fn share(part: i64, whole: i64) -> String {
    match i128::from(whole) {
        0 => "-".to_owned(),
        whole => format!("{}%", (i128::from(part) * 100 + whole / 2) / whole),
    }
}

/// Text from a container or a registry, safe for a terminal: control characters are escaped.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.trim_end().chars() {
        match letter {
            '\n' => out.push('\n'),
            '\t' => out.push(' '),
            // Bidirectional marks can make a text read as another.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(out, "{}", letter.escape_unicode());
            }
            letter if letter.is_control() => {
                let _ = write!(out, "{}", letter.escape_default());
            }
            letter => out.push(letter),
        }
    }
    out
}

/// `text` with every line but the first behind `indent` spaces.
pub(super) fn hang(text: &str, indent: usize) -> String {
    clean(text).replace('\n', &format!("\n{:indent$}", ""))
}

#[cfg(test)]
mod tests {
    use super::{age, bytes, clean, cpu, share, took};

    #[test]
    fn ages_are_kubectls() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (27_060, "7h31m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (446_400, "5d4h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(age(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn short_times_have_a_fine_unit() {
        for (seconds, text) in [
            (0.0, "under 1 ms"),
            (0.0123, "12 ms"),
            (0.9996, "1.0 s"),
            (1.54, "1.5 s"),
            (125.0, "2m5s"),
            (-1.0, "under 1 ms"),
        ] {
            assert_eq!(took(seconds), text);
        }
    }

    #[test]
    fn amounts_are_short() {
        for (size, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1Ki"),
            (1536, "1.5Ki"),
            (45 << 20, "45Mi"),
            (3174 << 20, "3.1Gi"),
            (8 << 30, "8Gi"),
            (i64::MAX, "8Ei"),
        ] {
            assert_eq!(bytes(size), text, "{size}");
        }
        assert_eq!([0, 1, 250, 1000, 2000, 2500].map(cpu), ["0m", "1m", "250m", "1 core", "2 cores", "2500m"]);
        assert_eq!([share(1, 0), share(0, 5), share(1, 3), share(7, 5)], ["-", "0%", "33%", "140%"]);
    }

    #[test]
    fn a_text_cannot_command_the_terminal() {
        assert_eq!(clean("\x1b[2Jgone\r\n\u{202e}x\ty\n\n"), "\\u{1b}[2Jgone\\r\n\\u{202e}x y");
    }
}
