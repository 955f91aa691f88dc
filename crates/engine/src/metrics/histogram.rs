//! Counters and histograms as atomics, and Prometheus' text format.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The unit of a histogram and the bounds of its buckets.
#[derive(Debug)]
pub(super) struct Scale {
    /// Upper bounds, ascending.
    pub(super) bounds: &'static [u64],
    pub(super) unit: Unit,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
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
pub(super) const USUAL: Scale = Scale {
    bounds: &[5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000],
    unit: Unit::Seconds,
};

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Observations by bucket. Several tasks may observe at once.
#[derive(Debug)]
pub(super) struct Histogram {
    scale: &'static Scale,
    /// Not cumulative; the last bucket is for everything above the bounds.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    pub(super) fn new(scale: &'static Scale) -> Self {
        Self { scale, counts: (0..=scale.bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, number: u64) {
        let bucket = self.scale.bounds.partition_point(|bound| *bound < number);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(number, Ordering::Relaxed);
    }

    pub(super) fn took(&self, time: Duration) {
        self.observe(micros(time));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }

    pub(super) fn write(&self, out: &mut String, name: &str, labels: &str) {
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
    let bounds = scale.bounds.iter().map(|bound| scale.unit.text(*bound)).chain(["+Inf".to_owned()]);
    let mut total = 0_u64;
    for (count, bound) in counts.zip(bounds) {
        total = total.saturating_add(count);
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {total}");
    }
    let braced = braced(labels);
    let _ = writeln!(out, "{name}_sum{braced} {}", scale.unit.text(sum));
    let _ = writeln!(out, "{name}_count{braced} {total}");
}

pub(super) fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

pub(super) fn sample(out: &mut String, name: &str, labels: &str, value: u64) {
    let _ = writeln!(out, "{name}{} {value}", braced(labels));
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
        static FEW: Scale = Scale { bounds: &[5_000, 2_500_000], unit: Unit::Seconds };
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
}
