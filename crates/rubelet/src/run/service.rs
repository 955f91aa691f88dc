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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rubelet_core::time::Instant;
    use rubelet_engine::clock::Clock;

    use super::*;
    use crate::run::testing::StillNode;

    /// Half of systemd's time.
    const EVERY: Duration = Duration::from_secs(5);

    /// A service manager that notes when it was notified, and does not take the first `deaf` notifications.
    struct Listener {
        clock: Clock,
        heard: Mutex<Vec<Instant>>,
        deaf: AtomicU32,
    }

    impl ServiceManager for Listener {
        fn notify(&self, message: &ServiceMessage<'_>) -> bool {
            assert_eq!(*message, ServiceMessage::Watchdog);
            let taken =
                self.deaf.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err();
            if taken {
                self.heard.lock().expect("no panic").push(self.clock.mono());
            }
            taken
        }
    }

    impl Listener {
        fn new(deaf: u32) -> Arc<Self> {
            Arc::new(Self { clock: Clock::real(), heard: Mutex::default(), deaf: AtomicU32::new(deaf) })
        }

        /// Seconds after `start` at which it was notified.
        fn seconds(&self, start: Instant) -> Vec<u64> {
            let heard = self.heard.lock().expect("no panic");
            heard.iter().map(|at| at.since(start).as_secs()).collect()
        }
    }

    fn start(listener: &Arc<Listener>) -> (watch::Sender<Option<Health>>, TaskGroup, Instant) {
        let mut tasks = TaskGroup::new(&CancellationToken::new());
        let (health, checks) = watch::channel(None);
        let manager: Arc<dyn ServiceManager> = Arc::clone(listener) as _;
        tasks.start("watchdog", feed(manager, EVERY, checks, tasks.cancel_token()));
        (health, tasks, listener.clock.mono())
    }

    #[tokio::test(start_paused = true)]
    async fn wd_01_a_start_that_is_slower_than_the_watchdog_is_not_killed() {
        let listener = Listener::new(0);
        let (_health, tasks, begun) = start(&listener);
        tokio::time::sleep(Duration::from_secs(33)).await;
        tasks.stop().await;
        assert_eq!(listener.seconds(begun), [0, 5, 10, 15, 20, 25, 30], "there are no checks during the start");
    }

    #[tokio::test(start_paused = true)]
    async fn wd_01_a_node_that_hangs_is_not_reported_as_well() {
        let (listener, node) = (Listener::new(0), Arc::new(StillNode::default()));
        let (health, tasks, begun) = start(&listener);
        health.send_replace(Some(Health::new(Arc::clone(&node) as _, Duration::from_secs(60))));
        tokio::time::sleep(Duration::from_secs(12)).await;
        node.hangs.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(listener.seconds(begun), [0, 5, 10], "none while the sync loop hangs");
        node.hangs.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(10)).await;
        tasks.stop().await;
        assert!(listener.seconds(begun).len() > 3, "the loop goes on, and so do notifications");
    }

    #[tokio::test(start_paused = true)]
    async fn wd_01_a_notification_that_is_not_taken_is_sent_a_second_time() {
        let listener = Listener::new(1);
        let (_health, tasks, begun) = start(&listener);
        tokio::time::sleep(Duration::from_secs(2)).await;
        tasks.stop().await;
        assert_eq!(listener.seconds(begun), [1]);
    }
}
