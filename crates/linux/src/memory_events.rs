//! Wakes eviction when memory fills up (EV-04).
//!
//! What is in use is all but free memory and inactive page cache: the working set, which thresholds count. No event of the
//! kernel is bound to an amount of it. So it is read at a pace that follows the distance: even memory that every processor
//! fills as fast as it can is seen in time, and far from a threshold hardly anything is read. Events make the next reading
//! come at once: a pressure stall (PSI), and on cgroup v2 that the pods have reached their common limit. On cgroup v1 an
//! eventfd becomes readable once `memory.usage_in_bytes` crosses an amount, which a cgroup whose page cache shrinks meanwhile
//! does not. The events of v2 stay armed between two waits: to arm them costs more than a reading.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::eviction::{MemoryMark, MemoryOf, MemoryUsed};
use rubelet_engine::blocking::HOST;
use rubelet_engine::ports::{CgroupVersion, PressureEvents};
use rustix::event::{EventfdFlags, eventfd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::OnceCell;
use tracing::debug;

use crate::cgroups::Layout;

/// What one processor fills in a second. Memory that fills faster is seen late.
const FASTEST_OF_ONE: u64 = 4 << 30;
/// What all processors fill in a second: as much as the buses of large machines carry.
const FASTEST_OF_ALL: u64 = 32 << 30;
/// The shortest and the longest pause between two readings.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);
/// Stalls count this near to a mark. Further away they come from containers at limits of their own.
const NEAR: u64 = 2 << 30;
/// Stalls that lead to a reading: so many microseconds of so many. The second is all that a process without
/// `CAP_SYS_RESOURCE` may ask for. The kernel takes the last byte for the end of the text, whatever it is.
const TRIGGERS: [&str; 2] = ["some 25000 500000\0", "some 100000 2000000\0"];
/// The shortest time between two readings that stalls lead to.
const BETWEEN_STALLS: Duration = Duration::from_millis(50);
/// What the kernel compares on cgroup v1.
const USAGE_V1: &str = "memory.usage_in_bytes";
/// Pressure stalls of memory, below `/proc`.
const PSI: &str = "pressure/memory";
/// Counts on cgroup v2 how often a cgroup has reached limits of its own.
const LIMIT_EVENTS: &str = "memory.events.local";

/// The memory of this machine, and of all its pods.
#[derive(Debug)]
pub struct KernelMemoryEvents {
    version: CgroupVersion,
    /// The cgroup of the node, and that of all pods: the directory with the files of the memory controller.
    node: PathBuf,
    pods: PathBuf,
    proc: PathBuf,
    /// What may be filled in a second.
    fastest: u64,
    /// `None` where there are no such events.
    stalls: OnceCell<Option<Armed>>,
    limit: OnceCell<Option<Armed>>,
}

impl KernelMemoryEvents {
    /// Of the cgroups in `layout`; `pods` is the path of the cgroup of all pods from the root. The machine has so many
    /// `processors`. `None` without a memory controller.
    pub fn new(layout: &Layout, pods: &str, proc: &Path, processors: u32) -> Option<Self> {
        let root = layout.memory_root()?;
        let pods = root.join(pods.trim_start_matches('/'));
        let fastest = FASTEST_OF_ONE.saturating_mul(processors.into()).clamp(FASTEST_OF_ONE, FASTEST_OF_ALL);
        let version = layout.version();
        let (stalls, limit) = (OnceCell::new(), OnceCell::new());
        Some(Self { version, node: root, pods, proc: proc.to_owned(), fastest, stalls, limit })
    }

    fn dir(&self, of: MemoryOf) -> &Path {
        match of {
            MemoryOf::Node => &self.node,
            MemoryOf::Pods => &self.pods,
        }
    }

    /// Waits for the kernel's events of cgroup v1.
    async fn crossed(&self, marks: &[MemoryMark]) -> io::Result<()> {
        let mut armed = Vec::new();
        for mark in marks {
            let left = mark.at.saturating_sub(self.in_use(mark.of).await?);
            let dir = self.dir(mark.of).to_owned();
            let event = HOST.run("memory-events", move || arm(&dir, left)).await?;
            armed.push(register(event, Interest::READABLE)?);
        }
        wait_for_any(&armed).await
    }

    /// Reads what is used now and then, sooner the nearer a mark is, until one is reached. A stall leads to a reading at once,
    /// and near a mark to a look.
    async fn grown(&self, marks: &[MemoryMark]) -> io::Result<()> {
        let mut stalled = false;
        loop {
            let left = self.left(marks).await?;
            if left == 0 || (stalled && left < NEAR) {
                return Ok(());
            }
            let mut pause = pause(left, self.fastest);
            if stalled {
                tokio::time::sleep(BETWEEN_STALLS).await;
                pause = pause.saturating_sub(BETWEEN_STALLS);
            }
            stalled = tokio::select! {
                biased;
                () = self.stalled() => true,
                () = self.limited(marks) => true,
                () = tokio::time::sleep(pause) => false,
            };
        }
    }

    /// How much may be used until the nearest mark is reached.
    async fn left(&self, marks: &[MemoryMark]) -> io::Result<u64> {
        let mut nearest = u64::MAX;
        for mark in marks {
            let mut left = mark.at.saturating_sub(self.at_most(mark.of).await?);
            if pause(left, self.fastest) < LONGEST {
                left = mark.at.saturating_sub(self.in_use(mark.of).await?);
            }
            nearest = nearest.min(left);
        }
        Ok(nearest)
    }

    /// What is in use and not less, at little cost: what the pods use with all their page cache, for which the kernel need not
    /// add up their cgroups.
    async fn at_most(&self, of: MemoryOf) -> io::Result<u64> {
        let file = match (of, self.version) {
            (MemoryOf::Node, _) => return self.in_use(of).await,
            (MemoryOf::Pods, CgroupVersion::V1) => self.pods.join(USAGE_V1),
            (MemoryOf::Pods, CgroupVersion::V2) => self.pods.join("memory.current"),
        };
        HOST.run("memory-events", move || number(&std::fs::read_to_string(file)?)).await
    }

    async fn in_use(&self, of: MemoryOf) -> io::Result<u64> {
        let (version, pods, meminfo) = (self.version, self.pods.clone(), self.proc.join("meminfo"));
        let read = move || match of {
            MemoryOf::Node => used_of_node(&std::fs::read_to_string(meminfo)?),
            MemoryOf::Pods => {
                let (usage, inactive) = match version {
                    CgroupVersion::V1 => (USAGE_V1, "total_inactive_file "),
                    CgroupVersion::V2 => ("memory.current", "inactive_file "),
                };
                used_of_cgroup(&pods, usage, inactive)
            }
        };
        HOST.run("memory-events", read).await
    }

    /// Waits for a stall; for ever on a kernel without PSI.
    async fn stalled(&self) {
        let file = self.proc.join(PSI);
        next(&self.stalls, "pressure stalls", move || trigger(&file)).await;
    }

    /// Waits until the pods have reached their common limit, if there is a mark of theirs; for ever on cgroup v1, whose
    /// eventfds come earlier.
    async fn limited(&self, marks: &[MemoryMark]) {
        if self.version == CgroupVersion::V1 || marks.iter().all(|mark| mark.of != MemoryOf::Pods) {
            return std::future::pending().await;
        }
        let file = self.pods.join(LIMIT_EVENTS);
        next(&self.limit, "the limit of all pods", move || Ok(File::open(file)?.into())).await;
    }
}

/// A file of the kernel that announces events by priority: a trigger of PSI, or a file of a cgroup.
#[derive(Debug)]
struct Armed(AsyncFd<OwnedFd>);

impl Armed {
    fn new(file: OwnedFd) -> io::Result<Self> {
        let armed = Self(register(file, Interest::PRIORITY)?);
        armed.seen()?;
        Ok(armed)
    }

    async fn next(&self) -> io::Result<()> {
        self.0.ready(Interest::PRIORITY).await?.clear_ready();
        self.seen()
    }

    /// A file of a cgroup announces the next event only after it was read. Neither kind of file waits for a disk.
    fn seen(&self) -> io::Result<()> {
        rustix::io::pread(self.0.get_ref(), &mut [0; 64], 0)?;
        Ok(())
    }
}

/// The next event of a file that is opened once; what cannot be followed then is not tried again.
async fn next(armed: &OnceCell<Option<Armed>>, of: &str, open: impl FnOnce() -> io::Result<OwnedFd> + Send + 'static) {
    let arm = async || {
        let opened = HOST.run("memory-events", open).await.and_then(Armed::new);
        opened.inspect_err(|err| debug!(%err, of, "These events cannot be followed")).ok()
    };
    let event = match armed.get_or_init(arm).await {
        Some(armed) => armed.next().await,
        None => std::future::pending().await,
    };
    if let Err(err) = event {
        debug!(%err, of, "An event was lost");
        std::future::pending().await
    }
}

/// A trigger for stalls, the best that the kernel allows.
fn trigger(file: &Path) -> io::Result<OwnedFd> {
    let mut outcome = Err(io::ErrorKind::Unsupported.into());
    for trigger in TRIGGERS {
        outcome = File::options().read(true).write(true).open(file).and_then(|mut file| {
            file.write_all(trigger.as_bytes())?;
            Ok(OwnedFd::from(file))
        });
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

#[async_trait]
impl PressureEvents for KernelMemoryEvents {
    async fn used(&self) -> MemoryUsed {
        MemoryUsed { node: self.in_use(MemoryOf::Node).await.ok(), pods: self.in_use(MemoryOf::Pods).await.ok() }
    }

    async fn filled(&self, marks: &[MemoryMark]) {
        if marks.is_empty() {
            return std::future::pending().await;
        }
        let event = async {
            match self.version {
                CgroupVersion::V1 => match self.crossed(marks).await {
                    Ok(()) => {}
                    Err(err) => {
                        debug!(%err, "The kernel announces no amount of memory");
                        std::future::pending().await
                    }
                },
                CgroupVersion::V2 => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            biased;
            grown = self.grown(marks) => grown,
            () = event => Ok(()),
        };
        if let Err(err) = outcome {
            // The loop looks at its own pace then.
            debug!(%err, "Memory cannot be followed: a shortage is seen up to ten seconds late");
            std::future::pending().await
        }
    }
}

fn pause(left: u64, fastest: u64) -> Duration {
    let micros = u128::from(left).saturating_mul(1_000_000) / u128::from(fastest);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)).clamp(SHORTEST, LONGEST)
}

/// An eventfd that becomes readable once the cgroup uses `left` bytes more than now. It ends with its descriptor.
fn arm(dir: &Path, left: u64) -> io::Result<OwnedFd> {
    let usage = dir.join(USAGE_V1);
    let at = number(&std::fs::read_to_string(&usage)?)?.saturating_add(left);
    let watched = File::open(&usage)?;
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let mut control = File::options().write(true).open(dir.join("cgroup.event_control"))?;
    let line = format!("{} {} {at}", event.as_raw_fd(), watched.as_raw_fd());
    control.write_all(line.as_bytes())?;
    Ok(event)
}

async fn wait_for_any(armed: &[AsyncFd<OwnedFd>]) -> io::Result<()> {
    let mut waits: Vec<_> = armed.iter().map(|event| Box::pin(event.readable())).collect();
    std::future::poll_fn(|context| {
        for wait in &mut waits {
            if let std::task::Poll::Ready(ready) = wait.as_mut().poll(context) {
                return std::task::Poll::Ready(ready.map(drop));
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// What is used of the machine's memory: all but what is free or inactive page cache.
fn used_of_node(meminfo: &str) -> io::Result<u64> {
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.trim().strip_suffix("kB")).map(number).transpose().map(Option::unwrap_or_default)
    };
    let free = kib("MemFree")?.saturating_add(kib("Inactive(file)")?);
    Ok(kib("MemTotal")?.saturating_sub(free).saturating_mul(1024))
}

/// What is used in a cgroup, without inactive page cache.
fn used_of_cgroup(dir: &Path, usage: &str, inactive: &str) -> io::Result<u64> {
    let current = number(&std::fs::read_to_string(dir.join(usage))?)?;
    let stat = std::fs::read_to_string(dir.join("memory.stat"))?;
    let inactive = stat.lines().find_map(|line| line.strip_prefix(inactive));
    Ok(current.saturating_sub(inactive.map(number).transpose()?.unwrap_or_default()))
}

fn number(text: &str) -> io::Result<u64> {
    text.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is no number")))
}

#[expect(unsafe_code, reason = "tokio has no safe way to wait for a descriptor of ours")]
fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the registered descriptor number must stay this open file's until it is deregistered. An `OwnedFd` keeps
    // its number, nothing else closes it, and `AsyncFd` deregisters it before dropping it.
    let registered = unsafe { AsyncFd::register_with_interest(fd, interest) };
    registered.map_err(|err| err.into_parts().1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::temp_dir;

    #[test]
    fn ev_04_the_pause_follows_the_distance() {
        let of = |left: u64| pause(left, FASTEST_OF_ONE).as_millis();
        assert_eq!(
            (of(0), of(FASTEST_OF_ONE / 10), of(FASTEST_OF_ONE), of(100 * FASTEST_OF_ONE)),
            (100, 100, 1000, 2000)
        );
    }

    #[test]
    fn ev_04_what_is_used_leaves_out_free_memory_and_inactive_page_cache() {
        let meminfo =
            "MemTotal:       1000 kB\nMemFree:         300 kB\nInactive(anon):  50 kB\nInactive(file):  100 kB\n";
        assert_eq!(used_of_node(meminfo).unwrap(), 600 * 1024);
        assert_eq!(used_of_node("").unwrap(), 0);
        assert!(used_of_node("MemFree: lots kB").is_err());
    }

    /// The kernel of this machine takes a trigger, if it counts stalls at all, and nothing is announced without a stall.
    #[tokio::test]
    async fn ev_04_node_the_kernel_takes_a_trigger_for_stalls() {
        crate::testing::needs_node_tests();
        let file = Path::new("/proc").join(PSI);
        if std::fs::read(&file).is_err() {
            return;
        }
        let armed = Armed::new(trigger(&file).expect("it takes one")).expect("it can be waited for");
        let waited = tokio::time::timeout(Duration::from_millis(1), armed.next()).await;
        assert!(waited.is_err() || waited.is_ok_and(|event| event.is_ok()), "an event or none, but no error");
    }

    /// cgroup v2, on files of ours: memory that grows is seen.
    /// In real time: virtual time would not wait for the threads that read.
    #[tokio::test]
    async fn ev_04_memory_that_grows_is_seen_without_events() {
        let dir = temp_dir();
        let write = |used: u64, inactive: u64| {
            std::fs::create_dir_all(dir.path().join("kubepods")).unwrap();
            std::fs::write(dir.path().join("kubepods/memory.current"), format!("{used}\n")).unwrap();
            let stat = format!("anon 1\ninactive_file {inactive}\n");
            std::fs::write(dir.path().join("kubepods/memory.stat"), stat).unwrap();
        };
        write(1 << 30, 0);
        let events = KernelMemoryEvents::new(&Layout::v2(dir.path().to_owned()), "/kubepods", dir.path(), 1)
            .expect("a controller");
        assert_eq!(events.used().await, MemoryUsed { node: None, pods: Some(1 << 30) });
        let marks = [MemoryMark { of: MemoryOf::Pods, at: (1 << 30) + (100 << 20) }];
        let wait = |millis| tokio::time::timeout(Duration::from_millis(millis), events.filled(&marks));
        assert!(wait(300).await.is_err(), "nothing grew");
        let waiting = wait(60_000);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("nothing grew"),
            () = tokio::time::sleep(Duration::from_millis(300)) => {}
        }
        write(2 << 30, 1 << 30);
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("only page cache grew"),
            () = tokio::time::sleep(Duration::from_millis(300)) => {}
        }
        write(2 << 30, 0);
        waiting.await.expect("it grew");
    }

    #[tokio::test(start_paused = true)]
    async fn ev_04_without_files_nothing_is_noticed_and_nothing_fails() {
        let dir = temp_dir();
        let tree =
            crate::cgroups::Hierarchy { root: dir.path().to_owned(), controllers: BTreeSet::from(["memory".into()]) };
        for layout in [Layout::v1(vec![tree]), Layout::v2(dir.path().to_owned())] {
            let events = KernelMemoryEvents::new(&layout, "/kubepods", dir.path(), 1).expect("a controller");
            let marks = [MemoryMark { of: MemoryOf::Node, at: 1 }];
            let waited = tokio::time::timeout(Duration::from_secs(60), events.filled(&marks)).await;
            assert!(waited.is_err());
        }
        assert!(KernelMemoryEvents::new(&Layout::v1(Vec::new()), "/kubepods", dir.path(), 1).is_none());
    }
}
