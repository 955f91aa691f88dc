//! Checks the container runtime: whether it answers, its version, and whether its settings fit.

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::config::{self, KubeletConfiguration};
use rubelet_cri::{Connection, ConnectionOptions, CriRuntime, Endpoint, ListMode, OperationMetrics};
use rubelet_engine::chain::Chain;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{CgroupDriver, ReadyCondition, RpcErrorKind, RuntimeInfo};
use rubelet_engine::task::TaskGroup;
use rubelet_linux::dbus;
use rubelet_linux::preflight::{Finding, Grade};
use tokio_util::sync::CancellationToken;

use crate::run::systemd::{MEND, endpoints, reach};

/// A user waits for the answer; a healthy runtime takes milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The findings about the configured runtime.
pub(super) async fn findings(config: &KubeletConfiguration) -> Vec<Finding> {
    let endpoint = match config.container_runtime_endpoint.parse::<Endpoint>() {
        Ok(endpoint) => endpoint,
        Err(err) => return vec![fail("runtime", err.to_string(), "set containerRuntimeEndpoint")],
    };
    let clock = Clock::real();
    let options = ConnectionOptions {
        request_timeout: config.runtime_request_timeout.to_std().min(ANSWER_WITHIN),
        list_mode: ListMode::default(),
        metrics: Arc::new(OperationMetrics::default()),
        now: Arc::new(move || clock.mono()),
        kept: None,
    };
    let runtime = CriRuntime::new(Connection::lazy(&endpoint, options));
    ask(&runtime, &endpoint.to_string(), config.cgroup_driver, endpoints()).await
}

pub(super) async fn ask(
    runtime: &dyn RuntimeInfo,
    endpoint: &str,
    driver: config::CgroupDriver,
    systemd: Vec<dbus::Endpoint>,
) -> Vec<Finding> {
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
            return vec![fail("runtime", format!("{endpoint}: {err}"), mend)];
        }
    };
    let who = format!("{} {} ({}) on {endpoint}", version.name, version.version, version.api_version);
    let mut found = vec![ok("runtime", who)];
    match runtime.status().await {
        Ok(status) => {
            found.push(condition("runtime-ready", &status.runtime, Grade::Fail, "see the runtime's log"));
            let mend = "put a network configuration into /etc/cni/net.d and the CNI plugins into /opt/cni/bin; pods on \
                        the host's network run without";
            found.push(condition("pod-network", &status.network, Grade::Warn, mend));
        }
        Err(err) => found.push(fail("runtime-ready", err.to_string(), "see the runtime's log")),
    }
    found.push(cgroup_driver(runtime, driver, systemd).await);
    found
}

/// The runtime's cgroup driver takes precedence; the configured one is used only if the runtime does not report one
/// (BOOT-05).
async fn cgroup_driver(
    runtime: &dyn RuntimeInfo,
    configured: config::CgroupDriver,
    endpoints: Vec<dbus::Endpoint>,
) -> Finding {
    let name = "cgroup-driver";
    let configured = match configured {
        config::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
        config::CgroupDriver::Systemd => CgroupDriver::Systemd,
    };
    let (driver, by) = match runtime.cgroup_driver().await {
        Ok(Some(driver)) => (driver, "as reported by the runtime"),
        Ok(None) => (configured, "as configured; the runtime does not report its driver, which must be the same"),
        Err(err) => return fail(name, err.to_string(), "see the runtime's log"),
    };
    match driver {
        CgroupDriver::Cgroupfs => ok(name, format!("cgroupfs, {by}")),
        CgroupDriver::Systemd => systemd(name, by, endpoints).await,
    }
}

/// The systemd driver needs a systemd that answers.
async fn systemd(name: &str, by: &str, endpoints: Vec<dbus::Endpoint>) -> Finding {
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    let reached = match tokio::time::timeout(ANSWER_WITHIN, reach(endpoints, &mut tasks)).await {
        Ok(Ok((_, version))) => Ok(version),
        Ok(Err(err)) => Err(Chain(&err).to_string()),
        Err(_) => Err(format!("no answer within {ANSWER_WITHIN:?}")),
    };
    tasks.stop().await;
    match reached {
        Ok(version) => ok(name, format!("systemd {version}, {by}")),
        Err(why) => fail(name, format!("systemd, {by}; systemd does not answer: {why}"), MEND),
    }
}

fn condition(name: &str, condition: &ReadyCondition, otherwise: Grade, mend: &str) -> Finding {
    if condition.ready {
        return ok(name, "ready");
    }
    let parts = [condition.reason.as_str(), condition.message.as_str()];
    let why = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
    let what = if why.is_empty() { "not ready".to_owned() } else { format!("not ready: {why}") };
    Finding { name: name.to_owned(), grade: otherwise, what, mend: mend.to_owned() }
}

fn ok(name: &str, what: impl Into<String>) -> Finding {
    Finding { name: name.to_owned(), grade: Grade::Ok, what: what.into(), mend: String::new() }
}

fn fail(name: &str, what: impl Into<String>, mend: &str) -> Finding {
    Finding { name: name.to_owned(), grade: Grade::Fail, what: what.into(), mend: mend.to_owned() }
}
