//! The steps of one rotation.

use std::collections::BTreeSet;
use std::sync::Arc;

use rubelet_core::id::ContainerId;
use rubelet_core::log_rotation::{LogPolicy, TEMPORARY, plan_rotation, plan_tidy, rotated_name, to_compress};

use crate::clock::Clock;
use crate::ports::{FileError, LogFiles, LogId, RpcError, Runtime};

/// What rotations need of the world.
#[derive(Clone)]
pub(super) struct World {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) files: Arc<dyn LogFiles>,
    pub(super) clock: Clock,
    pub(super) policy: LogPolicy,
}

/// A log was not rotated.
#[derive(Debug, thiserror::Error)]
pub(super) enum RotateError {
    /// The container does not run: its log grows no more.
    #[error("the container does not run")]
    NotRunning,
    /// A file could not be listed, renamed or removed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The runtime did not open the log anew; the old one has its name again.
    #[error("open the log anew")]
    Reopen(#[source] RpcError),
    /// The runtime was asked whether the container runs.
    #[error(transparent)]
    Look(RpcError),
}

impl World {
    /// Rotates a log; answers with the files to be compressed. `busy` files are being compressed already.
    pub(super) async fn rotate(
        &self,
        id: &ContainerId,
        log: &LogId,
        busy: &BTreeSet<String>,
    ) -> Result<Vec<String>, RotateError> {
        self.check_running(id, log).await?;
        let live = log.file();
        let mut names = self.files.list(log).await?;
        let mut remove = plan_rotation(&live, &names, &self.policy);
        remove.retain(|name| !is_at_work(name, busy));
        self.files.remove(log, &remove).await?;
        let rotated = rotated_name(&live, &names, self.clock.wall());
        self.files.rename(log, &live, &rotated).await?;
        if let Err(err) = self.runtime.reopen_log(id).await {
            self.roll_back(log, &rotated, &live, err).await?;
        }
        names.retain(|name| !remove.contains(name) && *name != live);
        names.push(rotated);
        let compress = to_compress(&live, &names).into_iter();
        Ok(compress.filter(|name| !busy.contains(name)).collect())
    }

    /// Renames the log back. If there is a new one by now, the runtime did open it, and its answer was lost.
    async fn roll_back(&self, log: &LogId, rotated: &str, live: &str, err: RpcError) -> Result<(), RotateError> {
        match self.files.rename(log, rotated, live).await {
            Ok(()) => Err(RotateError::Reopen(err)),
            Err(there) if there.source.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(other) => Err(other.into()),
        }
    }

    /// A log that is missing is opened anew: an earlier rotation was interrupted, or somebody removed the log.
    pub(super) async fn reopen(&self, id: &ContainerId, log: &LogId) -> Result<(), RotateError> {
        self.check_running(id, log).await?;
        self.runtime.reopen_log(id).await.map_err(RotateError::Reopen)
    }

    async fn check_running(&self, id: &ContainerId, log: &LogId) -> Result<(), RotateError> {
        let seen = self.runtime.inspect(&log.pod.uid, self.clock.mono()).await.map_err(RotateError::Look)?;
        let running = seen.running().any(|container| container.id == *id);
        if running { Ok(()) } else { Err(RotateError::NotRunning) }
    }

    /// Removes what earlier instances and interrupted compressions left; answers with the files to be compressed.
    pub(super) async fn tidy(
        &self,
        log: &LogId,
        busy: &BTreeSet<String>,
        known: &BTreeSet<u32>,
        keep: Option<usize>,
    ) -> Result<Vec<String>, FileError> {
        let names = self.files.list(log).await?;
        let mut tidy = plan_tidy(&names, log.restart_count, known, keep, &self.policy);
        tidy.remove.retain(|name| !is_at_work(name, busy));
        tidy.compress.retain(|name| !busy.contains(name));
        if !tidy.remove.is_empty() {
            self.files.remove(log, &tidy.remove).await?;
        }
        Ok(tidy.compress)
    }
}

/// The file is written by a compression at this moment.
fn is_at_work(name: &str, busy: &BTreeSet<String>) -> bool {
    name.strip_suffix(TEMPORARY).is_some_and(|log| busy.contains(log))
}
