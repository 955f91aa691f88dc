//! Making the node's object, or finding it (NODE-01).

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::backoff::Doubling;
use rubelet_core::node::{initial_node, node_patch, reconcile_existing, seems_foreign};
use tracing::{info, warn};

use super::Registration;
use super::task::{NodeReporter, is_ready};
use crate::ports::{ApiError, ApiErrorKind};

/// Pauses before a registration that failed is tried again.
const RETRIES: Doubling = Doubling::new(Duration::from_millis(100), Duration::from_secs(7));

impl NodeReporter {
    /// Tries until the node is registered. The node is registered once: an object that is deleted later is not created
    /// again, as with upstream, because the deletion was intended.
    #[doc(alias = "registerWithAPIServer")]
    pub(super) async fn register(&mut self) {
        let mut failures: u32 = 0;
        loop {
            let Err(err) = self.try_register().await else { return };
            self.log_failure(&err);
            let asked = match err.kind {
                ApiErrorKind::Busy { retry_after } => retry_after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            failures = failures.saturating_add(1);
            tokio::time::sleep(RETRIES.after(failures).max(asked.min(RETRIES.most))).await;
        }
    }

    async fn try_register(&mut self) -> Result<(), ApiError> {
        let first = self.inputs.with(&self.setup, &self.world.clock, initial_node);
        let startup = &self.world.metrics.startup;
        startup.attempted(self.world.clock.mono());
        let refused = match self.api.create(&first.node).await {
            Ok(node) => {
                startup.registered(self.world.clock.mono());
                if is_ready(&node) {
                    startup.ready(self.world.clock.mono());
                }
                info!(node = %self.setup.name, "Registered the node");
                self.emit(first.news);
                self.remember(Arc::new(node));
                return Ok(());
            }
            Err(err) => err,
        };
        match (refused.kind, self.registration) {
            (ApiErrorKind::AlreadyExists, _) | (ApiErrorKind::Forbidden, Registration::Ours) => {}
            _ => return Err(refused),
        }
        let existing = match self.api.get(&self.setup.name, true).await {
            Ok(existing) => existing,
            // There is no object, and the node may not create one: the first refusal has the reason.
            Err(err) if err.is_not_found() => return Err(refused),
            Err(err) => return Err(err),
        };
        if seems_foreign(&self.setup.machine, &existing) {
            warn!(
                node = %self.setup.name,
                uid = existing.metadata.uid.as_deref().unwrap_or_default(),
                "The node's object was last reported by another machine. If that one still runs, both will take turns at \
                 it: give one of them another name with --hostname-override"
            );
        }
        let wanted = self.inputs.with(&self.setup, &self.world.clock, |now| reconcile_existing(now, &existing));
        let node = match node_patch(&existing, &wanted) {
            Some(patch) => self.api.patch_status(&self.setup.name, &patch).await?,
            None => existing,
        };
        info!(node = %self.setup.name, "The node was registered before");
        self.remember(Arc::new(node));
        Ok(())
    }
}
