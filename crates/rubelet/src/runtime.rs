//! The container runtime that the configuration names. Only this file knows which adapter serves it: another adapter is
//! another arm of [`open`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rubelet_core::backoff::Doubling;
use rubelet_core::config::{CgroupDriver as Configured, Gate};
use rubelet_core::qos::CgroupDriver;
use rubelet_cri::{
    Connection, ConnectionOptions, CriImages, CriRuntime, CriStats, Endpoint, KeptCalls, ListMode, OperationMetrics,
};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{Images, Runtime, RuntimeInfo, RuntimeStats, RuntimeVersion, UnansweredCalls};
use rubelet_engine::trace::Tracer;
use rubelet_linux::socket_holder::HolderProcess;
use rubelet_server::api::MetricsPage;
use tracing::{info, warn};

pub(crate) use rubelet_cri::HandOver;

use crate::config_load::Loaded;
use crate::metrics::RuntimePage;
use crate::run::into_anyhow;

/// Pauses between attempts to reach the runtime at start.
const RETRIES: Doubling = Doubling::new(Duration::from_millis(100), Duration::from_secs(5));
/// This program, also when its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The ports of a runtime.
pub(crate) struct RuntimePorts {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) images: Arc<dyn Images>,
    /// The calls to it that are not answered yet.
    pub(crate) calls: Arc<dyn UnansweredCalls>,
    /// Its measurements.
    pub(crate) stats: Arc<dyn RuntimeStats>,
    /// Metrics of the calls to it.
    pub(crate) metrics: Arc<dyn MetricsPage>,
}

/// Opens the runtime. It need not be there yet.
pub(crate) fn open(
    loaded: &Loaded,
    clock: &Clock,
    tracer: &Tracer,
    hand_over: &HandOver,
) -> anyhow::Result<RuntimePorts> {
    let config = &loaded.config;
    let metrics = Arc::new(OperationMetrics::default());
    let kept = kept_calls(hand_over);
    let connect = |endpoint: &str| {
        let endpoint: Endpoint = endpoint.parse().with_context(|| format!("containerRuntimeEndpoint {endpoint:?}"))?;
        let streaming = loaded.gates.enabled(Gate::CRIListStreaming);
        let clock = clock.clone();
        let options = ConnectionOptions {
            request_timeout: config.runtime_request_timeout.to_std(),
            list_mode: if streaming { ListMode::Streamed } else { ListMode::Whole },
            metrics: Arc::clone(&metrics),
            now: Arc::new(move || clock.mono()),
            tracer: tracer.clone(),
            kept: kept.clone(),
        };
        anyhow::Ok(Connection::lazy(&endpoint, options))
    };
    let runtime = connect(&config.container_runtime_endpoint)?;
    let images = match config.image_service_endpoint.as_str() {
        "" => runtime.clone(),
        endpoint if endpoint == config.container_runtime_endpoint => runtime.clone(),
        endpoint => connect(endpoint)?,
    };
    let stats = CriStats::new(runtime.clone());
    let runtime = CriRuntime::new(runtime);
    Ok(RuntimePorts {
        stats: Arc::new(stats),
        calls: Arc::new(runtime.calls()),
        runtime: Arc::new(runtime),
        images: Arc::new(CriImages::new(images)),
        metrics: Arc::new(RuntimePage(metrics)),
    })
}

/// Starts the process that keeps calls to the runtime alive when this one dies (ADR 13). A node works without it.
fn kept_calls(hand_over: &HandOver) -> Option<Arc<KeptCalls>> {
    match HolderProcess::start(Path::new(OWN_PROGRAM)) {
        Ok(holder) => Some(Arc::new(KeptCalls::new(Arc::new(holder), hand_over.clone()))),
        Err(err) => {
            warn!(
                %err,
                "Could not start the process that keeps runtime calls alive when rubelet dies: a kill of rubelet cuts off \
                 the calls in flight"
            );
            None
        }
    }
}

/// Waits until the runtime answers. A node whose runtime starts later than its kubelet is common; the reason is logged
/// when it changes.
pub(crate) async fn wait(runtime: &dyn RuntimeInfo, endpoint: &str) -> RuntimeVersion {
    let mut failures: u32 = 0;
    let mut logged = String::new();
    loop {
        let answer = match runtime.version().await {
            Ok(version) => runtime.status().await.map(|_| version),
            Err(err) => Err(err),
        };
        match answer {
            Ok(version) => {
                info!(runtime = %version.name, version = %version.version, "The runtime answers");
                return version;
            }
            Err(err) => {
                let problem = err.to_string();
                if problem != logged {
                    warn!(
                        %endpoint,
                        err = %problem,
                        "The container runtime does not answer: waiting for it. Is it running, and does containerRuntimeEndpoint name its socket?"
                    );
                    logged = problem;
                }
            }
        }
        failures = failures.saturating_add(1);
        tokio::time::sleep(RETRIES.after(failures)).await;
    }
}

/// The runtime's cgroup driver counts, else the configured one (BOOT-05).
pub(crate) async fn cgroup_driver(runtime: &dyn RuntimeInfo, configured: Configured) -> anyhow::Result<CgroupDriver> {
    let configured = match configured {
        Configured::Systemd => CgroupDriver::Systemd,
        Configured::Cgroupfs => CgroupDriver::Cgroupfs,
    };
    let asked = runtime.cgroup_driver().await.map_err(into_anyhow)?;
    let driver = asked.unwrap_or(configured);
    info!(?driver, from_runtime = asked.is_some(), "The cgroup driver is known");
    Ok(driver)
}
