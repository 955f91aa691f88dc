//! The simulation: the whole engine on fakes, one thread, paused time, seeded faults.
//!
//! A failure prints the seed and the log of everything that was asked of the runtime; `SIM_SEED=n` replays it.

mod faults;
mod life;
mod probes;
mod pulls;
mod rows;
mod sim;
mod trouble;
