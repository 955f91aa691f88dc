//! A D-Bus client of our own (ADR 24): method calls with a deadline, signals, and file descriptors in replies.
//!
//! One task owns the connection; a [`Bus`] is a handle to it. The connection is opened by the first call. When it dies,
//! its calls fail and its subscriptions end at once, and the next call opens another. A subscriber whose stream has
//! ended subscribes again and looks at what its signals would have announced.
//!
//! Messages come from other processes, some of them unprivileged: sizes, counts and depths have bounds, a body is parsed
//! only when a caller or a subscriber waits for it, and a signal counts only if the owner of its sender's name sent it, or if the
//! subscriber trusts the bus to deliver no other than those of trusted users.
//! Method calls to us are not answered: we have no name on the bus and offer no object.

mod address;
mod error;
mod frames;
mod handle;
mod handshake;
mod header;
mod link;
mod parse;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod types;
mod value;
mod write;

pub use address::Endpoint;
pub use error::BusError;
pub use handle::{Bus, Call, Others, Reply, Signal, SignalRule, Signals};
pub use types::Type;
pub use value::Value;
pub use write::Unwritable;
