//! Credentials from a program (`exec` of a kubeconfig's user).
//!
//! upstream: client-go plugin/pkg/client/auth/exec/exec.go (v1.36).

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::program::{DEADLINE, MAX_OUTPUT, ProgramError, Programs};

/// A credential plugin. Its `Debug` hides arguments and environment, which may hold secrets.
#[derive(Clone)]
pub struct Exec {
    /// A path, or a name that is looked up in `PATH`.
    pub(super) command: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) api_version: String,
    /// `installHint` of the kubeconfig, shown when the plugin is missing.
    pub(super) hint: String,
    /// `spec.cluster` of the ExecCredential that the plugin receives.
    pub(super) cluster: Option<Value>,
}

impl std::fmt::Debug for Exec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exec").field("command", &self.command).finish_non_exhaustive()
    }
}

/// Why a credential plugin returned no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The plugin cannot be started.
    #[error("start the credential plugin {}{}", command.display(), hint(advice))]
    Start {
        /// The plugin.
        command: PathBuf,
        /// The kubeconfig's `installHint`.
        advice: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The plugin did not finish in time.
    #[error("the credential plugin {} did not finish within {DEADLINE:?}", command.display())]
    Timeout {
        /// The plugin.
        command: PathBuf,
    },
    /// The plugin printed more than is read.
    #[error("the credential plugin {} printed more than {MAX_OUTPUT} bytes", command.display())]
    TooMuch {
        /// The plugin.
        command: PathBuf,
    },
    /// The plugin exited with an error.
    #[error("the credential plugin {} ended with {status}: {complaint}", command.display())]
    Failed {
        /// The plugin.
        command: PathBuf,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The beginning of its standard error.
        complaint: String,
    },
    /// The output is not an ExecCredential.
    #[error("the credential plugin {} printed no ExecCredential", command.display())]
    Output {
        /// The plugin.
        command: PathBuf,
        /// The decoder's error.
        #[source]
        source: serde_json::Error,
    },
    /// The output has another version, or neither a token nor a certificate.
    #[error("the credential plugin {} printed {problem}", command.display())]
    Content {
        /// The plugin.
        command: PathBuf,
        /// What is wrong with the output.
        problem: &'static str,
    },
}

fn hint(advice: &str) -> String {
    if advice.is_empty() { String::new() } else { format!(" ({advice})") }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<Grant>,
}

/// The status of an ExecCredential.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct Grant {
    pub(super) expiration_timestamp: Option<Timestamp>,
    pub(super) token: String,
    pub(super) client_certificate_data: String,
    pub(super) client_key_data: String,
}

impl Exec {
    /// Runs the plugin and reads its credentials.
    pub(super) async fn run(&self, programs: &Programs) -> Result<Grant, ExecError> {
        let finished = programs.run(self.command(), None).await.map_err(|error| {
            let (command, advice) = (self.command.clone(), self.hint.clone());
            match error {
                ProgramError::Run(source) => ExecError::Start { command, advice, source },
                ProgramError::Timeout => ExecError::Timeout { command },
                ProgramError::TooMuch => ExecError::TooMuch { command },
            }
        })?;
        if !finished.status.success() {
            let (command, complaint) = (self.command.clone(), finished.complaint());
            return Err(ExecError::Failed { command, status: finished.status, complaint });
        }
        self.read(&finished.output)
    }

    fn command(&self) -> Command {
        let mut spec = json!({ "interactive": false });
        if let (Some(cluster), Value::Object(spec)) = (&self.cluster, &mut spec) {
            spec.insert("cluster".to_owned(), cluster.clone());
        }
        let info = json!({ "apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec });
        let mut command = Command::new(&self.command);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env("KUBERNETES_EXEC_INFO", info.to_string());
        command
    }

    fn read(&self, output: &[u8]) -> Result<Grant, ExecError> {
        let command = || self.command.clone();
        let bad = |problem| ExecError::Content { command: command(), problem };
        let output: Output =
            serde_json::from_slice(output).map_err(|source| ExecError::Output { command: command(), source })?;
        if output.kind != "ExecCredential" || output.api_version != self.api_version {
            return Err(bad("another version of ExecCredential than the kubeconfig asks for"));
        }
        let grant = output.status.ok_or_else(|| bad("an ExecCredential without a status"))?;
        if grant.client_certificate_data.is_empty() != grant.client_key_data.is_empty() {
            return Err(bad("only one of clientCertificateData and clientKeyData"));
        }
        if grant.token.is_empty() && grant.client_certificate_data.is_empty() {
            return Err(bad("neither a token nor a certificate"));
        }
        Ok(grant)
    }
}
