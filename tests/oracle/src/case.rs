//! What cases are made of: pods, what a runtime shows of them, results of probes. Each has a generator, which writes JSON, and
//! a reader, which makes core's types of it.

pub mod allocation;
pub mod form;
pub mod gates;
pub mod manifest;
pub mod observation;
pub mod pod;
pub mod probes;
pub mod quantities;
pub mod schema;
pub mod status;
pub mod words;
