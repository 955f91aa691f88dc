//! Fakes for every port, contract suites, builders.
//!
//! A fake obeys the same laws as the real adapter; [`contract`] holds those laws and runs on both. Time is tokio's, so
//! that a test with a paused clock controls it. A dev-dependency only.
//!
//! Every fake is a handle whose clones share one world, so that the world outlives a kubelet that is killed and started
//! again. The simulation of the whole engine on these fakes is in `engine`'s tests (`tests/sim`).

mod api;
mod cgroups;
mod checkpoints;
mod clock;
pub mod contract;
mod files;
mod machine;
mod memory;
mod node_api;
mod objects;
mod pods;
mod probes;
mod processes;
mod recording;
mod rng;
mod runtime;
mod source;
mod usage;
mod volumes;

pub use api::*;
pub use cgroups::*;
pub use checkpoints::*;
pub use clock::*;
pub use files::*;
pub use machine::*;
pub use memory::*;
pub use node_api::*;
pub use objects::*;
pub use pods::*;
pub use probes::*;
pub use processes::*;
pub use recording::*;
pub use rng::*;
pub use runtime::{Behaviour, Call, FakeRuntime, Faults, Pull};
pub use source::*;
pub use usage::*;
pub use volumes::*;
