//! Credentials from a program (`exec` of a kubeconfig's user).
//!
//! upstream: client-go plugin/pkg/client/auth/exec/exec.go (v1.36).

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::program::{DEADLINE, MAX_OUTPUT, ProgramError, Programs};

/// A program that says who we are. Its `Debug` hides arguments and environment, which may hold secrets.
#[derive(Clone)]
pub struct Exec {
    /// A path, or a name that is looked for in `PATH`.
    pub(super) command: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) api_version: String,
    /// What the kubeconfig says to do where the program is missing.
    pub(super) hint: String,
    /// What it is told of the cluster.
    pub(super) cluster: Option<Value>,
}

impl std::fmt::Debug for Exec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exec").field("command", &self.command).finish_non_exhaustive()
    }
}

/// Why a program gave no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It cannot be started.
    #[error("start the credential plugin {}{}", command.display(), hint(advice))]
    Start {
        /// What.
        command: PathBuf,
        /// What the kubeconfig says to do.
        advice: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It took too long.
    #[error("the credential plugin {} did not finish within {DEADLINE:?}", command.display())]
    Timeout {
        /// What.
        command: PathBuf,
    },
    /// It printed too much.
    #[error("the credential plugin {} printed more than {MAX_OUTPUT} bytes", command.display())]
    TooMuch {
        /// What.
        command: PathBuf,
    },
    /// It failed.
    #[error("the credential plugin {} ended with {status}: {complaint}", command.display())]
    Failed {
        /// What.
        command: PathBuf,
        /// How.
        status: std::process::ExitStatus,
        /// The beginning of what it said.
        complaint: String,
    },
    /// It printed something else.
    #[error("the credential plugin {} printed no ExecCredential", command.display())]
    Output {
        /// What.
        command: PathBuf,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// It printed another version, or neither a token nor a certificate.
    #[error("the credential plugin {} printed {problem}", command.display())]
    Content {
        /// What.
        command: PathBuf,
        /// What is wrong with it.
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

/// What a program printed.
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
    /// Runs it.
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
