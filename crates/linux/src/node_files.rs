//! The node's own files that pods inherit from: its resolver's and its hosts.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rubelet_engine::ports::{FileError, HostFiles};

use crate::beneath::failed;
use crate::blocking::blocking;

/// Most that is read of a file: what is longer is no configuration.
const MAX_BYTES: u64 = 1 << 20;

/// The node's own files, at these places.
#[derive(Clone, Debug)]
pub struct NodeFiles {
    resolv_conf: Option<PathBuf>,
    hosts: PathBuf,
}

impl NodeFiles {
    /// `resolvConf` as configured; empty turns look-ups off (DNS-03).
    pub fn new(resolv_conf: &str) -> Self {
        let resolv_conf = (!resolv_conf.is_empty()).then(|| resolv_conf.into());
        Self { resolv_conf, hosts: "/etc/hosts".into() }
    }
}

#[async_trait]
impl HostFiles for NodeFiles {
    async fn resolv_conf(&self) -> Result<Option<String>, FileError> {
        match self.resolv_conf.clone() {
            Some(path) => blocking(move || read(&path)).await.map(Some),
            None => Ok(None),
        }
    }

    async fn hosts(&self) -> Result<String, FileError> {
        let path = self.hosts.clone();
        blocking(move || read(&path)).await
    }
}

fn read(path: &Path) -> Result<String, FileError> {
    let read = || {
        let length = std::fs::metadata(path)?.len();
        if length > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("{length} bytes are too many")));
        }
        std::fs::read_to_string(path)
    };
    read().map_err(failed("read", path))
}
