//! Reads the journal with `journalctl`.
//!
//! The arguments are a vector: nothing in them can start another program. At most [`AT_ONCE`] programs run; each is killed
//! at its deadline, also when its client does not read, and its output is cut at [`MOST_OUTPUT`].
//! upstream: kubelet_server_journal.go, kubelet_server_journal_linux.go (v1.36)

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rubelet_engine::blocking::LOG_READS;
use rubelet_engine::ports::{JournalError, JournalQuery, JournalText};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

/// Programs that run at once.
const AT_ONCE: usize = 4;
/// upstream: kubelet_server_journal.go Copy (v1.36)
const DEADLINE: Duration = Duration::from_secs(30);
/// Longest output of one query.
const MOST_OUTPUT: usize = 256 << 20;
/// Longest list of the services that the journal knows.
const MOST_UNITS: u64 = 8 << 20;
/// How much is read at a time, and how many such pieces wait for the client.
const PIECE: usize = 64 * 1024;
const PIECES: usize = 4;
/// Starting a program blocks. Its threads are not those of other log reads.
const KEY: &str = "journalctl";

#[derive(Clone, Debug)]
pub(super) struct Journal {
    program: Arc<PathBuf>,
    places: Arc<Semaphore>,
}

/// A program and the end of its output.
struct Started {
    child: Child,
    output: Receiver,
    /// The permit of this program.
    _place: OwnedSemaphorePermit,
}

impl Journal {
    pub(super) fn new(program: PathBuf) -> Self {
        Self { program: Arc::new(program), places: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Which of the services the journal has entries of.
    #[doc(alias = "checkForNativeLogger")]
    pub(super) async fn knows(&self, services: &[String]) -> Vec<bool> {
        let units = tokio::time::timeout(DEADLINE, self.units()).await.ok().flatten().unwrap_or_default();
        let is_known = |service: &String| {
            let unit = format!("{service}.service");
            units.lines().any(|line| line.trim() == unit)
        };
        services.iter().map(is_known).collect()
    }

    async fn units(&self) -> Option<String> {
        let mut started = self.start(vec!["--field".into(), "_SYSTEMD_UNIT".into()]).await.ok()?;
        let mut units = Vec::new();
        (&mut started.output).take(MOST_UNITS).read_to_end(&mut units).await.ok()?;
        let status = started.child.wait().await.ok()?;
        status.success().then(|| String::from_utf8_lossy(&units).into_owned())
    }

    pub(super) async fn read(&self, query: &JournalQuery) -> Result<Box<dyn JournalText>, JournalError> {
        let started = self.start(arguments(query)).await?;
        let (send, pieces) = mpsc::channel(PIECES);
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            let cut_off = match tokio::time::timeout(DEADLINE, copy(started, &send)).await {
                Ok(None) => return,
                Ok(Some(why)) => why.to_owned(),
                Err(_elapsed) => format!("\nerror: the journal was read for {DEADLINE:?} and is cut off here\n"),
            };
            // The client may not read: then the body just ends.
            let _full = send.try_send(cut_off.into_bytes());
        });
        Ok(Box::new(Text { pieces, _reader: reader }))
    }

    async fn start(&self, arguments: Vec<String>) -> Result<Started, JournalError> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| JournalError::TooMany)?;
        let program = Arc::clone(&self.program);
        let spawn = move || {
            let (output, input) = io::pipe()?;
            let mut command = Command::new(program.as_path());
            command.args(arguments).stdin(Stdio::null());
            command.stdout(input.try_clone()?).stderr(input).kill_on_drop(true);
            io::Result::Ok((command.spawn()?, OwnedFd::from(output)))
        };
        let (child, output) = LOG_READS.run(KEY, spawn).await.map_err(JournalError::Start)?;
        let output = Receiver::from_owned_fd(output).map_err(JournalError::Start)?;
        Ok(Started { child, output, _place: place })
    }
}

/// Sends the program's output on, to its end; the answer is why it was cut off.
async fn copy(mut started: Started, send: &mpsc::Sender<Vec<u8>>) -> Option<&'static str> {
    let mut left = MOST_OUTPUT;
    while left > 0 {
        let mut piece = vec![0; PIECE.min(left)];
        let read = match started.output.read(&mut piece).await {
            Ok(0) => {
                let _status = started.child.wait().await;
                return None;
            }
            Ok(read) => read,
            Err(_broken) => return Some("\nerror: journal output not available\n"),
        };
        piece.truncate(read);
        left -= read;
        if send.send(piece).await.is_err() {
            return None;
        }
    }
    Some("\nerror: the output is too long and is cut off here: use sinceTime or tailLines\n")
}

struct Text {
    pieces: mpsc::Receiver<Vec<u8>>,
    /// Reads from the program, and kills it when this is dropped.
    _reader: JoinSet<()>,
}

#[async_trait]
impl JournalText for Text {
    async fn next(&mut self) -> Option<Vec<u8>> {
        self.pieces.recv().await
    }
}

/// Each value is part of the argument that names its option, so that no value can be an option.
#[doc(alias = "getLoggingCmd")]
fn arguments(query: &JournalQuery) -> Vec<String> {
    let mut arguments: Vec<String> = ["--utc", "--no-pager", "--output=short-precise"].map(str::to_owned).into();
    // Seconds since 1970: a time of day would be read in the machine's time zone.
    arguments.extend(query.since.map(|since| format!("--since=@{}", since.as_second())));
    arguments.extend(query.until.map(|until| format!("--until=@{}", until.as_second())));
    if let Some(lines) = query.tail_lines {
        arguments.extend(["--pager-end".to_owned(), format!("--lines={lines}")]);
    }
    arguments.extend(query.services.iter().map(|service| format!("--unit={service}")));
    if !query.pattern.is_empty() {
        arguments.push(format!("--grep={}", query.pattern));
    }
    arguments.extend(query.boot.map(|boot| format!("--boot={boot}")));
    arguments
}
