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
