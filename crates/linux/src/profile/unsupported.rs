//! Profiles of this process: not on this platform.

use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::profile::Profile;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{NoProfile, Profiler};

pub use std::alloc::System as Allocator;

/// Takes no profiles.
#[derive(Clone, Debug)]
pub struct OwnProfiler;

impl OwnProfiler {
    /// The same on every clock.
    pub fn new(_clock: Clock) -> Self {
        Self
    }
}

#[async_trait]
impl Profiler for OwnProfiler {
    async fn cpu(&self, _lasts: Duration) -> Result<Profile, NoProfile> {
        Err(NoProfile::Unsupported)
    }

    async fn heap(&self, _lasts: Duration) -> Result<Profile, NoProfile> {
        Err(NoProfile::Unsupported)
    }
}
