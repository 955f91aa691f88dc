//! A local copy of this node's API pods, for a node that comes up while its API server is away (`--api-pod-cache`).
//!
//! Ours; early kubelets had something like it and called it RESTORE. A [`CachedSource`] stands before the API's source:
//! what that delivers goes through and is written down. If it has delivered nothing a while after the start, what was
//! written down is delivered in its place, and replaced as soon as the API server answers: what was deleted meanwhile ends
//! then.
//!
//! A copy that lacks a pod must not end a pod that runs: what no source wants is taken away. So after a reboot, when nothing
//! runs, all that is whole is used; without a reboot the copy is used only if it is whole and was written to its end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use rubelet_core::pod::Source;
use rubelet_core::pod_cache::{restored, same_in_copy};
use rubelet_engine::ports::{ApiError, ClusterView, Delivery, PodSource};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::decode::explain;

mod disk;
#[cfg(test)]
mod tests;

use disk::{Disk, DiskError, Found};

/// How long the API server is waited for before the copy is used.
const WAIT: Duration = Duration::from_secs(5);
/// A write that failed is tried again after this time.
const RETRY: Duration = Duration::from_secs(30);

/// Delivers what another source delivers, or what it delivered before the node went down.
pub struct CachedSource {
    inner: Arc<dyn PodSource>,
    disk: Disk,
    view: Arc<CachedView>,
}

/// The cluster view, with services from the copy on disk until the API server has delivered them: without services no
/// container may start (ENV-03).
pub struct CachedView {
    inner: Arc<dyn ClusterView>,
    services: OnceLock<Arc<Vec<Service>>>,
}

#[async_trait]
impl ClusterView for CachedView {
    fn services(&self) -> Option<Arc<Vec<Service>>> {
        self.inner.services().or_else(|| self.services.get().cloned())
    }

    fn node_changes(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.inner.node_changes()
    }

    async fn runtime_handler(&self, class: &str) -> Result<String, ApiError> {
        self.inner.runtime_handler(class).await
    }
}

impl CachedSource {
    /// Wraps `inner`, with a copy in `dir` of the pods of `node` and of the services that `view` has. `boot_id` changes
    /// with each boot of the machine.
    pub fn new(
        inner: Arc<dyn PodSource>,
        view: Arc<dyn ClusterView>,
        dir: impl Into<PathBuf>,
        node: &str,
        boot_id: &str,
    ) -> Self {
        let view = Arc::new(CachedView { inner: view, services: OnceLock::new() });
        Self { inner, disk: Disk::new(dir.into(), node.to_owned(), boot_id.to_owned()), view }
    }

    /// The cluster, as pods from the copy need it.
    pub fn view(&self) -> Arc<CachedView> {
        Arc::clone(&self.view)
    }
}

#[async_trait]
impl PodSource for CachedSource {
    fn source(&self) -> Source {
        Source::Api
    }

    async fn run(&self, out: mpsc::Sender<Delivery>, cancel: CancellationToken) {
        // One at a time: the API's source passes over all but the newest while we are busy.
        let (from, seen) = mpsc::channel(1);
        let task = Task {
            disk: self.disk.clone(),
            view: Arc::clone(&self.view),
            known: BTreeMap::new(),
            pending: BTreeMap::new(),
            settled: false,
            problem: None,
            writing: JoinSet::new(),
            out,
        };
        let forward = async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = task.run(seen) => {}
            }
        };
        tokio::join!(self.inner.run(from, cancel.clone()), forward);
    }
}

/// What is to be written of each pod: itself, or that it is gone.
type Changes = BTreeMap<String, Option<Arc<Pod>>>;

struct Task {
    disk: Disk,
    view: Arc<CachedView>,
    /// What is written or about to be, by UID.
    known: BTreeMap<String, Arc<Pod>>,
    /// What is yet to be written.
    pending: Changes,
    /// What is on disk is what was last delivered, and says so.
    settled: bool,
    /// What was last logged of a failed write.
    problem: Option<String>,
    writing: JoinSet<Result<(), (Changes, DiskError)>>,
    out: mpsc::Sender<Delivery>,
}

enum Event {
    Seen(Delivery),
    Written(Result<(), (Changes, DiskError)>),
    Retry,
    Over,
}

impl Task {
    async fn run(mut self, mut seen: mpsc::Receiver<Delivery>) {
        // Read in any case: what is written already is not written again.
        let reading = tokio::time::timeout(WAIT, self.blocking(Disk::load));
        let (first, found) = tokio::join!(tokio::time::timeout(WAIT, seen.recv()), reading);
        let found = self.found(found.ok().flatten());
        let mut going_on = match first {
            Ok(Some(delivery)) => self.take(delivery).await,
            Ok(None) => false,
            Err(_) => self.restore(found).await,
        };
        while going_on {
            let event = self.next(&mut seen).await;
            going_on = match event {
                Event::Seen(delivery) => self.take(delivery).await,
                Event::Written(result) => {
                    self.written(result).await;
                    true
                }
                Event::Retry => {
                    self.write();
                    true
                }
                Event::Over => false,
            };
        }
    }

    async fn next(&mut self, seen: &mut mpsc::Receiver<Delivery>) -> Event {
        let retry = self.writing.is_empty() && !self.pending.is_empty();
        tokio::select! {
            biased;
            Some(done) = self.writing.join_next() => Event::Written(done.unwrap_or_else(|_| {
                let all = self.known.iter().map(|(uid, pod)| (uid.clone(), Some(Arc::clone(pod)))).collect();
                Err((all, DiskError::Panicked))
            })),
            delivery = seen.recv() => delivery.map_or(Event::Over, Event::Seen),
            () = tokio::time::sleep(RETRY), if retry => Event::Retry,
        }
    }

    /// Passes a delivery on, and writes down what is new in it. Answers whether anyone still listens.
    async fn take(&mut self, delivery: Delivery) -> bool {
        let changes = self.changes(&delivery.pods);
        let news = !changes.is_empty();
        if news && std::mem::replace(&mut self.settled, false) {
            // Before anybody acts on it: a copy that is behind must not be believed.
            self.blocking(Disk::unsettle).await;
        }
        let listening = self.out.send(delivery).await.is_ok();
        self.pending.extend(changes);
        // Also when nothing is new at first: the copy may be of another boot.
        if news || !self.settled {
            self.write();
        }
        listening
    }

    /// What differs from what is known, in anything that a restart would need.
    fn changes(&mut self, pods: &[Arc<Pod>]) -> Changes {
        let mut changes = Changes::new();
        let mut gone = std::mem::take(&mut self.known);
        for pod in pods {
            let Some(uid) = pod.metadata.uid.clone() else { continue };
            let same = gone.remove(&uid).is_some_and(|old| Arc::ptr_eq(&old, pod) || same_in_copy(&old, pod));
            if !same {
                changes.insert(uid.clone(), Some(Arc::clone(pod)));
            }
            self.known.insert(uid, Arc::clone(pod));
        }
        changes.extend(gone.into_keys().map(|uid| (uid, None)));
        changes
    }

    /// Starts to write what is pending, unless that is being done.
    fn write(&mut self) {
        if !self.writing.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut self.pending);
        let uids = self.known.keys().cloned().collect();
        let (disk, services) = (self.disk.clone(), self.view.inner.services());
        let write = move || match disk.write(&changes, uids, services.as_deref()) {
            Ok(()) => Ok(()),
            Err(error) => Err((changes, error)),
        };
        self.writing.spawn(rubelet_engine::blocking::RECORDS.run("pod cache", write));
    }

    async fn written(&mut self, result: Result<(), (Changes, DiskError)>) {
        match result {
            Ok(()) if self.pending.is_empty() => {
                self.blocking(Disk::settle).await;
                self.settled = true;
                self.problem = None;
            }
            Ok(()) => self.write(),
            Err((changes, error)) => {
                let problem = explain(&error);
                if self.problem.as_ref() != Some(&problem) {
                    warn!(err = problem, "The local copy of the API's pods cannot be written");
                    self.problem = Some(problem);
                }
                for (uid, change) in changes {
                    // What came meanwhile is newer.
                    self.pending.entry(uid).or_insert(change);
                }
            }
        }
    }

    /// Takes note of what is on disk.
    fn found(&mut self, found: Option<Result<Option<Found>, DiskError>>) -> Option<Found> {
        let found = match found? {
            Ok(found) => found?,
            Err(error) => {
                warn!(err = explain(&error), "The local copy of the API's pods cannot be read");
                return None;
            }
        };
        for problem in &found.bad {
            warn!(problem, "An entry of the local copy of the API's pods is dropped");
        }
        let uid = |pod: &Arc<Pod>| pod.metadata.uid.clone().unwrap_or_default();
        self.known = found.pods.iter().map(|pod| (uid(pod), Arc::clone(pod))).collect();
        self.settled = found.is_settled();
        Some(found)
    }

    /// Delivers the copy, if there is one that may be used. Answers whether anyone still listens.
    async fn restore(&self, found: Option<Found>) -> bool {
        let Some(found) = found else {
            warn!(waited = ?WAIT, "The API server cannot be reached, and there is no local copy of its pods");
            return true;
        };
        if !found.is_usable() {
            warn!(waited = ?WAIT, "The API server cannot be reached; the local copy of its pods is not whole and is not \
                used, as pods that run may be missing in it");
            return true;
        }
        let Found { pods, services, rebooted, .. } = found;
        if let Some(services) = services {
            // Nobody else sets it.
            let _ = self.view.services.set(Arc::new(services));
        }
        let pods: Vec<_> = pods.iter().map(|pod| Arc::new(restored(pod))).collect();
        warn!(pods = pods.len(), waited = ?WAIT, rebooted,
            "The API server cannot be reached; going by the local copy of its pods");
        self.out.send(Delivery { source: Source::Api, pods, bad: Vec::new() }).await.is_ok()
    }

    /// Disks may hang: that must not hold up the runtime. `None` if it panicked.
    async fn blocking<T: Send + 'static>(&self, work: fn(&Disk) -> T) -> Option<T> {
        let disk = self.disk.clone();
        rubelet_engine::blocking::RECORDS.spawn("pod cache", move || work(&disk)).await.ok()
    }
}
