//! What the runtime is told to launch: sandboxes and containers in CRI's terms, but in our own types.
//!
//! The builders turn a pod and the node's settings into these; `crates/cri` puts them on the wire field by field and
//! decides nothing.

mod types;

pub use types::*;
