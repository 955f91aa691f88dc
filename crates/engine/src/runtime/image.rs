//! Makes a container's image present, as its pull policy says (section 8.1).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Secret};
use rubelet_core::image::{self, ImageName, PullDecision, PullPolicy, should_pull};
use rubelet_core::keyring::{KeyringError, Login};
use rubelet_core::launch::{ImageSpec, SandboxConfig};
use rubelet_core::lifecycle::Retry;
use rubelet_core::reason::{StartFailure, WaitingReason};
use rubelet_core::status::{MAX_MESSAGE_BYTES, cut};

use super::{NotStarted, PodRuntime};
use crate::image_gc::ImageLease;
use crate::images::PullError;
use crate::job::{PodMemory, retry_after};
use crate::ports::{EventKind, Image};
use crate::slots::StartSlot;

/// An image that is present on the node.
pub(super) struct PresentImage {
    pub(super) image_ref: String,
    pub(super) uid: Option<i64>,
    pub(super) username: String,
    /// Keeps the image on the node until a container uses it.
    pub(super) lease: ImageLease,
}

/// The arguments of a pull.
struct Request<'a> {
    spec: ImageSpec,
    /// Logins to try; with none, the pull is anonymous.
    logins: Result<Vec<Login>, KeyringError>,
    sandbox: &'a SandboxConfig,
}

impl PodRuntime<'_> {
    /// Makes the image present, or returns why it is not.
    #[doc(alias = "EnsureImageExists")]
    pub(super) async fn ensure_image(
        &self,
        container: &Container,
        sandbox: &SandboxConfig,
        secrets: &[Arc<Secret>],
        memory: &mut PodMemory,
        slot: &mut StartSlot<'_>,
    ) -> Result<PresentImage, NotStarted> {
        let written = container.image.as_deref().unwrap_or_default();
        let name = match ImageName::parse(written) {
            Ok(name) => name,
            Err(err) => {
                let message = image::invalid_name(&err);
                self.image_event(container, EventKind::Warning, "InspectFailed", &message).await;
                return Err(not_started(WaitingReason::InvalidImageName, message, Retry::Later));
            }
        };
        let spec = self.image_spec(&name, written, &sandbox.runtime_handler);
        // Before the runtime is asked: an image that is there now must still be there when the container is created.
        let lease = self.node.image_gc.lease(&spec.image).await;
        let policy = PullPolicy::of(container);
        let present = if policy.asks_presence() { self.find(container, &spec).await? } else { None };
        match (should_pull(policy, present.is_some()), present) {
            (PullDecision::UsePresent, Some(image)) => {
                let message = image::already_present(written);
                self.image_event(container, EventKind::Normal, "Pulled", &message).await;
                Ok(here(image, lease))
            }
            (PullDecision::Refuse, _) => {
                let message = image::never_pulled(written);
                let reason = WaitingReason::ErrImageNeverPull;
                self.image_event(container, EventKind::Warning, reason.as_str(), &message).await;
                Err(not_started(reason, message, Retry::Later))
            }
            (PullDecision::Pull | PullDecision::UsePresent, _) => {
                // A pull may take minutes, and may queue behind others: it must not hold a start slot.
                slot.release();
                if memory.unseen {
                    self.show_started(memory).await;
                }
                let request = Request { spec, logins: self.logins(&name, secrets).await, sandbox };
                self.pull(container, request, lease, memory).await
            }
        }
    }

    async fn find(&self, container: &Container, spec: &ImageSpec) -> Result<Option<Image>, NotStarted> {
        match self.node.ports.images.image_status(spec).await {
            Ok(image) => Ok(image),
            Err(err) => {
                let message = image::inspect_failed(&spec.image, &err.to_string());
                self.image_event(container, EventKind::Warning, "InspectFailed", &message).await;
                Err(not_started(WaitingReason::ImageInspectError, message, retry_after(err.kind)))
            }
        }
    }

    /// Pulls, unless an earlier failure is too recent (IMG-04).
    async fn pull(
        &self,
        container: &Container,
        request: Request<'_>,
        lease: ImageLease,
        memory: &mut PodMemory,
    ) -> Result<PresentImage, NotStarted> {
        let written = container.image.as_deref().unwrap_or_default();
        let Request { spec, logins, sandbox } = request;
        let key = format!("{}_{}", self.job.pod.uid, spec.image);
        let now = self.node.clock.wall();
        if let Some(left) = memory.pulls.wait_left_since_update(&key, now) {
            let last = memory.pull_errors.get(&key);
            let message = image::back_off(written, last.map(|(reason, text)| (*reason, text.as_str())));
            self.image_event(container, EventKind::Normal, "BackOff", &image::back_off(written, None)).await;
            return Err(not_started(WaitingReason::ImagePullBackOff, message, Retry::In(left)));
        }
        let logins = match logins {
            Ok(logins) => logins,
            Err(err) => return Err(self.pull_failed(container, &key, &err.to_string(), memory).await),
        };
        self.image_event(container, EventKind::Normal, "Pulling", &image::pulling(written)).await;
        self.job.step(format!("image {written} to be pulled")).await;
        let asked = self.node.clock.mono();
        // If this future is dropped, the puller cancels the pull; the runtime keeps the layers that it has.
        match self.node.puller.pull(spec.clone(), logins, sandbox.clone(), asked).await {
            Ok(pulled) => {
                memory.pulling = memory.pulling.saturating_add(pulled.with_waiting);
                memory.pulls.reset(&key);
                memory.pull_errors.remove(&key);
                let image = self.find(container, &spec).await?.unwrap_or_default();
                let message = image::pulled(written, pulled.took, pulled.with_waiting, image.size);
                self.image_event(container, EventKind::Normal, "Pulled", &message).await;
                Ok(PresentImage { image_ref: pulled.image_ref, uid: image.uid, username: image.username, lease })
            }
            Err(err) => {
                let text = match &err {
                    PullError::Runtime(rpc) => rpc.detail.clone(),
                    PullError::RateExceeded | PullError::Gone => err.to_string(),
                };
                Err(self.pull_failed(container, &key, &text, memory).await)
            }
        }
    }

    /// Emits the events of a failed pull, and starts its back-off (IMG-04).
    async fn pull_failed(&self, container: &Container, key: &str, why: &str, memory: &mut PodMemory) -> NotStarted {
        let written = container.image.as_deref().unwrap_or_default();
        let now = self.node.clock.wall();
        let text = cut(why, MAX_MESSAGE_BYTES);
        let (reason, message) = image::pull_failure(written, text);
        self.image_event(container, EventKind::Warning, "Failed", &image::pull_failed(written, text)).await;
        self.image_event(container, EventKind::Warning, "Failed", &format!("Error: {reason}")).await;
        memory.pulls.gc(now);
        memory.pull_errors.retain(|key, _| !memory.pulls.delay(key).is_zero());
        memory.pulls.next(key, now, now);
        memory.pull_errors.insert(key.to_owned(), (reason, message.clone()));
        // The next job shows `ImagePullBackOff`: users expect to see both reasons, one after the other.
        not_started(reason, message, Retry::Soon)
    }

    /// The image as the runtime is asked for it. Some runtimes choose its storage by the pod's annotations and runtime
    /// handler (IMG-08).
    fn image_spec(&self, name: &ImageName, written: &str, handler: &str) -> ImageSpec {
        ImageSpec {
            image: name.with_tag(),
            user_specified_image: written.to_owned(),
            runtime_handler: if self.node.settings.launch.gates.runtime_class_in_images {
                handler.to_owned()
            } else {
                String::new()
            },
            annotations: self.pod.metadata.annotations.clone().unwrap_or_default(),
        }
    }

    async fn image_event(&self, container: &Container, kind: EventKind, reason: &'static str, message: &str) {
        self.job.emit(self.pod, self.field_path(container), kind, reason, message).await;
    }
}

fn here(image: Image, lease: ImageLease) -> PresentImage {
    PresentImage { image_ref: image.id, uid: image.uid, username: image.username, lease }
}

fn not_started(reason: WaitingReason, message: String, retry: Retry) -> NotStarted {
    NotStarted { failure: StartFailure { reason, message }, retry }
}
