//! What a cgroup has already, so that systemd is asked only for what it lacks.

use std::path::Path;

use rubelet_core::qos::{CgroupValues, shares_to_weight};
use rubelet_engine::ports::CgroupVersion;

use super::Layout;

/// systemd's own tree on a v1 host.
const SYSTEMD: &str = "systemd";
/// v1's memory limit of a cgroup without one is the greatest number of whole pages.
const NO_MEMORY_LIMIT: u64 = (u64::MAX >> 1) - (1 << 20);

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// systemd made the cgroup.
    pub(super) exists: bool,
    /// Every value that systemd would set is set.
    pub(super) has_values: bool,
}

/// Looks at the cgroup `rel_path`.
pub(super) fn look(layout: &Layout, rel_path: &Path, values: &CgroupValues) -> Seen {
    let exists = match layout.version() {
        CgroupVersion::V1 => layout.v1_tree(SYSTEMD),
        CgroupVersion::V2 => layout.unified(),
    }
    .is_some_and(|tree| tree.root.join(rel_path).is_dir());
    let read = |controller: &str, file: &str| {
        let tree = match layout.version() {
            CgroupVersion::V1 => layout.v1_tree(controller),
            CgroupVersion::V2 => layout.unified(),
        };
        std::fs::read_to_string(tree?.root.join(rel_path).join(file)).ok()
    };
    let has_values = exists
        && match layout.version() {
            CgroupVersion::V1 => has_v1(&read, values),
            CgroupVersion::V2 => has_v2(&read, values),
        };
    Seen { exists, has_values }
}

fn has_v1(read: &dyn Fn(&str, &str) -> Option<String>, values: &CgroupValues) -> bool {
    let number = |controller, file| read(controller, file).and_then(|text| text.trim().parse::<i64>().ok());
    let is = |wanted: Option<i64>, controller, file| {
        wanted.is_none_or(|wanted| number(controller, file).is_some_and(|found| found == wanted))
    };
    let shares = values.cpu_shares.and_then(|shares| i64::try_from(shares).ok());
    let period = values.cpu_period.and_then(|period| i64::try_from(period).ok());
    is(shares, "cpu", "cpu.shares")
        && is(values.cpu_quota.filter(|quota| *quota != 0), "cpu", "cpu.cfs_quota_us")
        && is(period, "cpu", "cpu.cfs_period_us")
        && is_limit(values.memory_limit.filter(|limit| *limit != 0), read("memory", "memory.limit_in_bytes"))
        && is_limit(values.pids_limit, read("pids", "pids.max"))
}

fn has_v2(read: &dyn Fn(&str, &str) -> Option<String>, values: &CgroupValues) -> bool {
    let weight = values.cpu_shares.and_then(|shares| i64::try_from(shares_to_weight(shares)).ok());
    let cpu_max = read("cpu", "cpu.max").unwrap_or_default();
    let mut cpu_max = cpu_max.split_whitespace().map(str::to_owned);
    let (quota, period) = (cpu_max.next(), cpu_max.next());
    let wanted_period = values.cpu_period.and_then(|period| i64::try_from(period).ok());
    let files =
        values.unified.iter().all(|(file, wanted)| read("", file).is_some_and(|found| found.trim() == wanted.trim()));
    is_limit(weight, read("cpu", "cpu.weight"))
        && is_limit(values.cpu_quota.filter(|quota| *quota != 0), quota)
        && is_limit(wanted_period, period)
        && is_limit(values.memory_limit.filter(|limit| *limit != 0), read("memory", "memory.max"))
        && is_limit(values.pids_limit, read("pids", "pids.max"))
        && files
}

/// Whether a file holds this limit. The kernel rounds memory down to whole pages.
fn is_limit(wanted: Option<i64>, found: Option<String>) -> bool {
    let Some(wanted) = wanted else { return true };
    let found = found.unwrap_or_default();
    let found = match found.trim() {
        "max" => Some(u64::MAX),
        text => text.parse().ok(),
    };
    match u64::try_from(wanted) {
        Err(_) => found.is_some_and(|found| found >= NO_MEMORY_LIMIT),
        Ok(wanted) => {
            let page = u64::try_from(rustix::param::page_size()).unwrap_or(1).max(1);
            found.is_some_and(|found| found == wanted || (wanted >= page && found == wanted - wanted % page))
        }
    }
}
