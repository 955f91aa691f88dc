//! Small files below the root directory that outlive the process, where upstream keeps the same (section 30.2).

use async_trait::async_trait;

use super::FileError;

/// Checkpoints by name. Each is replaced as a whole: a reader sees the old text or the new one (CKP-01).
#[doc(alias = "CheckpointManager")]
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// The text; `None` if there is none.
    async fn read(&self, name: &'static str) -> Result<Option<String>, FileError>;
    /// Replaces it.
    async fn write(&self, name: &'static str, text: &str) -> Result<(), FileError>;
}
