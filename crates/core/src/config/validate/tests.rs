//! CFG-07 and the rest of upstream's validation, one row each: the settings, and all findings.

use super::super::*;

fn check(rows: &[(&str, &str)]) {
    for (patch, expected) in rows {
        let mut file = serde_json::to_value(KubeletConfiguration::default()).expect("serialises");
        let patch: serde_json::Value = serde_json::from_str(patch).expect(patch);
        for (key, value) in patch.as_object().expect("an object") {
            file[key] = value.clone();
        }
        let config: KubeletConfiguration = serde_json::from_value(file).expect("a readable configuration");
        let found = validate(&config, CgroupVersion::V2);
        let shown = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
        assert_eq!(shown, *expected, "{patch}");
    }
}

#[test]
fn a_duration_of_which_a_negative_one_means_nothing_is_not_negative() {
    check(&[
        (r#"{"syncFrequency":"-1s"}"#, "syncFrequency (--sync-frequency) -1s: must not be negative"),
        (r#"{"nodeStatusReportFrequency":"-1ns"}"#, "nodeStatusReportFrequency -1ns: must not be negative"),
        (
            r#"{"runtimeRequestTimeout":"-2m"}"#,
            "runtimeRequestTimeout (--runtime-request-timeout) -2m0s: must not be negative",
        ),
        // These mean "off".
        (r#"{"volumeStatsAggPeriod":"-1s"}"#, ""),
        (r#"{"streamingConnectionIdleTimeout":"-1s"}"#, ""),
    ]);
}

#[test]
fn a_limit_itself_is_valid() {
    check(&[
        (r#"{"maxParallelImagePulls":1,"serializeImagePulls":true}"#, ""),
        (
            r#"{"maxParallelImagePulls":2,"serializeImagePulls":true}"#,
            "maxParallelImagePulls 2: must be 1 or left out unless serializeImagePulls (--serialize-image-pulls) is false",
        ),
        (r#"{"maxParallelImagePulls":2,"serializeImagePulls":false}"#, ""),
        (r#"{"containerLogMonitorInterval":"3s"}"#, ""),
        (r#"{"containerLogMonitorInterval":"2.9s"}"#, "containerLogMonitorInterval 2.9s: must be 3s or more"),
        (r#"{"userNamespaces":{"idsPerPod":65536}}"#, ""),
        (r#"{"userNamespaces":{"idsPerPod":4294901760}}"#, ""),
        (
            r#"{"userNamespaces":{"idsPerPod":4294967296}}"#,
            "userNamespaces.idsPerPod 4294967296: must be a multiple of 65536 between 65536 and 4294967295",
        ),
        (
            r#"{"userNamespaces":{"idsPerPod":0}}"#,
            "userNamespaces.idsPerPod 0: must be a multiple of 65536 between 65536 and 4294967295",
        ),
        (
            r#"{"userNamespaces":{"idsPerPod":65537}}"#,
            "userNamespaces.idsPerPod 65537: must be a multiple of 65536 between 65536 and 4294967295",
        ),
        (r#"{"qosReserved":{"memory":"100%"}}"#, ""),
        (
            r#"{"qosReserved":{"memory":"101%"}}"#,
            "qosReserved (--qos-reserved) memory 101%: must be between 0% and 100%",
        ),
        (r#"{"evictionMinimumReclaim":{"memory.available":"0.5%"}}"#, ""),
        (
            r#"{"evictionMinimumReclaim":{"memory.available":"0%"}}"#,
            r#"evictionMinimumReclaim (--eviction-minimum-reclaim) memory.available "0%": must be a quantity that is not negative, like 500Mi, or a share above 0%"#,
        ),
        (r#"{"imageMaximumGCAge":"3m"}"#, ""),
        (r#"{"shutdownGracePeriod":"1s","shutdownGracePeriodCriticalPods":"1s"}"#, ""),
        (r#"{"enableSystemLogQuery":true,"enableSystemLogHandler":true}"#, ""),
        (
            r#"{"enableSystemLogQuery":true,"enableSystemLogHandler":false}"#,
            "enableSystemLogQuery true: needs enableSystemLogHandler to be true",
        ),
        (r#"{"serverTLSBootstrap":true,"featureGates":{"RotateKubeletServerCertificate":true}}"#, ""),
        (r#"{"featureGates":{"MemoryQoS":true},"memoryThrottlingFactor":0.9}"#, ""),
        (
            r#"{"featureGates":{"MemoryQoS":true},"memoryThrottlingFactor":null}"#,
            "memoryThrottlingFactor: must be set while the feature gate MemoryQoS is on",
        ),
        (r#"{"featureGates":{"MemoryQoS":false},"memoryThrottlingFactor":null}"#, ""),
        (r#"{"memorySwap":{"swapBehavior":"LimitedSwap"}}"#, ""),
        (
            r#"{"featureGates":{"GracefulNodeShutdown":false,"GracefulNodeShutdownBasedOnPodPriority":false,"WindowsGracefulNodeShutdown":false}}"#,
            "",
        ),
        (
            r#"{"shutdownGracePeriodCriticalPods":"10s","featureGates":{"GracefulNodeShutdown":false,"GracefulNodeShutdownBasedOnPodPriority":false,"WindowsGracefulNodeShutdown":false}}"#,
            "shutdownGracePeriod 0s: needs the feature gate GracefulNodeShutdown",
        ),
        (r#"{"logging":{"format":"json"}}"#, ""),
        (r#"{"logging":{"format":"text","vmodule":[{"filePattern":"a","verbosity":1}]}}"#, ""),
        (
            r#"{"logging":{"format":"json","vmodule":[{"filePattern":"a","verbosity":1}]}}"#,
            "logging.vmodule (--vmodule): works only with the log format text",
        ),
        (
            r#"{"logging":{"options":{"text":{"infoBufferSize":"1"}}}}"#,
            "logging.options.text.infoBufferSize: needs the feature gate LoggingAlphaOptions",
        ),
        (r#"{"logging":{"options":{"text":{"infoBufferSize":"1"}}},"featureGates":{"LoggingAlphaOptions":true}}"#, ""),
        (r#"{"enforceNodeAllocatable":["pods"]}"#, ""),
    ]);
}

#[test]
fn the_defaults_are_valid() {
    assert_eq!(validate(&KubeletConfiguration::default(), CgroupVersion::V2), []);
    assert_eq!(validate(&KubeletConfiguration::legacy_defaults(), CgroupVersion::V2), []);
}

#[test]
fn numbers_and_durations_stay_in_their_range() {
    check(&[
        (r#"{"nodeLeaseDurationSeconds":0}"#, "nodeLeaseDurationSeconds 0: must be 1 or more"),
        (r#"{"eventBurst":-1}"#, "eventBurst (--event-burst) -1: must be 0 or more"),
        (r#"{"eventRecordQPS":-1}"#, "eventRecordQPS (--event-qps) -1: must be 0 or more"),
        (r#"{"kubeAPIBurst":-1}"#, "kubeAPIBurst (--kube-api-burst) -1: must be 0 or more"),
        (r#"{"kubeAPIQPS":-1}"#, "kubeAPIQPS (--kube-api-qps) -1: must be 0 or more"),
        (r#"{"registryBurst":-1}"#, "registryBurst (--registry-burst) -1: must be 0 or more"),
        (r#"{"registryPullQPS":-10}"#, "registryPullQPS (--registry-qps) -10: must be 0 or more"),
        (r#"{"maxOpenFiles":-1}"#, "maxOpenFiles (--max-open-files) -1: must be 0 or more"),
        (r#"{"maxPods":-1}"#, "maxPods (--max-pods) -1: must be 0 or more"),
        (r#"{"podsPerCore":-1}"#, "podsPerCore (--pods-per-core) -1: must be 0 or more"),
        (r#"{"nodeStatusMaxImages":-2}"#, "nodeStatusMaxImages (--node-status-max-images) -2: must be -1 or more"),
        (r#"{"healthzPort":65536}"#, "healthzPort (--healthz-port) 65536: must be between 0 and 65535"),
        (r#"{"healthzPort":0}"#, ""),
        (r#"{"port":0}"#, "port (--port) 0: must be between 1 and 65535"),
        (r#"{"readOnlyPort":70000}"#, "readOnlyPort (--read-only-port) 70000: must be between 0 and 65535"),
        (r#"{"oomScoreAdj":1001}"#, "oomScoreAdj (--oom-score-adj) 1001: must be between -1000 and 1000"),
        (r#"{"iptablesDropBit":32}"#, "iptablesDropBit 32: must be between 0 and 31"),
        (r#"{"iptablesMasqueradeBit":-1}"#, "iptablesMasqueradeBit -1: must be between 0 and 31"),
        (r#"{"cpuCFSQuotaPeriod":"2s"}"#, "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) 2s: must be between 1ms and 1s"),
        (r#"{"cpuCFSQuotaPeriod":"0s"}"#, "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) 0s: must be between 1ms and 1s"),
        (
            r#"{"cpuCFSQuotaPeriod":"10ms","featureGates":{"CustomCPUCFSQuotaPeriod":false}}"#,
            "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) 10ms: must be 100ms, or needs the feature gate CustomCPUCFSQuotaPeriod",
        ),
        (r#"{"memoryThrottlingFactor":1.1}"#, "memoryThrottlingFactor 1.1: must be greater than 0 and at most 1"),
        (r#"{"memoryThrottlingFactor":0.0}"#, "memoryThrottlingFactor 0: must be greater than 0 and at most 1"),
    ]);
}

#[test]
fn images_logs_and_back_off() {
    check(&[
        (
            r#"{"imageGCHighThresholdPercent":101}"#,
            "imageGCHighThresholdPercent (--image-gc-high-threshold) 101: must be between 0 and 100",
        ),
        (
            r#"{"imageGCLowThresholdPercent":85}"#,
            "imageGCLowThresholdPercent (--image-gc-low-threshold) 85: must be less than imageGCHighThresholdPercent \
             (--image-gc-high-threshold) 85",
        ),
        (
            r#"{"imageMinimumGCAge":"-1s"}"#,
            "imageMinimumGCAge (--minimum-image-ttl-duration) -1s: must not be negative",
        ),
        (r#"{"imageMaximumGCAge":"-1s"}"#, "imageMaximumGCAge -1s: must not be negative"),
        (r#"{"imageMaximumGCAge":"2m"}"#, "imageMaximumGCAge 2m0s: must be 0s or greater than imageMinimumGCAge 2m0s"),
        (r#"{"maxParallelImagePulls":0}"#, "maxParallelImagePulls 0: must be 1 or more"),
        (
            r#"{"maxParallelImagePulls":4}"#,
            "maxParallelImagePulls 4: must be 1 or left out unless serializeImagePulls (--serialize-image-pulls) is false",
        ),
        (r#"{"maxParallelImagePulls":4,"serializeImagePulls":false}"#, ""),
        (r#"{"containerLogMaxWorkers":0}"#, "containerLogMaxWorkers 0: must be 1 or more"),
        (r#"{"containerLogMaxFiles":1}"#, "containerLogMaxFiles (--container-log-max-files) 1: must be 2 or more"),
        (r#"{"containerLogMonitorInterval":"2s"}"#, "containerLogMonitorInterval 2s: must be 3s or more"),
        (
            r#"{"containerLogMaxSize":"10 MB"}"#,
            "containerLogMaxSize (--container-log-max-size) \"10 MB\": must be a size, like 10Mi",
        ),
        (r#"{"podLogsDir":"logs"}"#, "podLogsDir \"logs\": must be an absolute path"),
        (r#"{"podLogsDir":"/a/../b"}"#, "podLogsDir \"/a/../b\": must have no '.', '..', '//' or trailing '/' in it"),
        (r#"{"podLogsDir":"/a/"}"#, "podLogsDir \"/a/\": must have no '.', '..', '//' or trailing '/' in it"),
        (r#"{"podLogsDir":"/ü"}"#, "podLogsDir \"/ü\": must be ASCII, because it is a label of metrics"),
        (
            r#"{"crashLoopBackOff":{"maxContainerRestartPeriod":"301s"}}"#,
            "crashLoopBackOff.maxContainerRestartPeriod 5m1s: must be between 1s and 300s",
        ),
        (
            r#"{"crashLoopBackOff":{"maxContainerRestartPeriod":"500ms"}}"#,
            "crashLoopBackOff.maxContainerRestartPeriod 500ms: must be between 1s and 300s",
        ),
        (
            r#"{"featureGates":{"KubeletCrashLoopBackOffMax":false}}"#,
            "crashLoopBackOff.maxContainerRestartPeriod 5m0s: needs the feature gate KubeletCrashLoopBackOffMax",
        ),
        (
            r#"{"logging":{"format":"json","vmodule":[{"filePattern":"a,b","verbosity":1}]}}"#,
            "logging.vmodule (--vmodule): works only with the log format text | logging.vmodule.filePattern \"a,b\": must be a \
             file name pattern without '=' and ','",
        ),
        (
            r#"{"logging":{"flushFrequency":"-1s"}}"#,
            "logging.flushFrequency (--log-flush-frequency) -1s: must be greater than zero",
        ),
        (
            r#"{"logging":{"options":{"text":{"splitStream":true}}}}"#,
            "logging.options.text.splitStream: needs the feature gate LoggingAlphaOptions",
        ),
        (r#"{"logging":{"options":{"text":{"splitStream":true}}},"featureGates":{"LoggingAlphaOptions":true}}"#, ""),
    ]);
}

#[test]
fn node_allocatable() {
    check(&[
        (r#"{"enforceNodeAllocatable":["none"]}"#, ""),
        (r#"{"enforceNodeAllocatable":[]}"#, ""),
        (
            r#"{"enforceNodeAllocatable":["none","pods"]}"#,
            "enforceNodeAllocatable (--enforce-node-allocatable) none: must stand alone",
        ),
        (
            r#"{"enforceNodeAllocatable":["pods","pods"]}"#,
            "enforceNodeAllocatable (--enforce-node-allocatable) pods: is listed twice",
        ),
        (
            r#"{"enforceNodeAllocatable":["pod"]}"#,
            "enforceNodeAllocatable (--enforce-node-allocatable) pod: must be one of pods, system-reserved, \
             system-reserved-compressible, kube-reserved, kube-reserved-compressible, none",
        ),
        (
            r#"{"enforceNodeAllocatable":["system-reserved"]}"#,
            "enforceNodeAllocatable (--enforce-node-allocatable) system-reserved: needs systemReservedCgroup (--system-reserved-cgroup)",
        ),
        (r#"{"enforceNodeAllocatable":["kube-reserved"],"kubeReservedCgroup":"/k"}"#, ""),
        (
            r#"{"enforceNodeAllocatable":["kube-reserved","kube-reserved-compressible"],"kubeReservedCgroup":"/k"}"#,
            "enforceNodeAllocatable (--enforce-node-allocatable): kube-reserved and kube-reserved-compressible exclude each other",
        ),
        (
            r#"{"cgroupsPerQOS":false}"#,
            "enforceNodeAllocatable (--enforce-node-allocatable) pods: needs cgroupsPerQOS (--cgroups-per-qos) to be true",
        ),
        (r#"{"reservedSystemCPUs":"0-3,8"}"#, ""),
        (
            r#"{"reservedSystemCPUs":"3-0"}"#,
            "reservedSystemCPUs (--reserved-cpus) \"3-0\": must be a list of cpus and ranges, like 0-3,8",
        ),
        (
            r#"{"reservedSystemCPUs":"0","kubeReservedCgroup":"/k"}"#,
            "reservedSystemCPUs (--reserved-cpus) 0: cannot be used with systemReservedCgroup (--system-reserved-cgroup) or \
             kubeReservedCgroup (--kube-reserved-cgroup)",
        ),
        (r#"{"systemCgroups":"/s"}"#, "systemCgroups (--system-cgroups) /s: needs cgroupRoot (--cgroup-root)"),
        (r#"{"systemReserved":{"cpu":"500m","memory":"1Gi","pid":"100","ephemeral-storage":"1e9"}}"#, ""),
        (
            r#"{"systemReserved":{"cpu":"-1","gpu":"1","memory":"lots"}}"#,
            "systemReserved (--system-reserved) cpu -1: must not be negative | systemReserved (--system-reserved) gpu 1: only \
             cpu, memory, ephemeral-storage, pid can be reserved | systemReserved (--system-reserved) memory \"lots\": must be a \
             quantity, like 500m or 1Gi",
        ),
        (
            r#"{"qosReserved":{"memory":"101%"}}"#,
            "qosReserved (--qos-reserved) memory 101%: must be between 0% and 100%",
        ),
        (
            r#"{"qosReserved":{"cpu":"50%"}}"#,
            "qosReserved (--qos-reserved) cpu 50%: only memory can be reserved by QoS class",
        ),
        (
            r#"{"reservedMemory":[{"numaNode":0,"limits":{"memory":"0"}},{"numaNode":0,"limits":{"memory":"1Gi","cpu":"1"}}]}"#,
            "reservedMemory (--reserved-memory) 0:memory=0: must not be zero | reservedMemory (--reserved-memory) 0:cpu=1: only \
             memory and hugepages-<size> can be reserved | reservedMemory (--reserved-memory) 0:memory=1Gi: is set twice for \
             this NUMA node",
        ),
    ]);
}

#[test]
fn eviction() {
    check(&[
        (r#"{"evictionHard":{"memory.available":"100Mi","nodefs.available":"10%","pid.available":"0%"}}"#, ""),
        (
            r#"{"evictionHard":{"memory.avail":"1Gi"}}"#,
            "evictionHard (--eviction-hard) memory.avail: is no eviction signal; there are memory.available, nodefs.available, \
             nodefs.inodesFree, imagefs.available, imagefs.inodesFree, containerfs.available, containerfs.inodesFree, \
             allocatableMemory.available, pid.available; did you mean memory.available?",
        ),
        (
            r#"{"evictionHard":{"memory.available":"0"}}"#,
            "evictionHard (--eviction-hard) memory.available \"0\": must be a quantity above zero, like 100Mi, or a share, like 10%",
        ),
        (
            r#"{"evictionHard":{"memory.available":"120%"}}"#,
            "evictionHard (--eviction-hard) memory.available \"120%\": must be between 0% and 100%",
        ),
        (
            r#"{"evictionSoft":{"memory.available":"1Gi"}}"#,
            "evictionSoft (--eviction-soft) memory.available: needs its grace period in evictionSoftGracePeriod \
             (--eviction-soft-grace-period)",
        ),
        (r#"{"evictionSoft":{"memory.available":"1Gi"},"evictionSoftGracePeriod":{"memory.available":"1m30s"}}"#, ""),
        (
            r#"{"evictionSoftGracePeriod":{"memory.available":"-1s"}}"#,
            "evictionSoftGracePeriod (--eviction-soft-grace-period) memory.available \"-1s\": must be a duration that is not \
             negative, like 1m30s",
        ),
        (
            r#"{"evictionMinimumReclaim":{"imagefs.available":"-2Gi"}}"#,
            "evictionMinimumReclaim (--eviction-minimum-reclaim) imagefs.available \"-2Gi\": must be a quantity that is not \
             negative, like 500Mi, or a share above 0%",
        ),
    ]);
}

#[test]
fn shutdown() {
    check(&[
        (r#"{"shutdownGracePeriod":"30s","shutdownGracePeriodCriticalPods":"10s"}"#, ""),
        (
            r#"{"shutdownGracePeriod":"1s","shutdownGracePeriodCriticalPods":"2s"}"#,
            "shutdownGracePeriodCriticalPods 2s: must not be longer than shutdownGracePeriod 1s",
        ),
        (r#"{"shutdownGracePeriod":"500ms"}"#, "shutdownGracePeriod 500ms: must be 0s, or 1s or more"),
        (
            r#"{"shutdownGracePeriod":"30s","shutdownGracePeriodByPodPriority":[{"priority":1,"shutdownGracePeriodSeconds":5}]}"#,
            "shutdownGracePeriodByPodPriority: cannot be used together with shutdownGracePeriod and shutdownGracePeriodCriticalPods",
        ),
        (
            r#"{"shutdownGracePeriodByPodPriority":[{"priority":1,"shutdownGracePeriodSeconds":5}],
                "featureGates":{"GracefulNodeShutdownBasedOnPodPriority":false}}"#,
            "shutdownGracePeriodByPodPriority: needs the feature gate GracefulNodeShutdownBasedOnPodPriority",
        ),
    ]);
}

#[test]
fn the_rest() {
    check(&[
        (r#"{"runOnce":true}"#, "runOnce (--runonce) true: must be false: running once was removed"),
        (
            r#"{"serverTLSBootstrap":true,"featureGates":{"RotateKubeletServerCertificate":false}}"#,
            "serverTLSBootstrap (--rotate-server-certificates) true: needs the feature gate RotateKubeletServerCertificate",
        ),
        (
            r#"{"containerRuntimeEndpoint":""}"#,
            "containerRuntimeEndpoint (--container-runtime-endpoint): must name the runtime's socket, like \
             unix:///run/containerd/containerd.sock",
        ),
        (
            r#"{"enableSystemLogQuery":true,"enableSystemLogHandler":false}"#,
            "enableSystemLogQuery true: needs enableSystemLogHandler to be true",
        ),
        (r#"{"showHiddenMetricsForVersion":"1.35"}"#, ""),
        (
            r#"{"showHiddenMetricsForVersion":"1.34"}"#,
            "showHiddenMetricsForVersion \"1.34\": must be left out or 1.35: only the previous minor version's metrics can be shown",
        ),
        (
            r#"{"healthzBindAddress":"localhost"}"#,
            "healthzBindAddress (--healthz-bind-address) \"localhost\": must be an IP address",
        ),
        (
            r#"{"tracing":{"samplingRatePerMillion":1000001}}"#,
            "tracing.samplingRatePerMillion 1000001: must be between 0 and 1000000",
        ),
        (r#"{"tracing":{"endpoint":"localhost:4317"}}"#, ""),
        (
            r#"{"tracing":{"endpoint":"http://localhost:4317"}}"#,
            "tracing.endpoint http://: must be host:port, or start with dns://, unix:// or unix-abstract://",
        ),
        (
            r#"{"tlsMinVersion":"TLS12"}"#,
            "tlsMinVersion (--tls-min-version) \"TLS12\": must be one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13",
        ),
        (
            r#"{"tlsCipherSuites":["TLS_AES_128_GCM_SHA25"]}"#,
            "tlsCipherSuites (--tls-cipher-suites) TLS_AES_128_GCM_SHA25: is not a known cipher suite; did you mean TLS_AES_128_GCM_SHA256?",
        ),
        (
            r#"{"tlsCurvePreferences":[29,29,7]}"#,
            "tlsCurvePreferences 29: is listed twice | tlsCurvePreferences 7: must be one of 23, 24, 25, 29, 4587, 4588, 4589",
        ),
        (r#"{"userNamespaces":{"idsPerPod":131072}}"#, ""),
        (
            r#"{"userNamespaces":{"idsPerPod":70000}}"#,
            "userNamespaces.idsPerPod 70000: must be a multiple of 65536 between 65536 and 4294967295",
        ),
        (
            r#"{"registerWithTaints":[{"key":"a b","value":"","effect":"Never","timeAdded":"2026-01-01T00:00:00Z"}]}"#,
            "registerWithTaints (--register-with-taints) a b=:Never: has a wrong key; a key is a name of at most 63 letters, \
             digits, '-', '_' and '.', that starts and ends with a letter or digit, after an optional DNS domain and '/' | \
             registerWithTaints (--register-with-taints) a b=:Never: the effect must be NoSchedule, PreferNoSchedule or NoExecute | \
             registerWithTaints (--register-with-taints) a b=:Never: timeAdded must be left out",
        ),
        (
            r#"{"preloadedImagesVerificationAllowlist":["a/b"]}"#,
            "preloadedImagesVerificationAllowlist: needs imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages",
        ),
        (
            r#"{"imagePullCredentialsVerificationPolicy":"NeverVerifyAllowlistedImages",
                "preloadedImagesVerificationAllowlist":["registry.example/*","host:5000/team/app","app","a/b:v1","a/*/b"]}"#,
            "preloadedImagesVerificationAllowlist \"a/b:v1\": must be an image without tag and digest, or a prefix ending in /* | \
             preloadedImagesVerificationAllowlist \"a/*/b\": must be an image without tag and digest, or a prefix ending in /*",
        ),
        (
            r#"{"memoryReservationPolicy":"TieredReservation"}"#,
            "memoryReservationPolicy TieredReservation: needs the feature gate MemoryQoS",
        ),
        (r#"{"featureGates":{"Nope":true}}"#, "featureGates (--feature-gates): unrecognized feature gate: Nope"),
        (
            r#"{"maxPods":-1,"port":0}"#,
            "maxPods (--max-pods) -1: must be 0 or more | port (--port) 0: must be between 1 and 65535",
        ),
    ]);
}

#[test]
fn boot_08_cgroup_v1_is_refused_unless_allowed() {
    let mut config = KubeletConfiguration::default();
    let found = validate(&config, CgroupVersion::V1);
    assert!(found.iter().any(|error| error.field.starts_with("failCgroupV1")), "{found:?}");
    config.fail_cgroup_v1 = false;
    assert_eq!(validate(&config, CgroupVersion::V1), []);
    config.single_process_oom_kill = Some(false);
    assert_eq!(validate(&config, CgroupVersion::V1).len(), 1);
}

#[test]
fn packed_flags_are_read_as_upstream_reads_them() {
    let taints = parse_taints("a=b:NoSchedule,c:NoExecute,old-").expect("taints");
    assert_eq!(
        taints.iter().map(|t| format!("{}={}:{}", t.key, t.value, t.effect)).collect::<Vec<_>>(),
        ["a=b:NoSchedule", "c=:NoExecute"]
    );
    assert_eq!(parse_taints(""), Ok(Vec::new()));
    for wrong in ["a", "a=b", "a=b:Never", "a:NoSchedule,a:NoSchedule", "=b:NoSchedule", "a=b:NoSchedule,"] {
        assert!(parse_taints(wrong).is_err(), "{wrong}");
    }
    let memory = parse_reserved_memory("0:memory=1Gi,hugepages-2Mi=4Mi;1:memory=2Gi").expect("memory");
    assert_eq!(memory.iter().map(|m| (m.numa_node, m.limits.len())).collect::<Vec<_>>(), [(0, 2), (1, 1)]);
    for wrong in ["0", "0:memory", "x:memory=1Gi", "0:cpu=1", "0:memory=much"] {
        assert!(parse_reserved_memory(wrong).is_err(), "{wrong}");
    }
}
