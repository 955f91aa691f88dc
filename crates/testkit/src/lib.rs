//! Fakes for every port, contract suites, builders.
//!
//! A fake obeys the same laws as the real thing; [`contract`] holds those laws and runs on both. All time here is
//! tokio's, so that a test with a paused clock decides what time it is. A dev-dependency only.

mod pods;

pub use pods::*;
