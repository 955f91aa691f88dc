//! The counts of probes, for `/metrics/probes` (PRB-15).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::id::PodRef;
use rubelet_core::plan::Verdict;
use rubelet_core::probe::{Answer, ProbeKind};

use super::histogram::{USUAL, head, micros, sample, write_buckets};

const TOTAL: &str = "prober_probe_total";
const DURATION: &str = "prober_probe_duration_seconds";
const BUCKETS: usize = USUAL.bounds.len() + 1;

/// The counts of one probe of one container. The prober's task owns them, so plain numbers suffice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    /// Total duration of passed probes, in microseconds.
    micros: u64,
    /// Not cumulative; the last bucket is for everything above the bounds.
    within: [u32; BUCKETS],
}

impl Tally {
    /// Counts an answer. A run that failed to get one is not counted: upstream discards it.
    /// upstream: prober/worker.go doProbe (v1.36)
    pub(crate) fn count(&mut self, answer: &Answer, took: Duration) {
        match answer.result() {
            Some(Verdict::Success) => {
                let took = micros(took);
                self.passed += 1;
                self.micros = self.micros.saturating_add(took);
                let bucket = USUAL.bounds.partition_point(|bound| *bound < took);
                if let Some(within) = self.within.get_mut(bucket) {
                    *within = within.saturating_add(1);
                }
            }
            Some(Verdict::Failure | Verdict::Unknown) => self.failed += 1,
            None => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        self.micros = self.micros.saturating_add(other.micros);
        for (own, other) in self.within.iter_mut().zip(other.within) {
            *own = own.saturating_add(other);
        }
    }
}

/// The counts of one probe, with its labels.
#[derive(Clone, Debug)]
pub struct ProbeCounts {
    pub(crate) pod: PodRef,
    pub(crate) container: Arc<str>,
    pub(crate) kind: ProbeKind,
    pub(crate) tally: Tally,
}

/// Writes the counts in Prometheus' text format.
pub fn write_probes(out: &mut String, all: &[ProbeCounts]) {
    let mut totals = String::new();
    // The duration series has no UID label: a pod and its successor of the same name share it.
    let mut durations: BTreeMap<String, Tally> = BTreeMap::new();
    for ProbeCounts { pod, container, kind, tally } in all {
        let (namespace, name, kind) = (&pod.namespace, &pod.name, kind.as_str());
        let own = format!("container=\"{container}\",namespace=\"{namespace}\",pod=\"{name}\"");
        for (result, count) in [("failed", tally.failed), ("successful", tally.passed)] {
            if count > 0 {
                let labels = format!("{own},pod_uid=\"{}\",probe_type=\"{kind}\",result=\"{result}\"", pod.uid);
                sample(&mut totals, TOTAL, &labels, count);
            }
        }
        if tally.passed > 0 {
            durations.entry(format!("{own},probe_type=\"{kind}\"")).or_default().merge(tally);
        }
    }
    if !durations.is_empty() {
        head(out, DURATION, "histogram", "How long probes that passed took, in seconds.");
    }
    for (labels, tally) in &durations {
        let counts = tally.within.iter().copied().map(u64::from);
        write_buckets(out, DURATION, labels, &USUAL, counts, tally.micros);
    }
    if !totals.is_empty() {
        head(out, TOTAL, "counter", "Answers of probes, by container, kind and result.");
        out.push_str(&totals);
    }
}
