//! What the tests of both sources need: a decoder that knows a pod's name and image alone, and bounded waits.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rubelet_cluster::{Decode, Decoded, Origin};
use rubelet_engine::ports::{Delivery, PodSource};
use rubelet_testkit::pod;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Takes `{kind: Pod, metadata: {name}, spec: {image}}`; the UID shows the origin.
pub(crate) fn decoder() -> Arc<dyn Decode> {
    Arc::new(|raw: &Value, origin: &Origin| -> Result<Decoded, Box<dyn Error + Send + Sync>> {
        let text = |path: &str| raw.pointer(path).and_then(Value::as_str).unwrap_or_default();
        if text("/kind") != "Pod" {
            return Err("expected kind: Pod".into());
        }
        if text("/metadata/name").is_empty() {
            return Err("metadata.name is missing".into());
        }
        let (Origin::File(place) | Origin::Url(place)) = origin;
        let pod = pod(text("/metadata/name")).uid(place).image(text("/spec/image")).build();
        Ok(Decoded { pod: Arc::unwrap_or_clone(pod), warnings: Vec::new() })
    })
}

/// A manifest that the decoder takes.
pub(crate) fn manifest(name: &str, image: &str) -> String {
    format!("kind: Pod\nmetadata:\n  name: {name}\nspec:\n  image: '{image}'\n")
}

/// A source that runs until this is dropped.
pub(crate) struct Running {
    deliveries: mpsc::Receiver<Delivery>,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
}

impl Running {
    pub(crate) fn start(source: impl PodSource + 'static) -> Self {
        let (out, deliveries) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let token = cancel.clone();
        tasks.spawn(async move { source.run(out, token).await });
        Self { deliveries, cancel, tasks }
    }

    /// The next delivery, one line per pod and per problem.
    pub(crate) async fn next(&mut self) -> String {
        let delivery = tokio::time::timeout(PATIENCE, self.deliveries.recv());
        let delivery = delivery.await.expect("a delivery comes in time").expect("the source runs");
        show(&delivery)
    }

    /// Takes deliveries until one is as `wanted`: events may come in one piece or in several.
    pub(crate) async fn until(&mut self, wanted: &str) {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| last != wanted) {
            let next = tokio::time::timeout(PATIENCE, self.deliveries.recv()).await;
            let Ok(Some(delivery)) = next else { panic!("{wanted:?} did not come, but {seen:?}") };
            seen.push(show(&delivery));
        }
    }

    pub(crate) fn nothing_waits(&mut self) -> bool {
        self.deliveries.try_recv().is_err()
    }

    /// Cancels the source and waits for its end.
    pub(crate) async fn stop(mut self) {
        self.cancel.cancel();
        let ended = tokio::time::timeout(PATIENCE, self.tasks.join_next()).await;
        ended.expect("it ends in time").expect("it was started").expect("it does not panic");
    }
}

fn show(delivery: &Delivery) -> String {
    let pod = |pod: &Arc<k8s_openapi::api::core::v1::Pod>| {
        let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.clone());
        format!("{}={}", pod.metadata.name.as_deref().unwrap_or("?"), image.as_deref().unwrap_or("?"))
    };
    let pods: Vec<String> = delivery.pods.iter().map(pod).collect();
    let mut text = format!("[{}]", pods.join(" "));
    for bad in &delivery.bad {
        text += &format!("\n{}: {}", bad.origin, bad.problem);
    }
    text
}
