//! What the tests of this crate share.

pub(crate) use tempfile::TempDir;

/// A directory of its own for one test.
pub(crate) fn temp_dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

/// Whether tests that change the machine (mounts, cgroups) are wanted. They need root.
pub(crate) fn node_tests() -> bool {
    std::env::var_os("RUBELET_NODE_TESTS").is_some_and(|value| value == "1")
}

/// Runs `work` on a thread with a mount namespace of its own, so that what it mounts is nobody else's and goes with it.
/// `None`, with a line that says so, where the tests do not run as root.
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    use rustix::mount::{MountPropagationFlags, mount_change};

    let run = || {
        #[expect(unsafe_code, reason = "no safe wrapper exists")]
        // SAFETY: unshare takes a number and touches no memory. It changes this new thread alone, which shares no
        // descriptors or working directory that others would lose by it, and which ends with `work`.
        let unshared = unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS) };
        if unshared != 0 {
            return None;
        }
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).expect("mounts are ours alone");
        Some(work())
    };
    let done = std::thread::scope(|threads| threads.spawn(run).join());
    let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if done.is_none() {
        eprintln!("not checked: mounts need root");
    }
    done
}
