//! The state of the agent, for `rubelet status`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use rubelet_core::certs::InUse;
use rubelet_core::qos::CgroupDriver;
use rubelet_core::time::Now;
use rubelet_engine::node_lease::Heartbeat;
use rubelet_engine::ports::RuntimeVersion;
use rubelet_engine::sync_loop::NodeView;
use serde::{Deserialize, Serialize};

use super::{PodLine, PodState, node_document};

const DAY: i64 = 24 * 60 * 60;

/// What the agent is, besides its pods and its runtime's health.
#[derive(Clone, Debug)]
pub struct AgentView {
    /// Name of the node.
    pub node_name: String,
    /// The version that the agent reports.
    pub version: String,
    /// When the agent was started.
    pub started: Now,
    /// When this view was made.
    pub now: Now,
    /// The API server's URL; `None` on a standalone node.
    pub api_server: Option<String>,
    /// Whether the API server answers.
    pub heartbeat: Heartbeat,
    /// Status writes that are yet to be made or answered; `None` on a standalone node.
    pub unwritten: Option<usize>,
    /// The machine is about to go down.
    pub shutting_down: bool,
    /// The conditions of the node's object.
    pub conditions: Vec<NodeCondition>,
    /// The runtime as it answered at the start.
    pub runtime: RuntimeVersion,
    /// Its socket.
    pub runtime_endpoint: String,
    /// The cgroup driver in use.
    pub driver: CgroupDriver,
    /// The certificates in use.
    pub certificates: Vec<InUse>,
}

/// The state of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusDocument {
    /// Name of the node.
    pub node: String,
    /// The version that the agent reports.
    pub kubelet_version: String,
    /// When the agent was started.
    pub started_at: Timestamp,
    /// How long it has been running.
    pub uptime_seconds: u64,
    /// The machine is about to go down, and pods are ended before that.
    pub shutting_down: bool,
    /// The API server; `None` on a standalone node.
    pub api_server: Option<ApiServerDocument>,
    /// The container runtime.
    pub runtime: StatusRuntimeDocument,
    /// The certificates in use.
    pub certificates: Vec<CertificateDocument>,
    /// The conditions of the node's object.
    pub conditions: Vec<ConditionDocument>,
    /// The pods.
    pub pods: PodCounts,
    /// Sources of pods that have not been read yet: `file`, `http`, `api`.
    pub unread_sources: Vec<String>,
    /// Pod jobs that panicked since the start. Each is a bug.
    pub job_panics: u64,
}

/// The API server, as requests for the node's lease show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiServerDocument {
    /// Its URL.
    pub url: String,
    /// Whether it answers; `None` before the first request has ended.
    pub reachable: Option<bool>,
    /// Since when that is so.
    pub since: Option<Timestamp>,
    /// How long that is so.
    pub since_seconds: Option<u64>,
    /// Why the last request failed.
    pub problem: Option<String>,
    /// When the lease was last renewed by this agent.
    pub lease_renewed_at: Option<Timestamp>,
    /// How long ago that was.
    pub lease_renewed_seconds_ago: Option<u64>,
    /// Pod status writes that are yet to be made or answered.
    pub unsent_status_writes: u64,
}

/// The container runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRuntimeDocument {
    /// Its name, such as `containerd`.
    pub name: String,
    /// Its version at the start of the agent.
    pub version: String,
    /// Its socket.
    pub endpoint: String,
    /// It answers.
    pub up: bool,
    /// Why it does not, or its most recent problem.
    pub problem: Option<String>,
    /// Why pods with a network of their own cannot be started.
    pub network_problem: Option<String>,
    /// The cgroup driver in use: `cgroupfs` or `systemd`.
    pub cgroup_driver: String,
}

/// A certificate in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateDocument {
    /// `client`: shown to the API server; `serving`: of the node's own API.
    pub purpose: String,
    /// Common name and organisations, such as `CN=system:node:node-1,O=system:nodes`.
    pub subject: String,
    /// The first moment at which it is valid.
    pub not_before: Timestamp,
    /// The last moment at which it is valid.
    pub not_after: Timestamp,
    /// Whole days until then; negative if that is past.
    pub days_left: i64,
    /// When rubelet will rotate it; `None` if it does not.
    pub next_rotation: Option<Timestamp>,
}

/// A condition of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionDocument {
    /// Such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// Since when it has this status.
    pub since: Option<Timestamp>,
}

/// Pods by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodCounts {
    /// They run.
    pub running: u64,
    /// They are yet to start.
    pub waiting: u64,
    /// They are being terminated.
    pub terminating: u64,
    /// They have ended.
    pub ended: u64,
    /// Admission rejected them.
    pub rejected: u64,
    /// Manifests that are not valid pods.
    pub invalid: u64,
}

impl PodCounts {
    fn of(pods: &[PodLine]) -> Self {
        let mut counts = Self::default();
        for pod in pods {
            let count = match pod.state {
                PodState::Running => &mut counts.running,
                PodState::Waiting | PodState::Pending => &mut counts.waiting,
                PodState::Terminating => &mut counts.terminating,
                PodState::Succeeded | PodState::Failed | PodState::Terminated => &mut counts.ended,
                PodState::Rejected => &mut counts.rejected,
                PodState::Invalid => &mut counts.invalid,
            };
            *count += 1;
        }
        counts
    }
}

/// The state of the agent.
#[must_use]
pub fn status_document(view: &NodeView, agent: &AgentView) -> StatusDocument {
    let node = node_document(view);
    StatusDocument {
        node: agent.node_name.clone(),
        kubelet_version: agent.version.clone(),
        started_at: agent.started.wall,
        uptime_seconds: agent.now.mono.since(agent.started.mono).as_secs(),
        shutting_down: agent.shutting_down,
        api_server: agent.api_server.as_ref().map(|url| api_server(url, agent)),
        runtime: StatusRuntimeDocument {
            name: agent.runtime.name.clone(),
            version: agent.runtime.version.clone(),
            endpoint: agent.runtime_endpoint.clone(),
            up: node.runtime.up,
            problem: node.runtime.problem,
            network_problem: node.runtime.network_problem,
            cgroup_driver: match agent.driver {
                CgroupDriver::Cgroupfs => "cgroupfs",
                CgroupDriver::Systemd => "systemd",
            }
            .to_owned(),
        },
        certificates: agent.certificates.iter().map(|in_use| certificate(in_use, agent.now.wall)).collect(),
        conditions: agent.conditions.iter().map(condition).collect(),
        pods: PodCounts::of(&node.pods),
        unread_sources: node.unread_sources,
        job_panics: node.job_panics,
    }
}

fn api_server(url: &str, agent: &AgentView) -> ApiServerDocument {
    let AgentView { heartbeat, now, .. } = agent;
    let seconds = |since: Now| now.mono.since(since.mono).as_secs();
    ApiServerDocument {
        url: url.to_owned(),
        reachable: heartbeat.contact.map(|contact| contact.reachable),
        since: heartbeat.contact.map(|contact| contact.since.wall),
        since_seconds: heartbeat.contact.map(|contact| seconds(contact.since)),
        problem: heartbeat.problem.clone(),
        lease_renewed_at: heartbeat.renewed.map(|at| at.wall),
        lease_renewed_seconds_ago: heartbeat.renewed.map(seconds),
        unsent_status_writes: agent.unwritten.and_then(|count| u64::try_from(count).ok()).unwrap_or_default(),
    }
}

fn certificate(in_use: &InUse, now: Timestamp) -> CertificateDocument {
    let InUse { purpose, leaf, renewal } = in_use;
    let organizations = leaf.organizations.iter().map(|name| format!(",O={name}"));
    let left = leaf.validity.not_after.duration_since(now).as_secs();
    CertificateDocument {
        purpose: purpose.to_string(),
        subject: format!("CN={}{}", leaf.common_name, organizations.collect::<String>()),
        not_before: leaf.validity.not_before,
        not_after: leaf.validity.not_after,
        days_left: left.div_euclid(DAY),
        next_rotation: *renewal,
    }
}

fn condition(condition: &NodeCondition) -> ConditionDocument {
    ConditionDocument {
        kind: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        since: condition.last_transition_time.as_ref().map(|time| time.0),
    }
}
