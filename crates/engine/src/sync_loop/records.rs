//! The files of what pods were given and of what the runtime was told (RSZ-02).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::id::PodUid;
use rubelet_core::resize::{PodAllocation, decode, encode};
use rubelet_core::time::Instant;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::chain::Chain;
use crate::clock::Clock;
use crate::ports::Checkpoints;

/// The least time between two writings of a file: a burst of pods is one writing.
const WRITE_PAUSE: Duration = Duration::from_millis(200);
/// A file that could not be written is written again after this, if nothing changes before.
const WRITE_RETRY: Duration = Duration::from_secs(10);

/// Which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Record {
    /// What pods were given.
    Given,
    /// What the runtime was told.
    Told,
}

impl Record {
    const ALL: [Self; 2] = [Self::Given, Self::Told];

    fn file(self) -> &'static str {
        match self {
            Self::Given => "allocated_pods_state",
            Self::Told => "actuated_pods_state",
        }
    }
}

/// What the files do not say yet; `None` for a pod that is gone.
pub(super) type Changes = BTreeMap<(Record, PodUid), Option<Arc<PodAllocation>>>;

pub(super) type Known = BTreeMap<PodUid, Arc<PodAllocation>>;

/// What a file says. One that cannot be used is as good as none.
pub(super) async fn read(checkpoints: &dyn Checkpoints, which: Record) -> Known {
    let text = match checkpoints.read(which.file()).await {
        Ok(text) => text,
        Err(err) => {
            warn!(err = %Chain(&err), "Could not read what pods had been given");
            return Known::new();
        }
    };
    match text.as_deref().map(decode) {
        None => Known::new(),
        Some(Ok(known)) => known.into_iter().map(|(uid, what)| (uid, Arc::new(what))).collect(),
        Some(Err(err)) => {
            let file = which.file();
            warn!(file, err = %Chain(&err), "What pods had been given is not readable: going by their specs");
            Known::new()
        }
    }
}

/// Keeps the files.
pub(super) struct RecordKeeper {
    checkpoints: Arc<dyn Checkpoints>,
    known: BTreeMap<Record, Known>,
    changes: watch::Sender<Changes>,
    news: watch::Receiver<Changes>,
    /// Files that do not say what is known, and whether people were told that they cannot be written.
    stale: BTreeMap<Record, bool>,
}

impl RecordKeeper {
    /// Of files that say this.
    pub(super) fn new(
        checkpoints: Arc<dyn Checkpoints>,
        known: BTreeMap<Record, Known>,
        changes: watch::Sender<Changes>,
    ) -> Self {
        let news = changes.subscribe();
        Self { checkpoints, known, changes, news, stale: BTreeMap::new() }
    }

    /// Runs until cancelled.
    pub(super) async fn run(mut self, clock: Clock, cancel: CancellationToken) {
        loop {
            let retry = (!self.stale.is_empty()).then(|| clock.mono() + WRITE_RETRY);
            if cancel.run_until_cancelled(self.wait(&clock, retry)).await.is_none() {
                return;
            }
            self.take_changes();
            self.write().await;
            let pause = clock.sleep_until(Some(clock.mono() + WRITE_PAUSE));
            cancel.run_until_cancelled(pause).await;
        }
    }

    /// Waits for a change, or for the next try. Cancel-safe: `changed` and a clock.
    async fn wait(&mut self, clock: &Clock, retry: Option<Instant>) {
        tokio::select! {
            biased;
            changed = self.news.changed() => if changed.is_err() {
                // Nobody is left to change anything: we are about to be told to stop.
                clock.sleep_until(retry).await;
            },
            () = clock.sleep_until(retry) => {}
        }
    }

    fn take_changes(&mut self) {
        self.news.mark_unchanged();
        let mut taken = Changes::new();
        self.changes.send_if_modified(|changes| {
            taken = std::mem::take(changes);
            false
        });
        for ((which, uid), what) in taken {
            let known = self.known.entry(which).or_default();
            match what {
                Some(what) => known.insert(uid, what),
                None => known.remove(&uid),
            };
            self.stale.entry(which).or_insert(false);
        }
    }

    async fn write(&mut self) {
        for which in Record::ALL {
            let Some(told) = self.stale.get_mut(&which) else { continue };
            let known = self.known.get(&which).into_iter().flatten();
            let text = encode(known.map(|(uid, what)| (uid, &**what)));
            match self.checkpoints.write(which.file(), &text).await {
                Ok(()) => {
                    if *told {
                        info!(file = which.file(), "What pods were given is written down again");
                    }
                    self.stale.remove(&which);
                }
                Err(err) if !std::mem::replace(told, true) => {
                    warn!(err = %Chain(&err), "Could not write down what pods were given: trying again");
                }
                Err(_) => {}
            }
        }
    }
}
