//! Checkpoints: small files below the root directory, each replaced as a whole (CKP-01).

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rubelet_engine::blocking::RECORDS;
use rubelet_engine::ports::{Checkpoints, FileError};
use rustix::fs::{Mode, OFlags};

use crate::beneath::{self, failed};

/// The largest checkpoint that is read: a thousand pods take a few hundred kilobytes.
const LARGEST: u64 = 64 << 20;

/// Checkpoints below one root directory.
#[derive(Clone, Debug)]
pub struct RootCheckpoints {
    root: Arc<Path>,
}

impl RootCheckpoints {
    /// Checkpoints below `root`, which must exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into().into() }
    }
}

#[async_trait]
impl Checkpoints for RootCheckpoints {
    async fn read(&self, name: &'static str) -> Result<Option<String>, FileError> {
        let root = Arc::clone(&self.root);
        RECORDS.run(name, move || read(&root, name).map_err(failed("read", &root.join(name)))).await
    }

    async fn write(&self, name: &'static str, text: &str) -> Result<(), FileError> {
        let (root, text) = (Arc::clone(&self.root), text.to_owned());
        RECORDS.run(name, move || write(&root, name, &text).map_err(failed("write", &root.join(name)))).await
    }
}

fn read(root: &Path, name: &str) -> io::Result<Option<String>> {
    let dir = beneath::open_root(root)?;
    let file = match beneath::open_file(&dir, name, OFlags::RDONLY) {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(err),
    };
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Written to a temporary file, synced, renamed: a crash leaves the old content or the new content.
fn write(root: &Path, name: &str, text: &str) -> io::Result<()> {
    let dir = beneath::open_root(root)?;
    let new = format!(".{name}.new");
    match rustix::fs::unlinkat(&dir, &new, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(err) => return Err(err.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&dir, &new, flags, Mode::from_raw_mode(0o600))?;
    let mut file = std::fs::File::from(file);
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    rustix::fs::renameat(&dir, &new, &dir, name)?;
    rustix::fs::fsync(&dir)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // CKP-01
    #[tokio::test]
    async fn a_checkpoint_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let checkpoints = RootCheckpoints::new(dir.path());
        assert_eq!(checkpoints.read("state").await.expect("readable"), None);
        for text in ["one", "a longer one", ""] {
            checkpoints.write("state", text).await.expect("writable");
            assert_eq!(checkpoints.read("state").await.expect("readable").as_deref(), Some(text));
        }
        std::fs::write(dir.path().join(".state.new"), "left by a crash").expect("writable");
        checkpoints.write("state", "again").await.expect("a leftover temporary file is replaced");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }
}
