//! An error and its causes in one line.

use std::error::Error;
use std::fmt;

/// Shows an error and its causes: `mount volume data: make directory /x: No space left on device`.
pub struct Chain<'a>(pub &'a (dyn Error + Send + Sync + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(err) = cause {
            write!(f, ": {err}")?;
            cause = err.source();
        }
        Ok(())
    }
}
