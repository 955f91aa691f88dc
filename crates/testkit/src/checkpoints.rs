//! Checkpoints in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use rubelet_engine::ports::{Checkpoints, FileError};

/// Checkpoints in memory: they outlive an engine, as files would. Clones share them.
#[derive(Clone, Default)]
pub struct FakeCheckpoints(Arc<Mutex<Disk>>);

#[derive(Default)]
struct Disk {
    texts: BTreeMap<&'static str, String>,
    full: bool,
}

impl FakeCheckpoints {
    /// The text of a checkpoint.
    pub fn text(&self, name: &str) -> Option<String> {
        self.disk().texts.get(name).cloned()
    }

    /// Makes every further write fail, or succeed again.
    pub fn set_full(&self, full: bool) {
        self.disk().full = full;
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Checkpoints for FakeCheckpoints {
    async fn read(&self, name: &'static str) -> Result<Option<String>, FileError> {
        Ok(self.text(name))
    }

    async fn write(&self, name: &'static str, text: &str) -> Result<(), FileError> {
        let mut disk = self.disk();
        if disk.full {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(FileError { action: "write", path: name.into(), source });
        }
        disk.texts.insert(name, text.to_owned());
        Ok(())
    }
}
