//! Counters, gauges and histograms as atomics, and Prometheus' text format. Other crates declare their metrics with these
//! too.

use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The unit of a histogram and the bounds of its buckets.
#[derive(Debug)]
pub struct Scale {
    /// Upper bounds, ascending.
    pub bounds: &'static [u64],
    /// The bounds as they are written, where they are no whole microseconds.
    texts: &'static [&'static str],
    unit: Unit,
}

impl Scale {
    /// Durations: `bounds` in microseconds, written in seconds.
    pub const fn seconds(bounds: &'static [u64]) -> Self {
        Self { bounds, texts: &[], unit: Unit::Seconds }
    }

    /// Numbers that are written as they are counted.
    pub const fn plain(bounds: &'static [u64]) -> Self {
        Self { bounds, texts: &[], unit: Unit::Plain }
    }

    /// The same bounds, written like this.
    #[must_use]
    pub const fn written(self, texts: &'static [&'static str]) -> Self {
        Self { bounds: self.bounds, texts, unit: self.unit }
    }

    fn bound(&self, at: usize) -> String {
        match (self.texts.get(at), self.bounds.get(at)) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(bound)) => self.unit.text(*bound),
            (None, None) => "+Inf".to_owned(),
        }
    }
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Counted in microseconds, written in seconds.
    Seconds,
    /// Counted and written without conversion.
    Plain,
}

impl Unit {
    fn text(self, number: u64) -> String {
        match self {
            Self::Seconds => Duration::from_micros(number).as_secs_f64().to_string(),
            Self::Plain => number.to_string(),
        }
    }
}

/// Upstream's default bounds for durations: 5 ms to 10 s.
pub static USUAL: Scale = Scale::seconds(&[
    5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
]);

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A duration that is set, in seconds; zero before.
#[derive(Debug, Default)]
pub(super) struct Seconds(AtomicU64);

impl Seconds {
    pub(super) fn set(&self, time: Duration) {
        self.0.store(micros(time), Ordering::Relaxed);
    }

    /// Sets it, unless it was set before. Returns whether it was set now.
    pub(super) fn set_once(&self, time: Duration) -> bool {
        self.0.compare_exchange(0, micros(time).max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Observations by bucket. Several tasks may observe at once.
#[derive(Debug)]
pub struct Histogram {
    scale: &'static Scale,
    /// Not cumulative; the last bucket is for everything above the bounds.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// No observations yet.
    pub fn new(scale: &'static Scale) -> Self {
        Self { scale, counts: (0..=scale.bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    /// Counts a number of the scale's unit.
    pub fn observe(&self, number: u64) {
        let bucket = self.scale.bounds.partition_point(|bound| *bound < number);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(number, Ordering::Relaxed);
    }

    /// Counts a duration.
    pub fn took(&self, time: Duration) {
        self.observe(micros(time));
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// Writes one series.
    pub fn write(&self, out: &mut String, name: &str, labels: &str) {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        write_buckets(out, name, labels, self.scale, counts, self.sum.load(Ordering::Relaxed));
    }
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// One series of a histogram. `counts` are not cumulative; writing to a string cannot fail.
pub(super) fn write_buckets(
    out: &mut String,
    name: &str,
    labels: &str,
    scale: &Scale,
    counts: impl Iterator<Item = u64>,
    sum: u64,
) {
    let comma = if labels.is_empty() { "" } else { "," };
    let mut total = 0_u64;
    for (at, count) in counts.enumerate() {
        total = total.saturating_add(count);
        let bound = scale.bound(at);
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {total}");
    }
    let braced = braced(labels);
    let _ = writeln!(out, "{name}_sum{braced} {}", scale.unit.text(sum));
    let _ = writeln!(out, "{name}_count{braced} {total}");
}

/// The lines that come before the samples of a metric.
pub fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// One sample. `labels` are as they stand between the braces.
pub fn sample(out: &mut String, name: &str, labels: &str, value: impl Display) {
    let _ = writeln!(out, "{name}{} {value}", braced(labels));
}

/// A metric with one series and no labels.
pub fn number(out: &mut String, (name, kind): (&str, &str), help: &str, value: impl Display) {
    head(out, name, kind, help);
    sample(out, name, "", value);
}

/// A counter with one series and no labels.
pub fn counter(out: &mut String, name: &str, help: &str, counter: &Counter) {
    number(out, (name, "counter"), help, counter.get());
}

/// A counter with labels: only series that were counted appear.
pub fn counted(out: &mut String, name: &str, help: &str, series: impl IntoIterator<Item = (String, u64)>) {
    let mut first = true;
    for (labels, value) in series.into_iter().filter(|(_, value)| *value > 0) {
        if std::mem::take(&mut first) {
            head(out, name, "counter", help);
        }
        sample(out, name, &labels, value);
    }
}

/// A histogram with labels: only series with an observation appear.
pub fn observed<'a>(
    out: &mut String,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (String, &'a Histogram)>,
) {
    let mut first = true;
    for (labels, histogram) in series.into_iter().filter(|(_, histogram)| !histogram.is_empty()) {
        if std::mem::take(&mut first) {
            head(out, name, "histogram", help);
        }
        histogram.write(out, name, &labels);
    }
}

/// A histogram with one series and no labels.
pub fn distribution(out: &mut String, name: &str, help: &str, histogram: &Histogram) {
    head(out, name, "histogram", help);
    histogram.write(out, name, "");
}

/// `name="value"`, with what would end the value early written as the format wants it.
pub fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_histogram_is_cumulative_in_its_text_and_seconds_are_written_as_upstream_does() {
        static FEW: Scale = Scale::seconds(&[5_000, 2_500_000]);
        let histogram = Histogram::new(&FEW);
        assert!(histogram.is_empty());
        for millis in [5, 6, 2500, 60_000] {
            histogram.took(Duration::from_millis(millis));
        }
        let mut out = String::new();
        histogram.write(&mut out, "x_seconds", "");
        histogram.write(&mut out, "x_seconds", "a=\"b\"");
        expect![[r#"
            x_seconds_bucket{le="0.005"} 1
            x_seconds_bucket{le="2.5"} 3
            x_seconds_bucket{le="+Inf"} 4
            x_seconds_sum 62.511
            x_seconds_count 4
            x_seconds_bucket{a="b",le="0.005"} 1
            x_seconds_bucket{a="b",le="2.5"} 3
            x_seconds_bucket{a="b",le="+Inf"} 4
            x_seconds_sum{a="b"} 62.511
            x_seconds_count{a="b"} 4
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn bounds_that_are_no_whole_microseconds_are_written_to_the_last_digit() {
        static FINE: Scale = Scale::seconds(&[195_313]).written(&["0.1953125"]);
        let histogram = Histogram::new(&FINE);
        histogram.took(Duration::from_micros(195_313));
        let mut out = String::new();
        distribution(&mut out, "x_seconds", "Help.", &histogram);
        expect![[r#"
            # HELP x_seconds Help.
            # TYPE x_seconds histogram
            x_seconds_bucket{le="0.1953125"} 1
            x_seconds_bucket{le="+Inf"} 1
            x_seconds_sum 0.195313
            x_seconds_count 1
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn a_value_cannot_end_its_label() {
        assert_eq!(label("host", "a\"} 1\nb\\"), r#"host="a\"} 1\nb\\""#);
    }
}
