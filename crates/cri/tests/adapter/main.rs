//! The adapter against a fake runtime on a real socket.

mod connection;
mod fake;
mod garbage;
mod runtime;
mod stats;
mod traces;
