//! Numbers and durations that must lie in a range, and those that must agree with each other.

use super::super::duration::GoDuration;
use super::super::gates::{FeatureGates, Gate};
use super::super::kubelet::KubeletConfiguration;
use super::Findings;

pub(super) fn check(config: &KubeletConfiguration, gates: &FeatureGates, found: &mut Findings) {
    numbers(config, found);
    durations(config, found);
    images(config, found);
    logs(config, gates, found);
    cpu_quota(config, gates, found);
    crash_loop(config, gates, found);
}

fn numbers(config: &KubeletConfiguration, found: &mut Findings) {
    let low = [
        ("nodeLeaseDurationSeconds", config.node_lease_duration_seconds, 1),
        ("eventBurst (--event-burst)", config.event_burst, 0),
        ("eventRecordQPS (--event-qps)", config.event_record_qps, 0),
        ("kubeAPIBurst (--kube-api-burst)", config.kube_api_burst, 0),
        ("kubeAPIQPS (--kube-api-qps)", config.kube_api_qps, 0),
        ("nodeStatusMaxImages (--node-status-max-images)", config.node_status_max_images, -1),
        ("maxPods (--max-pods)", config.max_pods, 0),
        ("podsPerCore (--pods-per-core)", config.pods_per_core, 0),
        ("registryBurst (--registry-burst)", config.registry_burst, 0),
        ("registryPullQPS (--registry-qps)", config.registry_pull_qps, 0),
    ];
    for (field, value, least) in low {
        found.at_least(field, value.into(), least);
    }
    found.at_least("maxOpenFiles (--max-open-files)", config.max_open_files, 0);
    let ranges = [
        ("healthzPort (--healthz-port)", config.healthz_port, 0, 65535),
        ("port (--port)", config.port, 1, 65535),
        ("readOnlyPort (--read-only-port)", config.read_only_port, 0, 65535),
        ("iptablesDropBit", config.iptables_drop_bit, 0, 31),
        ("iptablesMasqueradeBit", config.iptables_masquerade_bit, 0, 31),
        ("oomScoreAdj (--oom-score-adj)", config.oom_score_adj, -1000, 1000),
    ];
    for (field, value, least, most) in ranges {
        found.range(field, value.into(), least, most);
    }
}

/// Durations of which a negative one means nothing. Upstream takes them, and its timers then run without a pause, or panic.
fn durations(config: &KubeletConfiguration, found: &mut Findings) {
    let all = [
        ("syncFrequency (--sync-frequency)", config.sync_frequency),
        ("fileCheckFrequency (--file-check-frequency)", config.file_check_frequency),
        ("httpCheckFrequency (--http-check-frequency)", config.http_check_frequency),
        ("nodeStatusUpdateFrequency (--node-status-update-frequency)", config.node_status_update_frequency),
        ("nodeStatusReportFrequency", config.node_status_report_frequency),
        ("runtimeRequestTimeout (--runtime-request-timeout)", config.runtime_request_timeout),
        (
            "evictionPressureTransitionPeriod (--eviction-pressure-transition-period)",
            config.eviction_pressure_transition_period,
        ),
        ("cpuManagerReconcilePeriod (--cpu-manager-reconcile-period)", config.cpu_manager_reconcile_period),
        (
            "authentication.webhook.cacheTTL (--authentication-token-webhook-cache-ttl)",
            config.authentication.webhook.cache_ttl,
        ),
        (
            "authorization.webhook.cacheAuthorizedTTL (--authorization-webhook-cache-authorized-ttl)",
            config.authorization.webhook.cache_authorized_ttl,
        ),
        (
            "authorization.webhook.cacheUnauthorizedTTL (--authorization-webhook-cache-unauthorized-ttl)",
            config.authorization.webhook.cache_unauthorized_ttl,
        ),
    ];
    for (field, duration) in all.into_iter().filter(|(_, duration)| duration.is_negative()) {
        found.value(field, duration, "must not be negative");
    }
}

fn images(config: &KubeletConfiguration, found: &mut Findings) {
    let (low, high) = (config.image_gc_low_threshold_percent, config.image_gc_high_threshold_percent);
    found.range("imageGCHighThresholdPercent (--image-gc-high-threshold)", high.into(), 0, 100);
    found.range("imageGCLowThresholdPercent (--image-gc-low-threshold)", low.into(), 0, 100);
    if low >= high {
        let rule = format!("must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) {high}");
        found.value("imageGCLowThresholdPercent (--image-gc-low-threshold)", low, rule);
    }
    let (youngest, oldest) = (config.image_minimum_gc_age, config.image_maximum_gc_age);
    if youngest.is_negative() {
        found.value("imageMinimumGCAge (--minimum-image-ttl-duration)", youngest, "must not be negative");
    }
    if oldest.is_negative() {
        found.value("imageMaximumGCAge", oldest, "must not be negative");
    }
    if oldest > GoDuration::ZERO && oldest <= youngest {
        found.value(
            "imageMaximumGCAge",
            oldest,
            format_args!("must be 0s or greater than imageMinimumGCAge {youngest}"),
        );
    }
    if let Some(most) = config.max_parallel_image_pulls {
        found.at_least("maxParallelImagePulls", most.into(), 1);
        if most > 1 && config.serialize_image_pulls {
            let rule = "must be 1 or left out unless serializeImagePulls (--serialize-image-pulls) is false";
            found.value("maxParallelImagePulls", most, rule);
        }
    }
}

fn logs(config: &KubeletConfiguration, gates: &FeatureGates, found: &mut Findings) {
    found.at_least("containerLogMaxWorkers", config.container_log_max_workers.into(), 1);
    found.at_least("containerLogMaxFiles (--container-log-max-files)", config.container_log_max_files.into(), 2);
    let interval = config.container_log_monitor_interval;
    if interval < GoDuration::secs(3) {
        found.value("containerLogMonitorInterval", interval, "must be 3s or more");
    }
    let dir = config.pod_logs_dir.as_str();
    if !dir.starts_with('/') {
        found.value("podLogsDir", format_args!("{dir:?}"), "must be an absolute path");
    } else if !is_clean(dir) {
        found.value("podLogsDir", format_args!("{dir:?}"), "must have no '.', '..', '//' or trailing '/' in it");
    }
    if !dir.is_ascii() {
        found.value("podLogsDir", format_args!("{dir:?}"), "must be ASCII, because it is a label of metrics");
    }
    let logging = &config.logging;
    let flush = logging.flush_frequency.get();
    if flush <= GoDuration::ZERO {
        found.value("logging.flushFrequency (--log-flush-frequency)", flush, "must be greater than zero");
    }
    found.range("logging.verbosity (-v)", logging.verbosity.into(), 0, i32::MAX.into());
    let json = logging.format == super::super::choices::LogFormat::Json;
    if json && !logging.vmodule.is_empty() {
        found.say("logging.vmodule (--vmodule)", "works only with the log format text");
    }
    for item in &logging.vmodule {
        if item.file_pattern.is_empty() || item.file_pattern.contains(['=', ',']) {
            let rule = "must be a file name pattern without '=' and ','";
            found.value("logging.vmodule.filePattern", format_args!("{:?}", item.file_pattern), rule);
        }
        found.range("logging.vmodule.verbosity", item.verbosity.into(), 0, i32::MAX.into());
    }
    let alpha = gates.enabled(Gate::LoggingAlphaOptions);
    for (name, routing) in [("text", &logging.options.text), ("json", &logging.options.json)] {
        if routing.split_stream && !alpha {
            found.say(&format!("logging.options.{name}.splitStream"), "needs the feature gate LoggingAlphaOptions");
        }
        if routing.info_buffer_size != "0" && !alpha {
            found.say(&format!("logging.options.{name}.infoBufferSize"), "needs the feature gate LoggingAlphaOptions");
        }
    }
}

fn cpu_quota(config: &KubeletConfiguration, gates: &FeatureGates, found: &mut Findings) {
    let period = config.cpu_cfs_quota_period;
    let custom = gates.enabled(Gate::CustomCPUCFSQuotaPeriod);
    if custom && !(GoDuration::millis(1)..=GoDuration::secs(1)).contains(&period) {
        found.value("cpuCFSQuotaPeriod (--cpu-cfs-quota-period)", period, "must be between 1ms and 1s");
    }
    if !custom && period != GoDuration::millis(100) {
        let rule = "must be 100ms, or needs the feature gate CustomCPUCFSQuotaPeriod";
        found.value("cpuCFSQuotaPeriod (--cpu-cfs-quota-period)", period, rule);
    }
}

fn crash_loop(config: &KubeletConfiguration, gates: &FeatureGates, found: &mut Findings) {
    const FIELD: &str = "crashLoopBackOff.maxContainerRestartPeriod";
    match (config.crash_loop_back_off.max_container_restart_period, gates.enabled(Gate::KubeletCrashLoopBackOffMax)) {
        (Some(period), true) => {
            // Upstream compares whole milliseconds, so 300s and a fraction of one still passes.
            let millis = period.as_nanos() / 1_000_000;
            if !(1_000..=300_000).contains(&millis) {
                found.value(FIELD, period, "must be between 1s and 300s");
            }
        }
        (None, true) => found.say(FIELD, "must be set while the feature gate KubeletCrashLoopBackOffMax is on"),
        (Some(period), false) => found.value(FIELD, period, "needs the feature gate KubeletCrashLoopBackOffMax"),
        (None, false) => {}
    }
}

/// Whether Go's `filepath.Clean` would leave the path as it is.
fn is_clean(path: &str) -> bool {
    path == "/" || path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."))
}
