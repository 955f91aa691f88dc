//! This process as a service of systemd: notifications and the watchdog (BOOT-01, WD-01).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rubelet_engine::ports::{ServiceManager, ServiceMessage};
use rubelet_engine::service::keep_status;
use rubelet_engine::sync_loop::SyncLoopHandle;
use rubelet_engine::task::TaskGroup;
use rubelet_linux::service::{NotifySocket, watchdog};
use rubelet_server::healthz::Health;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// Pause before a notification that was not taken is sent a second time. upstream: watchdog_linux.go (v1.36)
const AGAIN: Duration = Duration::from_secs(1);

/// The service manager, and whether it wants to hear from this process.
pub(super) struct Service {
    manager: Arc<dyn ServiceManager>,
    /// The checks of the watchdog, once there are some: the watchdog may run out before the start is complete.
    health: watch::Sender<Option<Health>>,
}

impl Service {
    /// Connects to the service manager and feeds its watchdog from now on.
    pub(super) fn connect(tasks: &mut TaskGroup) -> anyhow::Result<Self> {
        let manager: Arc<dyn ServiceManager> = Arc::new(NotifySocket::from_env());
        let (health, checks) = watch::channel(None);
        if let Some(timeout) = watchdog().context("configure watchdog")? {
            let every = timeout / 2;
            info!(?every, "Starting systemd watchdog");
            tasks.start("watchdog", feed(Arc::clone(&manager), every, checks, tasks.cancel_token()));
        }
        Ok(Self { manager, health })
    }

    /// A line for people while the start waits.
    pub(super) fn status(&self, line: &str) {
        self.manager.notify(&ServiceMessage::Status(line));
    }

    /// The start is complete.
    pub(super) fn ready(&self, health: Health, sync_loop: SyncLoopHandle, tasks: &mut TaskGroup) {
        self.health.send_replace(Some(health));
        if self.manager.notify(&ServiceMessage::Ready) {
            tasks.start("service-status", keep_status(sync_loop, Arc::clone(&self.manager), tasks.cancel_token()));
        }
    }

    /// The end begins.
    pub(super) fn stopping(&self) {
        self.manager.notify(&ServiceMessage::Stopping);
    }
}

/// Notifies the watchdog each half of its time, if the checks pass.
async fn feed(
    manager: Arc<dyn ServiceManager>,
    every: Duration,
    checks: watch::Receiver<Option<Health>>,
    cancel: CancellationToken,
) {
    let _cancelled = cancel
        .run_until_cancelled(async {
            loop {
                let health = checks.borrow().clone();
                let problem = match &health {
                    Some(health) => health.first_problem().await,
                    None => None,
                };
                match problem {
                    Some((check, why)) => {
                        error!(
                            check,
                            why, "Do not notify watchdog this iteration as the kubelet is reportedly not healthy"
                        );
                    }
                    None if manager.notify(&ServiceMessage::Watchdog) => {}
                    None => {
                        tokio::time::sleep(AGAIN).await;
                        if !manager.notify(&ServiceMessage::Watchdog) {
                            warn!("Failed to notify watchdog");
                        }
                    }
                }
                tokio::time::sleep(every).await;
            }
        })
        .await;
}
