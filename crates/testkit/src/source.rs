//! A pod source that a test fills.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::PodRef;
use rubelet_core::pod::Source;
use rubelet_engine::ports::{BadPod, Delivery, PodSource};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// A pod source that a test fills. Clones share its pods, and a new run delivers the current set: it survives the
/// kubelet.
#[derive(Clone)]
pub struct FakeSource {
    source: Source,
    /// `None` until something is pushed: the source is not ready.
    now: Arc<watch::Sender<Option<Set>>>,
}

/// The whole set of a source.
type Set = (Vec<Arc<Pod>>, Vec<BadPod>);

impl FakeSource {
    /// A source that has not been read yet.
    pub fn new(source: Source) -> Self {
        Self { source, now: Arc::new(watch::Sender::new(None)) }
    }

    /// Delivers this whole set. Of several sets in quick succession only the last may be delivered.
    pub fn push(&self, pods: impl IntoIterator<Item = Arc<Pod>>) {
        self.now.send_replace(Some((pods.into_iter().collect(), Vec::new())));
    }

    /// Delivers the set with `pod`, in place of an older one of the same name.
    pub fn put(&self, pod: Arc<Pod>) {
        self.edit(|pods, _| {
            let name = PodRef::of(&pod).full_name();
            pods.retain(|other| PodRef::of(other).full_name() != name);
            pods.push(pod);
        });
    }

    /// Delivers the set without the pods called `name`.
    pub fn take_away(&self, name: &str) {
        self.edit(|pods, _| pods.retain(|pod| pod.metadata.name.as_deref() != Some(name)));
    }

    /// Delivers the set with an invalid pod.
    pub fn put_bad(&self, bad: BadPod) {
        self.edit(|_, all| all.push(bad));
    }

    /// Its pods, in order.
    pub fn pods(&self) -> Vec<Arc<Pod>> {
        self.now.borrow().iter().flat_map(|(pods, _)| pods).cloned().collect()
    }

    /// Names of its pods.
    pub fn names(&self) -> Vec<String> {
        let now = self.now.borrow();
        let pods = now.iter().flat_map(|(pods, _)| pods);
        pods.filter_map(|pod| pod.metadata.name.clone()).collect()
    }

    fn edit(&self, edit: impl FnOnce(&mut Vec<Arc<Pod>>, &mut Vec<BadPod>)) {
        self.now.send_modify(|now| {
            let (pods, bad) = now.get_or_insert_default();
            edit(pods, bad);
        });
    }
}

#[async_trait]
impl PodSource for FakeSource {
    fn source(&self) -> Source {
        self.source
    }

    async fn run(&self, out: mpsc::Sender<Delivery>, cancel: CancellationToken) {
        let mut now = self.now.subscribe();
        loop {
            let latest = now.borrow_and_update().clone();
            if let Some((pods, bad)) = latest
                && out.send(Delivery { source: self.source, pods, bad }).await.is_err()
            {
                return;
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                changed = now.changed() => if changed.is_err() { return },
            }
        }
    }
}
