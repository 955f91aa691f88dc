//! Decisions of the kubelet.
//!
//! Everything here is a value or a pure function of values: no async, no I/O, no clock, no chance, no logging, no
//! globals. What time it is, what the runtime said, which gates are on: all of it arrives as an argument, so that every
//! decision can be run in a table. `engine` asks; this crate answers.
#![warn(missing_docs)]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod admit;
pub mod backoff;
pub mod certs;
pub mod config;
pub mod container_mounts;
pub mod desired;
pub mod dns;
pub mod env;
pub mod events;
pub mod gc;
pub mod hash;
pub mod hostname;
pub mod hosts;
pub mod id;
pub mod image;
pub mod inputs;
pub mod keyring;
pub mod launch;
pub mod lifecycle;
pub mod manifest;
pub mod node;
pub mod observe;
pub mod plan;
pub mod pod;
pub mod pod_cache;
pub mod probe;
pub mod providers;
pub mod qos;
pub mod reason;
pub mod references;
pub mod resize;
pub mod resources;
pub mod status;
pub mod time;
pub mod token;
pub mod volume_files;
