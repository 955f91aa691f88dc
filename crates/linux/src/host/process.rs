//! Limits and the OOM score of this process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::KernelFiles;

/// The limit of open files: requested and in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// `maxOpenFiles`.
    pub wanted: u64,
    /// The limit in force.
    pub in_force: u64,
}

impl OpenFiles {
    /// The limit in force is lower than requested: worth a warning.
    pub fn is_short(self) -> bool {
        self.in_force < self.wanted
    }
}

/// Sets the limit of open files (BOOT-07); if the hard limit cannot be raised, the soft limit is set to it.
pub fn raise_open_files(wanted: u64) -> OpenFiles {
    let limit = Rlimit { current: Some(wanted), maximum: Some(wanted) };
    if setrlimit(Resource::Nofile, limit).is_err() {
        let now = getrlimit(Resource::Nofile);
        let current = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        // The soft limit may always be set up to the hard one; if that fails, the limit in force is returned below.
        let _: Result<(), rustix::io::Errno> =
            setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: now.maximum });
    }
    OpenFiles { wanted, in_force: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) }
}

/// Writes the OOM score adjustment of this process (BOOT-06). A value below zero needs a privilege that a container may
/// lack: a failure is worth a warning, not a stop.
pub fn set_oom_score_adj(files: &KernelFiles, score: i32) -> io::Result<()> {
    std::fs::write(files.proc.join("self/oom_score_adj"), score.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::temp_dir;

    #[test]
    fn boot_07_open_files_are_capped_at_the_hard_limit() {
        let before = getrlimit(Resource::Nofile);
        let hard = before.maximum.unwrap_or(u64::MAX);
        let raised = raise_open_files(before.current.unwrap_or(1024).min(hard));
        assert!(!raised.is_short());
        let impossible = raise_open_files(u64::MAX - 1);
        assert!(impossible.is_short());
        assert!(impossible.in_force >= raised.in_force);
    }

    #[test]
    fn boot_06_the_oom_score_is_written_or_the_error_returned() {
        let dir = temp_dir();
        let files = KernelFiles { proc: dir.path().to_path_buf(), ..KernelFiles::default() };
        assert!(set_oom_score_adj(&files, -999).is_err());
        std::fs::create_dir(dir.path().join("self")).unwrap();
        set_oom_score_adj(&files, -999).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("self/oom_score_adj")).unwrap(), "-999");
    }
}
