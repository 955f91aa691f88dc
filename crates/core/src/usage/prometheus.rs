//! Prometheus' text format, version 0.0.4.
//!
//! Label values come from users: names of pods, images, cgroups that a container made. Each is escaped and bounded here, and
//! nothing else of a page is ever taken from outside.
//! upstream: prometheus/common expfmt text_create.go (v0.67)

use std::fmt::Write as _;
use std::time::Duration;

/// The most bytes of a label value. The longest that identifies something is a systemd path of 250 bytes.
pub(super) const LONGEST_VALUE: usize = 1024;

/// Appends `name="value"`.
pub(super) fn label(out: &mut String, name: &str, value: &str) {
    if !out.is_empty() && !out.ends_with('{') {
        out.push(',');
    }
    out.push_str(name);
    out.push_str("=\"");
    let end = (0..=LONGEST_VALUE.min(value.len())).rev().find(|at| value.is_char_boundary(*at)).unwrap_or_default();
    let mut rest = value.get(..end).unwrap_or_default();
    while let Some((plain, special, after)) = split_special(rest) {
        out.push_str(plain);
        out.push('\\');
        out.push(special);
        rest = after;
    }
    out.push_str(rest);
    out.push('"');
}

/// What comes before the first character that is escaped, the letter for that one, and what comes after it.
fn split_special(text: &str) -> Option<(&str, char, &str)> {
    let at = text.bytes().position(|byte| matches!(byte, b'\\' | b'"' | b'\n'))?;
    let (plain, rest) = text.split_at_checked(at)?;
    let (special, after) = rest.split_at_checked(1)?;
    Some((plain, if special == "\n" { 'n' } else { special.chars().next()? }, after))
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

/// The value of a sample. Whole numbers stay whole.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Whole(u64),
    Signed(i64),
    Seconds(Duration),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self::Signed(value)
    }
}

impl From<Duration> for Number {
    fn from(value: Duration) -> Self {
        Self::Seconds(value)
    }
}

/// The samples of one family.
pub(super) struct Samples<'a> {
    out: &'a mut String,
    name: &'static str,
    /// A space and the time stamp, or nothing.
    stamp: &'a str,
}

impl Samples<'_> {
    /// Appends a sample. `labels` are written already, `more` come after them.
    pub(super) fn add(&mut self, labels: &str, more: &[(&str, &str)], value: impl Into<Number>) {
        let out = &mut *self.out;
        out.push_str(self.name);
        if !labels.is_empty() || !more.is_empty() {
            out.push('{');
            out.push_str(labels);
            for (name, value) in more {
                label(out, name, value);
            }
            out.push('}');
        }
        out.push(' ');
        match value.into() {
            Number::Whole(value) => whole(out, value),
            Number::Signed(value) => {
                if value < 0 {
                    out.push('-');
                }
                whole(out, value.unsigned_abs());
            }
            Number::Seconds(value) => seconds(out, value),
        }
        out.push_str(self.stamp);
        out.push('\n');
    }
}

/// Appends a number: a page has ten thousands, and the formatter of the language takes several times as long.
fn whole(out: &mut String, value: u64) {
    digits(out, value, 1);
}

/// Appends at least so many digits.
fn digits(out: &mut String, mut value: u64, least: usize) {
    let mut buffer = [b'0'; 20];
    let mut begin = buffer.len();
    for (place, digit) in buffer.iter_mut().enumerate().rev() {
        if value == 0 && 20 - begin >= least {
            break;
        }
        *digit = b'0' + u8::try_from(value % 10).unwrap_or_default();
        value /= 10;
        begin = place;
    }
    out.push_str(buffer.get(begin..).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default());
}

/// Seconds without trailing zeros.
fn seconds(out: &mut String, value: Duration) {
    let nanos = value.subsec_nanos();
    whole(out, value.as_secs());
    if nanos > 0 {
        out.push('.');
        digits(out, nanos.into(), 9);
        out.truncate(out.trim_end_matches('0').len());
    }
}

/// Appends one family, or nothing if it has no sample.
pub(super) fn family(
    out: &mut String,
    (name, kind, help): (&'static str, Kind, &str),
    stamp: &str,
    write: impl FnOnce(&mut Samples<'_>),
) {
    let before = out.len();
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    let head = out.len();
    write(&mut Samples { out, name, stamp });
    if out.len() == head {
        out.truncate(before);
    }
}

/// A time stamp as it follows a value, in milliseconds.
pub(super) fn stamp(at: jiff::Timestamp) -> String {
    format!(" {}", at.as_millisecond())
}

/// A strict reader, for tests: what it accepts is a page.
#[cfg(test)]
pub(super) mod reader;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_no_trailing_zeros() {
        for (nanos, text) in [(0, "0"), (1, "0.000000001"), (1_500_000_000, "1.5"), (100_000_000_000, "100")] {
            let mut out = String::new();
            seconds(&mut out, Duration::from_nanos(nanos));
            assert_eq!(out, text);
        }
    }

    #[test]
    fn numbers_are_written_as_the_language_does() {
        for value in [0, 1, 9, 10, 4096, 1_780_000_000, u64::MAX - 1, u64::MAX] {
            let mut out = String::new();
            whole(&mut out, value);
            assert_eq!(out, value.to_string());
        }
    }

    #[test]
    fn a_label_value_is_escaped_and_bounded() {
        let shown = |value: &str| {
            let mut out = String::new();
            label(&mut out, "a", value);
            out
        };
        assert_eq!(shown("x\"y\\z\n{}"), "a=\"x\\\"y\\\\z\\n{}\"");
        assert_eq!(shown(&"ü".repeat(LONGEST_VALUE)), format!("a=\"{}\"", "ü".repeat(LONGEST_VALUE / 2)));
        assert_eq!(shown(&format!("x{}", "ü".repeat(LONGEST_VALUE))).len(), LONGEST_VALUE - 1 + 4);
    }

    #[test]
    fn a_family_without_samples_is_not_written() {
        let mut out = String::new();
        family(&mut out, ("a", Kind::Gauge, "Nothing."), "", |_| {});
        assert_eq!(out, "");
    }
}
