//! Which files a volume holds: from config maps, secrets and the pod's own fields (section 22.2).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Container, DownwardAPIVolumeFile, KeyToPath, Pod, Secret};

use crate::env::{EnvSources, EnvView, Services, field_value, resource_value};
use crate::pod::PodExt;
use crate::resources::Amounts;

/// Files by their path, as the spec writes it.
pub type Files = BTreeMap<String, PayloadFile>;

/// What the API fills in where no mode is given.
const DEFAULT_MODE: i32 = 0o644;

/// Longest path and longest name in it. upstream: atomic_writer.go (v1.36)
const PATH_MAX: usize = 4096;
const NAME_MAX: usize = 255;

/// The most that the files of one volume may hold together. An object has at most 1 MiB, and a volume that shows more than
/// this shows some of them again and again: all of it would be in our memory at once, and then in the node's.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Why a volume cannot hold the files that the spec asks for. Upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// Its files are larger together than [`MAX_BYTES`].
    #[error("the files of the volume hold more than {MAX_BYTES} bytes together")]
    TooLarge,
    /// The config map lacks a key that an item names.
    #[error("configmap references non-existent config key: {0}")]
    NoConfigMapKey(String),
    /// The secret lacks a key that an item names.
    #[error("references non-existent secret key: {0}")]
    NoSecretKey(String),
    /// Fields of the pod that have no value: all of them.
    #[error("{0}")]
    Fields(String),
    /// A path that leads out of the volume, or that no file can have.
    #[error("invalid path: {0}")]
    Path(String),
    /// A container mounts another volume at a place that is not in this one.
    #[error("invalid container mount point {0}")]
    MountPoint(String),
}

/// One file of a volume. Its `Debug` hides the content: no log may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct PayloadFile {
    /// The content.
    pub data: Vec<u8>,
    /// Permission bits, whatever the umask.
    pub mode: u32,
    /// User that it belongs to, if not ours.
    pub owner: Option<u32>,
}

impl std::fmt::Debug for PayloadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mode = format_args!("{:#o}", self.mode);
        f.debug_struct("PayloadFile")
            .field("bytes", &self.data.len())
            .field("mode", &mode)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// How much the files of a volume hold so far.
#[derive(Debug, Default)]
pub struct Weight(usize);

impl Weight {
    /// Counts a file, before it is copied.
    pub fn add(&mut self, bytes: usize) -> Result<(), FilesError> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 <= MAX_BYTES { Ok(()) } else { Err(FilesError::TooLarge) }
    }
}

/// A file of ours with these permissions.
pub fn file(data: impl Into<Vec<u8>>, mode: u32) -> PayloadFile {
    PayloadFile { data: data.into(), mode, owner: None }
}

/// The mode that files get which name none.
pub fn default_mode(mode: Option<i32>) -> u32 {
    bits(mode.unwrap_or(DEFAULT_MODE))
}

/// The API allows 0 to 0777.
fn bits(mode: i32) -> u32 {
    u32::try_from(mode).unwrap_or_default() & 0o7777
}

/// Whether a volume can do without an object or a key of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The pod waits for it.
    Required,
    /// The object or a key of it may be missing.
    Optional,
}

impl From<Option<bool>> for Need {
    fn from(optional: Option<bool>) -> Self {
        if optional == Some(true) { Self::Optional } else { Self::Required }
    }
}

/// Files of a config map: the items, or every key if there are none. upstream: configmap.go MakePayload (v1.36)
pub fn of_config_map(map: &ConfigMap, items: Option<&[KeyToPath]>, mode: u32, need: Need) -> Result<Files, FilesError> {
    let text = map.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_bytes()));
    let binary = map.binary_data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice()));
    // No key is in both; should one be, text wins for an item, as upstream has it.
    of_keys(&binary.chain(text).collect(), items, mode, need, FilesError::NoConfigMapKey)
}

/// Files of a secret. upstream: secret.go MakePayload (v1.36)
pub fn of_secret(secret: &Secret, items: Option<&[KeyToPath]>, mode: u32, need: Need) -> Result<Files, FilesError> {
    let data = secret.data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice()));
    of_keys(&data.collect(), items, mode, need, FilesError::NoSecretKey)
}

fn of_keys(
    data: &BTreeMap<&str, &[u8]>,
    items: Option<&[KeyToPath]>,
    mode: u32,
    need: Need,
    missing: fn(String) -> FilesError,
) -> Result<Files, FilesError> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return Ok(data.iter().map(|(key, value)| ((*key).to_owned(), file(*value, mode))).collect());
    };
    let mut files = Files::new();
    let mut weight = Weight::default();
    for item in items {
        match data.get(item.key.as_str()) {
            Some(value) => {
                weight.add(value.len())?;
                files.insert(item.path.clone(), file(*value, item.mode.map_or(mode, bits)));
            }
            None if need == Need::Optional => {}
            None => return Err(missing(item.key.clone())),
        }
    }
    Ok(files)
}

/// Files with fields of the pod itself. Goes on after a failure; the error names every one.
/// upstream: downwardapi.go CollectData (v1.36)
pub fn of_pod(
    pod: &Pod,
    items: Option<&[DownwardAPIVolumeFile]>,
    mode: u32,
    allocatable: &Amounts,
) -> Result<Files, FilesError> {
    let mut files = Files::new();
    let mut problems = Vec::new();
    let mut weight = Weight::default();
    for item in items.unwrap_or_default() {
        match value(pod, item, allocatable) {
            Ok(value) => {
                weight.add(value.len())?;
                files.insert(item.path.clone(), file(value, item.mode.map_or(mode, bits)));
            }
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(files) } else { Err(FilesError::Fields(aggregate(problems))) }
}

fn value(pod: &Pod, item: &DownwardAPIVolumeFile, allocatable: &Amounts) -> Result<String, String> {
    if let Some(field) = &item.field_ref {
        // Addresses and the like are for environments only: they are not known yet.
        // upstream: pkg/fieldpath/fieldpath.go ExtractFieldPathAsString (v1.36)
        if !field.field_path.starts_with("metadata.") {
            return Err(format!("unsupported fieldPath: {}", field.field_path));
        }
        let view = EnvView {
            services: Services::Standalone,
            host_ips: &[],
            pod_ips: &[],
            allocatable,
            sources: &EnvSources::default(),
        };
        return field_value(pod, &view, field).map_err(|err| err.to_string());
    }
    let Some(field) = &item.resource_field_ref else { return Ok(String::new()) };
    // A volume belongs to no container: the API insists on a name.
    let nobody = Container::default();
    if field.container_name.as_deref().unwrap_or_default().is_empty() {
        return Err("container  not found".to_owned());
    }
    resource_value(pod, &nobody, allocatable, field).map_err(|err| err.to_string())
}

/// Several problems in one text, each once. upstream: apimachinery errors.NewAggregate (v1.36)
pub fn aggregate(problems: impl IntoIterator<Item = String>) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in problems {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        more => format!("[{}]", more.join(", ")),
    }
}

/// The files with their paths clean, or why one of them may not be. upstream: atomic_writer.go validatePath (v1.36)
pub fn checked(files: Files) -> Result<Files, FilesError> {
    files.into_iter().map(|(path, file)| clean(&path).map(|path| (path, file))).collect()
}

fn clean(path: &str) -> Result<String, FilesError> {
    let refuse = |why: String| Err(FilesError::Path(why));
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if path.starts_with('/') {
        return refuse(format!("must be relative path: {path}"));
    }
    if parts.is_empty() || path.contains('\0') {
        return refuse(format!("must not be empty: {path:?}"));
    }
    if path.len() > PATH_MAX {
        return refuse(format!("must be less than or equal to {PATH_MAX} characters"));
    }
    if parts.contains(&"..") {
        return refuse(format!("must not contain '..': {path}"));
    }
    if parts.iter().any(|part| part.len() > NAME_MAX) {
        return refuse(format!("filenames must be less than or equal to {NAME_MAX} characters"));
    }
    // Such names are the writer's own.
    if parts.first().is_some_and(|first| first.starts_with("..")) {
        return refuse(format!("must not start with '..': {path}"));
    }
    Ok(parts.join("/"))
}

/// Directories in the volume that a container has other volumes mounted on, outermost only.
/// upstream: nested_volumes.go getNestedMountpoints (v1.36)
#[doc(alias = "MakeNestedMountpoints")]
pub fn mount_points(pod: &Pod, volume: &str) -> Result<Vec<String>, FilesError> {
    let mut found = BTreeSet::new();
    for mounts in containers_mounts(pod) {
        let mut all: Vec<Vec<&str>> = mounts.iter().map(|(_, path)| steps(path)).collect();
        all.sort();
        for (_, path) in mounts.iter().filter(|(name, _)| *name == volume) {
            if path.starts_with("../") {
                return Err(FilesError::MountPoint((*path).to_owned()));
            }
            let root = steps(path);
            let mut outer: Vec<&[&str]> = Vec::new();
            for inner in all.iter().filter_map(|inner| inner.strip_prefix(root.as_slice())) {
                if !inner.is_empty() && !outer.iter().any(|outer| inner.starts_with(outer)) {
                    outer.push(inner);
                    found.insert(inner.join("/"));
                }
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// The names on the way to `path`.
fn steps(path: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            part => steps.push(part),
        }
    }
    steps
}

/// Volume and place of each mount, by container.
fn containers_mounts(pod: &Pod) -> Vec<Vec<(&str, &str)>> {
    let spec = pod.pod_spec();
    let containers = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let own = containers.map(|container| container.volume_mounts.as_deref());
    let debug = spec.and_then(|spec| spec.ephemeral_containers.as_deref()).unwrap_or_default();
    let all = own.chain(debug.iter().map(|container| container.volume_mounts.as_deref()));
    all.map(|mounts| mounts.unwrap_or_default().iter().map(|m| (m.name.as_str(), m.mount_path.as_str())).collect())
        .collect()
}

#[cfg(test)]
mod tests;
