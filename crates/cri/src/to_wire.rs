//! `core`'s configurations as CRI messages: field by field, with no decision.

mod container;
mod image;
mod linux;
mod sandbox;

use std::time::Duration;

pub(crate) use container::container_config;
pub(crate) use image::{auth_config, image_spec};
pub(crate) use linux::linux_resources;
pub(crate) use sandbox::sandbox_config;

/// The protocol counts in whole seconds, and 0 has a special meaning: a fraction is rounded up.
pub(crate) fn whole_seconds(duration: Duration) -> i64 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
