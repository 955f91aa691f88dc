//! The loops of the kubelet.
//!
//! This crate owns all state, drives `core`'s decisions and reaches the world only through the traits in [`ports`].
//! It contains no lock: each piece of state has one owning task, others hold a handle.

pub mod ports;
