//! Follows the node's addresses.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{info, warn};

use crate::ports::NodeAddresses;

/// Reads the node's addresses now and then and publishes a change. While none can be read, the last ones stay.
///
/// A task of its own: resolving the node's name may take long, and nothing else must wait for it.
pub(super) async fn watch_addresses(
    addresses: Arc<dyn NodeAddresses>,
    every: Duration,
    publish: watch::Sender<Vec<IpAddr>>,
) {
    let mut problem = None;
    loop {
        match addresses.addresses().await {
            Ok(found) => {
                problem = None;
                publish.send_if_modified(|known| {
                    if *known == found {
                        return false;
                    }
                    info!(before = ?known, now = ?found, "The node's addresses changed");
                    *known = found;
                    true
                });
            }
            Err(err) => {
                if problem.as_ref() != Some(&err) {
                    warn!(%err, "Could not read the node's addresses");
                }
                problem = Some(err);
            }
        }
        tokio::time::sleep(every).await;
    }
}
