//! Checkpoints in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rubelet_engine::ports::{Checkpoints, FileError};

/// Checkpoints in memory: they outlive an engine, as files would. Clones share them.
#[derive(Clone, Default)]
pub struct FakeCheckpoints(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl FakeCheckpoints {
    /// The text of one.
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

#[async_trait]
impl Checkpoints for FakeCheckpoints {
    async fn read(&self, name: &'static str) -> Result<Option<String>, FileError> {
        Ok(self.text(name))
    }

    async fn write(&self, name: &'static str, text: &str) -> Result<(), FileError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, text.to_owned());
        Ok(())
    }
}
