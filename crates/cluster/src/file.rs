//! Pods from a manifest file or a directory of them (SRC-01, SRC-02).
//!
//! The periodic list is the truth; inotify only says which file to look at sooner. A file that turns bad keeps the pod
//! that it gave last: a slip of the pen in a manifest does not stop what runs. Only a file that is gone, or that has been
//! bad since we started, gives no pod.
//!
//! upstream: kubelet/config/file.go, file_linux.go (v1.36), which goes on with the old pod until its next list and then
//! removes it.

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

/// Pauses before a failed watch is tried again. While the path does not exist it is the first of them each time (SRC-02).
const RETRIES: Doubling = Doubling::new(Duration::from_secs(1), Duration::from_secs(20));

/// Reads pods from a file or directory.
pub struct FileSource {
    path: PathBuf,
    every: Duration,
    decode: Arc<dyn Decode>,
}

impl FileSource {
    /// Reads `path`, fully each `every` (`fileCheckFrequency`) and in part whenever the kernel tells of a change.
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

/// How changes are seen.
enum Watching {
    /// The kernel tells.
    On(Watch),
    /// It cannot, and is asked again after this time.
    Retry {
        failures: u32,
        /// What was logged of it.
        problem: Option<String>,
    },
}

impl Task {
    async fn run(&mut self) {
        loop {
            // The watch comes before the list: what changes in between is seen by one or the other.
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
                    // A path that is not there is asked for again soon, and found by a list.
                    () = tokio::time::sleep(retry), if matches!(self.watch, Watching::Retry { .. }) => Seen::Everything,
                    () = &mut next_list => Seen::Everything,
                };
                let Seen::Files(names) = seen else { break };
                if !self.look(Look::These(names)).await {
                    return;
                }
            }
        }
    }

    /// Waits for the kernel to tell of a change; for ever, if nothing is watched.
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

    /// Watches the path, unless that is done already and the path still leads to what is watched.
    async fn start_watch(&mut self) {
        let path = self.manifests.path().to_owned();
        let old = std::mem::replace(&mut self.watch, Watching::Retry { failures: 0, problem: None });
        let (watch, retry) = match old {
            Watching::On(watch) => (Some(watch), None),
            Watching::Retry { failures, problem } => (None, Some((failures, problem))),
        };
        // File systems may hang: that must not hold up the runtime.
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
                    info!(path = %self.manifests.path().display(), "Manifests are watched again");
                }
                self.watch = Watching::On(watch);
            }
            Ok(Err(error)) => self.watch_failed(&error),
            // It panicked, and will be tried again.
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
                "Manifests cannot be watched; changes are seen only when they are listed");
        }
        self.watch = Watching::Retry { failures, problem: Some(text) };
    }

    fn retry_after(&self) -> Duration {
        match &self.watch {
            Watching::On(_) => self.every,
            Watching::Retry { failures, .. } => RETRIES.after((*failures).max(1)),
        }
    }

    /// Looks at manifests and delivers if that changed anything. Answers whether anyone still listens.
    async fn look(&mut self, look: Look) -> bool {
        let mut manifests = self.manifests.take();
        // File systems may hang, and files may be large: neither may hold up the runtime.
        let done = rubelet_engine::blocking::MANIFESTS.spawn("read", move || {
            let scan = manifests.look(&look);
            (manifests, scan)
        });
        // A reader that panics starts over with nothing known: the next list finds everything again.
        let Ok((manifests, scan)) = done.await else { return true };
        self.manifests = manifests;
        match scan {
            Scan::Same => true,
            Scan::Changed { pods, bad } => self.out.send(Delivery { source: Source::File, pods, bad }).await.is_ok(),
        }
    }
}

/// How many failures count for the next pause. A path that is not there is asked for at an even pace, everything else less
/// and less often (SRC-02).
fn failures_after(before: u32, error: &WatchError) -> u32 {
    if error.is_missing() { 1 } else { before.saturating_add(1) }
}

/// Names of files in the directory.
type Names = BTreeSet<OsString>;

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::watch::WatchError;
    use super::{RETRIES, failures_after};

    #[test]
    fn src_02_a_watch_that_fails_is_tried_less_and_less_often_but_a_missing_path_each_second() {
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
