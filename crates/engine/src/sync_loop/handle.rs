//! The handle of the sync loop: other tasks ask for pods, counts and terminations through it.

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
use crate::pod_worker::{EndStep, WorkerView};
use crate::ports::BadPod;
use crate::task::TaskPolls;

pub(super) enum Request {
    View(oneshot::Sender<NodeView>),
    Pod(PodKey, oneshot::Sender<Option<KnownPod>>),
    Pods(oneshot::Sender<Vec<KnownPod>>),
    Census(oneshot::Sender<Census>),
    Terminate { uid: PodUid, ending: Ending, grace: Option<Duration>, until: EndStep, reply: oneshot::Sender<()> },
    Active(oneshot::Sender<ActivePods>),
    Resume(oneshot::Sender<()>),
    Reclaim(oneshot::Sender<()>),
}

/// By what a request names a pod.
pub(super) enum PodKey {
    Uid(PodUid),
    Name { namespace: String, name: String },
}

/// One pod and its newest status. Logs and exec sessions need no more, and it is cheap to make.
#[derive(Clone, Debug)]
pub struct KnownPod {
    /// Namespace, name and UID.
    pub reference: PodRef,
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its newest status.
    pub status: Arc<PodStatus>,
}

/// The desired pods that run or may run.
#[derive(Clone, Debug)]
pub struct ActivePods {
    /// The pods.
    pub pods: Vec<Arc<Pod>>,
    /// Every source has been read: no pod is missing that ran before this process began.
    pub all_sources_seen: bool,
}

/// A copy of all that the sync loop knows about its pods.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Pods that have a worker, by namespace and name.
    pub pods: Vec<WorkerView>,
    /// Pods that admission rejected.
    pub rejected: Vec<Rejected>,
    /// Invalid pods in the last delivery of each source.
    pub bad: Vec<BadPod>,
    /// The health of the runtime.
    pub runtime: RuntimeHealth,
    /// Sources that have not been read yet.
    pub unread_sources: Vec<Source>,
    /// When the view was made.
    pub now: Now,
    /// How many jobs panicked since the start.
    pub job_panics: u64,
    /// The kind of task that held up all others for the longest time since the start.
    pub longest_hold_up: Option<TaskPolls>,
}

/// The cloneable handle. Each method sends one request and waits for the answer.
#[derive(Clone, Debug)]
pub struct SyncLoopHandle {
    ask: mpsc::Sender<Request>,
    beat: watch::Receiver<Instant>,
}

impl SyncLoopHandle {
    pub(super) fn new(ask: mpsc::Sender<Request>, beat: watch::Receiver<Instant>) -> Self {
        Self { ask, beat }
    }

    /// All pods with their timelines; `None` if the loop has ended.
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

    /// The pod of this name, as [`Self::pod`]. Of two pods of one name, the one that arrived last.
    #[doc(alias = "GetPodByName")]
    pub async fn pod_named(&self, namespace: &str, name: &str) -> Option<Option<KnownPod>> {
        self.ask_for_pod(PodKey::Name { namespace: namespace.to_owned(), name: name.to_owned() }).await
    }

    async fn ask_for_pod(&self, key: PodKey) -> Option<Option<KnownPod>> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::Pod(key, reply)).await.ok()?;
        answer.await.ok()
    }

    /// Every pod that has a worker, but for orphans; `None` if the loop has ended. Cheaper than a view.
    pub async fn pods(&self) -> Option<Vec<KnownPod>> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::Pods(reply)).await.ok()?;
        answer.await.ok()
    }

    /// How many pods there are of each kind; `None` if the loop has ended. Much cheaper than a view.
    pub async fn census(&self) -> Option<Census> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::Census(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Ends a pod and waits until none of its containers runs. Eviction and node shutdown use it, and touch no container
    /// themselves. `grace` overrides the grace period of the pod; `None` keeps it. Returns at once if there is no such
    /// pod, and `None` if the loop has ended.
    #[doc(alias = "killPodNow")]
    pub async fn terminate(&self, uid: PodUid, ending: Ending, grace: Option<Duration>) -> Option<()> {
        self.terminate_until(uid, ending, grace, EndStep::Stopped).await
    }

    /// Ends a pod as [`Self::terminate`] does, and waits until its volumes are unmounted as well.
    #[doc(alias = "WaitForAllPodsUnmount")]
    pub async fn terminate_and_unmount(&self, uid: PodUid, ending: Ending, grace: Option<Duration>) -> Option<()> {
        self.terminate_until(uid, ending, grace, EndStep::Unmounted).await
    }

    /// Ends a pod as [`Self::terminate`] does, and waits until nothing of it is on the disk: its dead containers with their
    /// writable layers and its logs are removed too, unless the pod keeps them.
    pub async fn terminate_and_remove(&self, uid: PodUid, ending: Ending, grace: Option<Duration>) -> Option<()> {
        self.terminate_until(uid, ending, grace, EndStep::Removed).await
    }

    async fn terminate_until(
        &self,
        uid: PodUid,
        ending: Ending,
        grace: Option<Duration>,
        until: EndStep,
    ) -> Option<()> {
        let (reply, over) = oneshot::channel();
        self.ask.send(Request::Terminate { uid, ending, grace, until, reply }).await.ok()?;
        over.await.ok()
    }

    /// The desired pods that run or may run; `None` if the loop has ended.
    #[doc(alias = "GetActivePods")]
    pub async fn active(&self) -> Option<ActivePods> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::Active(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Removes all dead containers and sandboxes of pods that have ended, because disk space is short; `None` if the loop
    /// has ended. What cannot be removed stays.
    #[doc(alias = "DeleteAllUnusedContainers")]
    pub async fn remove_dead_containers(&self) -> Option<()> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::Reclaim(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Runs the static pods again that a shutdown of the machine ended or rejected: nobody else replaces them. `None` if
    /// the loop has ended.
    pub async fn resume_static_pods(&self) -> Option<()> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::Resume(reply)).await.ok()?;
        answer.await.ok()
    }

    /// When the loop last handled an event. `/healthz` fails if that is too long ago (LOOP-03).
    #[doc(alias = "syncLoopMonitor")]
    pub fn last_beat(&self) -> Instant {
        *self.beat.borrow()
    }

    /// The times at which the loop handles an event, as a watch.
    pub fn beats(&self) -> watch::Receiver<Instant> {
        self.beat.clone()
    }
}
