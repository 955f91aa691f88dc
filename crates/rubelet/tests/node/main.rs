//! The node tier: rubelet on a real runtime, as root.
//!
//! `make test` (or `TIERS=node make test`) starts each containerd version and runs this binary against it, with
//! `RUBELET_TEST_CONTAINERD_SOCK` and `RUBELET_TEST_CONTAINERD_VERSION` in the environment. One test at a time: a
//! rubelet takes pods that it does not know for orphans and ends them (`.config/nextest.toml`, group `node`).
#![expect(clippy::print_stderr, clippy::indexing_slicing, reason = "a test speaks to people and may panic")]

mod bad_input;
mod contracts;
mod endings;
mod garbage;
mod hooks;
mod hostile;
mod inside;
mod life;
mod people;
mod probes;
mod restart;
mod rig;
mod timing;
mod trouble;

use std::os::unix::net::UnixStream;

#[test]
fn the_runtime_under_test_accepts_connections() {
    let socket = rig::containerd_socket();
    UnixStream::connect(&socket).unwrap_or_else(|err| panic!("{}: {err}", socket.display()));
}
