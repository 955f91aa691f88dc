//! How others ask the sync loop.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::Ending;
use rubelet_core::pod::Source;
use rubelet_core::time::{Instant, Now};
use tokio::sync::{mpsc, oneshot, watch};

use super::Rejected;
use crate::health::RuntimeHealth;
use crate::metrics::Census;
use crate::pod_worker::WorkerView;
use crate::ports::BadPod;
use crate::task::TaskPolls;

pub(super) enum Request {
    View(oneshot::Sender<NodeView>),
    Pod(PodKey, oneshot::Sender<Option<KnownPod>>),
    Census(oneshot::Sender<Census>),
    Terminate { uid: PodUid, ending: Ending, grace: Option<Duration>, reply: oneshot::Sender<()> },
}

/// How a pod is asked for.
pub(super) enum PodKey {
    Uid(PodUid),
    Name { namespace: String, name: String },
}

/// One pod and its newest status: all that logs and sessions need, and cheap to ask for.
#[derive(Clone, Debug)]
pub struct KnownPod {
    /// Names.
    pub reference: PodRef,
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its newest status.
    pub status: Arc<PodStatus>,
}

/// All that the node knows of its pods, at one moment.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Pods that have a life here, by namespace and name.
    pub pods: Vec<WorkerView>,
    /// Pods that were refused.
    pub rejected: Vec<Rejected>,
    /// What was given as a pod and is none.
    pub bad: Vec<BadPod>,
    /// How the runtime fares.
    pub runtime: RuntimeHealth,
    /// Sources that have not been read yet.
    pub unread_sources: Vec<Source>,
    /// When this was.
    pub now: Now,
    /// How many jobs panicked since the start.
    pub job_panics: u64,
    /// The kind of task that held up all others for the longest time since the start.
    pub longest_hold_up: Option<TaskPolls>,
}

/// Asks the sync loop.
#[derive(Clone, Debug)]
pub struct SyncLoopHandle {
    ask: mpsc::Sender<Request>,
    beat: watch::Receiver<Instant>,
}

impl SyncLoopHandle {
    pub(super) fn new(ask: mpsc::Sender<Request>, beat: watch::Receiver<Instant>) -> Self {
        Self { ask, beat }
    }

    /// All that the node knows of its pods; `None` if the loop has ended.
    pub async fn view(&self) -> Option<NodeView> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::View(reply)).await.ok()?;
        answer.await.ok()
    }

    /// The pod of this UID; `None` if the loop has ended, `Some(None)` if there is no such pod.
    #[doc(alias = "GetPodByUID")]
    pub async fn pod(&self, uid: PodUid) -> Option<Option<KnownPod>> {
        self.ask_for_pod(PodKey::Uid(uid)).await
    }

    /// The pod of this name, as [`Self::pod`]. While one pod is replaced by another of its name, the newer one is meant.
    #[doc(alias = "GetPodByName")]
    pub async fn pod_named(&self, namespace: &str, name: &str) -> Option<Option<KnownPod>> {
        self.ask_for_pod(PodKey::Name { namespace: namespace.to_owned(), name: name.to_owned() }).await
    }

    async fn ask_for_pod(&self, key: PodKey) -> Option<Option<KnownPod>> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::Pod(key, reply)).await.ok()?;
        answer.await.ok()
    }

    /// How many pods there are of each kind; `None` if the loop has ended. Much cheaper than a view.
    pub async fn census(&self) -> Option<Census> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::Census(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Ends a pod and waits until no container of it runs: for eviction and node shutdown, neither of which touches a
    /// container itself. `grace` is how long the containers may take; `None` for what the pod says. A pod that is not here
    /// is answered at once. `None` if the loop has ended.
    #[doc(alias = "killPodNow")]
    pub async fn terminate(&self, uid: PodUid, ending: Ending, grace: Option<Duration>) -> Option<()> {
        let (reply, stopped) = oneshot::channel();
        self.ask.send(Request::Terminate { uid, ending, grace, reply }).await.ok()?;
        stopped.await.ok()
    }

    /// When the loop last did something: `/healthz` is about this (LOOP-03).
    #[doc(alias = "syncLoopMonitor")]
    pub fn last_beat(&self) -> Instant {
        *self.beat.borrow()
    }

    /// The same, to wait for.
    pub fn beats(&self) -> watch::Receiver<Instant> {
        self.beat.clone()
    }
}
