//! Decisions of the kubelet.
//!
//! Everything here is a value or a pure function of values: no async, no I/O, no clock, no randomness, no logging,
//! no globals. The time, the runtime's answers and the feature gates are arguments, so that every decision can be tested
//! in a table. `engine` calls; this crate decides.
#![warn(missing_docs)]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod admit;
pub mod backoff;
pub mod certs;
pub mod config;
pub mod container_mounts;
pub mod desired;
pub mod dns;
pub mod ended;
pub mod env;
pub mod events;
pub mod eviction;
pub mod gc;
pub mod hash;
pub mod hostname;
pub mod hosts;
pub mod id;
pub mod image;
pub mod image_gc;
pub mod inputs;
pub mod keyring;
pub mod launch;
pub mod lifecycle;
pub mod log_rotation;
pub mod manifest;
pub mod node;
pub mod observe;
pub mod oom;
pub mod plan;
pub mod pod;
pub mod pod_cache;
pub mod probe;
pub mod profile;
pub mod providers;
pub mod qos;
pub mod reason;
pub mod references;
pub mod resize;
pub mod resources;
pub mod shutdown;
pub mod spec_change;
pub mod status;
pub mod time;
pub mod timeline;
pub mod token;
pub mod usage;
pub mod volume_files;
pub mod volumes;
