//! Kernel settings that a node needs (BOOT-10).

use std::io;
use std::path::PathBuf;

use super::KernelFiles;

/// What to do about a setting that has another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "KernelTunableBehavior")]
pub enum TunablePolicy {
    /// Change it.
    Set,
    /// Leave it and report it: `protectKernelDefaults`.
    Verify,
}

/// A setting and the value that it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Its name with slashes, as below `/proc/sys`.
    pub name: &'static str,
    /// The value.
    pub wanted: i64,
}

/// upstream: cm/container_manager_linux.go setupKernelTunables, component-helpers/node/util/sysctl (v1.36)
pub const TUNABLES: [Tunable; 6] = [
    Tunable { name: "vm/overcommit_memory", wanted: 1 },
    Tunable { name: "vm/panic_on_oom", wanted: 0 },
    Tunable { name: "kernel/panic", wanted: 10 },
    Tunable { name: "kernel/panic_on_oops", wanted: 1 },
    Tunable { name: "kernel/keys/root_maxkeys", wanted: 1_000_000 },
    Tunable { name: "kernel/keys/root_maxbytes", wanted: 25_000_000 },
];

/// A setting that does not have the expected value.
#[derive(Debug, thiserror::Error)]
pub enum TunableError {
    /// The setting could not be read.
    #[error("read kernel flag {name}")]
    Read {
        /// The setting.
        name: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The setting could not be changed.
    #[error("set kernel flag {name} from {found} to {wanted}")]
    Set {
        /// The setting.
        name: &'static str,
        /// The expected value.
        wanted: i64,
        /// The actual value.
        found: i64,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The setting has another value and `protectKernelDefaults` forbids changing it.
    #[error("invalid kernel flag: {name}, expected value: {wanted}, actual value: {found}")]
    Wrong {
        /// The setting.
        name: &'static str,
        /// The expected value.
        wanted: i64,
        /// The actual value.
        found: i64,
    },
}

/// Sets or verifies all settings and returns those that do not have the expected value afterwards.
#[doc(alias = "setupKernelTunables")]
pub fn apply(files: &KernelFiles, policy: TunablePolicy) -> Vec<TunableError> {
    TUNABLES.into_iter().filter_map(|tunable| apply_one(files, tunable, policy).err()).collect()
}

fn apply_one(
    files: &KernelFiles,
    Tunable { name, wanted }: Tunable,
    policy: TunablePolicy,
) -> Result<(), TunableError> {
    let path: PathBuf = files.proc.join("sys").join(name);
    let text = std::fs::read_to_string(&path).map_err(|source| TunableError::Read { name, source })?;
    let found = text.trim().parse().map_err(|err| TunableError::Read { name, source: io::Error::other(err) })?;
    match policy {
        _ if found == wanted => Ok(()),
        TunablePolicy::Verify => Err(TunableError::Wrong { name, wanted, found }),
        TunablePolicy::Set => std::fs::write(&path, wanted.to_string()).map_err(|source| TunableError::Set {
            name,
            wanted,
            found,
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::temp_dir;

    #[test]
    fn boot_10_six_settings_get_upstreams_values() {
        let dir = temp_dir();
        let files = KernelFiles { proc: dir.path().to_path_buf(), ..KernelFiles::default() };
        let expected = [
            ("vm/overcommit_memory", "1"),
            ("vm/panic_on_oom", "0"),
            ("kernel/panic", "10"),
            ("kernel/panic_on_oops", "1"),
            ("kernel/keys/root_maxkeys", "1000000"),
            ("kernel/keys/root_maxbytes", "25000000"),
        ];
        for (name, _) in expected {
            let path = dir.path().join("sys").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "7\n").unwrap();
        }
        assert!(apply(&files, TunablePolicy::Set).is_empty());
        for (name, value) in expected {
            assert_eq!(std::fs::read_to_string(dir.path().join("sys").join(name)).unwrap(), value, "{name}");
        }
    }

    #[test]
    fn boot_10_settings_are_set_or_only_verified() {
        let dir = temp_dir();
        let files = KernelFiles { proc: dir.path().to_path_buf(), ..KernelFiles::default() };
        assert_eq!(apply(&files, TunablePolicy::Set).len(), TUNABLES.len(), "no setting can be read");
        for tunable in TUNABLES {
            let path = dir.path().join("sys").join(tunable.name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{}\n", tunable.wanted)).unwrap();
        }
        assert!(apply(&files, TunablePolicy::Verify).is_empty());
        let panic = dir.path().join("sys/kernel/panic");
        std::fs::write(&panic, "0\n").unwrap();
        let wrong: Vec<_> = apply(&files, TunablePolicy::Verify).iter().map(ToString::to_string).collect();
        assert_eq!(wrong, ["invalid kernel flag: kernel/panic, expected value: 10, actual value: 0"]);
        assert!(apply(&files, TunablePolicy::Set).is_empty());
        assert_eq!(std::fs::read_to_string(&panic).unwrap(), "10");
        std::fs::write(&panic, "many\n").unwrap();
        assert_eq!(apply(&files, TunablePolicy::Set).len(), 1);
    }
}
