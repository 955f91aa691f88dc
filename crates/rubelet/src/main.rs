//! The binary. It only starts the library beside it.

use std::process::ExitCode;

use rubelet_linux::profile::Allocator;
use rubelet_linux::socket_holder;

/// The C library's, with samples while a profile of the heap is taken.
#[global_allocator]
static HEAP: Allocator = Allocator;

fn main() -> ExitCode {
    // The agent starts this program again as its holder, which must use as little memory as possible and therefore does
    // nothing before this.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == socket_holder::COMMAND) {
        return socket_holder::main();
    }
    rubelet::commands::main()
}
