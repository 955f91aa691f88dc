//! The kernel's log.

use async_trait::async_trait;

/// The kernel's log, from now on.
#[async_trait]
pub trait KernelLog: Send + Sync {
    /// The next text that the kernel wrote; what processes wrote is left out. `None` once the log cannot be read any more,
    /// or never could. Cancel-safe.
    async fn next(&mut self) -> Option<String>;
}
