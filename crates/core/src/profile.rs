//! A profile of this process: where it uses CPU time, or where it allocates memory.
//!
//! A profile has addresses. Names of functions are in it only as far as the program still has its symbols; a reader of profiles
//! finds the others by the build id of the file, in a copy of the program that was not stripped.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

/// What was profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// CPU time: a sample each time that so much of it was used. Values: samples, nanoseconds.
    Cpu {
        /// The time between two samples.
        every: Duration,
    },
    /// Memory that was allocated while the profile was taken: a sample each time that so much was allocated. Values: objects and
    /// bytes that were allocated, objects and bytes of them that were still in use at the end.
    Heap {
        /// The bytes between two samples.
        every: u64,
    },
}

/// A profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What was profiled.
    pub kind: ProfileKind,
    /// Since when.
    pub began: Timestamp,
    /// For how long.
    pub lasted: Duration,
    /// Each stack once.
    pub samples: Vec<ProfileSample>,
    /// The files that the addresses belong to.
    pub mappings: Vec<Mapping>,
    /// Functions by the address in a stack, where they are known: the linker's names.
    pub functions: BTreeMap<u64, String>,
    /// Samples for which there was no room.
    pub lost: u64,
}

/// A stack, and what was counted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSample {
    /// Addresses of instructions, the innermost first.
    pub stack: Vec<u64>,
    /// As [`ProfileKind`] says.
    pub values: Vec<u64>,
}

/// A file that is mapped into the process as code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// The offset in the file of the first address.
    pub offset: u64,
    /// The path of the file.
    pub file: String,
    /// Identifies the build, in hexadecimal; empty if the file has none.
    pub build_id: String,
    /// The file has its symbols, so that [`Profile::functions`] has its functions.
    pub has_symbols: bool,
}
