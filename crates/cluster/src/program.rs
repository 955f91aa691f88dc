//! Runs credential plugins, for registries and for the API server.
//!
//! A plugin may hang, print without end, or be on a disk that does not respond, so that even starting it blocks. It is
//! started on a blocking thread, with a deadline and a limit on its output, and the number of concurrent plugins is bounded.
//! A plugin whose start hangs keeps its permit, so hanging plugins take at most that many threads.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rubelet_engine::blocking::CREDENTIALS;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Deadline of a plugin, including the wait for a permit.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// Longest output.
pub(crate) const MAX_OUTPUT: u64 = 1 << 20;
/// How many bytes of standard error are shown.
const MAX_SHOWN: usize = 256;

/// Runs plugins, up to a number at a time.
#[derive(Debug)]
pub(crate) struct Programs {
    /// The kind of plugin. Hanging plugins of one kind do not block another kind.
    kind: &'static str,
    places: Arc<Semaphore>,
}

/// A plugin that has exited.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    complaint: Vec<u8>,
}

impl Finished {
    /// The beginning of its standard error.
    pub(crate) fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.complaint).trim().chars().take(MAX_SHOWN).collect()
    }
}

/// Why a plugin did not exit by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("run the program")]
    Run(#[from] io::Error),
    #[error("the program did not finish within {DEADLINE:?}")]
    Timeout,
    #[error("the program printed more than {MAX_OUTPUT} bytes")]
    TooMuch,
}

impl Programs {
    pub(crate) fn new(kind: &'static str, at_once: usize) -> Self {
        Self { kind, places: Arc::new(Semaphore::new(at_once)) }
    }

    /// Runs `command` with `question` on its standard input. It is killed at its deadline, or if it prints too much.
    pub(crate) async fn run(&self, mut command: Command, question: Option<String>) -> Result<Finished, ProgramError> {
        let input = if question.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let work = async {
            let (child, _place) = self.started(move || command.spawn()).await?;
            finished(child, question).await
        };
        tokio::time::timeout(DEADLINE, work).await.unwrap_or(Err(ProgramError::Timeout))
    }

    /// Starts a plugin on a blocking thread. The permit is held until both the starting thread and the returned value are
    /// dropped.
    async fn started(
        &self,
        start: impl FnOnce() -> io::Result<Child> + Send + 'static,
    ) -> io::Result<(Child, OwnedSemaphorePermit)> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let started = CREDENTIALS.spawn(self.kind, move || start().map(|child| (child, place)));
        started.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

async fn finished(mut child: Child, question: Option<String>) -> Result<Finished, ProgramError> {
    let input = child.stdin.take();
    let asked = async {
        if let (Some(mut input), Some(question)) = (input, question) {
            // A plugin may answer without reading its input.
            let _unread = input.write_all(question.as_bytes()).await;
        }
        Ok::<_, ProgramError>(())
    };
    let (output, complaint) = (child.stdout.take(), child.stderr.take());
    let ((), output, complaint) = tokio::try_join!(asked, bounded(output), bounded(complaint))?;
    Ok(Finished { status: child.wait().await?, output, complaint })
}

/// Reads to the end, or fails if there is too much.
async fn bounded(from: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, ProgramError> {
    let mut all = Vec::new();
    if let Some(from) = from {
        let read = from.take(MAX_OUTPUT + 1).read_to_end(&mut all).await?;
        if u64::try_from(read).is_ok_and(|read| read > MAX_OUTPUT) {
            return Err(ProgramError::TooMuch);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::JoinSet;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script);
        command
    }

    #[tokio::test]
    async fn a_plugins_exit_status_and_output_are_returned() {
        let programs = Programs::new("test", 1);
        let finished = programs.run(shell("cat; echo no >&2; exit 3"), Some("question".to_owned())).await.unwrap();
        assert_eq!((finished.status.code(), finished.output.as_slice()), (Some(3), &b"question"[..]));
        assert_eq!(finished.complaint(), "no");
        // A plugin that does not read its input, or gets none, does not fail.
        for question in [Some("x".repeat(100_000)), None] {
            assert!(programs.run(shell("exec 0<&-; echo yes"), question).await.unwrap().status.success());
        }
        let missing = programs.run(Command::new("/no/such/program"), None).await;
        assert!(matches!(missing, Err(ProgramError::Run(_))), "{missing:?}");
    }

    #[tokio::test]
    async fn a_plugin_that_prints_without_end_is_killed() {
        let programs = Programs::new("test", 1);
        for script in ["exec yes", "exec yes >&2"] {
            let endless = programs.run(shell(script), None).await;
            assert!(matches!(endless, Err(ProgramError::TooMuch)), "{endless:?}");
        }
        assert!(programs.run(shell("exit 0"), None).await.unwrap().status.success(), "its permit is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_does_not_exit_is_killed_at_its_deadline() {
        let programs = Programs::new("test", 1);
        let endless = programs.run(shell("exec sleep 1000"), None).await;
        assert!(matches!(endless, Err(ProgramError::Timeout)), "{endless:?}");
    }

    /// As on a disk that does not respond: the start blocks its thread.
    #[tokio::test]
    async fn hanging_starts_keep_their_permits_and_block_nothing_else() {
        let programs = Arc::new(Programs::new("test", 2));
        let (began, begins) = mpsc::channel();
        let (release, hang) = mpsc::channel::<()>();
        let hang = Arc::new(std::sync::Mutex::new(hang));
        let own = std::thread::current().id();
        let mut starts = JoinSet::new();
        for _ in 0..20 {
            let (programs, began, hang) = (Arc::clone(&programs), began.clone(), Arc::clone(&hang));
            starts.spawn(async move {
                let start = move || {
                    assert_ne!(std::thread::current().id(), own, "a hanging start must not block the async thread");
                    began.send(()).unwrap();
                    // Returns an error when the test drops the sender.
                    let _ = hang.lock().unwrap().recv();
                    Err(io::Error::other("given up"))
                };
                programs.started(start).await.map(drop)
            });
        }
        drop(began);
        // This thread, the only one of the runtime, is not blocked.
        let taken = async {
            while programs.places.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), taken).await.expect("the starts hang on other threads");
        starts.abort_all();
        while starts.join_next().await.is_some() {}
        assert_eq!(programs.places.available_permits(), 0, "the threads hang although the callers gave up");
        drop(release);
        assert_eq!(begins.iter().count(), 2);
    }
}
