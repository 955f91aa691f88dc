//! Asks a program for logins: the question on its standard input, the answer on its standard output.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rubelet_core::providers::{Answer, Provider};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// How long a program may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// Most that it may print.
const MAX_OUTPUT: u64 = 1 << 20;
/// Most of its complaints that are shown.
const MAX_SHOWN: usize = 256;

/// Why a program gave no logins.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("run the program")]
    Run(#[source] std::io::Error),
    #[error("the program did not finish within {DEADLINE:?}")]
    Timeout,
    #[error("the program ended with {status}: {complaint}")]
    Failed { status: ExitStatus, complaint: String },
    #[error("{0}")]
    Answer(&'static str),
}

#[doc(alias = "ExecPlugin")]
pub(super) async fn ask(provider: &Provider, programs: &Path, repository: &str) -> Result<Answer, AskError> {
    let run = tokio::time::timeout(DEADLINE, run(provider, programs, repository));
    let (status, output, complaint) = run.await.map_err(|_| AskError::Timeout)?.map_err(AskError::Run)?;
    if !status.success() {
        let complaint = String::from_utf8_lossy(&complaint).trim().chars().take(MAX_SHOWN).collect();
        return Err(AskError::Failed { status, complaint });
    }
    provider.answer(repository, &output).map_err(AskError::Answer)
}

async fn run(
    provider: &Provider,
    programs: &Path,
    repository: &str,
) -> std::io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let mut command = Command::new(programs.join(&provider.name));
    command.args(provider.args.iter().flatten());
    command.envs(provider.env.iter().flatten().map(|var| (&var.name, &var.value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let question = provider.request(repository);
    let stdin = child.stdin.take();
    let asked = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read its question may know the answer all the same.
            let _unread = stdin.write_all(question.as_bytes()).await;
        }
    };
    let (output, complaint) = (child.stdout.take(), child.stderr.take());
    let ((), output, complaint) = tokio::join!(asked, bounded(output), bounded(complaint));
    Ok((child.wait().await?, output?, complaint?))
}

/// All that comes, up to a bound.
async fn bounded(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    if let Some(from) = from {
        from.take(MAX_OUTPUT).read_to_end(&mut all).await?;
    }
    Ok(all)
}
