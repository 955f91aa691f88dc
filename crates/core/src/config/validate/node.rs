//! Allocatable resources, taints, gates that fields depend on, and requirements on the host.

use super::super::choices::{ImageCredentialPolicy, MemoryReservationPolicy};
use super::super::gates::{FeatureGates, Gate};
use super::super::kubelet::KubeletConfiguration;
use super::super::names::{KEY_RULE, VALUE_RULE, is_label_value, is_qualified_name};
use super::{CgroupVersion, Findings};

pub(super) fn check(config: &KubeletConfiguration, gates: &FeatureGates, host: CgroupVersion, found: &mut Findings) {
    cgroup_host(config, host, found);
    allocatable(config, found);
    taints(config, found);
    image_credentials(config, gates, found);
    memory_qos(config, gates, found);
    single_fields(config, gates, found);
}

fn cgroup_host(config: &KubeletConfiguration, host: CgroupVersion, found: &mut Findings) {
    if host == CgroupVersion::V1 {
        if config.fail_cgroup_v1 {
            let rule = "this host uses cgroup v1, which is not supported any more; move it to cgroup v2, or set \
                        failCgroupV1: false (--fail-cgroupv1=false) for the time being";
            found.say("failCgroupV1 (--fail-cgroupv1)", rule);
        }
        if config.single_process_oom_kill == Some(false) {
            found.value("singleProcessOOMKill", false, "must be true or left out on cgroup v1");
        }
    }
    if !config.system_cgroups.is_empty() && config.cgroup_root.is_empty() {
        let rule = "needs cgroupRoot (--cgroup-root)";
        found.value("systemCgroups (--system-cgroups)", &config.system_cgroups, rule);
    }
    const UNIT: i64 = 65536;
    if let Some(ids) = config.user_namespaces.as_ref().and_then(|namespaces| namespaces.ids_per_pod)
        && (ids < UNIT || ids % UNIT != 0 || ids > u32::MAX.into())
    {
        let rule = format!("must be a multiple of {UNIT} between {UNIT} and {}", u32::MAX);
        found.value("userNamespaces.idsPerPod", ids, rule);
    }
}

fn allocatable(config: &KubeletConfiguration, found: &mut Findings) {
    const FIELD: &str = "enforceNodeAllocatable (--enforce-node-allocatable)";
    const WORDS: [&str; 6] = [
        "pods",
        "system-reserved",
        "system-reserved-compressible",
        "kube-reserved",
        "kube-reserved-compressible",
        "none",
    ];
    let keys = &config.enforce_node_allocatable;
    for (plain, compressible) in
        [("system-reserved", "system-reserved-compressible"), ("kube-reserved", "kube-reserved-compressible")]
    {
        if keys.iter().any(|key| key == plain) && keys.iter().any(|key| key == compressible) {
            found.say(FIELD, format_args!("{plain} and {compressible} exclude each other"));
        }
    }
    for (at, key) in keys.iter().enumerate() {
        if keys.iter().take(at).any(|earlier| earlier == key) {
            found.value(FIELD, key, "is listed twice");
            continue;
        }
        match key.as_str() {
            "pods" => {}
            "system-reserved" | "system-reserved-compressible" => {
                if config.system_reserved_cgroup.is_empty() {
                    found.value(FIELD, key, "needs systemReservedCgroup (--system-reserved-cgroup)");
                }
            }
            "kube-reserved" | "kube-reserved-compressible" => {
                if config.kube_reserved_cgroup.is_empty() {
                    found.value(FIELD, key, "needs kubeReservedCgroup (--kube-reserved-cgroup)");
                }
            }
            "none" => {
                if keys.len() > 1 {
                    found.value(FIELD, key, "must stand alone");
                }
                continue;
            }
            _ => {
                found.value(FIELD, key, format_args!("must be one of {}", WORDS.join(", ")));
                continue;
            }
        }
        if !config.cgroups_per_qos {
            found.value(FIELD, key, "needs cgroupsPerQOS (--cgroups-per-qos) to be true");
        }
    }
    let cpus = &config.reserved_system_cpus;
    if !cpus.is_empty() {
        let cgroups = !config.system_reserved_cgroup.is_empty() || !config.kube_reserved_cgroup.is_empty();
        if cgroups {
            let rule = "cannot be used with systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup \
                        (--kube-reserved-cgroup)";
            found.value("reservedSystemCPUs (--reserved-cpus)", cpus, rule);
        }
        if !is_cpu_set(cpus) {
            let rule = "must be a list of cpus and ranges, like 0-3,8";
            found.value("reservedSystemCPUs (--reserved-cpus)", format_args!("{cpus:?}"), rule);
        }
    }
}

fn is_cpu_set(text: &str) -> bool {
    let cpu = |text: &str| text.parse::<u32>().ok();
    text.split(',').all(|part| match part.split_once('-') {
        None => cpu(part).is_some(),
        Some((from, to)) => cpu(from).zip(cpu(to)).is_some_and(|(from, to)| from <= to),
    })
}

fn taints(config: &KubeletConfiguration, found: &mut Findings) {
    const FIELD: &str = "registerWithTaints (--register-with-taints)";
    for taint in &config.register_with_taints {
        let shown = format!("{}={}:{}", taint.key, taint.value, taint.effect);
        if !is_qualified_name(&taint.key) {
            found.value(FIELD, &shown, format_args!("has a wrong key; {KEY_RULE}"));
        }
        if !is_label_value(&taint.value) {
            found.value(FIELD, &shown, format_args!("has a wrong value; {VALUE_RULE}"));
        }
        if !matches!(taint.effect.as_str(), "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            found.value(FIELD, &shown, "the effect must be NoSchedule, PreferNoSchedule or NoExecute");
        }
        if taint.time_added.is_some() {
            found.value(FIELD, &shown, "timeAdded must be left out");
        }
    }
}

fn image_credentials(config: &KubeletConfiguration, gates: &FeatureGates, found: &mut Findings) {
    const POLICY: &str = "imagePullCredentialsVerificationPolicy";
    const LIST: &str = "preloadedImagesVerificationAllowlist";
    let policy = config.image_pull_credentials_verification_policy;
    let list = &config.preloaded_images_verification_allowlist;
    if !gates.enabled(Gate::KubeletEnsureSecretPulledImages) {
        let rule = "needs the feature gate KubeletEnsureSecretPulledImages";
        if let Some(policy) = policy {
            found.value(POLICY, policy, rule);
        }
        if !list.is_empty() {
            found.say(LIST, rule);
        }
        return;
    }
    if !list.is_empty() && policy != Some(ImageCredentialPolicy::NeverVerifyAllowlistedImages) {
        found.say(LIST, format_args!("needs {POLICY}: {}", ImageCredentialPolicy::NeverVerifyAllowlistedImages));
        return;
    }
    for pattern in list.iter().filter(|pattern| !is_image_pattern(pattern)) {
        let rule = "must be an image without tag and digest, or a prefix ending in /*";
        found.value(LIST, format_args!("{pattern:?}"), rule);
    }
}

// upstream: images/pullmanager/image_pull_policies.go getAllowlistImagePattern (v1.36).
fn is_image_pattern(pattern: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_' | b'/');
    let (name, wildcard) = match pattern.strip_suffix("/*") {
        Some(prefix) => (prefix, true),
        None => (pattern, false),
    };
    let (host, path) = name.split_once('/').unwrap_or((if wildcard { name } else { "" }, name));
    // Only the registry's host may be in upper case and carry a port; a colon further on is a tag.
    let host_ok = host.bytes().all(|b| allowed(b.to_ascii_lowercase()) || b == b':');
    !name.is_empty()
        && host_ok
        && (wildcard || (!path.is_empty() && path.bytes().all(allowed)))
        && !name.contains('*')
        && pattern.trim() == pattern
}

fn memory_qos(config: &KubeletConfiguration, gates: &FeatureGates, found: &mut Findings) {
    let on = gates.enabled(Gate::MemoryQoS);
    match config.memory_throttling_factor {
        Some(factor) if !(factor > 0.0 && factor <= 1.0) => {
            found.value("memoryThrottlingFactor", factor, "must be greater than 0 and at most 1");
        }
        None if on => found.say("memoryThrottlingFactor", "must be set while the feature gate MemoryQoS is on"),
        Some(_) | None => {}
    }
    if !on && config.memory_reservation_policy == MemoryReservationPolicy::TieredReservation {
        found.value("memoryReservationPolicy", config.memory_reservation_policy, "needs the feature gate MemoryQoS");
    }
}

fn single_fields(config: &KubeletConfiguration, gates: &FeatureGates, found: &mut Findings) {
    if config.run_once {
        found.value("runOnce (--runonce)", true, "must be false: running once was removed");
    }
    if config.server_tls_bootstrap && !gates.enabled(Gate::RotateKubeletServerCertificate) {
        let rule = "needs the feature gate RotateKubeletServerCertificate";
        found.value("serverTLSBootstrap (--rotate-server-certificates)", true, rule);
    }
    if config.container_runtime_endpoint.is_empty() {
        let rule = "must name the runtime's socket, like unix:///run/containerd/containerd.sock";
        found.say("containerRuntimeEndpoint (--container-runtime-endpoint)", rule);
    }
    if config.enable_system_log_query && !config.enable_system_log_handler {
        found.value("enableSystemLogQuery", true, "needs enableSystemLogHandler to be true");
    }
    let version = config.show_hidden_metrics_for_version.as_str();
    if !version.is_empty() && version != "1.35" {
        let rule = "must be left out or 1.35: only the previous minor version's metrics can be shown";
        found.value("showHiddenMetricsForVersion", format_args!("{version:?}"), rule);
    }
    for (field, address) in [
        ("address (--address)", &config.address),
        ("healthzBindAddress (--healthz-bind-address)", &config.healthz_bind_address),
    ] {
        if address.parse::<std::net::IpAddr>().is_err() {
            found.value(field, format_args!("{address:?}"), "must be an IP address");
        }
    }
    if let Some(tracing) = &config.tracing {
        if let Some(rate) = tracing.sampling_rate_per_million {
            found.range("tracing.samplingRatePerMillion", rate.into(), 0, 1_000_000);
        }
        let scheme =
            tracing.endpoint.as_deref().and_then(|endpoint| endpoint.split_once("//")).map(|(scheme, _)| scheme);
        if let Some(scheme) = scheme.filter(|scheme| !matches!(*scheme, "dns:" | "unix:" | "unix-abstract:")) {
            let rule = "must be host:port, or start with dns://, unix:// or unix-abstract://";
            found.value("tracing.endpoint", format_args!("{scheme}//"), rule);
        }
    }
}
