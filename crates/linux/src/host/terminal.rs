//! The terminal that a person sits at.

use std::io::stdout;

use rustix::termios::tcgetwinsize;

/// How many characters the terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// The size of the terminal on stdout; `None` if it is none, or does not know.
pub fn size() -> Option<Size> {
    let size = tcgetwinsize(stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(Size { rows: size.ws_row, columns: size.ws_col })
}
