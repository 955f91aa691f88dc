//! Compares the values of a cgroup with those that it should have, under either driver: systemd's values end up in the
//! same files.

use std::path::{Path, PathBuf};

use rubelet_core::qos::{CgroupPath, CgroupValues, shares_to_weight};
use rubelet_engine::ports::{CgroupError, CgroupState, CgroupVersion};

use super::{Inner, NEEDED, NEEDED_V1, layout, values};

/// From here on a number of bytes means "no limit": v1 spells that as the greatest whole number of pages.
const UNLIMITED: u64 = 1 << 62;

/// Where a cgroup must exist on v1: `hugetlb` and the tree of systemd count where the host has them.
/// upstream: cgroup_v1_manager_linux.go Validate (v1.36)
const OPTIONAL_V1: [&str; 2] = ["hugetlb", "systemd"];

/// Memory is counted in whole pages; 64 KiB are the largest that a kernel has.
const PAGES: Scale = Scale::Bytes(64 << 10);

/// How the kernel writes a value back.
#[derive(Clone, Copy)]
enum Scale {
    /// As it was written.
    Exact,
    /// Rounded down by less than so many bytes.
    Bytes(u64),
}

pub(super) fn look(inner: &Inner, path: &CgroupPath, wanted: &CgroupValues) -> Result<CgroupState, CgroupError> {
    let rel_path = inner.rel_path(path)?;
    let missing = missing(inner, &rel_path);
    if !missing.is_empty() {
        return Ok(CgroupState::Missing(missing));
    }
    let files = match inner.layout.version() {
        CgroupVersion::V1 => v1_files(inner, &rel_path, wanted),
        CgroupVersion::V2 => v2_files(inner, &rel_path, wanted),
    };
    let differing: Vec<String> = files.into_iter().filter_map(|file| file.difference()).collect();
    Ok(if differing.is_empty() { CgroupState::AsWanted } else { CgroupState::Differs(differing) })
}

/// Directories and controllers that the cgroup lacks.
fn missing(inner: &Inner, rel_path: &Path) -> Vec<String> {
    match inner.layout.version() {
        CgroupVersion::V1 => {
            let counts = |name: &String| NEEDED_V1.contains(&&**name) || OPTIONAL_V1.contains(&&**name);
            let trees = inner.layout.own_trees().filter(|tree| tree.controllers.iter().any(counts));
            let dirs = trees.map(|tree| tree.root.join(rel_path));
            dirs.filter(|dir| !dir.is_dir()).map(|dir| dir.display().to_string()).collect()
        }
        CgroupVersion::V2 => {
            let Some(tree) = inner.layout.unified() else { return vec!["cgroup2".to_owned()] };
            let dir = tree.root.join(rel_path);
            match layout::v2_controllers(&dir) {
                Ok(has) => {
                    let lacks = NEEDED.into_iter().filter(|name| !has.contains(*name));
                    lacks.map(|name| format!("controller {name} of {}", dir.display())).collect()
                }
                Err(_) => vec![dir.display().to_string()],
            }
        }
    }
}

/// One file, and the text that should be in it.
struct File {
    path: PathBuf,
    wanted: String,
    scale: Scale,
    /// A host may lack the file: there is nothing to limit then.
    optional: bool,
}

impl File {
    fn new(dir: &Path, name: &str, wanted: String, scale: Scale) -> Self {
        Self { path: dir.join(name), wanted, scale, optional: false }
    }

    /// What is there instead of the wanted value.
    fn difference(&self) -> Option<String> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) if self.is(text.trim()) => None,
            Ok(text) => Some(format!("{} is {}, not {}", self.path.display(), text.trim(), self.wanted)),
            Err(err) if self.optional && err.kind() == std::io::ErrorKind::NotFound => None,
            Err(err) => Some(format!("{} cannot be read: {err}", self.path.display())),
        }
    }

    fn is(&self, text: &str) -> bool {
        match self.scale {
            Scale::Exact => text == self.wanted,
            Scale::Bytes(unit) => match (bytes(text), bytes(&self.wanted)) {
                (Some(has), Some(wanted)) => wanted.checked_sub(has).is_some_and(|less| less < unit),
                (_, _) => text == self.wanted,
            },
        }
    }
}

/// Bytes; every spelling of "no limit" is the same number.
fn bytes(text: &str) -> Option<u64> {
    let unlimited = |bytes: u64| if bytes >= UNLIMITED { UNLIMITED } else { bytes };
    match text {
        "max" | "-1" => Some(UNLIMITED),
        number => number.parse().ok().map(unlimited),
    }
}

fn v1_files(inner: &Inner, rel_path: &Path, wanted: &CgroupValues) -> Vec<File> {
    let mut files = Vec::new();
    let dir = |controller: &str| inner.layout.v1_tree(controller).map(|tree| tree.root.join(rel_path));
    if let Some(dir) = dir("cpu") {
        let number = |name, value: Option<String>| value.map(|value| File::new(&dir, name, value, Scale::Exact));
        files.extend(number("cpu.shares", wanted.cpu_shares.map(|shares| shares.to_string())));
        files.extend(number("cpu.cfs_period_us", wanted.cpu_period.map(|period| period.to_string())));
        files.extend(number("cpu.cfs_quota_us", values::nonzero(wanted.cpu_quota).map(|quota| quota.to_string())));
    }
    if let (Some(dir), Some(limit)) = (dir("memory"), values::nonzero(wanted.memory_limit)) {
        files.push(File::new(&dir, "memory.limit_in_bytes", limit.to_string(), PAGES));
    }
    if let (Some(dir), Some(limit)) = (dir("pids"), wanted.pids_limit) {
        files.push(File::new(&dir, "pids.max", values::pids_max(limit), Scale::Exact));
    }
    if let Some(dir) = dir("hugetlb") {
        files.extend(hugepage_files(&dir, wanted, "limit_in_bytes"));
    }
    files
}

fn v2_files(inner: &Inner, rel_path: &Path, wanted: &CgroupValues) -> Vec<File> {
    let Some(tree) = inner.layout.unified() else { return Vec::new() };
    let dir = tree.root.join(rel_path);
    let mut files = Vec::new();
    let exact = |name: &str, value: Option<String>| value.map(|value| File::new(&dir, name, value, Scale::Exact));
    files.extend(exact("cpu.weight", wanted.cpu_shares.map(|shares| shares_to_weight(shares).to_string())));
    if values::nonzero(wanted.cpu_quota).is_some() || wanted.cpu_period.is_some() {
        // What is not set keeps its value, so the text to compare with depends on the file itself.
        let value = values::cpu_max(&dir, values::nonzero(wanted.cpu_quota), wanted.cpu_period);
        files.extend(exact("cpu.max", Some(value)));
    }
    if let Some(limit) = values::nonzero(wanted.memory_limit) {
        files.push(File::new(&dir, "memory.max", limit.to_string(), PAGES));
    }
    files.extend(exact("pids.max", wanted.pids_limit.map(values::pids_max)));
    files.extend(hugepage_files(&dir, wanted, "max"));
    for (name, value) in &wanted.unified {
        let scale = if name.starts_with("memory.") { PAGES } else { Scale::Exact };
        files.push(File::new(&dir, name, value.clone(), scale));
    }
    files
}

fn hugepage_files(dir: &Path, wanted: &CgroupValues, file: &str) -> Vec<File> {
    let file = |(size, limit): (&String, &u64)| {
        let scale = Scale::Bytes(page_bytes(size).unwrap_or(1));
        File { optional: true, ..File::new(dir, &format!("hugetlb.{size}.{file}"), limit.to_string(), scale) }
    };
    wanted.hugepages.iter().map(file).collect()
}

/// Bytes of a huge page in the kernel's notation: `64KB`, `2MB`, `1GB`.
fn page_bytes(size: &str) -> Option<u64> {
    [("KB", 10_u32), ("MB", 20), ("GB", 30)].into_iter().find_map(|(suffix, shift)| {
        let number: u64 = size.strip_suffix(suffix)?.parse().ok()?;
        number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_compared_as_the_kernel_rounds_it() {
        let pages = Scale::Bytes(4096);
        let huge = Scale::Bytes(2 << 20);
        for (scale, has, wanted, same) in [
            (Scale::Exact, "512", "512", true),
            (Scale::Exact, "max", "100", false),
            (pages, "8192", "8192", true),
            (pages, "8192", "9000", true),
            (pages, "8192", "12288", false),
            (pages, "4096", "9000", false),
            (pages, "9223372036854771712", "-1", true),
            (pages, "max", "-1", true),
            (pages, "9223372036854771712", "1048576", false),
            (pages, "max", "1048576", false),
            (pages, "1048576", "-1", false),
            (huge, "4611686018427387904", "4611686018427387904", true),
            (huge, "max", "4611686018427387904", true),
            (huge, "0", "1000000", true),
            (huge, "2097152", "0", false),
            (pages, "junk", "4096", false),
        ] {
            let file = File { path: PathBuf::new(), wanted: wanted.to_owned(), scale, optional: false };
            assert_eq!(file.is(has), same, "{has} for {wanted}");
        }
    }

    #[test]
    fn huge_page_sizes_are_in_the_kernels_notation() {
        for (size, bytes) in [("64KB", Some(65_536)), ("2MB", Some(2 << 20)), ("1GB", Some(1 << 30)), ("2", None)] {
            assert_eq!(page_bytes(size), bytes, "{size}");
        }
    }
}
