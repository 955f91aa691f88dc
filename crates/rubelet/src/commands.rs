//! What the command line asks for.

use std::process::ExitCode;

use rubelet_core::config::CgroupVersion;

use crate::flags::{Command, parse};
use crate::{config_load, logging, run};

/// Does what the command line asks for.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is where the process speaks to people")]
pub fn main() -> ExitCode {
    match parse(std::env::args_os().skip(1)) {
        Ok(Command::Print(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Command::Run(options)) => {
            let host =
                match rubelet_linux::cgroups::Layout::discover(std::path::Path::new("/proc")).map(|l| l.version()) {
                    Ok(rubelet_core::qos::CgroupVersion::V1) => CgroupVersion::V1,
                    _ => CgroupVersion::V2,
                };
            let loaded = match config_load::load(&options, host) {
                Ok(l) => l,
                Err(e) => {
                    eprintln!("rubelet: {e}");
                    return ExitCode::FAILURE;
                }
            };
            let _ = logging::init(&loaded.config.logging);
            for w in &loaded.warnings {
                tracing::warn!("{w}");
            }
            let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            match rt.block_on(run::run(loaded)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(e) => {
                    eprintln!("rubelet: {e:#}");
                    ExitCode::FAILURE
                }
            }
        }
        Ok(_) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("rubelet: {e}");
            ExitCode::from(2)
        }
    }
}
