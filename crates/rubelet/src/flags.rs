//! The command line: every flag of kubelet v1.36 with pflag's rules, and rubelet's own commands.
//!
//! An own small parser, not a library's: a drop-in must read a command line exactly as upstream does (`_` for `-`,
//! `--flag=value` and `--flag value`, switches that never take the next argument, lists that forget their default on first
//! use), and must be able to read it twice, because flags are applied again over the configuration file (CFG-01).

mod commands;
mod completion;
mod flag;
mod help;
mod man;
mod parse;
mod settings;
mod table;
mod value;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rubelet_core::config::{Given, KubeletConfiguration};

pub use man::pages as man_pages;
pub use parse::{FlagError, parse};
pub use settings::{Format, KubeletFlags, Output};

use flag::{Flag, Kind};
use settings::Settings;
use value::Use;

/// The Kubernetes release whose kubelet this is.
pub const KUBERNETES_VERSION: &str = "v1.36.4";

/// What is reported as version: the Kubernetes release, with rubelet's own as build metadata.
///
/// The form is bound by `kubeadm`, which reads `kubelet --version` and takes nothing but `Kubernetes vX.Y.Z` with
/// letters, digits, `-`, `.` and `+` after it.
// upstream: cmd/kubeadm/app/preflight/utils.go GetKubeletVersion (v1.36).
pub const REPORTED_VERSION: &str = concat!("v1.36.4+rubelet.", env!("CARGO_PKG_VERSION"));

/// Flags without a field of the configuration that rubelet acts on; the others are named once at start-up. The table
/// for fields is `core::config::ACTED_FIELDS`.
pub const ACTED_FLAGS: &[&str] = &[
    "api-pod-cache",
    "bootstrap-kubeconfig",
    "cert-dir",
    "cloud-provider",
    "config",
    "config-dir",
    "exit-on-lock-contention",
    "hostname-override",
    "image-credential-provider-bin-dir",
    "image-credential-provider-config",
    "kubeconfig",
    "lock-file",
    "maximum-dead-containers",
    "maximum-dead-containers-per-container",
    "minimum-container-ttl-duration",
    "node-ip",
    "node-labels",
    "root-dir",
    "seccomp-default",
    "sessions-need-create",
    "version",
];

/// Every flag of the agent, with its value in force: the command line's, or the configuration file's.
#[doc(alias = "GetFlagz")]
pub(crate) fn in_force(config: &KubeletConfiguration, flags: &KubeletFlags) -> BTreeMap<String, String> {
    let mut settings = Settings::over(config.clone());
    settings.flags = flags.clone();
    table::run_flags().map(|flag| (flag.name.to_owned(), value::in_force(&flag.kind, &mut settings))).collect()
}

/// The socket of a running rubelet, inside its root directory.
#[must_use]
pub fn control_socket(root_dir: &Path) -> PathBuf {
    root_dir.join("rubelet.sock")
}

/// A parsed command line.
#[derive(Debug)]
pub enum Command {
    /// Run the node's agent.
    Run(Box<RunOptions>),
    /// List the pods of this node.
    Pods {
        /// How to ask for them.
        query: Query,
        /// Only those of this namespace.
        namespace: Option<String>,
    },
    /// Show what happened to a pod and what it waits for.
    Explain {
        /// How to ask for it.
        query: Query,
        /// Name, `namespace/name` or UID.
        pod: String,
    },
    /// Show the state of the running agent.
    Status {
        /// How to ask for it.
        query: Query,
    },
    /// Test the machine for a run with these options.
    Check {
        /// How to show the findings.
        output: Output,
        /// The options of the run to check.
        options: Box<RunOptions>,
    },
    /// Show the configuration of a run with these options.
    ConfigShow {
        /// How to show it.
        format: Format,
        /// Also the fields that have their default.
        all: bool,
        /// The options of the run.
        options: Box<RunOptions>,
    },
    /// Report every error of the configuration of a run with these options.
    ConfigValidate {
        /// How to show the errors.
        output: Output,
        /// The options of the run.
        options: Box<RunOptions>,
    },
    /// Show the version.
    Version {
        /// How to show it.
        format: Format,
    },
    /// Write all manual pages.
    ManPages {
        /// The directory.
        dir: PathBuf,
    },
    /// Print a text (help, version) and exit with success.
    Print(String),
}

/// A question to a running rubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// How to show the answer.
    pub output: Output,
    /// Socket of the running rubelet.
    pub socket: PathBuf,
}

/// The options of a run, before any file is read.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The settings that exist only as flags.
    pub flags: KubeletFlags,
    /// Warnings for the user: deprecated flags.
    pub warnings: Vec<String>,
    /// The version to report; [`REPORTED_VERSION`] unless `--version=vX.Y.Z-…` was given.
    pub reported_version: String,
    /// The configuration as flags alone make it, over the legacy defaults (CFG-03).
    pub(crate) config: KubeletConfiguration,
    assigned: Vec<Assigned>,
}

/// One use of a flag.
#[derive(Clone)]
struct Assigned {
    flag: &'static Flag,
    word: String,
}

impl Assigned {
    /// Its value, unless that is a secret.
    fn shown(&self) -> &str {
        let secret = matches!(self.flag.kind, Kind::Headers(_)) || self.flag.name.contains("password");
        if secret { "<masked>" } else { &self.word }
    }
}

impl std::fmt::Debug for Assigned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "--{}={}", self.flag.name, self.word)
    }
}

impl RunOptions {
    /// Applies the flags over a configuration: flags take precedence. Feature gates are merged (CFG-02).
    ///
    /// # Errors
    /// None in practice: the same arguments were parsed before.
    #[doc(alias = "kubeletConfigFlagPrecedence")]
    pub(crate) fn apply_over(&self, config: KubeletConfiguration) -> Result<KubeletConfiguration, FlagError> {
        let gates = config.feature_gates.clone();
        let mut settings = Settings::over(config);
        apply(&self.assigned, &mut settings)?;
        let mut config = settings.config;
        for (gate, value) in gates {
            config.feature_gates.entry(gate).or_insert(value);
        }
        Ok(config)
    }

    /// The fields of the configuration that the command line set.
    pub(crate) fn given(&self) -> Given {
        self.fields().into_iter().map(|(field, _)| field).collect()
    }

    /// The fields of the configuration that the command line set, each with its flag.
    pub(crate) fn fields(&self) -> Vec<(String, &'static str)> {
        let mut fields = Vec::new();
        for Assigned { flag, word } in &self.assigned {
            let Some(field) = flag.config_field() else { continue };
            if matches!(flag.kind, Kind::Gates(_)) {
                let names = word.split(',').filter_map(|part| part.split_once('='));
                fields.extend(names.map(|(gate, _)| (format!("{field}.{}", gate.trim()), flag.name)));
            } else {
                fields.push((field.to_owned(), flag.name));
            }
        }
        fields
    }

    /// The flags in use that are no fields of the configuration, with their values. Secrets are masked.
    pub(crate) fn flags_without_field(&self) -> Vec<(&'static str, &str)> {
        let own = self.assigned.iter().filter(|assigned| assigned.flag.config_field().is_none());
        own.map(|assigned| (assigned.flag.name, assigned.shown())).collect()
    }

    /// The flags in use that have no field and no effect yet, as `--flag`. Flags from cAdvisor have a warning of their own.
    pub(crate) fn unacted(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for Assigned { flag, .. } in &self.assigned {
            let silent = flag.config_field().is_none() && flag.group != flag::Group::NoEffect;
            let name = format!("--{}", flag.name);
            if silent && !ACTED_FLAGS.contains(&flag.name) && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Every flag that was used, as `--flag=value`, for the log. Secrets are masked.
    #[must_use]
    #[doc(alias = "PrintFlags")]
    pub fn used(&self) -> Vec<String> {
        self.assigned.iter().map(|assigned| format!("--{}={}", assigned.flag.name, assigned.shown())).collect()
    }
}

/// Writes every use of a flag, in order.
fn apply(assigned: &[Assigned], settings: &mut Settings) -> Result<(), FlagError> {
    let mut seen: Vec<&str> = Vec::new();
    for Assigned { flag, word } in assigned {
        let using = if seen.contains(&flag.name) { Use::Again } else { Use::First };
        seen.push(flag.name);
        value::set(&flag.kind, settings, word, using).map_err(|rule| FlagError::Value {
            flag: flag.name,
            word: word.clone(),
            rule,
        })?;
    }
    Ok(())
}
