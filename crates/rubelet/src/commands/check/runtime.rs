//! Checks the container runtime: whether it answers, its version, and whether it is ready.

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::config::KubeletConfiguration;
use rubelet_cri::{Connection, ConnectionOptions, CriRuntime, Endpoint, ListMode, OperationMetrics};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ReadyCondition, RpcErrorKind, RuntimeInfo};
use rubelet_linux::preflight::{Finding, Grade};

use super::driver::Answer;

/// A user waits for the answer; a healthy runtime takes milliseconds.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What to do if pods get no network.
pub(super) const NO_NETWORK: &str = "put a network configuration into /etc/cni/net.d and the CNI plugins into /opt/cni/bin, \
                                     as a network add-on does; pods on the host's network run without";

/// What the runtime answered, as far as other checks depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuntimeSeen {
    pub(super) driver: Answer,
    /// Whether it reports that its network is ready; `None` if it did not answer.
    pub(super) network: Option<bool>,
}

/// The findings about the configured runtime.
pub(super) async fn findings(config: &KubeletConfiguration) -> (RuntimeSeen, Vec<Finding>) {
    let endpoint = match config.container_runtime_endpoint.parse::<Endpoint>() {
        Ok(endpoint) => endpoint,
        Err(err) => {
            let mend = "set containerRuntimeEndpoint to a socket, such as unix:///run/containerd/containerd.sock";
            let seen = RuntimeSeen { driver: Answer::Down, network: None };
            return (seen, vec![Finding::fail("runtime", err.to_string(), mend)]);
        }
    };
    let clock = Clock::real();
    let options = ConnectionOptions {
        request_timeout: config.runtime_request_timeout.to_std().min(ANSWER_WITHIN),
        list_mode: ListMode::default(),
        metrics: Arc::new(OperationMetrics::default()),
        now: Arc::new(move || clock.mono()),
        tracer: rubelet_engine::trace::Tracer::off(),
        kept: None,
    };
    let runtime = CriRuntime::new(Connection::lazy(&endpoint, options));
    ask(&runtime, &endpoint.to_string()).await
}

pub(super) async fn ask(runtime: &dyn RuntimeInfo, endpoint: &str) -> (RuntimeSeen, Vec<Finding>) {
    let mut seen = RuntimeSeen { driver: Answer::Down, network: None };
    let version = match runtime.version().await {
        Ok(version) => version,
        Err(err) => {
            let mend = match err.kind {
                RpcErrorKind::Unavailable | RpcErrorKind::Timeout => {
                    "start the runtime (such as `systemctl start containerd`), or name its socket with \
                     --container-runtime-endpoint"
                }
                RpcErrorKind::Unimplemented | RpcErrorKind::Garbage => {
                    "a runtime that speaks CRI v1 is needed: containerd 1.6 or later with its CRI plugin on, or CRI-O"
                }
                RpcErrorKind::NotFound | RpcErrorKind::AlreadyExists | RpcErrorKind::Failed => "see the runtime's log",
            };
            return (seen, vec![Finding::fail("runtime", format!("{endpoint}: {err}"), mend)]);
        }
    };
    let who = format!("{} {} ({}) on {endpoint}", version.name, version.version, version.api_version);
    let mut found = vec![Finding::ok("runtime", who)];
    match runtime.status().await {
        Ok(status) => {
            found.push(condition("runtime-ready", &status.runtime, Grade::Fail, "see the runtime's log"));
            found.push(condition("pod-network", &status.network, Grade::Warn, NO_NETWORK));
            seen.network = Some(status.network.ready);
        }
        Err(err) => found.push(Finding::fail("runtime-ready", err.to_string(), "see the runtime's log")),
    }
    seen.driver = match runtime.cgroup_driver().await {
        Ok(Some(driver)) => Answer::Reports(driver),
        Ok(None) => Answer::Silent,
        Err(err) => Answer::Failed(err.to_string()),
    };
    (seen, found)
}

fn condition(name: &str, condition: &ReadyCondition, otherwise: Grade, mend: &str) -> Finding {
    if condition.ready {
        return Finding::ok(name, "ready");
    }
    let parts = [condition.reason.as_str(), condition.message.as_str()];
    let why = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
    let what = if why.is_empty() { "not ready".to_owned() } else { format!("not ready: {why}") };
    Finding { name: name.to_owned(), grade: otherwise, what, mend: mend.to_owned() }
}
