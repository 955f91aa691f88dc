//! The oracle: upstream's own functions and ours answer the same generated cases, and the answers are compared.
//!
//! A case is one JSON document. Upstream's side is a Go program (`tests/oracle/go`, built by `build.sh`) that reads cases as
//! lines and answers as lines; our side is a [`Function`] per function of upstream. A difference is a bug of ours, or it is
//! stated in docs/parity and then listed by [`Function::adjust`], which makes of upstream's answer what the stated difference
//! makes of it. There is no third kind.
#![expect(
    clippy::indexing_slicing,
    reason = "a field that a JSON value lacks reads as null; a wrong case ends the run"
)]

pub mod case;
pub mod compare;
pub mod function;
pub mod functions;
pub mod golden;
pub mod regressions;
pub mod rng;
pub mod run;
pub mod shrink;
pub mod upstream;

// The reader of YAML is part of a crate with clients and certificates, of which nothing else is needed here.
#[path = "../../../crates/cluster/src/text.rs"]
mod text;

pub use function::Function;
