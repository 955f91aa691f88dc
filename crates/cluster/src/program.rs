//! Programs that are asked for credentials: of registries, of the API server.
//!
//! A program is foreign: it may hang, print without end, or be on a disk that does not answer, so that even to start it
//! blocks. It is started on a thread where that may be, has a deadline and a bound on what it prints, and only so many
//! run at a time. One whose start hangs keeps its place, so that those places are all it can take.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rubelet_engine::blocking::CREDENTIALS;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a program may take, with the wait for its place.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// Most that it may print.
pub(crate) const MAX_OUTPUT: u64 = 1 << 20;
/// Most of its complaints that are shown.
const MAX_SHOWN: usize = 256;

/// Runs programs, so many at a time.
#[derive(Debug)]
pub(crate) struct Programs {
    /// What they are asked for: those of one kind that hang keep no thread from another kind.
    kind: &'static str,
    places: Arc<Semaphore>,
}

/// A program that came to its end.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    complaint: Vec<u8>,
}

impl Finished {
    /// The beginning of what it complained about.
    pub(crate) fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.complaint).trim().chars().take(MAX_SHOWN).collect()
    }
}

/// Why a program came to no end of its own.
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

    /// Runs `command` with `question` on its standard input, and ends it if it takes too long or prints too much.
    pub(crate) async fn run(&self, mut command: Command, question: Option<String>) -> Result<Finished, ProgramError> {
        let input = if question.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let work = async {
            let (child, _place) = self.started(move || command.spawn()).await?;
            finished(child, question).await
        };
        tokio::time::timeout(DEADLINE, work).await.unwrap_or(Err(ProgramError::Timeout))
    }

    /// Starts a program where that may block. The place is taken until both are dropped: the thread that starts the
    /// program, and what is returned.
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
            // A program that does not read its question may know the answer all the same.
            let _unread = input.write_all(question.as_bytes()).await;
        }
        Ok::<_, ProgramError>(())
    };
    let (output, complaint) = (child.stdout.take(), child.stderr.take());
    let ((), output, complaint) = tokio::try_join!(asked, bounded(output), bounded(complaint))?;
    Ok(Finished { status: child.wait().await?, output, complaint })
}

/// All that comes, unless it is too much.
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
    async fn a_program_answers_what_it_is_asked() {
        let programs = Programs::new("test", 1);
        let finished = programs.run(shell("cat; echo no >&2; exit 3"), Some("question".to_owned())).await.unwrap();
        assert_eq!((finished.status.code(), finished.output.as_slice()), (Some(3), &b"question"[..]));
        assert_eq!(finished.complaint(), "no");
        // One that does not read, or has nothing to read, is no failure.
        for question in [Some("x".repeat(100_000)), None] {
            assert!(programs.run(shell("exec 0<&-; echo yes"), question).await.unwrap().status.success());
        }
        let missing = programs.run(Command::new("/no/such/program"), None).await;
        assert!(matches!(missing, Err(ProgramError::Run(_))), "{missing:?}");
    }

    #[tokio::test]
    async fn a_program_that_prints_without_end_is_ended() {
        let programs = Programs::new("test", 1);
        for script in ["exec yes", "exec yes >&2"] {
            let endless = programs.run(shell(script), None).await;
            assert!(matches!(endless, Err(ProgramError::TooMuch)), "{endless:?}");
        }
        assert!(programs.run(shell("exit 0"), None).await.unwrap().status.success(), "its place is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_does_not_end_is_ended_at_its_deadline() {
        let programs = Programs::new("test", 1);
        let endless = programs.run(shell("exec sleep 1000"), None).await;
        assert!(matches!(endless, Err(ProgramError::Timeout)), "{endless:?}");
    }

    /// As on a disk that does not answer: the start blocks its thread.
    #[tokio::test]
    async fn starts_that_hang_take_their_places_and_nothing_else() {
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
                    assert_ne!(std::thread::current().id(), own, "a start that hangs would hold up the async thread");
                    began.send(()).unwrap();
                    // Fails when the test lets go.
                    let _ = hang.lock().unwrap().recv();
                    Err(io::Error::other("given up"))
                };
                programs.started(start).await.map(drop)
            });
        }
        drop(began);
        // This thread, the only one of the runtime, goes on meanwhile.
        let taken = async {
            while programs.places.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), taken).await.expect("the starts hang on other threads");
        starts.abort_all();
        while starts.join_next().await.is_some() {}
        assert_eq!(programs.places.available_permits(), 0, "whoever gave up waiting, the thread still hangs");
        drop(release);
        assert_eq!(begins.iter().count(), 2);
    }
}
