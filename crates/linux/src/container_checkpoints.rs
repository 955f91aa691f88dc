//! The directory of container checkpoints, `<root>/checkpoints`. The runtime writes them; this module counts them, so that
//! the disk is not filled with them (CVE-2025-0426).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rubelet_engine::blocking::RECORDS;
use rubelet_engine::ports::{CheckpointFiles, FileError};

use crate::beneath::{self, failed};
use crate::pod_dirs::entries;

/// upstream: kubelet/config/defaults.go DefaultKubeletCheckpointsDirName (v1.36)
const DIRECTORY: &str = "checkpoints";
const MODE: u32 = 0o700;
const PREFIX: &str = "checkpoint-";

/// The checkpoints below one root directory.
#[derive(Clone, Debug)]
pub struct CheckpointDir {
    root: Arc<Path>,
}

impl CheckpointDir {
    /// The checkpoints below `root`, which must exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into().into() }
    }
}

#[async_trait]
impl CheckpointFiles for CheckpointDir {
    async fn place(&self, name: &str) -> Result<(PathBuf, usize), FileError> {
        let (root, name) = (Arc::clone(&self.root), name.to_owned());
        let path = root.join(DIRECTORY).join(&name);
        let count = move || {
            beneath::name(&name)?;
            let dir = beneath::ensure_dir(beneath::open_root(&root)?, DIRECTORY, MODE)?;
            Ok::<_, std::io::Error>(entries(dir)?.iter().filter(|(name, _)| name.starts_with(PREFIX)).count())
        };
        let counted = RECORDS.run(DIRECTORY, count).await.map_err(failed("count the checkpoints beside", &path))?;
        Ok((path, counted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::temp_dir;

    #[tokio::test]
    async fn checkpoints_are_counted_and_a_name_stays_a_name() {
        let root = temp_dir();
        let dir = CheckpointDir::new(root.path());
        let (path, count) = dir.place("checkpoint-web_ns-app-1.tar").await.unwrap();
        assert_eq!((path, count), (root.path().join("checkpoints/checkpoint-web_ns-app-1.tar"), 0));
        for name in ["checkpoint-a.tar", "checkpoint-b.tar", "kubelet_internal"] {
            std::fs::write(root.path().join("checkpoints").join(name), "").unwrap();
        }
        assert_eq!(dir.place("checkpoint-c.tar").await.unwrap().1, 2);
        for bad in ["", "..", "a/b", "../checkpoint-a.tar", "a\0b"] {
            assert!(dir.place(bad).await.is_err(), "{bad:?}");
        }
    }
}
