//! The pods that the API server has bound to this node (SRC-04).
//!
//! Each delivery holds all pods of the node. In a burst of changes, intermediate sets are skipped: the cost of a delivery
//! grows with the number of pods, and the pause after it grows likewise.
//!
//! upstream: kubelet/config/apiserver.go (v1.36).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::pod::{PodExt as _, SEEN_ANNOTATION, SOURCE_ANNOTATION, Source};
use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{BadPod, Delivery, PodSource, Rng};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::client::Client;
use super::reflector::{Reflector, Set, Watched};
use super::shrink::shrink;

/// Pause after a delivery, per pod in it. It is several times the cost of merging a pod, so deliveries take a bounded share of
/// the time instead of growing with the square of the number of pods.
const PAUSE_PER_POD: Duration = Duration::from_micros(1);

/// The pods that the API server has bound to this node.
#[doc(alias = "NewSourceApiserver")]
pub struct ApiSource {
    client: Client,
    node: String,
    rng: Arc<dyn Rng>,
    ready: watch::Receiver<bool>,
}

impl ApiSource {
    /// Watches the pods of `node` once `ready` is true. The node object must have been read first: admission would reject
    /// pods whose node selector depends on labels that are not known yet.
    pub fn new(client: Client, node: &str, rng: Arc<dyn Rng>, ready: watch::Receiver<bool>) -> Self {
        Self { client, node: node.to_owned(), rng, ready }
    }
}

#[async_trait]
impl PodSource for ApiSource {
    fn source(&self) -> Source {
        Source::Api
    }

    async fn run(&self, out: mpsc::Sender<Delivery>, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.work(out, cancel.clone()) => {}
        }
    }
}

impl ApiSource {
    async fn work(&self, out: mpsc::Sender<Delivery>, cancel: CancellationToken) {
        let mut ready = self.ready.clone();
        if !*ready.borrow() {
            info!("Waiting for node sync before watching apiserver pods");
        }
        if ready.wait_for(|ready| *ready).await.is_err() {
            // The sender is dropped only at shutdown.
            return;
        }
        let watched = Watched {
            path: "/api/v1/pods".to_owned(),
            field_selector: Some(format!("spec.nodeName={}", self.node)),
            ..Watched::default()
        };
        let clock = self.client.clock().clone();
        let reading = clock.clone();
        let reflector = Reflector::new(self.client.clone(), watched, Arc::clone(&self.rng))
            .prepared(move |pod, before| mark(pod, before, &reading));
        let (newest, seen) = watch::channel(None);
        let sink = move |set: &Set<Pod>| {
            newest.send_replace(Some(Arc::new(wanted(set))));
        };
        tokio::join!(reflector.run(sink, cancel), forward(seen, out, clock));
    }
}

type Wanted = (Vec<Arc<Pod>>, Vec<BadPod>);

fn wanted(set: &Set<Pod>) -> Wanted {
    let bad = set.bad().iter().map(|(key, problem)| BadPod {
        origin: format!("{}/{}", key.namespace, key.name),
        problem: format!("the pod cannot be read: {problem}"),
    });
    (set.objects().cloned().collect(), bad.collect())
}

/// Delivers the newest set and skips the ones in between.
async fn forward(mut seen: watch::Receiver<Option<Arc<Wanted>>>, out: mpsc::Sender<Delivery>, clock: Clock) {
    let mut next = Instant::START;
    while seen.changed().await.is_ok() {
        clock.sleep_until(Some(next)).await;
        let Some(wanted) = seen.borrow_and_update().clone() else { continue };
        let (pods, bad) = (*wanted).clone();
        let pause = PAUSE_PER_POD.saturating_mul(u32::try_from(pods.len()).unwrap_or(u32::MAX));
        drop(wanted);
        if out.send(Delivery { source: Source::Api, pods, bad }).await.is_err() {
            return;
        }
        next = clock.mono() + pause;
    }
}

/// Adds the source annotations before the pod is shared. If core added them, each pod would be held twice.
fn mark(pod: &mut Pod, before: Option<&Pod>, clock: &Clock) {
    let before = before.filter(|before| before.metadata.uid == pod.metadata.uid);
    let seen = before.and_then(|before| before.annotation(SEEN_ANNOTATION)).map(ToOwned::to_owned);
    let seen = seen.unwrap_or_else(|| clock.wall().to_string());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCE_ANNOTATION.to_owned(), Source::Api.as_str().to_owned());
    annotations.insert(SEEN_ANNOTATION.to_owned(), seen);
    shrink(pod);
}
