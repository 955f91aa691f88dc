//! The binary. Everything it does is in the library beside it and in the other crates; here it is only started.

use std::process::ExitCode;

fn main() -> ExitCode {
    rubelet::commands::main()
}
