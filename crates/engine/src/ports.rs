//! What the engine needs of the world: one small trait per need, spoken in `core`'s types.
//!
//! Adapters implement them for the real thing, `testkit` for the simulation, and `testkit::contract` checks that both
//! obey the same laws. Every method that waits may be dropped at any moment; the caller then looks again.

mod api;
mod cgroups;
mod checkpoints;
mod container_checkpoints;
mod events;
mod files;
mod host;
mod images;
mod log_files;
mod log_reader;
mod node_logs;
mod oom;
mod payload;
mod pressure;
mod probes;
mod profiler;
mod rng;
mod runtime;
mod service;
mod serving;
mod shutdown;
mod source;
mod stats;
mod status;
mod streams;
mod volumes;

pub use api::*;
pub use cgroups::*;
pub use checkpoints::*;
pub use container_checkpoints::*;
pub use events::*;
pub use files::*;
pub use host::*;
pub use images::*;
pub use log_files::*;
pub use log_reader::*;
pub use node_logs::*;
pub use oom::*;
pub use payload::*;
pub use pressure::*;
pub use probes::*;
pub use profiler::*;
pub use rng::*;
pub use runtime::*;
pub use service::*;
pub use serving::*;
pub use shutdown::*;
pub use source::*;
pub use stats::*;
pub use status::*;
pub use streams::*;
pub use volumes::*;
