//! A container's environment (section 10.1).

mod expand;

pub use expand::expand;
