//! Asks a program for logins: the question on its standard input, the answer on its standard output.

use std::path::Path;
use std::process::ExitStatus;

use rubelet_core::providers::{Answer, Provider};
use tokio::process::Command;

use crate::program::{ProgramError, Programs};

/// Why a program gave no logins.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("the program ended with {status}: {complaint}")]
    Failed { status: ExitStatus, complaint: String },
    #[error("{0}")]
    Answer(&'static str),
}

#[doc(alias = "ExecPlugin")]
pub(super) async fn ask(
    provider: &Provider,
    (programs, dir): (&Programs, &Path),
    repository: &str,
) -> Result<Answer, AskError> {
    let mut command = Command::new(dir.join(&provider.name));
    command.args(provider.args.iter().flatten());
    command.envs(provider.env.iter().flatten().map(|var| (&var.name, &var.value)));
    let finished = programs.run(command, Some(provider.request(repository))).await?;
    if !finished.status.success() {
        return Err(AskError::Failed { status: finished.status, complaint: finished.complaint() });
    }
    provider.answer(repository, &finished.output).map_err(AskError::Answer)
}
