//! Helpers shared by the tests of this crate.

pub(crate) use tempfile::TempDir;

/// A temporary directory for one test.
pub(crate) fn temp_dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

/// First call of a test that changes the machine (mounts, cgroups) and needs root. The fast tier excludes such a test
/// by its name (`.config/nextest.toml`). If it runs anyway it fails, so that a test that did nothing never counts as
/// passed.
pub(crate) fn needs_node_tests() {
    assert!(
        std::env::var_os("RUBELET_NODE_TESTS").is_some_and(|value| value == "1"),
        "this test mounts and makes cgroups, as root: run it with RUBELET_NODE_TESTS=1 (TIERS=node make test does)"
    );
}

/// First call of a test that restarts parts of systemd or announces a shutdown.
pub(crate) fn needs_machine() {
    needs_node_tests();
    assert!(
        std::env::var_os("RUBELET_SYSTEMD_MACHINE").is_some(),
        "this test restarts parts of systemd: run it in a machine of tests/machine with RUBELET_SYSTEMD_MACHINE=1"
    );
}

/// Runs `work` on a thread with its own mount namespace, so that its mounts are not visible elsewhere and end with it.
/// Needs root: for node tests only.
pub(crate) fn in_own_mount_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    use rustix::mount::{MountPropagationFlags, mount_change};

    needs_node_tests();
    let run = || {
        #[expect(unsafe_code, reason = "no safe wrapper exists")]
        // SAFETY: unshare takes a number and touches no memory. It changes this new thread only, which shares no
        // descriptors or working directory that other threads would lose, and which ends with `work`.
        let unshared = unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS) };
        assert_eq!(unshared, 0, "a mount namespace can be made");
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).expect("mounts are ours alone");
        work()
    };
    let done = std::thread::scope(|threads| threads.spawn(run).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
