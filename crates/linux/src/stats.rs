//! What cgroups, networks and processes use, read from the kernel when somebody asks (STS-01, ADR 26).
//!
//! A look opens each tree once and reads the files of a cgroup below that descriptor: no fork, no watch, no thread for each
//! pod, and nothing between two looks but small books: when a cgroup was made, and how block devices are called.
//!
//! Invariants: a cgroup that disappears meanwhile is left out; a file that is missing is `None`; the number of cgroups and the
//! size of each file are bounded, whatever containers make below their own cgroup.

mod files;
mod io;
mod kept;
mod machine;
mod memory;
mod network;
mod open_files;
mod parse;
mod v1;
mod v2;
mod walk;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use rubelet_core::qos::{CgroupTree, CgroupVersion};
use rubelet_core::usage::{MachineInfo, NetworkUsage, ProcessCount, Sample, SystemContainer};
use rubelet_engine::blocking::USAGE;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{Detail, Stats, Unmeasured};

use self::files::Reader;
use crate::cgroups::Layout;
use crate::host::KernelFiles;

pub use self::machine::own_cgroup;

/// Which cgroups a look shows, besides the root.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Those of pods.
    pub tree: CgroupTree,
    /// Those of daemons, by their plain paths.
    pub system: Vec<(SystemContainer, String)>,
}

/// The usage of this machine.
#[doc(alias = "cadvisor.Interface")]
#[derive(Clone, Debug)]
pub struct KernelStats {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    layout: Layout,
    shown: Shown,
    files: KernelFiles,
    clock: Clock,
    machine: OnceLock<MachineInfo>,
    /// Only one look runs at a time, so nobody waits for this.
    books: Mutex<Books>,
}

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
struct Books {
    /// The cgroups of the last look, by the numbers of their directories.
    kept: BTreeMap<u64, kept::Kept>,
    /// Some processes of each container of the last look, by the path of its cgroup.
    processes: BTreeMap<String, Vec<u32>>,
    /// Names of block devices.
    devices: io::DeviceNames,
}

impl KernelStats {
    /// Reads the cgroups of `layout` and the files below `files`.
    pub fn new(layout: Layout, shown: Shown, files: KernelFiles, clock: Clock) -> Self {
        let (machine, books) = (OnceLock::new(), Mutex::default());
        Self { inner: Arc::new(Inner { layout, shown, files, clock, machine, books }) }
    }
}

#[async_trait]
impl Stats for KernelStats {
    async fn sample(&self, detail: Detail) -> Result<Sample, Unmeasured> {
        let inner = Arc::clone(&self.inner);
        USAGE.run("cgroups", move || inner.sample(detail)).await
    }

    async fn networks(&self, cgroups: &[String]) -> BTreeMap<String, NetworkUsage> {
        let (inner, cgroups) = (Arc::clone(&self.inner), cgroups.to_vec());
        USAGE.run("networks", move || inner.networks(cgroups)).await
    }

    async fn processes(&self) -> Result<ProcessCount, Unmeasured> {
        let inner = Arc::clone(&self.inner);
        USAGE.run("processes", move || inner.processes()).await
    }

    async fn machine(&self) -> MachineInfo {
        if let Some(known) = self.inner.machine.get() {
            return known.clone();
        }
        let inner = Arc::clone(&self.inner);
        USAGE.run("machine", move || inner.machine.get_or_init(|| machine::machine(&inner.files)).clone()).await
    }

    fn rest(&self) {
        self.inner.rest();
    }
}

impl Inner {
    /// A look that runs now is not waited for: it keeps what it has read.
    fn rest(&self) {
        if let Ok(mut books) = self.books.try_lock() {
            books.kept.clear();
            books.processes.clear();
        }
    }

    fn sample(&self, detail: Detail) -> Result<Sample, Unmeasured> {
        let at = self.clock.now();
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reader = Reader::default();
        let look = walk::Look { shown: &self.shown, files: &self.files, detail, now: at.mono };
        let result = match self.layout.version() {
            CgroupVersion::V1 => {
                v1::Trees::open(&self.layout).and_then(|trees| look.run(&trees, &mut reader, &mut books))
            }
            CgroupVersion::V2 => v2::Tree::open(&self.layout).and_then(|tree| look.run(&tree, &mut reader, &mut books)),
        };
        let cgroups = result.map_err(|err| Unmeasured(format!("read the cgroups: {err}")))?;
        Ok(Sample { at, cgroups })
    }

    fn networks(&self, cgroups: Vec<String>) -> BTreeMap<String, NetworkUsage> {
        let list = match self.layout.version() {
            CgroupVersion::V1 => v1::Trees::open(&self.layout).map(v1::Trees::into_list),
            CgroupVersion::V2 => v2::Tree::open(&self.layout).map(v2::Tree::into_list),
        };
        match list {
            Ok(list) => {
                // Only of the look before this question: later, a number may be another process's.
                let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
                let known = std::mem::take(&mut books.processes);
                drop(books);
                network::networks(&list, &self.files.proc, cgroups, &known)
            }
            Err(_) => BTreeMap::new(),
        }
    }

    /// upstream: stats/pidlimit/pidlimit_linux.go Stats (v1.36)
    fn processes(&self) -> Result<ProcessCount, Unmeasured> {
        let mut reader = Reader::default();
        let settings: [PathBuf; 2] =
            ["pid_max", "threads-max"].map(|name| self.files.proc.join("sys/kernel").join(name));
        let max = settings.iter().filter_map(|path| reader.path(path)?.trim().parse().ok()).min();
        let current = reader.path(&self.files.proc.join("loadavg")).and_then(parse::threads_of_loadavg);
        match (max, current) {
            (Some(max), Some(current)) => Ok(ProcessCount { max, current }),
            (None, _) => Err(Unmeasured("the limit of processes cannot be read".to_owned())),
            (_, None) => Err(Unmeasured("the number of threads cannot be read".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
