//! Static pods from a manifest file or a directory of manifests (SRC-01, SRC-02).
//!
//! The periodic scan is authoritative; inotify only triggers a scan of single files sooner. A file that becomes invalid keeps
//! its last valid pod: an editing mistake in a manifest does not stop a running pod. The pod is removed when the file is
//! deleted, or was invalid since start-up.
//!
//! upstream: kubelet/config/file.go, file_linux.go (v1.36), which keeps the old pod until its next list and then removes it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::backoff::Doubling;
use rubelet_core::pod::Source;
use rubelet_engine::ports::{Delivery, PodSource};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::decode::{Decode, explain};

mod scan;
mod watch;

use scan::{Look, Manifests, Scan};
use watch::{Seen, Watch, WatchError};

/// Pauses before a failed watch is retried. While the path does not exist, each is as long as the first (SRC-02).
const RETRIES: Doubling = Doubling::new(Duration::from_secs(1), Duration::from_secs(20));

/// Reads pods from a file or directory.
pub struct FileSource {
    path: PathBuf,
    every: Duration,
    decode: Arc<dyn Decode>,
}

impl FileSource {
    /// Reads `path`: all of it every `every` (`fileCheckFrequency`), and changed files when inotify reports them.
    #[doc(alias = "NewSourceFile")]
    pub fn new(path: impl Into<PathBuf>, every: Duration, decode: Arc<dyn Decode>) -> Self {
        Self { path: scan::without_trailing_slashes(path.into()), every, decode }
    }
}

#[async_trait]
impl PodSource for FileSource {
    fn source(&self) -> Source {
        Source::File
    }

    async fn run(&self, out: mpsc::Sender<Delivery>, cancel: CancellationToken) {
        let mut task = Task {
            manifests: Manifests::new(self.path.clone(), Arc::clone(&self.decode)),
            every: self.every,
            watch: Watching::Retry { failures: 0, problem: None },
            out,
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = task.run() => {}
        }
    }
}

struct Task {
    manifests: Manifests,
    every: Duration,
    watch: Watching,
    out: mpsc::Sender<Delivery>,
}

/// The state of the inotify watch.
enum Watching {
    /// Working.
    On(Watch),
    /// Failed; retried after this time.
    Retry {
        failures: u32,
        /// The last logged error.
        problem: Option<String>,
    },
}

impl Task {
    async fn run(&mut self) {
        loop {
            // The watch is started before the scan: a change in between is seen by one of them.
            self.start_watch().await;
            if !self.look(Look::All).await {
                return;
            }
            let next_list = tokio::time::sleep(self.every);
            tokio::pin!(next_list);
            loop {
                let retry = self.retry_after();
                let seen = tokio::select! {
                    biased;
                    seen = self.seen() => seen,
                    // While the path does not exist, the retry rescans it.
                    () = tokio::time::sleep(retry), if matches!(self.watch, Watching::Retry { .. }) => Seen::Everything,
                    () = &mut next_list => Seen::Everything,
                };
                let Seen::Files { gone, changed } = seen else { break };
                // Two sets, even if the same file is there again: the pod of a file that was deleted ends.
                // upstream: file_linux.go produceWatchEvent (v1.36) handles each event by itself
                for (names, look) in [(gone, Look::Gone as fn(Names) -> Look), (changed, Look::These)] {
                    if !(names.is_empty() || self.look(look(names)).await) {
                        return;
                    }
                }
            }
        }
    }

    /// Waits for an inotify event; for ever, if there is no watch.
    async fn seen(&mut self) -> Seen {
        let Watching::On(watch) = &mut self.watch else { return std::future::pending().await };
        match watch.next().await {
            Ok(seen) => seen,
            Err(error) => {
                self.watch_failed(&error);
                Seen::Everything
            }
        }
    }

    /// Starts the watch, unless it is running and the path still leads to the watched directory.
    async fn start_watch(&mut self) {
        let path = self.manifests.path().to_owned();
        let old = std::mem::replace(&mut self.watch, Watching::Retry { failures: 0, problem: None });
        let (watch, retry) = match old {
            Watching::On(watch) => (Some(watch), None),
            Watching::Retry { failures, problem } => (None, Some((failures, problem))),
        };
        // A file system may hang: the call runs off the async thread.
        let started = rubelet_engine::blocking::MANIFESTS.spawn("watch", move || match watch {
            Some(watch) if watch.is_current() => Ok(watch),
            _ => Watch::start(&path),
        });
        let had_problem = matches!(&retry, Some((_, Some(_))));
        if let Some((failures, problem)) = retry {
            self.watch = Watching::Retry { failures, problem };
        }
        match started.await {
            Ok(Ok(watch)) => {
                if had_problem {
                    info!(path = %self.manifests.path().display(), "Watching the config path again");
                }
                self.watch = Watching::On(watch);
            }
            Ok(Err(error)) => self.watch_failed(&error),
            // The call panicked; it is retried.
            Err(_) => {}
        }
    }

    fn watch_failed(&mut self, error: &WatchError) {
        let text = explain(error);
        let (failures, known) = match &self.watch {
            Watching::On(_) => (0, None),
            Watching::Retry { failures, problem } => (*failures, problem.clone()),
        };
        let failures = failures_after(failures, error);
        if known.as_ref() != Some(&text) {
            warn!(path = %self.manifests.path().display(), err = text, every = ?self.every,
                "Unable to watch the config path; changes are seen only by the periodic scan");
        }
        self.watch = Watching::Retry { failures, problem: Some(text) };
    }

    fn retry_after(&self) -> Duration {
        match &self.watch {
            Watching::On(_) => self.every,
            Watching::Retry { failures, .. } => RETRIES.after((*failures).max(1)),
        }
    }

    /// Scans and delivers if the set changed. Returns whether the receiver still exists.
    async fn look(&mut self, look: Look) -> bool {
        let mut manifests = self.manifests.take();
        // A file system may hang, and files may be large: the scan runs off the async thread.
        let done = rubelet_engine::blocking::MANIFESTS.spawn("read", move || {
            let scan = manifests.look(&look);
            (manifests, scan)
        });
        // After a panic the memory starts empty: the next scan reads every file again.
        let Ok((manifests, scan)) = done.await else { return true };
        self.manifests = manifests;
        match scan {
            Scan::Same => true,
            Scan::Changed { pods, bad } => self.out.send(Delivery { source: Source::File, pods, bad }).await.is_ok(),
        }
    }
}

/// The number of failures in a row that the next pause is for. A missing path is retried at a fixed interval, other failures
/// with a doubling pause (SRC-02).
fn failures_after(before: u32, error: &WatchError) -> u32 {
    if error.is_missing() { 1 } else { before.saturating_add(1) }
}

/// File names in the directory.
type Names = BTreeSet<OsString>;

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::watch::WatchError;
    use super::{RETRIES, failures_after};

    #[test]
    fn src_02_a_failed_watch_is_retried_with_backoff_but_a_missing_path_every_second() {
        let waits = |error: &WatchError| {
            let next = |failures: &u32| Some(failures_after(*failures, error));
            let failures = std::iter::successors(Some(0), next).skip(1).take(7);
            failures.map(|failures| RETRIES.after(failures).as_secs()).collect::<Vec<_>>()
        };
        assert_eq!(waits(&WatchError::Init(Error::other("limit"))), [1, 2, 4, 8, 16, 20, 20]);
        let missing = WatchError::Stat { path: "x".into(), source: Error::from(ErrorKind::NotFound) };
        assert_eq!(waits(&missing), [1, 1, 1, 1, 1, 1, 1]);
    }
}
