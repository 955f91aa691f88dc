//! The binary's own parts: the command line, the configuration, logging. The rest of the binary is wiring.

mod cluster;
pub mod commands;
pub mod config_load;
pub mod flags;
pub mod logging;
mod metrics;
pub mod run;
mod runtime;
mod settings;
mod sources;
mod standalone;
