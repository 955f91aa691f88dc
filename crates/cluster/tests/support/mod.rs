//! Shared by the tests of the file and URL sources: manifests, and bounded waits.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_cluster::{Decode, Decoded, Origin};
use rubelet_core::manifest::{Gates, static_pod};
use rubelet_core::pod::PodExt as _;
use rubelet_engine::ports::{Delivery, PodSource};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Longer than any wait in a passing test.
const PATIENCE: Duration = Duration::from_secs(20);

/// Decodes manifests for a node called `n`, so that a pod `web` is called `web-n`.
pub(crate) fn node() -> Arc<dyn Decode> {
    Arc::new(|raw: &Value, origin: &Origin| {
        let manifest = static_pod(raw, origin, "n", &Gates::default())?;
        Ok(Decoded { pod: manifest.pod, warnings: Vec::new() })
    })
}

/// A valid manifest.
pub(crate) fn manifest(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: app, image: 'i:{image}'}}]}}\n"
    )
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

    /// Receives deliveries until one equals `wanted`: inotify events may arrive together or one by one.
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
    let pod = |pod: &Arc<Pod>| {
        let name = pod.metadata.name.as_deref().and_then(|name| name.strip_suffix("-n"));
        let image = pod.regular().first().and_then(|app| app.image.as_deref()?.strip_prefix("i:"));
        format!("{}={}", name.unwrap_or("?"), image.unwrap_or("?"))
    };
    let pods: Vec<String> = delivery.pods.iter().map(pod).collect();
    let mut text = format!("[{}]", pods.join(" "));
    for bad in &delivery.bad {
        text += &format!("\n{}: {}", bad.origin, bad.problem);
    }
    text
}
