//! Pulls of images. upstream: metrics.go ImagePullDuration, images/metrics.go (v1.36)

use std::time::Duration;

use rubelet_core::image::PullPolicy;

use super::histogram::{Counter, Histogram, Scale, counted, label, observed};

/// Upper bounds of how long a pull takes: a second to an hour.
static PULL: Scale = Scale::seconds(&[
    1_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    180_000_000,
    240_000_000,
    300_000_000,
    360_000_000,
    480_000_000,
    600_000_000,
    900_000_000,
    1_200_000_000,
    1_800_000_000,
    2_700_000_000,
    3_600_000_000,
]);

const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;

/// Values of the label with an image's size, each for images above so many bytes; the first is for those of unknown size.
const SIZES: [(Option<u64>, &str); 13] = [
    (None, "N/A"),
    (Some(0), "0-10MB"),
    (Some(10 * MB), "10MB-100MB"),
    (Some(100 * MB), "100MB-500MB"),
    (Some(500 * MB), "500MB-1GB"),
    (Some(GB), "1GB-5GB"),
    (Some(5 * GB), "5GB-10GB"),
    (Some(10 * GB), "10GB-20GB"),
    (Some(20 * GB), "20GB-30GB"),
    (Some(30 * GB), "30GB-40GB"),
    (Some(40 * GB), "40GB-60GB"),
    (Some(60 * GB), "60GB-100GB"),
    (Some(100 * GB), "GT100GB"),
];

const POLICIES: [PullPolicy; 3] = [PullPolicy::Always, PullPolicy::IfNotPresent, PullPolicy::Never];
const ANSWERS: [(Option<bool>, &str); 3] = [(None, "unknown"), (Some(false), "false"), (Some(true), "true")];

/// What making an image present came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ensured {
    pub(crate) policy: PullPolicy,
    /// `None` if it was not asked, or could not be found out.
    pub(crate) present: Option<bool>,
    /// `None` if it did not come to that.
    pub(crate) pull: Option<bool>,
}

#[derive(Debug)]
pub(crate) struct ImageMetrics {
    pulls: [Histogram; SIZES.len()],
    ensured: [[[Counter; ANSWERS.len()]; ANSWERS.len()]; POLICIES.len()],
}

impl Default for ImageMetrics {
    fn default() -> Self {
        Self { pulls: std::array::from_fn(|_| Histogram::new(&PULL)), ensured: Default::default() }
    }
}

impl ImageMetrics {
    /// An image of this size was pulled; the time includes the wait for other pulls.
    pub(crate) fn pulled(&self, size: u64, took: Duration) {
        let at = SIZES.partition_point(|(above, _)| above.is_none_or(|above| size > above)).saturating_sub(1);
        if let Some(histogram) = self.pulls.get(at) {
            histogram.took(took);
        }
    }

    /// An image was made present for a container, or could not be.
    pub(crate) fn ensured(&self, ensured: Ensured) {
        let of = |answer: Option<bool>| ANSWERS.iter().position(|(known, _)| *known == answer);
        let policy = POLICIES.iter().position(|known| *known == ensured.policy);
        let counter = policy
            .zip(of(ensured.present))
            .zip(of(ensured.pull))
            .and_then(|((policy, present), pull)| self.ensured.get(policy)?.get(present)?.get(pull));
        if let Some(counter) = counter {
            counter.add();
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        let mut ensured = Vec::new();
        for (policy, list) in POLICIES.iter().zip(&self.ensured) {
            let policy = policy.as_str().to_ascii_lowercase();
            for ((_, present), list) in ANSWERS.iter().zip(list) {
                for ((_, pull), counter) in ANSWERS.iter().zip(list) {
                    let labels =
                        format!("present_locally=\"{present}\",pull_policy=\"{policy}\",pull_required=\"{pull}\"");
                    ensured.push((labels, counter.get()));
                }
            }
        }
        let name = "kubelet_image_manager_ensure_image_requests_total";
        counted(out, name, "Images that containers asked for, by whether they were there.", ensured);
        let pulls = SIZES.iter().zip(&self.pulls);
        let pulls = pulls.map(|((_, size), histogram)| (label("image_size_in_bytes", size), histogram));
        observed(out, "kubelet_image_pull_duration_seconds", "How long pulls took, in seconds, by size.", pulls);
    }
}
