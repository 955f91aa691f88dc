//! What the node object tells that nobody else watches: images, the runtime's version, the node's addresses.
//!
//! Tasks of their own, because each asks somebody who may not answer for a while, and a report must not wait for that.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::node::NodeImage;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::ports::{Image, Images, NodeAddresses, Runtime, RuntimeVersion};

/// How often images are listed. upstream: images/image_gc_manager.go Start (v1.36)
const IMAGES_PERIOD: Duration = Duration::from_secs(30);
/// What could not be told at the start is asked for again after this.
const RETRY: Duration = Duration::from_secs(1);
/// How long either question may take. A runtime that hangs is one that does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the runtime tells when asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuntimeSight {
    /// Who it is.
    pub(crate) version: Option<RuntimeVersion>,
    /// Its images.
    pub(crate) images: Option<Arc<Vec<NodeImage>>>,
}

/// Asks the runtime now and then.
pub(crate) async fn watch_images(
    runtime: Arc<dyn Runtime>,
    images: Arc<dyn Images>,
    tell: watch::Sender<RuntimeSight>,
) {
    loop {
        if let Ok(Ok(version)) = tokio::time::timeout(PATIENCE, runtime.version()).await {
            tell.send_if_modified(|seen| {
                let is_new = seen.version.as_ref() != Some(&version);
                seen.version = Some(version);
                is_new
            });
        }
        let pause = match tokio::time::timeout(PATIENCE, images.list_images()).await {
            Ok(Ok(listed)) => {
                let listed: Vec<NodeImage> = listed.into_iter().map(node_image).collect();
                tell.send_if_modified(|seen| {
                    let is_new = seen.images.as_deref() != Some(&listed);
                    if is_new {
                        seen.images = Some(Arc::new(listed));
                    }
                    is_new
                });
                IMAGES_PERIOD
            }
            Ok(Err(err)) => {
                debug!(%err, "Could not list images for the node object");
                if tell.borrow().images.is_some() { IMAGES_PERIOD } else { RETRY }
            }
            Err(_) => IMAGES_PERIOD,
        };
        tokio::time::sleep(pause).await;
    }
}

fn node_image(image: Image) -> NodeImage {
    let mut image = image;
    // The runtime's order is its own business, and must not look like a change.
    image.repo_digests.sort_unstable();
    image.repo_tags.sort_unstable();
    NodeImage { id: image.id, digests: image.repo_digests, tags: image.repo_tags, size: image.size }
}

/// Looks for the node's addresses now and then, and tells when they change. Those it had stay while none are found.
pub(crate) async fn watch_addresses(
    addresses: Arc<dyn NodeAddresses>,
    every: Duration,
    tell: watch::Sender<Vec<IpAddr>>,
) {
    let mut problem = None;
    loop {
        match addresses.addresses().await {
            Ok(found) => {
                problem = None;
                tell.send_if_modified(|known| {
                    if *known == found {
                        return false;
                    }
                    info!(before = ?known, now = ?found, "The node's addresses are new");
                    *known = found;
                    true
                });
            }
            Err(err) => {
                if problem.as_ref() != Some(&err) {
                    warn!(%err, "The node's addresses are not known");
                }
                problem = Some(err);
            }
        }
        tokio::time::sleep(every).await;
    }
}
