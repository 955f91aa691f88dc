//! Content that volume plugins write: config maps, secrets, tokens, fields of the pod.

use std::collections::BTreeMap;

use async_trait::async_trait;

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

/// One file of a volume. Its `Debug` hides the content: no log may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct PayloadFile {
    /// The content.
    pub data: Vec<u8>,
    /// Permission bits, whatever the umask.
    pub mode: u32,
    /// User that it belongs to, if not ours.
    pub owner: Option<u32>,
}

impl std::fmt::Debug for PayloadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mode = format_args!("{:#o}", self.mode);
        f.debug_struct("PayloadFile")
            .field("bytes", &self.data.len())
            .field("mode", &mode)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// Whether anything was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The content is new.
    New,
    /// It was there already.
    Same,
}
