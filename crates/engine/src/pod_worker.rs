//! Pod workers: the life cycle of each pod, and its jobs. A pod has at most one job in flight. A job is a task that looks
//! at the runtime, lets `core` decide, acts, looks again, and ends.
//!
//! A worker is not a task: between jobs it is an entry in a map ([`PodWorkers`]), so that a thousand idle pods cost a
//! thousand entries and one timer.

mod clean_up;
mod counts;
mod jobs;
mod names;
mod probes;
mod resizes;
mod status;
mod sync_pod;
mod terminate;
mod view;
mod workers;

pub(crate) use status::EndStep;
pub use view::WorkerView;
pub use workers::{Outcome, PodWorkers};
