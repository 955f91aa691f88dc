//! The end of this process in good order.

use anyhow::Context;
use rubelet_engine::chain::Chain;
use rubelet_linux::host::lock_file::LockFile;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::into_anyhow;
use crate::config_load::Loaded;
use crate::runtime::HandOver;

/// Ends this process in good order.
#[derive(Clone, Default)]
pub(super) struct Ending {
    pub(super) cancel: CancellationToken,
    pub(super) hand_over: HandOver,
}

impl Ending {
    /// Calls to the runtime that are in flight go on without this process, as after a kill: the socket holder takes them
    /// over before the jobs that wait for them are cancelled.
    pub(super) fn begin(&self) {
        self.hand_over.begin();
        self.cancel.cancel();
    }

    /// SIGTERM and SIGINT end the process; pods go on (RST-18).
    pub(super) fn on_signal(&self) -> anyhow::Result<tokio::task::AbortHandle> {
        let mut term = signal(SignalKind::terminate()).context("watch for SIGTERM")?;
        let mut int = signal(SignalKind::interrupt()).context("watch for SIGINT")?;
        let ending = self.clone();
        let mut watch = tokio::task::JoinSet::new();
        let handle = watch.spawn(async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            ending.begin();
        });
        watch.detach_all();
        Ok(handle)
    }

    /// Takes `--lock-file`; with `--exit-on-lock-contention` the process ends when another one wants it (BOOT-04).
    pub(super) async fn take_lock_file(&self, loaded: &Loaded) -> anyhow::Result<Option<LockFile>> {
        if loaded.flags.lock_file.is_empty() {
            return Ok(None);
        }
        info!(path = %loaded.flags.lock_file, "Waiting for the lock file");
        let lock = LockFile::acquire(&loaded.flags.lock_file).await.map_err(into_anyhow)?;
        if loaded.flags.exit_on_lock_contention {
            let contention = lock.watch().map_err(into_anyhow)?;
            let ending = self.clone();
            let mut watch = tokio::task::JoinSet::new();
            watch.spawn(async move {
                match contention.wait().await {
                    Ok(()) => info!("Another process wants the lock file: stopping"),
                    Err(err) => warn!(err = %Chain(&err), "Could not watch the lock file: stopping"),
                }
                ending.begin();
            });
            watch.detach_all();
        }
        Ok(Some(lock))
    }
}
