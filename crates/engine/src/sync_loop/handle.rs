//! How others ask the sync loop.

use std::time::Duration;

use rubelet_core::id::PodUid;
use rubelet_core::lifecycle::Cause;
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
    Census(oneshot::Sender<Census>),
    Terminate { uid: PodUid, cause: Cause, grace: Option<Duration> },
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

    /// How many pods there are of each kind; `None` if the loop has ended. Much cheaper than a view.
    pub async fn census(&self) -> Option<Census> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::Census(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Ends a pod: for eviction, preemption and node shutdown, none of which touches a container itself.
    #[doc(alias = "killPodNow")]
    pub async fn terminate(&self, uid: PodUid, cause: Cause, grace: Option<Duration>) {
        let _gone = self.ask.send(Request::Terminate { uid, cause, grace }).await;
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
