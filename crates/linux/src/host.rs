//! The machine: its facts, its kernel settings, and this process's own limits and locks.

pub mod addresses;
pub mod facts;
pub mod lock_file;
pub mod machine;
mod netlink;
pub mod node_files;
pub mod own_usage;
pub mod process;
pub mod rng;
pub mod root_dir;
pub mod tunables;

use std::path::PathBuf;

/// Where `/proc` and `/sys` are mounted. A test uses another directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFiles {
    /// `/proc`
    pub proc: PathBuf,
    /// `/sys`
    pub sys: PathBuf,
}

impl Default for KernelFiles {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}
