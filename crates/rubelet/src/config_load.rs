//! Loads flags and files into one validated configuration.
//!
//! Precedence (CFG-01): built-in defaults, then `--config`, then the drop-ins of `--config-dir` in lexical order, then
//! flags.
//!
//! Unknown fields and duplicate keys do not stop a node, because the file may be of another release. Each is reported with
//! its place and the nearest name, because a misspelled field is a setting without effect. `rubelet check` fails for them.
//! A value of the wrong type is an error.
// upstream: pkg/kubelet/kubeletconfig/util/codec/codec.go DecodeKubeletConfiguration (v1.36), strict and then lenient.

mod decode;
mod drop_ins;
mod origin;
mod tree;
mod whole;

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rubelet_core::config::{
    API_VERSION, CgroupVersion, FeatureGates, Given, Invalid, KIND, KubeletConfiguration, NodeLabelError,
    check_node_labels, gate_warnings, node_ips, unacted, validate,
};

use crate::flags::{FlagError, KubeletFlags, RunOptions};

pub use decode::Problem;
use decode::Tolerated;
pub use origin::{Origin, Origins};
pub use whole::{Fault, faults};

/// Largest file. kubeadm writes 2 KiB; the API server stores no object larger than this.
const MAX_FILE: u64 = 1024 * 1024;

/// The validated settings of a run.
#[derive(Debug)]
pub struct Loaded {
    /// The settings that exist only as flags.
    pub flags: KubeletFlags,
    /// The configuration in effect.
    pub config: KubeletConfiguration,
    /// Which features are on.
    pub gates: FeatureGates,
    /// The fields that were set explicitly.
    pub given: Given,
    /// Where each of them was set.
    pub origins: Origins,
    /// Warnings to log once logging is set up.
    pub warnings: Vec<String>,
    /// What was ignored in the files: unknown fields and duplicate keys, each with its place.
    pub tolerated: Vec<String>,
    /// Files in `--config-dir` that are not drop-ins.
    pub skipped: Vec<PathBuf>,
    /// The version to report.
    pub reported_version: String,
}

impl Loaded {
    /// Whether pods that name no seccomp profile get the runtime's: by flag or by field.
    // upstream: cmd/kubelet/app/server.go createAndInitKubelet (v1.36).
    #[must_use]
    pub fn seccomp_default(&self) -> bool {
        self.flags.seccomp_default || self.config.seccomp_default
    }
}

/// Why the configuration could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or directory cannot be read.
    #[error("cannot read configuration {}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is empty.
    #[error("configuration {} is empty; it needs at least apiVersion: {API_VERSION} and kind: {KIND}", .path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// A file is too large.
    #[error("configuration {} is larger than {MAX_FILE} bytes: it is no KubeletConfiguration", .path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
    },
    /// A file has invalid content.
    #[error("{}", Places(.path, .problems))]
    Problems {
        /// Which.
        path: PathBuf,
        /// What, and where in it.
        problems: Vec<Problem>,
    },
    /// Values that cannot be used.
    #[error("invalid configuration:{}", Lines(.0))]
    Invalid(Vec<Invalid>),
    /// Labels that cannot be used.
    #[error("invalid --node-labels:{}", Lines(.0))]
    Labels(Vec<NodeLabelError>),
    /// Flags that cannot be used.
    #[error(transparent)]
    Flags(#[from] FlagError),
}

struct Places<'a>(&'a Path, &'a [Problem]);

impl fmt::Display for Places<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.1.iter().map(|problem| format!("{}:{problem}", self.0.display()));
        f.write_str(&lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| write!(f, "\n{line}"))
    }
}

struct Lines<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Lines<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Findings about the files, besides their values.
#[derive(Default)]
struct Sources {
    given: Given,
    origins: Origins,
    tolerated: Vec<String>,
    skipped: Vec<PathBuf>,
}

/// Reads all files that the flags name, and validates the result for this kind of host.
///
/// # Errors
/// See [`LoadError`]; each names the file, place, field and what would be valid.
pub fn load(options: &RunOptions, host: CgroupVersion) -> Result<Loaded, LoadError> {
    let mut sources = Sources::default();
    let flags = options.flags.clone();
    let config = read_all(options, &mut sources)?;
    let Sources { mut given, mut origins, tolerated, skipped } = sources;
    let config = options.apply_over(config)?;
    given.extend(&options.given());
    origins.set_by_flags(options);

    let wrong_labels = check_node_labels(&flags.node_labels);
    if !wrong_labels.is_empty() {
        return Err(LoadError::Labels(wrong_labels));
    }
    let invalid = validate(&config, host);
    if !invalid.is_empty() {
        return Err(LoadError::Invalid(invalid));
    }
    let gates = FeatureGates::lenient(&config.feature_gates);
    let warnings = warnings(options, &config, &given);
    let reported_version = options.reported_version.clone();
    Ok(Loaded { flags, config, gates, given, origins, warnings, tolerated, skipped, reported_version })
}

/// The configuration of all files, without flags.
fn read_all(options: &RunOptions, sources: &mut Sources) -> Result<KubeletConfiguration, LoadError> {
    let flags = &options.flags;
    let mut config = options.config.clone();
    if !flags.config.is_empty() {
        config = read_config(Path::new(&flags.config), sources)?;
    }
    if !flags.config_dir.is_empty() {
        config = drop_ins::merge(config, Path::new(&flags.config_dir), sources)?;
    }
    Ok(config)
}

fn warnings(options: &RunOptions, config: &KubeletConfiguration, given: &Given) -> Vec<String> {
    let mut lines = options.warnings.clone();
    lines.extend(gate_warnings(&config.feature_gates));
    let ignored = node_ips(&options.flags.node_ip).map(|ips| ips.ignored).unwrap_or_default();
    if !ignored.is_empty() {
        lines.push(format!("--node-ip: {} is not an IP address and is ignored", ignored.join(", ")));
    }
    let (own, reserved) = (&config.kubelet_cgroups, &config.kube_reserved_cgroup);
    if !own.is_empty() && !reserved.is_empty() && !own.starts_with(reserved.as_str()) {
        lines.push(format!("kubeletCgroups {own} is not inside kubeReservedCgroup {reserved}"));
    }
    let mut without_effect = options.unacted();
    without_effect.extend(unacted(config, given));
    if !without_effect.is_empty() {
        lines.push(format!("these settings are accepted but have no effect yet: {}", without_effect.join(", ")));
    }
    lines
}

/// Reads the file of `--config` with all its defaults (CFG-03, CFG-04).
fn read_config(path: &Path, sources: &mut Sources) -> Result<KubeletConfiguration, LoadError> {
    let (tree, mut tolerated) = read_tree(path)?;
    sources.given = tree.given();
    sources.origins.set_by_file(path, &tree);
    let given = &sources.given;
    let decoded = decode::decode(&tree, &mut tolerated);
    let mut config: KubeletConfiguration = decoded.map_err(|problem| at(path, vec![problem]))?;
    sources.tolerated = tolerated.lines(path);
    config.set_defaults(given);
    // Paths in the file are relative to the file, independent of the working directory.
    let directory =
        std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_owned)).unwrap_or_default();
    for field in config.paths_mut() {
        if !field.is_empty() && !field.starts_with('/') {
            *field = clean(&directory.join(field.as_str()));
        }
    }
    config.fill_eviction_hard(given);
    Ok(config)
}

/// Parses a file with the place of each value, and checks that it is a `KubeletConfiguration`.
fn read_tree(path: &Path) -> Result<(tree::Node, Tolerated), LoadError> {
    let unreadable = |source| LoadError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let mut file = File::open(path).map_err(unreadable)?.take(MAX_FILE + 1);
    let length = file.read_to_string(&mut text).map_err(unreadable)?;
    if u64::try_from(length).is_ok_and(|length| length > MAX_FILE) {
        return Err(LoadError::TooLarge { path: path.to_owned() });
    }
    if text.trim().is_empty() {
        return Err(LoadError::Empty { path: path.to_owned() });
    }
    let mut tolerated = Tolerated::default();
    let tree = tree::Node::parse(&text, &mut tolerated).map_err(|problem| at(path, vec![problem]))?;
    let problems: Vec<Problem> = [("apiVersion", API_VERSION), ("kind", KIND)]
        .into_iter()
        .filter_map(|(key, expected)| tree.expect_text(key, expected))
        .collect();
    if problems.is_empty() { Ok((tree, tolerated)) } else { Err(at(path, problems)) }
}

fn at(path: &Path, problems: Vec<Problem>) -> LoadError {
    LoadError::Problems { path: path.to_owned(), problems }
}

/// The path without `.` and `..`, resolved lexically.
// upstream: filepath.Join as used by configfiles.go resolveRelativePaths (v1.36).
fn clean(path: &Path) -> String {
    use std::path::Component;
    let mut parts: Vec<String> = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                parts.pop();
            }
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    format!("/{}", parts.join("/"))
}
