//! Fields and gates that are accepted and have no effect yet. A drop-in replacement accepts every field and gate; those
//! without effect are logged once at start-up.
//!
//! The two tables list what rubelet acts on. A change that implements a field adds it here and removes it from the table
//! of `missing.rs`. `logging.flushFrequency` is honoured because log lines are never buffered.

use serde_json::Value;

use super::gates::Gate;
use super::given::Given;
use super::kubelet::KubeletConfiguration;

/// Fields that rubelet acts on, as top-level names or dotted paths. A name covers all that is inside it.
pub const ACTED_FIELDS: &[&str] = &[
    "address",
    "allowedUnsafeSysctls",
    "apiVersion",
    "authentication",
    "authorization",
    "cgroupDriver",
    "cgroupRoot",
    "cgroupsPerQOS",
    "clusterDNS",
    "clusterDomain",
    "configMapAndSecretChangeDetectionStrategy",
    "containerLogMaxFiles",
    "containerLogMaxSize",
    "containerLogMaxWorkers",
    "containerLogMonitorInterval",
    "containerRuntimeEndpoint",
    "cpuCFSQuota",
    "cpuCFSQuotaPeriod",
    "crashLoopBackOff",
    "enableControllerAttachDetach",
    "enableDebugFlagsHandler",
    "enableDebuggingHandlers",
    "enableProfilingHandler",
    "enableServer",
    "enableSystemLogHandler",
    "enableSystemLogQuery",
    "enforceNodeAllocatable",
    "eventBurst",
    "eventRecordQPS",
    "failCgroupV1",
    "failSwapOn",
    "featureGates",
    "fileCheckFrequency",
    "healthzBindAddress",
    "healthzPort",
    "httpCheckFrequency",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "imageMaximumGCAge",
    "imageMinimumGCAge",
    "imageServiceEndpoint",
    "kind",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "kubeReserved",
    "kubeReservedCgroup",
    "kubeletCgroups",
    "localStorageCapacityIsolation",
    "logging.flushFrequency",
    "logging.format",
    "logging.verbosity",
    "logging.vmodule",
    "maxOpenFiles",
    "maxParallelImagePulls",
    "maxPods",
    "memorySwap",
    "nodeLeaseDurationSeconds",
    "nodeStatusMaxImages",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "oomScoreAdj",
    "podLogsDir",
    "podPidsLimit",
    "podsPerCore",
    "port",
    "protectKernelDefaults",
    "providerID",
    "readOnlyPort",
    "registerNode",
    "registerWithTaints",
    "registryBurst",
    "registryPullQPS",
    "resolvConf",
    "rotateCertificates",
    "runOnce",
    "runtimeRequestTimeout",
    "seccompDefault",
    "serializeImagePulls",
    "serverTLSBootstrap",
    "shutdownGracePeriod",
    "shutdownGracePeriodByPodPriority",
    "shutdownGracePeriodCriticalPods",
    "singleProcessOOMKill",
    "staticPodPath",
    "staticPodURL",
    "staticPodURLHeader",
    "streamingConnectionIdleTimeout",
    "syncFrequency",
    "systemCgroups",
    "systemReserved",
    "systemReservedCgroup",
    "tlsCertFile",
    "tlsCipherSuites",
    "tlsMinVersion",
    "tlsPrivateKeyFile",
    "tracing",
];

/// Gates whose value changes what rubelet does.
pub const ACTED_GATES: &[Gate] = &[
    Gate::AllowDNSOnlyNodeCSR,
    Gate::CRIListStreaming,
    Gate::ComponentFlagz,
    Gate::ComponentStatusz,
    Gate::ContainerCheckpoint,
    Gate::ContainerRestartRules,
    Gate::ContainerStopSignals,
    Gate::EnvFiles,
    Gate::GracefulNodeShutdown,
    Gate::GracefulNodeShutdownBasedOnPodPriority,
    Gate::HostnameOverride,
    Gate::InPlacePodLevelResourcesVerticalScaling,
    Gate::InPlacePodVerticalScalingInitContainers,
    Gate::KubeletCrashLoopBackOffMax,
    Gate::KubeletRegistrationGetOnExistsOnly,
    Gate::LoggingAlphaOptions,
    Gate::NodeDeclaredFeatures,
    Gate::PodLevelResources,
    Gate::PodLogsQuerySplitStreams,
    Gate::PreventStaticPodAPIReferences,
    Gate::ReduceDefaultCrashLoopBackOffDecay,
    Gate::ReloadKubeletServerCertificateFile,
    Gate::RestartAllContainersOnContainerExits,
    Gate::RuntimeClassInImageCriApi,
    Gate::TaintTolerationComparisonOperators,
    Gate::UserNamespacesHostNetworkSupport,
];

/// The fields and gates that were set and have no effect yet: fields by their dotted path, gates as
/// `featureGates.<Gate>`.
///
/// A field that is set to its zero default (false, zero, empty) is left out: kubeadm and other tools write many of those.
#[must_use]
pub fn unacted(config: &KubeletConfiguration, given: &Given) -> Vec<String> {
    let now = serde_json::to_value(config).unwrap_or_default();
    let default = serde_json::to_value(KubeletConfiguration::default()).unwrap_or_default();
    given
        .iter()
        .filter(|path| match path.strip_prefix("featureGates.") {
            Some(name) => !ACTED_GATES.iter().any(|gate| gate.as_str() == name),
            None if is_acted(path) => false,
            None => !is_nothing(lookup(&now, path)) || !is_nothing(lookup(&default, path)),
        })
        .map(str::to_owned)
        .collect()
}

fn is_acted(path: &str) -> bool {
    let covers = |acted: &str| path.strip_prefix(acted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    ACTED_FIELDS.iter().any(|acted| covers(acted))
}

fn is_nothing(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::Bool(true)) => false,
        Some(Value::String(text)) => matches!(text.as_str(), "" | "0" | "0s"),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
    }
}

/// The value at a dotted path; keys may contain dots themselves.
fn lookup<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
    let object = root.as_object()?;
    if let Some(found) = object.get(path) {
        return Some(found);
    }
    path.match_indices('.').find_map(|(at, _)| {
        let (head, tail) = path.split_at(at);
        lookup(object.get(head)?, tail.strip_prefix('.')?)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zero_false_and_empty_are_nothing() {
        for nothing in [json!(null), json!(false), json!(0), json!(""), json!("0"), json!("0s"), json!([]), json!({})] {
            assert!(is_nothing(Some(&nothing)), "{nothing}");
        }
        for something in [json!(true), json!(1), json!(-1), json!("1s"), json!([0]), json!({"a": 0})] {
            assert!(!is_nothing(Some(&something)), "{something}");
        }
        assert!(is_nothing(None));
    }
}
