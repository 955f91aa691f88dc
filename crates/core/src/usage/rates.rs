//! CPU in use now: the difference of two samples.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Sample;
use crate::time::Instant;

/// Two samples that are nearer to each other say little: a container may just have had its turn.
const SHORTEST: Duration = Duration::from_secs(1);
/// How far apart the samples are that rates are computed from, if there are any. upstream: cAdvisor's housekeeping (STS-01)
pub const WINDOW: Duration = Duration::from_secs(10);
/// Two samples that are further apart say nothing about now.
const LONGEST: Duration = Duration::from_secs(180);

/// The CPU time of cgroups in the last two samples that were a window apart.
#[derive(Clone, Debug, Default)]
pub struct CpuTimes {
    older: Option<Times>,
    newer: Option<Times>,
}

#[derive(Clone, Debug)]
struct Times {
    at: Instant,
    by_path: BTreeMap<String, Duration>,
}

impl Times {
    fn of(sample: &Sample) -> Self {
        let time = |(path, cgroup): (&String, &super::CgroupSample)| Some((path.clone(), cgroup.usage.cpu?.total));
        Self { at: sample.at.mono, by_path: sample.cgroups.iter().filter_map(time).collect() }
    }
}

impl CpuTimes {
    /// Takes a new sample, and answers with the CPU in use in billionths of a core by the path of the cgroup. A cgroup that
    /// only one sample has, or whose time went back as it was made anew, is absent.
    #[doc(alias = "usageNanoCores")]
    pub fn add(&mut self, sample: &Sample) -> BTreeMap<String, u64> {
        let now = sample.at.mono;
        let rates = self.base(now).map(|base| rates(base, sample)).unwrap_or_default();
        if self.newer.as_ref().is_none_or(|newer| now.since(newer.at) >= WINDOW) {
            self.older = self.newer.take();
            self.newer = Some(Times::of(sample));
        }
        rates
    }

    /// What a sample of now is compared with. The newer one will do only if it is far enough away, or there is nothing else.
    fn base(&self, now: Instant) -> Option<&Times> {
        let fits = |times: &&Times| (SHORTEST..=LONGEST).contains(&now.since(times.at));
        let newer = self.newer.as_ref().filter(fits);
        let far = newer.filter(|newer| now.since(newer.at) >= WINDOW / 2);
        far.or(self.older.as_ref().filter(fits)).or(newer)
    }
}

fn rates(base: &Times, sample: &Sample) -> BTreeMap<String, u64> {
    let window = sample.at.mono.since(base.at).as_nanos();
    let rate = |(path, cgroup): (&String, &super::CgroupSample)| {
        let used = cgroup.usage.cpu?.total.checked_sub(*base.by_path.get(path)?)?;
        let nanos = used.as_nanos().checked_mul(1_000_000_000)?.checked_div(window)?;
        Some((path.clone(), u64::try_from(nanos).ok()?))
    };
    sample.cgroups.iter().filter_map(rate).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::time::Now;
    use crate::usage::{CgroupKind, CgroupSample, CpuUsage, Limits, Usage};

    fn sample(secs: u64, times: &[(&str, u64)]) -> Sample {
        let cgroup = |millis| CgroupSample {
            kind: CgroupKind::Other,
            created_at: None,
            usage: Usage {
                cpu: Some(CpuUsage { total: Duration::from_millis(millis), ..CpuUsage::default() }),
                ..Usage::default()
            },
            limits: Limits::default(),
        };
        let cgroups = times.iter().map(|(path, millis)| ((*path).to_owned(), cgroup(*millis))).collect();
        Sample { at: Now { mono: Instant::from_secs(secs), wall: Timestamp::UNIX_EPOCH }, cgroups }
    }

    #[test]
    fn sts_03_a_rate_is_the_difference_of_two_samples() {
        let mut times = CpuTimes::default();
        assert_eq!(times.add(&sample(100, &[("/", 1000), ("/a", 500)])), BTreeMap::new(), "only one sample has it");
        let rates = times.add(&sample(110, &[("/", 6000), ("/a", 400), ("/b", 9)]));
        assert_eq!(rates, BTreeMap::from([("/".to_owned(), 500_000_000)]), "/a was made anew, /b is new");
        let rates = times.add(&sample(120, &[("/", 6000), ("/a", 2400), ("/b", 9)]));
        assert_eq!(rates["/"], 0);
        assert_eq!(rates["/a"], 200_000_000);
    }

    #[test]
    fn sts_03_frequent_looks_are_compared_with_one_that_is_a_window_away() {
        let mut times = CpuTimes::default();
        times.add(&sample(100, &[("/", 0)]));
        times.add(&sample(110, &[("/", 10_000)]));
        assert_eq!(times.add(&sample(112, &[("/", 10_000)]))["/"], 833_333_333, "12 s, not 2 s");
        assert_eq!(times.add(&sample(116, &[("/", 10_000)]))["/"], 0, "6 s are enough");
        assert_eq!(times.add(&sample(110 + 400, &[("/", 20_000)])), BTreeMap::new(), "nothing is known about now");
        assert_eq!(times.add(&sample(110 + 420, &[("/", 30_000)]))["/"], 500_000_000);
    }
}
