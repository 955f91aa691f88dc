//! The simulation: the whole engine on fakes, one thread, paused time, seeded faults.
//!
//! A failure prints the seed and the log of everything that was asked of the runtime; `SIM_SEED=n` replays it.

mod admission;
mod allocatable;
mod allocations;
mod api;
mod api_days;
mod bad_days;
mod days;
mod faults;
mod health;
mod hooks;
mod hostile;
mod image_gc;
mod laws;
mod life;
mod log_rotation;
mod names;
mod node;
mod node_lease;
mod node_now;
mod objects;
mod probes;
mod puller;
mod races;
mod refusals;
mod resize;
mod roles;
mod rows;
mod shutdown;
mod sim;
mod status_writer;
mod trouble;
mod volumes;
