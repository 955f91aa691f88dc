//! The binary. Everything it does is in the library beside it and in the other crates; here it is only started.

use std::process::ExitCode;

use rubelet_linux::socket_holder;

fn main() -> ExitCode {
    // The agent starts this program again as its holder: a process with as little memory as can be, which therefore does
    // nothing else first.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == socket_holder::COMMAND) {
        return socket_holder::main();
    }
    rubelet::commands::main()
}
