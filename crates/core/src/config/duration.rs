//! Durations as Go reads and prints them: `1m30s` in, `1m30s` out, `2m` in, `2m0s` out.
//!
//! Kept apart from `std::time::Duration` because the file format allows negative values (some fields read them as
//! "off") and because `/configz` must print exactly what upstream prints.
//!
//! upstream: metav1.Duration, Go's time.ParseDuration and Duration.String (v1.36).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

/// A signed duration in nanoseconds, read and written in Go's notation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "metav1.Duration")]
pub struct GoDuration(i64);

const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Why a text is not a duration. Names the text and the notation, so that the message can stand alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It is not in Go's notation.
    #[error("{0:?} is not a duration; write a number with a unit, like 300ms, 10s, 1m30s or 2h")]
    Form(String),
    /// It is longer than Go's type holds.
    #[error("{0:?} is out of range; the longest duration is 2562047h47m16s, some 292 years")]
    Range(String),
}

/// What is wrong with a text.
enum Fault {
    Form,
    Range,
}

impl GoDuration {
    /// No time at all; in most fields of a configuration file it means "use the default".
    pub const ZERO: Self = Self(0);

    /// A duration of whole milliseconds.
    #[must_use]
    pub const fn millis(ms: i64) -> Self {
        Self(ms.saturating_mul(MILLISECOND))
    }

    /// A duration of whole seconds.
    #[must_use]
    pub const fn secs(s: i64) -> Self {
        Self(s.saturating_mul(SECOND))
    }

    /// A duration of whole minutes.
    #[must_use]
    pub const fn mins(m: i64) -> Self {
        Self(m.saturating_mul(MINUTE))
    }

    /// A duration of nanoseconds, as Go counts.
    #[must_use]
    pub const fn nanos(ns: i64) -> Self {
        Self(ns)
    }

    /// The nanoseconds, as Go counts.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// True for a duration below zero, which several fields read as "off".
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// True for exactly zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The same length as a standard duration; below zero there is none, so it becomes zero.
    #[must_use]
    pub fn to_std(self) -> Duration {
        u64::try_from(self.0).map_or(Duration::ZERO, Duration::from_nanos)
    }
}

/// What Go cannot hold, some 292 years, is cut.
impl From<Duration> for GoDuration {
    fn from(value: Duration) -> Self {
        Self(i64::try_from(value.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl From<GoDuration> for Duration {
    fn from(value: GoDuration) -> Self {
        value.to_std()
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        parse(text).map(Self).map_err(|fault| match fault {
            Fault::Form => DurationError::Form(text.to_owned()),
            Fault::Range => DurationError::Range(text.to_owned()),
        })
    }
}

fn parse(text: &str) -> Result<i64, Fault> {
    let (negative, mut rest) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(Fault::Form);
    }
    let mut too_long = false;
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(Fault::Form);
        }
        let unit_len = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        let unit = unit_nanos(unit).ok_or(Fault::Form)?;
        // The rest is read all the same: a wrong notation counts for more than a wrong length.
        match part(whole, fraction, unit).and_then(|part| total.checked_add(part)) {
            Some(sum) => total = sum,
            None => too_long = true,
        }
        rest = after;
    }
    let total = i64::try_from(if negative { -total } else { total }).map_err(|_| Fault::Range)?;
    if too_long { Err(Fault::Range) } else { Ok(total) }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn part(whole: &str, fraction: &str, unit: i64) -> Option<i128> {
    let mut nanos = if whole.is_empty() { 0 } else { i128::from(whole.parse::<i64>().ok()?) * i128::from(unit) };
    let mut scale = i128::from(unit);
    for digit in fraction.bytes() {
        scale /= 10;
        nanos += scale * i128::from(digit - b'0');
    }
    Some(nanos)
}

fn unit_nanos(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let second = SECOND.unsigned_abs();
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < second {
            let (unit, name) = if nanos < MICROSECOND.unsigned_abs() {
                (1, "ns")
            } else if nanos < MILLISECOND.unsigned_abs() {
                (MICROSECOND.unsigned_abs(), "µs")
            } else {
                (MILLISECOND.unsigned_abs(), "ms")
            };
            return write!(f, "{sign}{}{name}", decimal(nanos, unit));
        }
        let (hours, minutes) = (nanos / HOUR.unsigned_abs(), nanos / MINUTE.unsigned_abs() % 60);
        let seconds = decimal(nanos % MINUTE.unsigned_abs(), second);
        if hours > 0 {
            write!(f, "{sign}{hours}h{minutes}m{seconds}s")
        } else if minutes > 0 {
            write!(f, "{sign}{minutes}m{seconds}s")
        } else {
            write!(f, "{sign}{seconds}s")
        }
    }
}

/// `amount / unit` with the fraction's trailing zeros dropped.
fn decimal(amount: u64, unit: u64) -> String {
    let (whole, mut rest) = (amount / unit, amount % unit);
    let mut text = whole.to_string();
    let mut scale = unit;
    if rest > 0 {
        text.push('.');
    }
    while rest > 0 {
        scale /= 10;
        text.push_str(&(rest / scale).to_string());
        rest %= scale;
    }
    text
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = GoDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration like 300ms, 10s or 1m30s")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<GoDuration, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}
