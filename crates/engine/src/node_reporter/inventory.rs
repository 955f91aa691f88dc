//! What only the node's object shows of the runtime: its version and its images.
//!
//! A task of its own: the runtime may take long to answer, and a report must not wait for it.

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::node::NodeImage;
use tokio::sync::watch;
use tracing::debug;

use crate::ports::{Image, Images, RuntimeInfo, RuntimeVersion};

/// How often images are listed. upstream: images/image_gc_manager.go Start (v1.36)
const IMAGES_PERIOD: Duration = Duration::from_secs(30);
/// Images that could not be listed at the start are listed again after this.
const RETRY: Duration = Duration::from_secs(1);
/// How long either question may take. A runtime that hangs is one that does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Version and images of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    /// `None` until the runtime has answered.
    pub(super) version: Option<RuntimeVersion>,
    /// `None` until they have been listed.
    pub(super) images: Option<Arc<Vec<NodeImage>>>,
}

/// Asks the runtime now and then and publishes a change.
pub(super) async fn watch_inventory(
    runtime: Arc<dyn RuntimeInfo>,
    images: Arc<dyn Images>,
    publish: watch::Sender<Inventory>,
) {
    loop {
        if let Ok(Ok(version)) = tokio::time::timeout(PATIENCE, runtime.version()).await {
            publish.send_if_modified(|known| {
                let is_new = known.version.as_ref() != Some(&version);
                known.version = Some(version);
                is_new
            });
        }
        let pause = match tokio::time::timeout(PATIENCE, images.list_images()).await {
            Ok(Ok(listed)) => {
                let listed: Vec<NodeImage> = listed.into_iter().map(node_image).collect();
                publish.send_if_modified(|known| {
                    let is_new = known.images.as_deref() != Some(&listed);
                    if is_new {
                        known.images = Some(Arc::new(listed));
                    }
                    is_new
                });
                IMAGES_PERIOD
            }
            Ok(Err(err)) => {
                debug!(%err, "Could not list images for the node object");
                if publish.borrow().images.is_some() { IMAGES_PERIOD } else { RETRY }
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
