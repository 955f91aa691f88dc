//! One pass: list, decide, remove one image after another.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rubelet_core::config::GoDuration;
use rubelet_core::image_gc::{
    ImageDisk, ImageGcPolicy, ImageRecords, ListedImage, Shortage, UnusedImage, for_room, insufficient, too_old,
};
use rubelet_core::launch::ImageSpec;
use rubelet_core::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use super::{ImageGcError, Request};
use crate::chain::Chain;
use crate::clock::Clock;
use crate::metrics::{Collected, Metrics};
use crate::ports::{EventKind, Events, Image, ImageDisks, Images, NodeEvent, Runtime};
use crate::trace::{self, SpanKind, Tracer};

/// What a pass needs of the world.
#[derive(Clone)]
pub(super) struct World {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) images: Arc<dyn Images>,
    pub(super) disks: Arc<dyn ImageDisks>,
    pub(super) events: Arc<dyn Events>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Clock,
    pub(super) tracer: Tracer,
    pub(super) policy: ImageGcPolicy,
}

/// What a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// Only to see which images are used.
    Look,
    /// Room on the disk, and images that are not too old.
    Collect,
    /// Everything that is unused.
    Everything,
}

/// A pass in progress.
pub(super) struct Pass {
    pub(super) world: World,
    pub(super) goal: Goal,
    /// When the first pass began.
    pub(super) began: Instant,
    /// Travels with the pass, and comes back whole.
    pub(super) records: ImageRecords,
    /// Asks the task about leases.
    pub(super) ask: mpsc::Sender<Request>,
    /// The image of sandboxes, if the runtime names it.
    pub(super) sandboxes: Option<String>,
}

/// The result of removing several images.
#[derive(Default)]
struct Removal {
    freed: u64,
    errors: Vec<String>,
    /// There is enough room.
    enough: bool,
}

impl Pass {
    /// Runs the pass; answers with the records and the bytes that were freed.
    #[doc(alias = "GarbageCollect")]
    pub(super) async fn run(mut self) -> (ImageRecords, Result<u64, ImageGcError>) {
        // upstream: images/image_gc_manager.go GarbageCollect (v1.36); only a pass that collects is one of these.
        let traced = self.goal == Goal::Collect;
        let tracer = self.world.tracer.clone();
        let mut span = traced.then(|| tracer.start("Images/GarbageCollect", SpanKind::Internal, None)).flatten();
        let context = span.as_ref().map(trace::Span::context);
        let outcome = trace::within(context, Box::pin(self.collect())).await;
        if let (Some(span), Err(err)) = (&mut span, &outcome) {
            span.fail(err);
        }
        (self.records, outcome)
    }

    async fn collect(&mut self) -> Result<u64, ImageGcError> {
        let now = self.world.clock.mono();
        self.look(now).await?;
        match self.goal {
            Goal::Look => Ok(0),
            Goal::Everything => {
                let all = for_room(self.records.unused(), &self.world.policy, now);
                let removed = self.remove(all, Collected::Space, None).await;
                removed.checked(u64::try_from(i64::MAX).unwrap_or_default())
            }
            Goal::Collect => {
                let old = too_old(&self.records.unused(), &self.world.policy, self.began, now);
                let by_age = self.remove(old, Collected::Age, None).await;
                // A removal that fails for age must not keep the disk full: upstream ends the pass there.
                let room = self.make_room(now).await;
                let freed = room?.saturating_add(by_age.freed);
                if by_age.errors.is_empty() {
                    return Ok(freed);
                }
                let age = GoDuration::from(self.world.policy.max_age).to_string();
                Err(ImageGcError::Age { age, errors: aggregate(&by_age.errors) })
            }
        }
    }

    #[doc(alias = "detectImages")]
    async fn look(&mut self, now: Instant) -> Result<(), ImageGcError> {
        // Images first: what a container uses that is created in between is new, or leased.
        let listed: Vec<ListedImage> = self.world.images.list_images().await?.into_iter().map(listed).collect();
        let pods = self.world.runtime.list().await?;
        let containers = pods.iter().flat_map(|pod| pod.containers.values());
        let used: BTreeSet<String> = containers.map(|container| container.image_id.clone()).collect();
        self.records.look(&listed, &used, now);
        // A runtime that cannot name it may still pin it.
        self.sandboxes = self.world.runtime.sandbox_image().await.unwrap_or_default();
        Ok(())
    }

    async fn make_room(&mut self, now: Instant) -> Result<u64, ImageGcError> {
        let disk = self.disk().await?;
        if disk.capacity == 0 {
            let err = ImageGcError::NoCapacity;
            self.warn("InvalidDiskCapacity", err.to_string());
            return Err(err);
        }
        let Some(shortage) = disk.shortage(&self.world.policy) else { return Ok(0) };
        info!(
            percent = shortage.percent,
            to_free = shortage.bytes,
            "The disk of images is too full: removing unused images"
        );
        let images = for_room(self.records.unused(), &self.world.policy, now);
        let removed = self.remove(images, Collected::Space, Some(&shortage)).await;
        let enough = removed.enough || removed.freed >= shortage.bytes;
        let freed = removed.checked(shortage.bytes)?;
        if enough {
            return Ok(freed);
        }
        let left = self.records.summary(&self.world.policy, now);
        let message = insufficient(&disk, &shortage, freed, &left);
        self.warn("FreeDiskSpaceFailed", message.clone());
        Err(ImageGcError::Insufficient(message))
    }

    async fn disk(&self) -> Result<ImageDisk, ImageGcError> {
        let systems = self.world.images.image_fs_info().await?;
        let first = systems.first().ok_or(ImageGcError::NoFileSystem)?;
        Ok(self.world.disks.room(Path::new(&first.mountpoint)).await?)
    }

    /// Removes images, until there is enough room if `until` is given.
    #[doc(alias = "freeSpace")]
    async fn remove(&mut self, images: Vec<UnusedImage>, why: Collected, until: Option<&Shortage>) -> Removal {
        let mut removal = Removal::default();
        for image in images {
            if self.sandboxes.as_deref().is_some_and(|name| image.may_be(name)) {
                continue;
            }
            let (reply, answer) = oneshot::channel();
            let _ended = self.ask.send(Request::MayRemove(Box::new(image.clone()), reply)).await;
            if !answer.await.unwrap_or(false) {
                continue;
            }
            let outcome = self.remove_one(&image, why).await;
            let _ended = self.ask.send(Request::RemovalOver).await;
            match outcome {
                Ok(()) => removal.freed = removal.freed.saturating_add(image.size),
                Err(err) => removal.errors.push(err),
            }
            if let Some(shortage) = until
                && self.is_enough(&removal, shortage).await
            {
                removal.enough = true;
                break;
            }
        }
        removal
    }

    /// Either by the sizes of what was removed, as upstream counts, or by the disk itself: images share layers, and what
    /// others removed counts too.
    async fn is_enough(&self, removed: &Removal, shortage: &Shortage) -> bool {
        removed.freed >= shortage.bytes || self.disk().await.is_ok_and(|disk| disk.available >= shortage.target)
    }

    #[doc(alias = "freeImage")]
    async fn remove_one(&mut self, image: &UnusedImage, why: Collected) -> Result<(), String> {
        let name = image.names.first().unwrap_or(&image.id);
        info!(image = name, id = image.id, size = image.size, why = why.as_str(), "Removing an unused image");
        let spec = ImageSpec { image: image.id.clone(), ..ImageSpec::default() };
        match self.world.images.remove_image(&spec).await {
            Ok(()) => {
                self.records.removed(&image.id);
                self.world.metrics.image_collected(why);
                Ok(())
            }
            Err(err) => {
                warn!(image = name, err = %Chain(&err), "Could not remove an unused image");
                Err(err.detail)
            }
        }
    }

    fn warn(&self, reason: &'static str, message: String) {
        self.world.events.record_node(NodeEvent { kind: EventKind::Warning, reason: reason.into(), message });
    }
}

impl Removal {
    /// The bytes that were freed, unless a removal failed.
    fn checked(self, wanted: u64) -> Result<u64, ImageGcError> {
        let Self { freed, errors, .. } = self;
        if errors.is_empty() {
            return Ok(freed);
        }
        Err(ImageGcError::Room { wanted, freed, errors: aggregate(&errors) })
    }
}

/// Several errors as one text, each once, as upstream writes them: `[a, b]`.
#[doc(alias = "NewAggregate")]
fn aggregate(errors: &[String]) -> String {
    let each: BTreeSet<&str> = errors.iter().map(String::as_str).collect();
    let all: Vec<&str> = each.into_iter().collect();
    match all.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn listed(image: Image) -> ListedImage {
    let names = image.repo_tags.into_iter().chain(image.repo_digests).collect();
    ListedImage { id: image.id, names, size: image.size, pinned: image.pinned }
}
