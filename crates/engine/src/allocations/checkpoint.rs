//! The checkpoints `allocated_pods_state` and `actuated_pods_state` (RSZ-02).

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

/// The least time between two writes of a file: a burst of pods is one write.
const WRITE_PAUSE: Duration = Duration::from_millis(200);
/// A write that failed is tried again after this, unless a change comes first.
const WRITE_RETRY: Duration = Duration::from_secs(10);

/// One of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum File {
    /// Allocated resources.
    Allocated,
    /// Actuated resources.
    Actuated,
}

impl File {
    const ALL: [Self; 2] = [Self::Allocated, Self::Actuated];

    fn name(self) -> &'static str {
        match self {
            Self::Allocated => "allocated_pods_state",
            Self::Actuated => "actuated_pods_state",
        }
    }
}

/// Entries that are not written yet; `None` for a pod whose allocation is released.
pub(super) type Changes = BTreeMap<(File, PodUid), Option<Arc<PodAllocation>>>;

/// The content of a file.
pub(crate) type PodResources = BTreeMap<PodUid, Arc<PodAllocation>>;

/// Reads a file. One that cannot be read counts as empty.
pub(super) async fn read(checkpoints: &dyn Checkpoints, file: File) -> PodResources {
    let name = file.name();
    let text = match checkpoints.read(name).await {
        Ok(text) => text,
        Err(err) => {
            warn!(file = name, err = %Chain(&err), "Could not read a checkpoint: going by the specs of pods");
            return PodResources::new();
        }
    };
    match text.as_deref().map(decode) {
        None => PodResources::new(),
        Some(Ok(content)) => content.into_iter().map(|(uid, resources)| (uid, Arc::new(resources))).collect(),
        Some(Err(err)) => {
            warn!(file = name, err = %Chain(&err), "A checkpoint is corrupt: going by the specs of pods");
            PodResources::new()
        }
    }
}

/// The task that writes both files.
pub(crate) struct CheckpointWriter {
    checkpoints: Arc<dyn Checkpoints>,
    content: BTreeMap<File, PodResources>,
    changes: watch::Sender<Changes>,
    changed: watch::Receiver<Changes>,
    /// Files that lack changes, and whether a failure to write them is logged.
    stale: BTreeMap<File, bool>,
}

impl CheckpointWriter {
    /// For files with this content.
    pub(super) fn new(
        checkpoints: Arc<dyn Checkpoints>,
        content: BTreeMap<File, PodResources>,
        changes: watch::Sender<Changes>,
    ) -> Self {
        let changed = changes.subscribe();
        Self { checkpoints, content, changes, changed, stale: BTreeMap::new() }
    }

    /// Runs until cancelled.
    pub(crate) async fn run(mut self, clock: Clock, cancel: CancellationToken) {
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
            changed = self.changed.changed() => if changed.is_err() {
                // The ledger is gone, so that this task is about to be cancelled.
                clock.sleep_until(retry).await;
            },
            () = clock.sleep_until(retry) => {}
        }
    }

    fn take_changes(&mut self) {
        self.changed.mark_unchanged();
        let mut taken = Changes::new();
        self.changes.send_if_modified(|changes| {
            taken = std::mem::take(changes);
            false
        });
        for ((file, uid), resources) in taken {
            let content = self.content.entry(file).or_default();
            let before = match resources.clone() {
                Some(resources) => content.insert(uid, resources),
                None => content.remove(&uid),
            };
            if before != resources {
                self.stale.entry(file).or_insert(false);
            }
        }
    }

    async fn write(&mut self) {
        for file in File::ALL {
            let Some(logged) = self.stale.get_mut(&file) else { continue };
            let content = self.content.get(&file).into_iter().flatten();
            let text = encode(content.map(|(uid, resources)| (uid, &**resources)));
            match self.checkpoints.write(file.name(), &text).await {
                Ok(()) => {
                    if *logged {
                        info!(file = file.name(), "A checkpoint can be written again");
                    }
                    self.stale.remove(&file);
                }
                Err(err) if !std::mem::replace(logged, true) => {
                    warn!(file = file.name(), err = %Chain(&err), "Could not write a checkpoint: trying again");
                }
                Err(_) => {}
            }
        }
    }
}
