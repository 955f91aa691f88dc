//! Finds the cgroups of the node from the root down, and has each of them read once.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use jiff::Timestamp;
use rubelet_core::id::{ContainerId, PodUid};
use rubelet_core::qos::QosClass;
use rubelet_core::time::Instant;
use rubelet_core::usage::{CgroupKind, CgroupSample, Limits, Usage};
use rubelet_engine::ports::Detail;
use rustix::fs::{AtFlags, FileType, Stat};

use super::files::{Dir, Reader, open_dir};
use super::kept::{Bounds, Kept, Open, most_kept};
use super::{Books, Shown, machine, parse};
use crate::host::KernelFiles;

/// Most cgroups of one look: a node has at most some thousand containers.
const MOST: usize = 8192;

/// Most cgroups below one container, which a container may make as it likes.
const MOST_NESTED: usize = 64;

/// How deep they are looked for.
const DEEPEST: usize = 8;

/// The trees of one cgroup version, open.
pub(super) trait Trees {
    /// The tree in which cgroups are looked for: each cgroup is in it.
    fn list(&self) -> &OwnedFd;
    /// A file of a cgroup that is rarely written: its time is when the cgroup was made.
    fn birth_file(&self) -> &'static str;
    /// Reads what changes seldom of a cgroup.
    fn bounds(&self, cgroup: &Place<'_>, reader: &mut Reader, detail: Detail) -> Bounds;
    /// Reads what is used in it, and some of its processes; `None` if it has disappeared.
    fn usage(
        &self,
        cgroup: &Place<'_>,
        bounds: &Bounds,
        open: &mut Open,
        how: (&mut Reader, Detail),
    ) -> Option<(Usage, Vec<u32>)>;
}

/// A cgroup that was found.
pub(super) struct Place<'a> {
    /// Its directory in the tree that is listed.
    pub(super) dir: &'a OwnedFd,
    /// Its path below the root of each tree, without a slash at the start.
    pub(super) path: &'a str,
    pub(super) kind: &'a CgroupKind,
}

/// One look.
pub(super) struct Look<'a> {
    pub(super) shown: &'a Shown,
    pub(super) files: &'a KernelFiles,
    pub(super) detail: Detail,
    pub(super) now: Instant,
}

/// A cgroup that is yet to be read.
struct Found {
    path: String,
    kept: Kept,
    /// The number of its directory.
    number: u64,
    kind: CgroupKind,
    inside: Inside,
}

/// What the children of a cgroup are.
#[derive(Clone)]
enum Inside {
    /// Pods of this class, and the levels of the other classes below that of guaranteed ones.
    Pods(QosClass),
    /// Containers.
    Pod(PodUid),
    /// What a container made, so many levels deep.
    Nested(usize),
    /// Nothing that is shown.
    Nothing,
}

impl Look<'_> {
    /// Reads every cgroup that is shown, by its path.
    pub(super) fn run(
        &self,
        trees: &impl Trees,
        reader: &mut Reader,
        books: &mut Books,
    ) -> io::Result<BTreeMap<String, CgroupSample>> {
        let (seen, kept, most_kept) = (BTreeMap::new(), BTreeMap::new(), most_kept());
        let processes = BTreeMap::new();
        let mut walk = Walk { look: self, trees, reader, books, seen, kept, most_kept, processes };
        let (kind, inside) = (CgroupKind::Root, Inside::Nothing);
        let number = rustix::fs::fstat(trees.list())?.st_ino;
        let kept = walk.keep(trees.list(), ".", number).ok_or(io::ErrorKind::NotFound)?;
        walk.take(Found { path: String::new(), kept, number, kind, inside }, 0);
        let node_alone = self.detail == Detail::Node;
        for (name, path) in self.shown.system.iter().filter(|_| !node_alone) {
            walk.start(path, CgroupKind::System(*name), Inside::Nothing);
        }
        let tree = &self.shown.tree;
        // Without a cgroup of all pods, runtimes put containers anywhere below the root: they are not looked for.
        if tree.per_qos() {
            let path = tree.literal(&tree.root());
            let inside = if node_alone { Inside::Nothing } else { Inside::Pods(QosClass::Guaranteed) };
            walk.start(&path, CgroupKind::AllPods, inside);
        }
        let Walk { seen, kept, processes, .. } = walk;
        if node_alone {
            // What was kept of other cgroups is for looks at them.
            books.kept.extend(kept);
        } else {
            (books.kept, books.processes) = (kept, processes);
        }
        Ok(seen)
    }

    /// What the directory `name` in a cgroup is.
    fn kind(&self, parent: &Found, name: &str, path: &str) -> (CgroupKind, Inside) {
        let deeper = |depth| if self.detail == Detail::Everything { Inside::Nested(depth) } else { Inside::Nothing };
        match &parent.inside {
            Inside::Pods(class) => {
                let tree = &self.shown.tree;
                let is_level = |level: &QosClass| {
                    *class == QosClass::Guaranteed && tree.literal(&tree.level(*level)).trim_start_matches('/') == path
                };
                if let Some(level) = [QosClass::Burstable, QosClass::BestEffort].into_iter().find(is_level) {
                    return (CgroupKind::PodsOfClass, Inside::Pods(level));
                }
                match tree.pod_at(*class, name) {
                    Some((uid, _)) => (CgroupKind::Pod(uid.clone()), Inside::Pod(uid)),
                    None => (CgroupKind::Other, deeper(0)),
                }
            }
            Inside::Pod(pod) => match container_id(name) {
                Some(id) => {
                    let kind = CgroupKind::Container { pod: pod.clone(), id: ContainerId::from(id) };
                    (kind, deeper(0))
                }
                None => (CgroupKind::Other, deeper(0)),
            },
            Inside::Nested(depth) if *depth < DEEPEST => (CgroupKind::Other, deeper(depth + 1)),
            Inside::Nested(_) | Inside::Nothing => (CgroupKind::Other, Inside::Nothing),
        }
    }
}

/// The state of one look.
struct Walk<'a, T> {
    look: &'a Look<'a>,
    trees: &'a T,
    reader: &'a mut Reader,
    books: &'a mut Books,
    seen: BTreeMap<String, CgroupSample>,
    kept: BTreeMap<u64, Kept>,
    most_kept: usize,
    processes: BTreeMap<String, Vec<u32>>,
}

impl<T: Trees> Walk<'_, T> {
    /// Reads the cgroup at a plain path and all below it that is shown. The root is read already.
    fn start(&mut self, path: &str, kind: CgroupKind, inside: Inside) {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return;
        }
        let Ok(stat) = rustix::fs::statat(self.trees.list(), path, AtFlags::SYMLINK_NOFOLLOW) else { return };
        let number = stat.st_ino;
        let Some(kept) = self.keep(self.trees.list(), path, number) else { return };
        self.take(Found { path: path.to_owned(), kept, number, kind, inside }, 0);
    }

    /// What is kept of a directory. A number is never given to another cgroup while its directory is open.
    fn keep(&mut self, parent: impl AsFd, name: &str, number: u64) -> Option<Kept> {
        let known = self.books.kept.remove(&number);
        known.or_else(|| open_dir(parent, name).ok().map(Kept::new))
    }

    /// Reads a cgroup, then its children. The depth is bounded by what [`Inside`] allows, and answers with how many cgroups
    /// were read below containers.
    fn take(&mut self, mut found: Found, mut nested: usize) -> usize {
        if self.seen.len() >= MOST {
            return nested;
        }
        self.read(&mut found);
        // A directory has a link from each of its children.
        let names = match found.inside {
            Inside::Nothing => Vec::new(),
            Inside::Nested(_) if rustix::fs::fstat(&found.kept.dir).is_ok_and(|stat| stat.st_nlink == 2) => Vec::new(),
            _ => children(&found.kept.dir, self.reader),
        };
        for (name, number) in names {
            let path = format!("{}/{name}", found.path);
            let (kind, inside) = self.look.kind(&found, &name, &path);
            if kind == CgroupKind::Other {
                if self.look.detail != Detail::Everything || nested >= MOST_NESTED {
                    continue;
                }
                nested += 1;
            }
            let Some(kept) = self.keep(&found.kept.dir, &name, number) else { continue };
            let begun = if matches!(kind, CgroupKind::Container { .. }) { 0 } else { nested };
            let count = self.take(Found { path, kept, number, kind, inside }, begun);
            nested = nested.max(if begun == 0 { nested } else { count });
        }
        if found.kind != CgroupKind::Other && self.kept.len() < self.most_kept {
            self.kept.insert(found.number, found.kept);
        }
        nested
    }

    fn read(&mut self, found: &mut Found) {
        let Found { path, kept, kind, .. } = found;
        let Look { now, detail, .. } = *self.look;
        let known = kept.bounds(now, detail);
        let place = Place { dir: &kept.dir, path, kind };
        let bounds = known.unwrap_or_else(|| self.trees.bounds(&place, self.reader, detail));
        let how = (&mut *self.reader, detail);
        let Some((mut usage, processes)) = self.trees.usage(&place, &bounds, &mut kept.open, how) else { return };
        if known.is_none() {
            kept.set_bounds(now, detail, bounds);
        }
        self.books.devices.fill(&mut usage.io, &self.look.files.sys);
        let mut limits = bounds.limits;
        if *kind == CgroupKind::Root {
            kept.created = kept.created.or_else(|| machine::boot_time(&self.look.files.proc, self.reader));
            self.complete_root(&mut usage, &mut limits);
        }
        kept.created = kept.created.or_else(|| self.created(&kept.dir));
        let sample = CgroupSample { kind: kind.clone(), created_at: kept.created, usage, limits };
        let path = format!("/{path}");
        if !processes.is_empty() {
            self.processes.insert(path.clone(), processes);
        }
        self.seen.insert(path, sample);
    }

    /// When the cgroup was made: the older one of the times of its directory, which changes with its children, and of a file
    /// that is rarely written. The kernel makes both up when it has forgotten them, so the first answer is kept.
    /// upstream: cadvisor container/common/helpers.go getSpecInternal, as of v1.36
    fn created(&self, dir: &OwnedFd) -> Option<Timestamp> {
        let file = rustix::fs::statat(dir, self.trees.birth_file(), AtFlags::SYMLINK_NOFOLLOW).ok();
        [rustix::fs::fstat(dir).ok(), file].into_iter().flatten().filter_map(|stat| changed_at(&stat)).min()
    }

    /// The root has no limits, and on cgroup v2 neither usage nor swap.
    /// upstream: cadvisor container/raw/handler.go GetSpec; opencontainers/cgroups fs2 rootStatsFromMeminfo, as of v1.36
    fn complete_root(&mut self, usage: &mut Usage, limits: &mut Limits) {
        let Some(meminfo) = self.reader.path(&self.look.files.proc.join("meminfo")) else { return };
        let value = |key| parse::meminfo(meminfo, key);
        limits.memory = value("MemTotal");
        limits.swap = value("SwapTotal");
        if usage.swap_bytes.is_none() {
            usage.swap_bytes =
                value("SwapTotal").zip(value("SwapFree")).map(|(total, free)| total.saturating_sub(free));
        }
    }
}

fn changed_at(stat: &Stat) -> Option<Timestamp> {
    let nanos = i32::try_from(stat.st_mtime_nsec).ok()?;
    Timestamp::new(stat.st_mtime, nanos).ok()
}

/// Names and numbers of the directories in a cgroup. Cgroups that appear or disappear meanwhile may be missed.
fn children(dir: &OwnedFd, reader: &mut Reader) -> Vec<(String, u64)> {
    let mut names = Vec::new();
    reader.entries(dir, |entry| {
        if entry.file_type() == FileType::Directory
            && let Ok(name) = entry.file_name().to_str()
        {
            names.push((name.to_owned(), entry.ino()));
        }
        names.len() < MOST
    });
    names
}

/// The id in the name of a container's cgroup: `ID`, `crio-ID`, or `cri-containerd-ID.scope` with any prefix. Not a
/// container is the cgroup of CRI-O's monitor.
fn container_id(name: &str) -> Option<&str> {
    let (prefix, id) = match name.strip_suffix(".scope") {
        Some(scope) => scope.rsplit_once('-').unwrap_or(("", scope)),
        None => name.strip_prefix("crio-").map_or(("", name), |rest| rest.rsplit_once('-').unwrap_or(("crio", rest))),
    };
    (!id.is_empty() && !prefix.ends_with("conmon") && !name.ends_with(".slice")).then_some(id)
}

/// The directory of a cgroup in a tree, by its path.
pub(super) fn below<'a>(tree: &'a OwnedFd, place: &Place<'a>) -> Dir<'a> {
    Dir { fd: tree.as_fd(), below: place.path }
}

/// The directory of a cgroup in the tree that is listed.
pub(super) fn open<'a>(place: &Place<'a>) -> Dir<'a> {
    Dir { fd: place.dir.as_fd(), below: "" }
}

#[cfg(test)]
mod tests {
    use super::container_id;

    #[test]
    fn sts_01_a_container_is_known_by_the_name_of_its_cgroup() {
        for (name, id) in [
            ("0f3a", Some("0f3a")),
            ("cri-containerd-0f3a.scope", Some("0f3a")),
            ("crio-0f3a.scope", Some("0f3a")),
            ("docker-0f3a.scope", Some("0f3a")),
            ("crio-0f3a", Some("0f3a")),
            ("0f3a.scope", Some("0f3a")),
            ("12-34-56", Some("12-34-56")),
            ("crio-conmon-0f3a.scope", None),
            ("crio-conmon-0f3a", None),
            ("kubepods-pod1.slice", None),
            (".scope", None),
        ] {
            assert_eq!(container_id(name), id, "{name}");
        }
    }
}
