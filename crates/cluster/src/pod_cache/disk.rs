//! The copy on disk.
//!
//! ```text
//! <dir>/index        whose pods, which boot, and the UIDs of all of them
//! <dir>/<uid>.json   one pod
//! <dir>/services     the services that there were when pods last changed: name, addresses, ports
//! <dir>/settled      there while the rest is what was last delivered; holds the boot
//! ```
//!
//! Each of the first three is a line with the checksum of the rest, then JSON; each is replaced in one step. A pod is written
//! before the index that names it and removed after the index that does not, so that after a power cut at any point all
//! that the index names is there. Nobody but root may read it: a pod may hold secrets in plain text.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// Most pods that are kept; a node has a tenth of it.
const MAX_PODS: usize = 2500;
/// Largest file. The API server takes no object above 3 MiB.
const MAX_FILE: u64 = 4 << 20;
const INDEX: &str = "index";
const SERVICES: &str = "services";
const SETTLED: &str = "settled";

#[derive(Clone, Debug)]
pub(super) struct Disk {
    dir: PathBuf,
    node: String,
    boot_id: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Index {
    node: String,
    boot: String,
    pods: Vec<String>,
}

/// What a copy holds.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) pods: Vec<Arc<Pod>>,
    /// Services; `None` if they were never known, or are not as they were written.
    pub(super) services: Option<Vec<Service>>,
    /// What cannot be used, each with its file.
    pub(super) bad: Vec<String>,
    /// It was written before the machine was last started.
    pub(super) rebooted: bool,
    /// It was written to its end.
    settled: bool,
}

impl Found {
    /// It is what was last delivered, since the machine was started.
    pub(super) fn is_settled(&self) -> bool {
        self.settled && !self.rebooted && self.bad.is_empty()
    }

    /// It may be delivered: nothing runs that it could lack.
    pub(super) fn is_usable(&self) -> bool {
        self.rebooted || self.is_settled()
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum DiskError {
    #[error("read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is not as it was written", path.display())]
    Checksum { path: PathBuf },
    #[error("{} is larger than {MAX_FILE} bytes", path.display())]
    TooLarge { path: PathBuf },
    #[error("{} cannot be understood", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("{} is a copy of the pods of node {found}, and this is {wanted}", path.display())]
    OtherNode { path: PathBuf, found: String, wanted: String },
    #[error("{} holds the pod {found}", path.display())]
    OtherPod { path: PathBuf, found: String },
    #[error("{count} pods are more than the {MAX_PODS} that are kept")]
    TooMany { count: usize },
    #[error("the UID {uid:?} is no name of a file")]
    BadUid { uid: String },
    #[error("a task of ours panicked")]
    Panicked,
}

impl Disk {
    pub(super) fn new(dir: PathBuf, node: String, boot_id: String) -> Self {
        Self { dir, node, boot_id }
    }

    /// What is there. `None` if there is nothing.
    pub(super) fn load(&self) -> Result<Option<Found>, DiskError> {
        let path = self.dir.join(INDEX);
        let Some(index) = read::<Index>(&path)? else { return Ok(None) };
        if index.node != self.node {
            return Err(DiskError::OtherNode { path, found: index.node, wanted: self.node.clone() });
        }
        let rebooted = index.boot != self.boot_id;
        let settled = fs::read_to_string(self.dir.join(SETTLED)).is_ok_and(|boot| boot == self.boot_id);
        let services = read(&self.dir.join(SERVICES)).ok().flatten();
        let mut found = Found { pods: Vec::new(), services, bad: Vec::new(), rebooted, settled };
        for uid in &index.pods {
            match self.pod(uid) {
                Ok(pod) => found.pods.push(Arc::new(pod)),
                Err(error) => found.bad.push(crate::decode::explain(&error)),
            }
        }
        Ok(Some(found))
    }

    fn pod(&self, uid: &str) -> Result<Pod, DiskError> {
        let path = self.pod_path(uid)?;
        let missing = || DiskError::Read { path: path.clone(), source: io::Error::from(io::ErrorKind::NotFound) };
        let pod: Pod = read(&path)?.ok_or_else(missing)?;
        if pod.metadata.uid.as_deref() != Some(uid) {
            return Err(DiskError::OtherPod { path, found: pod.metadata.uid.unwrap_or_default() });
        }
        Ok(pod)
    }

    fn pod_path(&self, uid: &str) -> Result<PathBuf, DiskError> {
        let plain =
            !uid.is_empty() && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if plain { Ok(self.dir.join(format!("{uid}.json"))) } else { Err(DiskError::BadUid { uid: uid.to_owned() }) }
    }

    /// Writes what changed, and that `uids` are all of them.
    pub(super) fn write(
        &self,
        changes: &BTreeMap<String, Option<Arc<Pod>>>,
        uids: Vec<String>,
        services: Option<&Vec<Service>>,
    ) -> Result<(), DiskError> {
        if uids.len() > MAX_PODS {
            return Err(DiskError::TooMany { count: uids.len() });
        }
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.map_err(|source| DiskError::Write { path: self.dir.clone(), source })?;
        for (uid, change) in changes {
            if let Some(pod) = change {
                write(&self.pod_path(uid)?, pod.as_ref())?;
            }
        }
        if let Some(services) = services {
            let needed: Vec<Service> = services.iter().map(needed).collect();
            write(&self.dir.join(SERVICES), &needed)?;
        }
        let index = Index { node: self.node.clone(), boot: self.boot_id.clone(), pods: uids };
        write(&self.dir.join(INDEX), &index)?;
        self.sweep(&index.pods);
        Ok(())
    }

    /// Removes whatever the index does not name. What cannot be removed is passed over when it is read, too.
    fn sweep(&self, uids: &[String]) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let uid = name.to_str().and_then(|name| name.strip_suffix(".json"));
            let known = uid.is_some_and(|uid| uids.binary_search_by(|known| known.as_str().cmp(uid)).is_ok());
            if !known && ![INDEX, SERVICES, SETTLED].iter().any(|own| name == *own) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// From now on the copy is what was last delivered. It only has to outlive this process: a reboot does not ask for it.
    pub(super) fn settle(&self) {
        let _ = fs::write(self.dir.join(SETTLED), &self.boot_id);
    }

    /// From now on it is not.
    pub(super) fn unsettle(&self) {
        let _ = fs::remove_file(self.dir.join(SETTLED));
    }
}

/// What a pod's environment is made of.
fn needed(service: &Service) -> Service {
    let metadata = ObjectMeta {
        name: service.metadata.name.clone(),
        namespace: service.metadata.namespace.clone(),
        ..ObjectMeta::default()
    };
    Service { metadata, spec: service.spec.clone(), status: None }
}

fn checksum(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>, DiskError> {
    let failed = |source| DiskError::Read { path: path.into(), source };
    let size = match fs::metadata(path) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
    };
    if size > MAX_FILE {
        return Err(DiskError::TooLarge { path: path.into() });
    }
    let content = fs::read(path).map_err(failed)?;
    let end = content.iter().position(|byte| *byte == b'\n').unwrap_or(content.len());
    let (sum, rest) = content.split_at(end);
    let json = rest.strip_prefix(b"\n").unwrap_or(rest);
    if sum != checksum(json).as_bytes() {
        return Err(DiskError::Checksum { path: path.into() });
    }
    serde_json::from_slice(json).map(Some).map_err(|source| DiskError::Json { path: path.into(), source })
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), DiskError> {
    let failed = |source| DiskError::Write { path: path.into(), source };
    let json = serde_json::to_vec(value).map_err(|source| DiskError::Json { path: path.into(), source })?;
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
    let content = [checksum(&json).as_bytes(), b"\n", &json].concat();
    file.write_all(&content).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&new, path).map_err(failed)?;
    let Some(dir) = path.parent() else { return Ok(()) };
    // The name is only safe when its directory is.
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)
}
