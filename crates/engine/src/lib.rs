//! The loops of the kubelet.
//!
//! This crate owns all state, drives `core`'s decisions and reaches the world only through the traits in [`ports`].
//! It contains no lock: each piece of state has one owning task, others hold a handle.

mod allocations;
pub mod assemble;
pub mod blocking;
pub mod chain;
pub mod clock;
pub mod health;
pub mod hooks;
pub mod image_gc;
pub mod images;
mod job;
pub mod log_rotation;
mod look;
pub mod metrics;
pub mod mirror;
pub mod node;
pub mod node_cgroups;
pub mod node_lease;
pub mod node_now;
pub mod node_reporter;
pub mod node_shutdown;
pub mod oom;
pub mod pleg;
pub mod pod_worker;
pub mod ports;
pub mod prober;
mod removal;
mod resources;
mod runtime;
pub mod service;
mod slots;
pub mod status;
pub mod sync_loop;
pub mod task;
pub mod trace;
mod volumes;
