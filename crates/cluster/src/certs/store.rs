//! Certificates on disk, in upstream's layout: each in a dated file with its key, and a link to the current one.
//!
//! `<dir>/kubelet-client-2026-01-02-03-04-05.pem` (0600) and `<dir>/kubelet-client-current.pem`, a link to it. The file is
//! complete before the link is changed, and the link is replaced atomically: a reader sees the old file or the new one.
//! upstream: client-go util/certificate/certificate_store.go (v1.36), which removes the link before it creates the new one.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rubelet_core::certs::Purpose;

use super::pair::{Pair, PairError, certificates_only};

/// The certificate files of one purpose.
#[derive(Clone, Debug)]
#[doc(alias = "FileStore")]
pub(super) struct Store {
    dir: PathBuf,
    prefix: &'static str,
    /// Certificate and key file to use without a stored certificate.
    files: Option<(PathBuf, PathBuf)>,
}

/// Why a certificate cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} holds no certificate and key that can be used", path.display())]
    Bad { path: PathBuf, source: PairError },
    #[error("what was issued cannot be used")]
    Issued(#[source] PairError),
    #[error("write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is a file, but must be a link to a dated file: move it away", path.display())]
    NotALink { path: PathBuf },
    #[error("an internal task panicked")]
    Panicked,
}

impl Store {
    /// The store in `dir`, with `files` as fallback.
    pub(super) fn new(dir: &Path, purpose: Purpose, files: Option<(PathBuf, PathBuf)>) -> Self {
        Self { dir: dir.into(), prefix: purpose.file_prefix(), files }
    }

    /// The link to the current certificate.
    pub(super) fn current_path(&self) -> PathBuf {
        self.path("current")
    }

    fn path(&self, part: &str) -> PathBuf {
        self.dir.join(format!("{}-{part}.pem", self.prefix))
    }

    /// The certificate and its key: of the link, of the configured files, or of the legacy file names.
    pub(super) fn current(&self) -> Result<Option<Pair>, StoreError> {
        self.recover()?;
        let legacy = |end: &str| self.dir.join(format!("{}.{end}", self.prefix));
        let link = self.current_path();
        let places = [Some((link.clone(), link)), self.files.clone(), Some((legacy("crt"), legacy("key")))]
            .into_iter()
            .flatten();
        for (certificate, key) in places {
            let (Some(chain), Some(secret)) = (read(&certificate)?, read(&key)?) else { continue };
            let pair = Pair::from_pem(&chain, &secret);
            return pair.map(Some).map_err(|source| StoreError::Bad { path: certificate, source });
        }
        Ok(None)
    }

    /// Completes a replacement that was interrupted between its last two steps. Upstream can leave one behind.
    fn recover(&self) -> Result<(), StoreError> {
        let (current, updated) = (self.current_path(), self.path("updated"));
        if !current.exists() && updated.is_symlink() {
            rename(&updated, &current)?;
        }
        Ok(())
    }

    /// Stores a certificate and makes it the current one.
    pub(super) fn update(&self, certificate: &[u8], key: &str, now: Timestamp) -> Result<Pair, StoreError> {
        let pair = Pair::from_pem(certificate, key.as_bytes()).map_err(StoreError::Issued)?;
        let text = certificates_only(certificate).map_err(StoreError::Issued)? + key;
        make_dir(&self.dir)?;
        let dated = self.path(&now.strftime("%Y-%m-%d-%H-%M-%S").to_string());
        write(&dated, text.as_bytes(), 0o600)?;
        let current = self.current_path();
        if current.exists() && !current.is_symlink() {
            return Err(StoreError::NotALink { path: current });
        }
        let updated = self.path("updated");
        match fs::remove_file(&updated) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::Write { path: updated, source });
            }
            _ => {}
        }
        // The link's target is absolute: the directory may be relative to our working directory.
        let target = std::path::absolute(&dated).unwrap_or(dated);
        symlink(target, &updated).map_err(|source| StoreError::Write { path: updated.clone(), source })?;
        rename(&updated, &current)?;
        Ok(pair)
    }
}

/// A file's content; `None` if the file does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::Read { path: path.into(), source }),
    }
}

pub(super) fn make_dir(dir: &Path) -> Result<(), StoreError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(dir);
    made.map_err(|source| StoreError::Write { path: dir.into(), source })
}

/// Writes a file atomically: a reader sees the old content or the new, also after a power failure.
pub(super) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), StoreError> {
    let failed = |source| StoreError::Write { path: path.into(), source };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // A power failure may have left it behind, perhaps with another mode.
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&new).map_err(failed)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(failed)?;
    rename(&new, path)
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::Write { path: to.into(), source };
    fs::rename(from, to).map_err(failed)?;
    let Some(dir) = to.parent() else { return Ok(()) };
    // The rename is durable only when the directory is synced.
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)
}
