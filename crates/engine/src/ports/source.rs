//! Where desired pods come from.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::pod::Source;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A producer of pods: a file or directory, a URL, the API server.
///
/// It always delivers the whole set that it wants now; the difference to what came before is `DesiredPods`' work. The
/// first delivery matters even if it is empty: it says that the source has been read (SRC-10).
#[async_trait]
pub trait PodSource: Send + Sync {
    /// Which source it is.
    fn source(&self) -> Source;
    /// Delivers until cancelled. Trouble with one pod must not hold back the others: it is delivered as a [`BadPod`].
    async fn run(&self, out: mpsc::Sender<Delivery>, cancel: CancellationToken);
}

/// All that a source wants to run now.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The source.
    pub source: Source,
    /// Its pods, valid and with defaults filled in.
    pub pods: Vec<Arc<Pod>>,
    /// What it was given but cannot run.
    pub bad: Vec<BadPod>,
}

/// Something given as a pod that cannot be run: shown to people, stops nothing else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadPod {
    /// The file or URL.
    pub origin: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}
