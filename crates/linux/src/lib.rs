//! The adapter to the node's kernel: cgroups, directories, mounts, container logs on disk, and facts about the host.
//!
//! Every call that may block runs in a pool of `engine::blocking`: a hung mount uses up its pod's share of threads, and
//! no other pod's. Names and contents below the root directory come from manifests and containers, so paths there are
//! resolved by descriptor (see `beneath`), never by text. This crate does not decide what a pod needs.

mod beneath;
pub mod cgroups;
pub mod checkpoints;
pub mod container_checkpoints;
pub mod dbus;
pub mod disks;
pub mod env_files;
pub mod heap;
pub mod host;
mod kernel_mounts;
pub mod layers;
pub mod logind;
pub mod logs;
pub mod memory_events;
pub mod node_logs;
pub mod pod_dirs;
pub mod preflight;
#[cfg_attr(
    not(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "profile/unsupported.rs"
)]
pub mod profile;
pub mod service;
pub mod socket_holder;
pub mod stats;
pub mod subpaths;
#[cfg(test)]
mod testing;
mod tree;
pub mod volume_dirs;
