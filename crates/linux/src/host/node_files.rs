//! The node's resolv.conf and hosts file, which pods inherit.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rubelet_engine::blocking::HOST;
use rubelet_engine::ports::{FileError, HostFiles};

use crate::beneath::failed;

/// The most that is read of either file. A hosts file with a blocklist may be large; it still has to fit into memory
/// once per pod that starts.
const MAX_SIZE: u64 = 16 * 1024 * 1024;

/// Files of this node. The administrator owns them, so links are followed.
#[derive(Clone, Debug)]
pub struct NodeFiles {
    resolv_conf: Option<PathBuf>,
    hosts: PathBuf,
}

impl NodeFiles {
    /// `resolv_conf` is the configuration's `resolvConf`: empty means none (DNS-03).
    pub fn new(resolv_conf: &str) -> Self {
        Self::at(resolv_conf, "/etc/hosts")
    }

    fn at(resolv_conf: &str, hosts: impl Into<PathBuf>) -> Self {
        Self { resolv_conf: (!resolv_conf.is_empty()).then(|| resolv_conf.into()), hosts: hosts.into() }
    }
}

#[async_trait]
impl HostFiles for NodeFiles {
    async fn resolv_conf(&self) -> Result<Option<String>, FileError> {
        match self.resolv_conf.clone() {
            Some(path) => read(path).await.map(Some),
            None => Ok(None),
        }
    }

    async fn hosts(&self) -> Result<String, FileError> {
        read(self.hosts.clone()).await
    }
}

async fn read(path: PathBuf) -> Result<String, FileError> {
    let key = path.display().to_string();
    HOST.run(&key, move || read_text(&path).map_err(failed("read", path))).await
}

fn read_text(path: &Path) -> io::Result<String> {
    let file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut content = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut content)?;
    // A comment in another encoding must not keep pods from starting.
    Ok(String::from_utf8_lossy(&content).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::temp_dir;

    #[tokio::test]
    async fn dns_03_resolv_conf_is_read_on_each_call_and_empty_means_none() {
        let dir = temp_dir();
        let path = dir.path().join("resolv.conf");
        let files = NodeFiles::at(path.to_str().unwrap(), dir.path().join("hosts"));
        let err = files.resolv_conf().await.unwrap_err();
        assert_eq!(err.to_string(), format!("read {}", path.display()));
        for content in ["nameserver 192.0.2.1\n", "nameserver 192.0.2.2\n"] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(files.resolv_conf().await.unwrap().as_deref(), Some(content));
        }
        assert_eq!(NodeFiles::new("").resolv_conf().await.unwrap(), None);
        assert!(files.hosts().await.is_err());
        std::fs::write(dir.path().join("hosts"), b"127.0.0.1 localhost # \xff\n").unwrap();
        assert_eq!(files.hosts().await.unwrap(), "127.0.0.1 localhost # \u{fffd}\n");
    }
}
