//! The task that keeps mirrors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rubelet_core::backoff::Doubling;
use rubelet_core::id::{FullName, PodRef, PodUid};
use rubelet_core::pod::{HASH_ANNOTATION, MIRROR_ANNOTATION, PodExt};
use rubelet_core::time::Instant;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{Mirrored, Mirrors, shows};
use crate::clock::Clock;
use crate::ports::{ApiError, ApiErrorKind, ClusterView, PodApi};

/// How soon the node's object is looked for again: mirrors are owned by it, and so come right after it.
const NODE_POLL: Duration = Duration::from_millis(100);
/// Pauses after failures.
const PAUSES: Doubling = Doubling::new(Duration::from_millis(500), Duration::from_secs(30));
/// How long the watch is given to show a mirror that was made. Then it is made again: if it is there, nothing comes of it.
const SHOW: Duration = Duration::from_secs(10);

/// Keeps the API's pictures of static pods.
#[doc(alias = "mirrorPodClient")]
#[doc(alias = "MirrorClient")]
pub struct MirrorPods {
    api: Arc<dyn PodApi>,
    view: Arc<dyn ClusterView>,
    clock: Clock,
    wanted: watch::Receiver<Arc<Mirrors>>,
    memory: BTreeMap<FullName, Memory>,
}

/// What was done about one name.
#[derive(Debug, Default)]
struct Memory {
    /// The mirror that was removed, and until when the watch has time to show that.
    removed: Option<(PodUid, Instant)>,
    /// The version that was mirrored, and until when the watch has time to show it.
    made: Option<(String, Instant)>,
    failures: u32,
    /// Not before this.
    due: Option<Instant>,
}

/// What is to be done about one name.
#[derive(Debug, PartialEq)]
enum Step {
    Remove(Arc<Pod>),
    Make(Arc<Pod>),
}

impl MirrorPods {
    /// One that follows `wanted`.
    pub fn new(
        api: Arc<dyn PodApi>,
        view: Arc<dyn ClusterView>,
        clock: Clock,
        wanted: watch::Receiver<Arc<Mirrors>>,
    ) -> Self {
        Self { api, view, clock, wanted, memory: BTreeMap::new() }
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            let due = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                // Dropping a request half-way is harmless: the watch shows what came of it.
                due = self.pass() => due,
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                changed = self.wanted.changed() => if changed.is_err() { return },
                () = self.clock.sleep_until(due) => {}
            }
        }
    }

    /// Does what can be done now, and answers with when there is more.
    #[doc(alias = "tryReconcileMirrorPods")]
    async fn pass(&mut self) -> Option<Instant> {
        let mirrors = Arc::clone(&self.wanted.borrow_and_update());
        self.memory.retain(|name, _| mirrors.by_name.contains_key(name));
        if !mirrors.api_seen {
            return None;
        }
        let mut next: Option<Instant> = None;
        for (name, mirrored) in &mirrors.by_name {
            let due = self.settle(name, mirrored).await;
            next = [next, due].into_iter().flatten().min();
        }
        next
    }

    /// One name. Two steps at most: an old mirror goes, a new one comes.
    async fn settle(&mut self, name: &FullName, mirrored: &Mirrored) -> Option<Instant> {
        for _ in 0..2 {
            let now = self.clock.mono();
            let memory = self.memory.entry(name.clone()).or_default();
            let Some(step) = memory.step(mirrored, now) else {
                return memory.look_again(mirrored, now);
            };
            if let Some(due) = memory.due.filter(|due| now < *due) {
                return Some(due);
            }
            let result = match &step {
                Step::Remove(mirror) => self.remove(mirror).await,
                Step::Make(pod) => {
                    let Some(node) = self.view.node().filter(|node| node.metadata.uid.is_some()) else {
                        return Some(self.clock.mono() + NODE_POLL);
                    };
                    if node.metadata.deletion_timestamp.is_some() {
                        debug!(pod = %PodRef::of(pod), "The node is being removed from the cluster: no mirror is made");
                        return None;
                    }
                    self.make(pod, &node).await
                }
            };
            let now = self.clock.mono();
            let memory = self.memory.entry(name.clone()).or_default();
            match result {
                Ok(()) => memory.done(&step, now),
                Err(err) => return Some(memory.failed(&step, &err, now)),
            }
        }
        None
    }

    #[doc(alias = "DeleteMirrorPod")]
    async fn remove(&self, mirror: &Pod) -> Result<(), ApiError> {
        let pod = PodRef::of(mirror);
        info!(%pod, "Removing a mirror that shows no pod of this node, or another version of it");
        match self.api.delete(&pod).await {
            // Gone already, or another of that name.
            Err(err) if matches!(err.kind, ApiErrorKind::NotFound | ApiErrorKind::Conflict) => Ok(()),
            result => result,
        }
    }

    #[doc(alias = "CreateMirrorPod")]
    async fn make(&self, pod: &Pod, node: &Node) -> Result<(), ApiError> {
        let mirror = picture(pod, node);
        match self.api.create(&mirror).await {
            Ok(made) => {
                info!(pod = %PodRef::of(&made), "Made a mirror");
                Ok(())
            }
            Err(err) if err.kind == ApiErrorKind::AlreadyExists => {
                let unnamed = PodRef { uid: "".into(), ..PodRef::of(pod) };
                let there = self.api.get(&unnamed).await?;
                if shows(&there, pod) && !there.is_deleted() {
                    return Ok(());
                }
                // The watch shows it soon, and then it goes, if it is a mirror. An ordinary pod of that name stays.
                Err(err)
            }
            Err(err) => Err(err),
        }
    }
}

impl Memory {
    fn step(&mut self, mirrored: &Mirrored, now: Instant) -> Option<Step> {
        let mirror = mirrored.mirror.as_ref().filter(|mirror| !self.was_removed(mirror, now));
        match (&mirrored.pod, mirror) {
            (None, None) => None,
            (None, Some(mirror)) => Some(Step::Remove(Arc::clone(mirror))),
            (Some(pod), Some(mirror)) if mirror.is_deleted() || !shows(mirror, pod) => {
                Some(Step::Remove(Arc::clone(mirror)))
            }
            (Some(_), Some(_)) => {
                *self = Self::default();
                None
            }
            (Some(pod), None) => {
                let made = self.made.as_ref().is_some_and(|(hash, until)| hash == hash_of(pod) && now < *until);
                (!made).then(|| Step::Make(Arc::clone(pod)))
            }
        }
    }

    /// It was removed a moment ago, or finalizers hold it. One that is still shown later was not removed after all: the
    /// API server may have refused for the sake of another change.
    fn was_removed(&self, mirror: &Pod, now: Instant) -> bool {
        let held = mirror.is_deleted() && mirror.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty());
        let is_it = |uid: &PodUid| *uid == PodRef::of(mirror).uid;
        self.removed.as_ref().is_some_and(|(uid, until)| is_it(uid) && (held || now < *until))
    }

    /// With nothing to do, when what was done should have been seen to be so.
    fn look_again(&self, mirrored: &Mirrored, now: Instant) -> Option<Instant> {
        let made = self.made.as_ref().map(|(_, until)| *until);
        let removed = self.removed.as_ref().filter(|_| mirrored.mirror.is_some()).map(|(_, until)| *until);
        [made, removed.filter(|until| now < *until)].into_iter().flatten().min()
    }

    fn done(&mut self, step: &Step, now: Instant) {
        (self.failures, self.due) = (0, None);
        match step {
            Step::Remove(mirror) => {
                self.removed = Some((PodRef::of(mirror).uid, now + SHOW));
                self.made = None;
            }
            Step::Make(pod) => self.made = Some((hash_of(pod).to_owned(), now + SHOW)),
        }
    }

    fn failed(&mut self, step: &Step, err: &ApiError, now: Instant) -> Instant {
        self.failures = self.failures.saturating_add(1);
        let (Step::Remove(pod) | Step::Make(pod)) = step;
        if self.failures.is_power_of_two() {
            warn!(pod = %PodRef::of(pod), %err, attempt = self.failures, "Could not keep the pod's mirror");
        }
        let pause = match err.kind {
            ApiErrorKind::Busy { retry_after: Some(pause) } => pause.min(PAUSES.most),
            _ => PAUSES.after(self.failures),
        };
        let due = now + pause;
        self.due = Some(due);
        due
    }
}

fn hash_of(pod: &Pod) -> &str {
    pod.annotation(HASH_ANNOTATION).unwrap_or_default()
}

/// The mirror of `pod`. It belongs to the node, so that it goes with it; without that the API server refuses it.
fn picture(pod: &Pod, node: &Node) -> Pod {
    let meta = &pod.metadata;
    let mut annotations = meta.annotations.clone().unwrap_or_default();
    annotations.insert(MIRROR_ANNOTATION.to_owned(), hash_of(pod).to_owned());
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.metadata.name.clone().unwrap_or_default(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    Pod {
        metadata: ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            labels: meta.labels.clone(),
            annotations: Some(annotations),
            finalizers: meta.finalizers.clone(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: pod.spec.clone(),
        status: None,
    }
}

#[cfg(test)]
mod tests;
