//! Reads manifests and remembers them.
//!
//! All functions block. A file whose content did not change is not decoded again, so rescanning a large directory is cheap.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::PodRef;
use rubelet_engine::ports::BadPod;
use rustix::fs::OFlags;
use tracing::warn;

use super::Names;
use crate::MAX_MANIFEST;
use crate::decode::{Decode, Origin, explain};
use crate::text::{self, TextError};

/// What to read.
#[derive(Debug)]
pub(super) enum Look {
    /// All files.
    All,
    /// These files; the others are unchanged.
    These(Names),
    /// None: these files were gone for a moment at least.
    Gone(Names),
}

/// The result of a scan.
pub(super) enum Scan {
    /// Nothing changed.
    Same,
    /// The whole set, which has changed.
    Changed { pods: Vec<Arc<Pod>>, bad: Vec<BadPod> },
}

/// All manifests of a path.
pub(super) struct Manifests {
    path: PathBuf,
    decode: Arc<dyn Decode>,
    /// By file name; the name is empty if the path itself is the file.
    files: BTreeMap<OsString, Manifest>,
    /// Why the path itself cannot be read.
    problem: Option<String>,
    delivered: bool,
}

/// One file.
struct Manifest {
    content: Content,
    /// The last valid pod of the file; kept if the file becomes invalid.
    pod: Option<Arc<Pod>>,
    problem: Option<String>,
}

/// The content of a file when it was last read, for detecting changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Hash(u64),
    /// The file could not be read.
    None,
}

/// Why a file is not a manifest.
#[derive(Debug, thiserror::Error)]
enum FileProblem {
    #[error("it is a directory; manifests in directories below {parent} are not read")]
    Directory { parent: PathBuf },
    #[error("it is {kind}, not a file")]
    NotAFile { kind: &'static str },
    #[error("it is a link to {target}, which does not exist")]
    DanglingLink { target: PathBuf },
    #[error("it is larger than {MAX_MANIFEST} bytes")]
    TooLarge,
    #[error("it cannot be read")]
    Unreadable(#[source] io::Error),
    #[error(transparent)]
    Text(#[from] TextError),
}

impl Manifests {
    pub(super) fn new(path: PathBuf, decode: Arc<dyn Decode>) -> Self {
        Self { path, decode, files: BTreeMap::new(), problem: None, delivered: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves all remembered files out, leaving an empty memory for the same path.
    pub(super) fn take(&mut self) -> Self {
        let fresh = Self::new(self.path.clone(), Arc::clone(&self.decode));
        std::mem::replace(self, fresh)
    }

    pub(super) fn look(&mut self, look: &Look) -> Scan {
        let changed = match look {
            Look::All => self.look_at_all(),
            Look::These(names) => self.look_at_these(names),
            Look::Gone(names) => self.forget(names),
        };
        // A path that cannot be read does not make the source ready: its pods may be running (SRC-10).
        let unread = self.problem.is_some() && !self.delivered;
        if unread || (self.delivered && !changed) {
            return Scan::Same;
        }
        self.delivered = true;
        self.set()
    }

    fn look_at_all(&mut self) -> bool {
        let names = match self.names() {
            Ok(names) => names,
            // upstream: file.go listConfig (v1.36): a path that does not exist has no pods, without an error.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Names::new(),
            Err(error) => {
                let problem = format!("it cannot be read: {error}");
                if self.problem.as_ref() != Some(&problem) {
                    warn!(path = %self.path.display(), err = %error, "Manifests cannot be listed");
                }
                return self.problem.replace(problem.clone()) != Some(problem);
            }
        };
        let mended = self.problem.take().is_some();
        let before = self.files.len();
        self.files.retain(|name, _| names.contains(name));
        let fewer = self.files.len() != before;
        self.look_at_each(&names) || mended || fewer
    }

    fn look_at_these(&mut self, names: &Names) -> bool {
        if !self.path.is_dir() {
            return self.look_at_all();
        }
        self.look_at_each(names)
    }

    /// Forgets these files. Returns whether any of them was known.
    fn forget(&mut self, names: &Names) -> bool {
        let before = self.files.len();
        // A path that is a file itself has no name here.
        self.files.retain(|name, _| !name.is_empty() && !names.contains(name));
        self.files.len() != before
    }

    /// Reads each of these files. Returns whether any of them changed.
    fn look_at_each(&mut self, names: &Names) -> bool {
        names.iter().filter(|name| self.look_at(name)).count() > 0
    }

    /// Names of the files to read.
    fn names(&self) -> io::Result<Names> {
        if !std::fs::metadata(&self.path)?.is_dir() {
            return Ok(Names::from([OsString::new()]));
        }
        let mut names = Names::new();
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if !name.as_bytes().starts_with(b".") {
                names.insert(name);
            }
        }
        Ok(names)
    }

    /// Reads one file. Returns whether it changed.
    fn look_at(&mut self, name: &OsStr) -> bool {
        let path = if name.is_empty() { self.path.clone() } else { joined(&self.path, name) };
        let read = match read(&path) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => return self.files.remove(name).is_some(),
            Err(problem) => Err(problem),
        };
        let content = read.as_ref().map_or(Content::None, |bytes| Content::Hash(hash(bytes)));
        let old = self.files.get(name);
        if content != Content::None && old.is_some_and(|old| old.content == content) {
            return false;
        }
        let outcome = read.and_then(|bytes| Ok(text::parse(&bytes)?)).map_err(|problem| explain(&problem));
        let outcome = outcome.and_then(|text| {
            let origin = Origin::File(path.to_string_lossy().into_owned());
            let decoded = self.decode.decode(&text.value, &origin).map_err(|error| explain(error.as_ref()))?;
            for warning in &decoded.warnings {
                warn!(path = %path.display(), "{warning}");
            }
            if text.ignored > 0 {
                warn!(path = %path.display(), documents = text.ignored, "Only the first document of a manifest is used");
            }
            Ok(Arc::new(decoded.pod))
        });
        let manifest = match outcome {
            Ok(pod) => Manifest { content, pod: Some(pod), problem: None },
            Err(problem) => Manifest { content, pod: old.and_then(|old| old.pod.clone()), problem: Some(problem) },
        };
        let same = old.is_some_and(|old| old.problem == manifest.problem && old.pod == manifest.pod);
        self.files.insert(name.to_owned(), manifest);
        !same
    }

    /// The pods and the problems, ordered by file name. If two files define the same pod, the first one counts.
    fn set(&self) -> Scan {
        let mut pods = Vec::new();
        let mut bad = Vec::new();
        let mut owners: BTreeMap<_, &OsString> = BTreeMap::new();
        let mut report = |name: &OsString, problem: String| {
            let path = if name.is_empty() { self.path.clone() } else { joined(&self.path, name) };
            bad.push(BadPod { origin: path.to_string_lossy().into_owned(), problem });
        };
        for (name, manifest) in &self.files {
            if let Some(problem) = &manifest.problem {
                let kept = if manifest.pod.is_some() { "; its pod goes on as it was last read" } else { "" };
                report(name, format!("{problem}{kept}"));
            }
            let Some(pod) = &manifest.pod else { continue };
            let pod_ref = PodRef::of(pod);
            if let Some(owner) = owners.get(&pod_ref.full_name()) {
                let place = joined(&self.path, owner);
                let (namespace, pod) = (&pod_ref.namespace, &pod_ref.name);
                report(name, format!("pod {pod} of namespace {namespace} is already defined in {}", place.display()));
                continue;
            }
            owners.insert(pod_ref.full_name(), name);
            pods.push(Arc::clone(pod));
        }
        if let Some(problem) = &self.problem {
            report(&OsString::new(), problem.clone());
        }
        Scan::Changed { pods, bad }
    }
}

/// The content of a file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, FileProblem> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Ok(target) = std::fs::read_link(path) else { return Ok(None) };
            return Err(FileProblem::DanglingLink { target });
        }
        Err(error) => return Err(FileProblem::Unreadable(error)),
    };
    if found.is_dir() {
        let parent = path.parent().unwrap_or(path).to_owned();
        return Err(FileProblem::Directory { parent });
    }
    if !found.is_file() {
        return Err(FileProblem::NotAFile { kind: kind(found.file_type()) });
    }
    // The file may have been replaced by a pipe: opening one must not wait for a writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = match std::fs::File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileProblem::Unreadable(error)),
    };
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_MANIFEST).unwrap_or(u64::MAX);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(FileProblem::Unreadable)?;
    if bytes.len() > MAX_MANIFEST { Err(FileProblem::TooLarge) } else { Ok(Some(bytes)) }
}

fn kind(found: std::fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    if found.is_fifo() {
        "a pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn hash(bytes: &[u8]) -> u64 {
    // Fixed keys: equal bytes have equal hashes for the life of the process.
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The path of a manifest, spelt as upstream does because it is part of the pod's UID (SRC-05): the cleaned directory, then
/// the file name.
fn joined(directory: &Path, name: &OsStr) -> PathBuf {
    let mut path = PathBuf::new();
    for part in directory.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(path.components().next_back(), Some(Component::Normal(_))) => {
                path.pop();
            }
            Component::ParentDir if path.has_root() => {}
            Component::ParentDir | Component::Prefix(_) | Component::RootDir | Component::Normal(_) => path.push(part),
        }
    }
    path.push(name);
    path
}

/// upstream: file.go NewSourceFile (v1.36).
pub(super) fn without_trailing_slashes(path: PathBuf) -> PathBuf {
    let mut bytes = path.into_os_string().into_vec();
    while bytes.len() > 1 && bytes.last() == Some(&b'/') {
        bytes.pop();
    }
    OsString::from_vec(bytes).into()
}
