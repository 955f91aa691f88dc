//! Profiles of this process.

use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::profile::Profile;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum NoProfile {
    /// One at a time.
    #[error("another profile is being taken")]
    Busy,
    /// The processor or the C library is another one than those for which this was written.
    #[error("profiles cannot be taken on this platform")]
    Unsupported,
    /// The kernel refused.
    #[error("start to take samples")]
    Refused(#[source] std::io::Error),
}

/// Takes profiles of this process, one at a time. Nothing is counted in between. A profile whose future is dropped ends.
#[async_trait]
pub trait Profiler: Send + Sync {
    /// Where CPU time is used, from now on for so long.
    async fn cpu(&self, lasts: Duration) -> Result<Profile, NoProfile>;
    /// What memory is allocated, from now on for so long, and what of it is in use at the end.
    async fn heap(&self, lasts: Duration) -> Result<Profile, NoProfile>;
}
