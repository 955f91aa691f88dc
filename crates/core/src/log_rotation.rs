//! Rotation of container logs: what a rotated file is called, which files go, which are compressed, and when a log is
//! looked at next (LOG-04).
//!
//! The runtime writes `N.log`, N being the restart count of the container. Rotated, it is `N.log.YYYYMMDD-HHMMSS`, and
//! compressed `….gz`; what is being compressed is written to `….tmp`. Only files with such a name are ever touched.
//! upstream: logs/container_log_manager.go (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::config::KubeletConfiguration;
use crate::resources::Amount;
use crate::time::Instant;

/// The end of the name of a compressed log.
pub const COMPRESSED: &str = ".gz";
/// The end of the name of a log that is being compressed.
pub const TEMPORARY: &str = ".tmp";

const LOG: &str = ".log";
const STAMP: &str = "%Y%m%d-%H%M%S";
const STAMP_LEN: usize = 15;

/// The shortest pause between two looks at one log, and so between two rotations of it: the time in which a container that
/// writes 100 MB/s fills a fifth of upstream's default size.
const SHORTEST: Duration = Duration::from_millis(20);
/// The longest pause between two looks at a log that grows: what is slow now may write 100 MB in the next second.
const LONGEST: Duration = Duration::from_secs(1);
/// The first look after that at a new log.
const FIRST: Duration = Duration::from_millis(100);

/// How large logs may become.
#[doc(alias = "LogRotatePolicy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPolicy {
    /// A log of this size is rotated.
    pub max_size: u64,
    /// Files of one container, the live one included.
    pub max_files: usize,
}

/// How logs are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRotation {
    /// How large logs may become.
    pub policy: LogPolicy,
    /// How often a log that has long been quiet is looked at, and how long one that could not be rotated is left alone.
    pub interval: Duration,
    /// Files compressed at the same time.
    pub workers: usize,
}

impl LogRotation {
    /// The configured rotation; `None` if a negative size turns it off.
    pub fn of(config: &KubeletConfiguration) -> Option<Self> {
        let max_size = Amount::parse(&config.container_log_max_size).ok()?.value();
        Some(Self {
            policy: LogPolicy {
                max_size: u64::try_from(max_size).ok()?,
                max_files: usize::try_from(config.container_log_max_files).unwrap_or(2).max(2),
            },
            interval: config.container_log_monitor_interval.to_std().max(FIRST),
            workers: usize::try_from(config.container_log_max_workers).unwrap_or(1).max(1),
        })
    }
}

/// Files to remove and files to compress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tidy {
    /// Names of files that are not needed.
    pub remove: Vec<String>,
    /// Names of rotated files, oldest first.
    pub compress: Vec<String>,
}

/// A look at a live log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLook {
    /// Its size.
    pub size: u64,
    /// When.
    pub at: Instant,
}

/// How fast a log grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    bytes: u64,
    within: Duration,
}

impl Growth {
    /// Between two looks. A log that shrank was rotated or truncated: it grew from nothing.
    pub fn between(before: LogLook, now: LogLook) -> Self {
        let bytes = now.size.checked_sub(before.size).unwrap_or(now.size);
        Self { bytes, within: now.at.since(before.at).max(Duration::from_nanos(1)) }
    }

    fn in_time(&self, time: Duration) -> u64 {
        let bytes = u128::from(self.bytes).saturating_mul(time.as_nanos()) / self.within.as_nanos().max(1);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    fn time_for(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes).saturating_mul(self.within.as_nanos()) / u128::from(self.bytes.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl LogPolicy {
    /// The log has to be rotated: it is full, or it is at least half full and will be full before it is rotated at the next
    /// look, if it goes on growing like that and a rotation takes so long. An empty log never has: nothing is won by it.
    pub fn is_due(&self, size: u64, growth: Option<Growth>, rotation: Duration) -> bool {
        let soon = growth.map_or(0, |growth| growth.in_time(rotation.saturating_add(SHORTEST)));
        size > 0 && (size >= self.max_size || (size >= self.max_size / 2 && size.saturating_add(soon) > self.max_size))
    }

    /// How long to wait until the next look at a log of this size: half the time until it is full if it goes on growing
    /// like that, so that it is found near its limit however fast it grows. For a log that did not grow the pause doubles up to
    /// the interval: a look costs more than a log that nobody writes is worth.
    pub fn pause(&self, size: u64, growth: Option<Growth>, interval: Duration) -> Duration {
        let Some(growth) = growth else { return FIRST };
        if growth.bytes == 0 {
            return growth.within.saturating_mul(2).max(LONGEST).min(interval);
        }
        let until_full = growth.time_for(self.max_size.saturating_sub(size));
        (until_full / 2).clamp(SHORTEST, LONGEST)
    }
}

/// The rotated files of `log`, oldest first, each with its stamp; those left by an interrupted compression are not among
/// them.
#[doc(alias = "GetAllLogs")]
pub fn rotated<'a>(log: &str, names: &'a [String]) -> Vec<&'a str> {
    let all: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut rotated: Vec<(&str, &str)> = all
        .iter()
        .filter_map(|name| Some((stamp_of(log, name)?, *name)))
        .filter(|(_, name)| is_in_use(name, &all))
        .collect();
    rotated.sort_unstable();
    rotated.into_iter().map(|(_, name)| name).collect()
}

/// What has to go before `log` is rotated: leftovers, and the oldest files, so that with the file to be rotated and the
/// one that the runtime opens there are as many as allowed.
#[doc(alias = "removeExcessLogs")]
pub fn plan_rotation(log: &str, names: &[String], policy: &LogPolicy) -> Vec<String> {
    let mut remove = leftovers(log, names);
    remove.extend(oldest(&rotated(log, names), policy.max_files.saturating_sub(2)));
    remove
}

/// What is compressed of `log`: all rotated files but the newest, which the runtime may still write for a moment and log
/// shippers still read.
pub fn to_compress(log: &str, names: &[String]) -> Vec<String> {
    let mut rotated = rotated(log, names);
    rotated.pop();
    rotated.into_iter().filter(|name| !name.ends_with(COMPRESSED)).map(str::to_owned).collect()
}

/// The name for `log` when it is rotated at `now`. It sorts after every name that is there, also if several rotations
/// fall into one second or the clock was set back: then it is a second later than the newest.
pub fn rotated_name(log: &str, names: &[String], now: Timestamp) -> String {
    let now = now.to_zoned(TimeZone::UTC).datetime();
    let newest = names.iter().filter_map(|name| stamp_of(log, name)).max();
    let after = newest.and_then(|stamp| DateTime::strptime(STAMP, stamp).ok()?.checked_add(1.second()).ok());
    let at = after.map_or(now, |after| after.max(now));
    format!("{log}.{}", at.strftime(STAMP))
}

/// What to do with the files of a container's directory when instance `current` starts: interrupted compressions are
/// finished, and logs of earlier instances that the runtime has forgotten go, but for the newest `keep` (`None`: all stay).
/// Without this, the logs of a crash loop would outlive containers that the runtime lost.
pub fn plan_tidy(
    names: &[String],
    current: u32,
    known: &BTreeSet<u32>,
    keep: Option<usize>,
    policy: &LogPolicy,
) -> Tidy {
    let mut instances: BTreeMap<u32, Vec<&String>> = BTreeMap::new();
    for name in names {
        if let Some(number) = instance_of(name) {
            instances.entry(number).or_default().push(name);
        }
    }
    let earlier = instances.keys().rev().copied().filter(|number| *number < current);
    let forgotten: BTreeSet<u32> = match keep {
        Some(keep) => earlier.skip(keep.max(1)).filter(|number| !known.contains(number)).collect(),
        None => BTreeSet::new(),
    };
    let mut tidy = Tidy::default();
    for (number, files) in instances {
        if forgotten.contains(&number) {
            tidy.remove.extend(files.into_iter().cloned());
            continue;
        }
        let log = log_name(number);
        let files: Vec<String> = files.into_iter().cloned().collect();
        tidy.remove.extend(leftovers(&log, &files));
        tidy.remove.extend(oldest(&rotated(&log, &files), policy.max_files.saturating_sub(1)));
        let compress = to_compress(&log, &files);
        tidy.compress.extend(compress.into_iter().filter(|name| !tidy.remove.contains(name)));
    }
    tidy
}

/// The live log of an instance.
pub fn log_name(restart_count: u32) -> String {
    format!("{restart_count}{LOG}")
}

/// The instance whose log, rotated log or leftover has this name.
fn instance_of(name: &str) -> Option<u32> {
    let (digits, rest) = name.split_once(LOG)?;
    let number = digits.parse().ok().filter(|number: &u32| number.to_string() == digits)?;
    (rest.is_empty() || stamp_of(&log_name(number), name).is_some()).then_some(number)
}

/// The stamp in the name of a rotated file of `log`, compressed or not, or of a leftover of its compression.
fn stamp_of<'a>(log: &str, name: &'a str) -> Option<&'a str> {
    let rest = name.strip_prefix(log)?.strip_prefix('.')?;
    let (stamp, end) = rest.split_at_checked(STAMP_LEN)?;
    let is_stamp =
        stamp.bytes().enumerate().all(|(at, byte)| if at == 8 { byte == b'-' } else { byte.is_ascii_digit() });
    (is_stamp && matches!(end, "" | COMPRESSED | TEMPORARY)).then_some(stamp)
}

fn is_in_use(name: &str, all: &BTreeSet<&str>) -> bool {
    if name.ends_with(TEMPORARY) {
        return false;
    }
    name.ends_with(COMPRESSED) || !all.contains(format!("{name}{COMPRESSED}").as_str())
}

/// Files that an interrupted compression left.
#[doc(alias = "cleanupUnusedLogs")]
fn leftovers(log: &str, names: &[String]) -> Vec<String> {
    let all: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let unused = all.iter().filter(|name| stamp_of(log, name).is_some() && !is_in_use(name, &all));
    unused.map(|name| (*name).to_owned()).collect()
}

/// All but the newest `keep`.
fn oldest(rotated: &[&str], keep: usize) -> impl Iterator<Item = String> {
    rotated.iter().take(rotated.len().saturating_sub(keep)).map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests;
