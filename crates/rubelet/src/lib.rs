//! The binary's own parts: the command line, the configuration, logging. The rest of the binary is wiring.

pub mod commands;
mod cluster;
pub mod config_load;
pub mod flags;
pub mod logging;
pub mod run;
mod settings;
mod sources;
mod standalone;
