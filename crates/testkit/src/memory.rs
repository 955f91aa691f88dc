//! Memory that nobody measures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use rubelet_engine::ports::OwnMemory;

/// Counts how often memory was trimmed. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct FakeMemory(Arc<AtomicUsize>);

impl FakeMemory {
    /// How often.
    pub fn times_trimmed(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl OwnMemory for FakeMemory {
    async fn trim(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
