//! The node tier: rubelet on a real runtime, as root.
//!
//! `make test` (or `TIERS=node make test`) starts each containerd version and runs this binary against it, with
//! `RUBELET_TEST_CONTAINERD_SOCK` and `RUBELET_TEST_CONTAINERD_VERSION` in the environment. One test at a time: a
//! rubelet takes pods that it does not know for orphans and ends them (`.config/nextest.toml`, group `node`).

use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The runtime under test. A test that finds none fails: a tier that did not run must not look as if it passed.
fn containerd_socket() -> PathBuf {
    assert!(
        std::env::var_os("RUBELET_NODE_TESTS").is_some(),
        "node tests need a machine prepared for them: run `make test`"
    );
    std::env::var_os("RUBELET_TEST_CONTAINERD_SOCK").expect("set by tests/env/test.sh").into()
}

#[test]
fn the_runtime_under_test_accepts_connections() {
    let socket = containerd_socket();
    UnixStream::connect(&socket).unwrap_or_else(|err| panic!("{}: {err}", socket.display()));
}
