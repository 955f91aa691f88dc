//! What `rubelet status` reads besides the sync loop: values that other tasks publish. Nothing here waits.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rubelet_core::certs::InUse;
use rubelet_core::id::PodUid;
use rubelet_core::qos::{CgroupDriver, CgroupTree};
use rubelet_core::time::Now;
use rubelet_engine::ended::EndedHandle;
use rubelet_engine::eviction::EvictionHandle;
use rubelet_engine::images::PullerHandle;
use rubelet_engine::node_lease::Heartbeat;
use rubelet_engine::node_now::NodeNow;
use rubelet_engine::ports::{RuntimeVersion, UnansweredCalls, UsageReader};
use rubelet_engine::prober::ProberHandle;
use rubelet_engine::status::StatusMail;
use tokio::sync::watch;

use crate::documents::{AgentView, Extras, NodeLimits};
use crate::recent_events::RecentEvents;

/// The certificates in use at this moment.
pub type Certificates = Arc<dyn Fn() -> Vec<InUse> + Send + Sync>;

/// Handles to the state of the agent.
#[derive(Clone)]
pub struct Agent {
    /// Name of the node.
    pub node_name: String,
    /// The version that the agent reports.
    pub version: String,
    /// When the agent was started.
    pub started: Now,
    /// The API server's URL; `None` on a standalone node.
    pub api_server: Option<String>,
    /// Whether the API server answers.
    pub heartbeat: Option<watch::Receiver<Heartbeat>>,
    /// The node's object as last reported.
    pub object: watch::Receiver<Option<Arc<Node>>>,
    /// What the node is now.
    pub now: watch::Receiver<Arc<NodeNow>>,
    /// Where pod statuses go.
    pub statuses: StatusMail,
    /// The runtime as it answered at the start.
    pub runtime: RuntimeVersion,
    /// Its socket.
    pub runtime_endpoint: String,
    /// The cgroup driver in use.
    pub driver: CgroupDriver,
    /// The certificates.
    pub certificates: Certificates,
    /// What explains the node and its pods beyond their state.
    pub insight: Insight,
}

/// Sources of what `rubelet top`, `explain` and `events` show, besides the sync loop.
#[derive(Clone)]
pub struct Insight {
    /// Measures usage; `None` on a node that does not.
    pub usage: Option<Arc<dyn UsageReader>>,
    /// The recent events.
    pub events: Arc<RecentEvents>,
    /// Capacity, reservations and eviction thresholds.
    pub limits: Arc<NodeLimits>,
    /// Names the cgroups of pods.
    pub tree: Option<CgroupTree>,
    /// Knows the calls to the runtime that are not answered yet.
    pub calls: Option<Arc<dyn UnansweredCalls>>,
    /// Knows which images are pulled and which wait.
    pub pulls: Option<PullerHandle>,
    /// Knows what probes answered.
    pub probes: Option<ProberHandle>,
    /// Knows the pods that have ended lately.
    pub ended: Option<EndedHandle>,
    /// Knows how fast what eviction watches is taken.
    pub eviction: Option<EvictionHandle>,
}

impl Insight {
    /// What is known about the pod of this UID besides its state.
    pub(crate) async fn extras(&self, uid: Option<PodUid>) -> Extras {
        let pulls = match &self.pulls {
            Some(pulls) => pulls.queue().await,
            None => Vec::new(),
        };
        let probes = match (&self.probes, uid) {
            (Some(probes), Some(uid)) => probes.history(uid).await,
            (_, _) => Vec::new(),
        };
        let calls = self.calls.as_ref().map(|calls| calls.unanswered()).unwrap_or_default();
        Extras { tree: self.tree.clone(), pulls, calls, probes }
    }
}

impl Agent {
    pub(crate) fn view(&self, now: Now) -> AgentView {
        let object = self.object.borrow().clone();
        let conditions = object.and_then(|node| node.status.as_ref()?.conditions.clone()).unwrap_or_default();
        AgentView {
            node_name: self.node_name.clone(),
            version: self.version.clone(),
            started: self.started,
            now,
            api_server: self.api_server.clone(),
            heartbeat: self.heartbeat.as_ref().map(|heartbeat| heartbeat.borrow().clone()).unwrap_or_default(),
            unwritten: self.statuses.unwritten(),
            shutting_down: self.now.borrow().shutting_down,
            conditions,
            runtime: self.runtime.clone(),
            runtime_endpoint: self.runtime_endpoint.clone(),
            driver: self.driver,
            certificates: (self.certificates)(),
        }
    }
}
