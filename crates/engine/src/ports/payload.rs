//! Content that volume plugins write: config maps, secrets, tokens, fields of the pod.

use std::collections::BTreeMap;

use async_trait::async_trait;
use rubelet_core::volume_files::PayloadFile;

use super::{FileError, VolumePlace};

/// Writes a volume's content in one stroke.
#[async_trait]
#[doc(alias = "AtomicWriter")]
pub trait PayloadWriter: Send + Sync {
    /// Makes the volume's directory, which must exist, hold these files and no others (VOL-20). A reader sees all of the
    /// old content or all of the new; nothing is written if the content is there already.
    async fn write(&self, place: &VolumePlace, payload: Payload) -> Result<Written, FileError>;
    /// Whether the volume holds what was written once, by this process or one before it.
    async fn is_written(&self, place: &VolumePlace) -> Result<bool, FileError>;
}

/// What a volume is to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Files by their path below the volume: relative, clean, no part of it `..`, the first not beginning with `..`.
    pub files: BTreeMap<String, PayloadFile>,
    /// Directories that other volumes are mounted on. The container could not make them: the volume is read-only there.
    pub mount_points: Vec<String>,
    /// Group that must be able to read it all.
    pub group: Option<u32>,
}

/// Whether anything was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The content is new.
    New,
    /// It was there already.
    Same,
}
