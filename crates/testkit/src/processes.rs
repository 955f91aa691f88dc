//! Processes of the node that stay where they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rubelet_engine::ports::{CgroupError, NodeProcesses};

/// Counts how often processes were to be in which cgroup. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct FakeProcesses(Arc<Mutex<BTreeMap<String, usize>>>);

impl FakeProcesses {
    /// How often each cgroup was asked for: `agent /x`, `system /y`.
    pub fn asked(&self) -> BTreeMap<String, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, what: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }
}

#[async_trait]
impl NodeProcesses for FakeProcesses {
    async fn keep_agent(&self, cgroup: Option<&str>) -> Result<(), CgroupError> {
        self.note(format!("agent {}", cgroup.unwrap_or_default()));
        Ok(())
    }

    async fn keep_system(&self, cgroup: &str) -> Result<usize, CgroupError> {
        self.note(format!("system {cgroup}"));
        Ok(0)
    }
}
