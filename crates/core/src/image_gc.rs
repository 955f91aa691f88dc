//! Garbage collection of images: which unused images are removed, in which order, and how many (IGC-01, IGC-02).
//!
//! The records live as long as the process, as upstream's do: after a restart every image counts as new, and as never used.
//! upstream: images/image_gc_manager.go (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::config::KubeletConfiguration;
use crate::time::Instant;

/// When images are removed.
#[doc(alias = "ImageGCPolicy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageGcPolicy {
    /// Use of the disk, in percent, from which on images are removed.
    pub high: u8,
    /// Use of the disk, in percent, at which removal stops.
    pub low: u8,
    /// Images that were first seen less than this ago stay.
    pub min_age: Duration,
    /// Images that nothing has used for longer go, however much room there is; zero for never.
    pub max_age: Duration,
}

impl ImageGcPolicy {
    /// The configured policy.
    pub fn of(config: &KubeletConfiguration) -> Self {
        let percent = |value: i32| u8::try_from(value).unwrap_or(100).min(100);
        Self {
            high: percent(config.image_gc_high_threshold_percent),
            low: percent(config.image_gc_low_threshold_percent),
            min_age: config.image_minimum_gc_age.to_std(),
            max_age: config.image_maximum_gc_age.to_std(),
        }
    }

    /// No image is removed but on request (IGC-03).
    pub fn is_off(&self) -> bool {
        self.high == 100 && self.max_age.is_zero()
    }
}

/// An image that the runtime lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedImage {
    /// The runtime's id.
    pub id: String,
    /// Its names with tags and digests.
    pub names: Vec<String>,
    /// Size in bytes.
    pub size: u64,
    /// The runtime asks for it to stay.
    pub pinned: bool,
}

/// What is known of each image on the node.
#[doc(alias = "imageRecords")]
#[derive(Clone, Debug, Default)]
pub struct ImageRecords {
    records: BTreeMap<String, Record>,
}

#[derive(Clone, Debug)]
struct Record {
    names: Vec<String>,
    size: u64,
    first_seen: Instant,
    /// `None`: no use has been seen yet.
    last_used: Option<Instant>,
    /// At the last look.
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unused,
    Used,
    Pinned,
}

/// An unused image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedImage {
    /// The runtime's id.
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
    /// Size in bytes.
    pub size: u64,
    /// When it was first seen.
    pub first_seen: Instant,
    /// When its use was last seen.
    pub last_used: Option<Instant>,
}

impl UnusedImage {
    /// Whether a pod that asks for `name` may mean this image. The runtime completes short names by a registry and a path
    /// of its own, so names are compared by their last part, and digests without any name: rather once too often.
    pub fn may_be(&self, name: &str) -> bool {
        let last = |name: &str| name.rsplit_once('/').map_or(name, |(_, last)| last).to_owned();
        let digest = |name: &str| name.split_once('@').map(|(_, digest)| digest.to_owned());
        let same =
            |own: &String| last(own) == last(name) || digest(name).is_some_and(|asked| digest(own) == Some(asked));
        self.id == name || self.names.iter().any(same)
    }

    /// It goes because of its age. One that was never used is as old as its first sight: upstream counts it as older than
    /// any limit, so that an image which was pulled a moment ago may go.
    fn is_too_old(&self, policy: &ImageGcPolicy, now: Instant) -> bool {
        !policy.max_age.is_zero() && now.since(self.last_used.unwrap_or(self.first_seen)) > policy.max_age
    }

    fn is_too_young(&self, policy: &ImageGcPolicy, now: Instant) -> bool {
        now.since(self.first_seen) < policy.min_age
    }
}

/// Room on the file system of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageDisk {
    /// Bytes in all.
    pub capacity: u64,
    /// Bytes that are free.
    pub available: u64,
}

/// The file system is too full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Use in percent, as upstream rounds it.
    pub percent: u8,
    /// Bytes to free.
    pub bytes: u64,
    /// Bytes that are to be available afterwards.
    pub target: u64,
}

impl ImageDisk {
    /// How much has to be freed; `None` below the high threshold.
    pub fn shortage(&self, policy: &ImageGcPolicy) -> Option<Shortage> {
        let available = self.available.min(self.capacity);
        let capacity = u128::from(self.capacity);
        let free = (u128::from(available) * 100).checked_div(capacity)?;
        let percent = u8::try_from(100_u128.saturating_sub(free)).unwrap_or(100);
        if percent < policy.high {
            return None;
        }
        let target = capacity * u128::from(100_u8.saturating_sub(policy.low)) / 100;
        let target = u64::try_from(target).unwrap_or(u64::MAX);
        Some(Shortage { percent, bytes: target.saturating_sub(available), target })
    }
}

impl ImageRecords {
    /// Notes what the runtime lists. `used` are ids and names of images: those of containers, and those that pods are
    /// about to use.
    #[doc(alias = "detectImages")]
    pub fn look(&mut self, listed: &[ListedImage], used: &BTreeSet<String>, now: Instant) {
        let mut before = std::mem::take(&mut self.records);
        for image in listed {
            let known = before.remove(&image.id);
            let in_use = used.contains(&image.id) || image.names.iter().any(|name| used.contains(name));
            let last_used = known.as_ref().and_then(|record| record.last_used);
            let record = Record {
                names: image.names.clone(),
                size: image.size,
                first_seen: known.map_or(now, |record| record.first_seen),
                last_used: if in_use { Some(now) } else { last_used },
                state: match (in_use, image.pinned) {
                    (true, _) => State::Used,
                    (false, true) => State::Pinned,
                    (false, false) => State::Unused,
                },
            };
            self.records.insert(image.id.clone(), record);
        }
    }

    /// The unused images: the one whose use is longest ago first, then the one that was seen first.
    #[doc(alias = "imagesInEvictionOrder")]
    pub fn unused(&self) -> Vec<UnusedImage> {
        let unused = self.records.iter().filter(|(_, record)| record.state == State::Unused);
        let mut images: Vec<UnusedImage> = unused
            .map(|(id, record)| UnusedImage {
                id: id.clone(),
                names: record.names.clone(),
                size: record.size,
                first_seen: record.first_seen,
                last_used: record.last_used,
            })
            .collect();
        images.sort_by_key(|image| (image.last_used, image.first_seen));
        images
    }

    /// The image was removed.
    pub fn removed(&mut self, id: &str) {
        self.records.remove(id);
    }

    /// What holds the disk, for people.
    pub fn summary(&self, policy: &ImageGcPolicy, now: Instant) -> ImageSummary {
        let mut summary = ImageSummary::default();
        for record in self.records.values() {
            let young = now.since(record.first_seen) < policy.min_age;
            let part = match record.state {
                State::Used => &mut summary.used,
                State::Pinned => &mut summary.pinned,
                State::Unused if young => &mut summary.young,
                State::Unused => continue,
            };
            part.images += 1;
            part.bytes = part.bytes.saturating_add(record.size);
        }
        summary
    }
}

/// Which of `unused` go because of their age. `began` is when collection began: images are only old once it has run for
/// that long itself (IGC-02).
#[doc(alias = "freeOldImages")]
pub fn too_old(unused: &[UnusedImage], policy: &ImageGcPolicy, began: Instant, now: Instant) -> Vec<UnusedImage> {
    if now.since(began) <= policy.max_age {
        return Vec::new();
    }
    unused.iter().filter(|image| image.is_too_old(policy, now)).cloned().collect()
}

/// Which of `unused` may go to make room, in order. The caller stops once enough is free.
#[doc(alias = "freeSpace")]
pub fn for_room(unused: Vec<UnusedImage>, policy: &ImageGcPolicy, now: Instant) -> Vec<UnusedImage> {
    unused.into_iter().filter(|image| !image.is_too_young(policy, now)).collect()
}

/// Some images and their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many.
    pub images: usize,
    /// Their sizes together.
    pub bytes: u64,
}

/// The images that stay, by what keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageSummary {
    /// Containers use them, or pods are about to.
    pub used: Share,
    /// The runtime asks for them to stay.
    pub pinned: Share,
    /// They came less than the minimum age ago.
    pub young: Share,
}

impl fmt::Display for ImageSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |share: Share| format_size(share.bytes);
        let Self { used, pinned, young } = *self;
        write!(
            f,
            "Images that stay: {} in use ({}), {} pinned ({}), {} too young ({})",
            used.images,
            size(used),
            pinned.images,
            size(pinned),
            young.images,
            size(young)
        )
    }
}

/// Upstream's message for a disk that stays too full, and after it what keeps the images that are left.
/// upstream: image_gc_manager.go GarbageCollect (v1.36)
pub fn insufficient(disk: &ImageDisk, shortage: &Shortage, freed: u64, left: &ImageSummary) -> String {
    format!(
        "Insufficient free disk space on the node's image filesystem ({}% of {} used). Failed to free sufficient space by \
         deleting unused images (freed {freed} bytes). Investigate disk usage, as it could be used by active images, logs, \
         volumes, or other data. {left}",
        shortage.percent,
        format_size(disk.capacity)
    )
}

/// upstream: image_gc_manager.go formatSize (v1.36)
#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while size >= 1024.0
        && let Some(larger) = units.next()
    {
        size /= 1024.0;
        unit = Some(larger);
    }
    format!("{size:.1} {}", unit.copied().unwrap_or_default())
}

#[cfg(test)]
mod tests;
