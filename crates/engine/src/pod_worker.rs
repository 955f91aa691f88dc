//! Work on one pod. Each pod has at most one job in flight; a job is a task that looks at the runtime, decides by `core`,
//! acts, looks again, and comes to rest.
//!
//! A worker is a task only while it works: between jobs a pod is an entry in a map ([`PodWorkers`]), so that a thousand
//! idle pods cost a thousand entries and one timer.

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

pub use view::WorkerView;
pub use workers::{Outcome, PodWorkers};
