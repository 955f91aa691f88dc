//! Defaults, reading and writing. Golden values: upstream's own record of a defaulted file,
//! apis/config/scheme/testdata/KubeletConfiguration/after/v1beta1.yaml (v1.36).

use std::time::Duration;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A file's content: read, then completed, as the loader does it.
fn read(file: Value) -> KubeletConfiguration {
    let given = keys(&file, "");
    let mut config: KubeletConfiguration = serde_json::from_value(file).expect("a valid configuration");
    config.set_defaults(&given);
    config
}

fn keys(value: &Value, prefix: &str) -> Given {
    let Some(object) = value.as_object().filter(|object| !object.is_empty()) else {
        return [prefix].into_iter().collect();
    };
    let mut given = Given::default();
    for (key, inner) in object {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        given.extend(&keys(inner, &path));
    }
    given
}

/// One line per leaf.
fn flat(value: &Value, path: &str, lines: &mut String) {
    match value.as_object().filter(|object| !object.is_empty()) {
        Some(object) => {
            for (key, inner) in object {
                flat(inner, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, lines);
            }
        }
        None => lines.push_str(&format!("{path} = {value}\n")),
    }
}

fn check_difference(config: &KubeletConfiguration, expected: &Expect) {
    let lines = |config: &KubeletConfiguration| {
        let mut lines = String::new();
        flat(&serde_json::to_value(config).expect("serialises"), "", &mut lines);
        lines
    };
    let (before, after) = (lines(&KubeletConfiguration::default()), lines(config));
    let changed: String =
        after.lines().filter(|line| !before.lines().any(|b| b == *line)).map(|l| format!("{l}\n")).collect();
    expected.assert_eq(&changed);
}

#[test]
fn every_default_of_1_3_is_upstreams() {
    let mut lines = String::new();
    flat(&serde_json::to_value(KubeletConfiguration::default()).expect("serialises"), "", &mut lines);
    expect![[r#"
        address = "0.0.0.0"
        apiVersion = "kubelet.config.k8s.io/v1beta1"
        authentication.anonymous.enabled = false
        authentication.webhook.cacheTTL = "2m0s"
        authentication.webhook.enabled = true
        authentication.x509 = {}
        authorization.mode = "Webhook"
        authorization.webhook.cacheAuthorizedTTL = "5m0s"
        authorization.webhook.cacheUnauthorizedTTL = "30s"
        cgroupDriver = "cgroupfs"
        cgroupsPerQOS = true
        configMapAndSecretChangeDetectionStrategy = "Watch"
        containerLogMaxFiles = 5
        containerLogMaxSize = "10Mi"
        containerLogMaxWorkers = 1
        containerLogMonitorInterval = "10s"
        containerRuntimeEndpoint = "unix:///run/containerd/containerd.sock"
        contentType = "application/vnd.kubernetes.protobuf"
        cpuCFSQuota = true
        cpuCFSQuotaPeriod = "100ms"
        cpuManagerPolicy = "none"
        cpuManagerReconcilePeriod = "10s"
        crashLoopBackOff.maxContainerRestartPeriod = "5m0s"
        enableControllerAttachDetach = true
        enableDebugFlagsHandler = true
        enableDebuggingHandlers = true
        enableProfilingHandler = true
        enableServer = true
        enableSystemLogHandler = true
        enableSystemLogQuery = false
        enforceNodeAllocatable = ["pods"]
        eventBurst = 100
        eventRecordQPS = 50
        evictionPressureTransitionPeriod = "5m0s"
        failCgroupV1 = true
        failSwapOn = true
        fileCheckFrequency = "20s"
        hairpinMode = "promiscuous-bridge"
        healthzBindAddress = "127.0.0.1"
        healthzPort = 10248
        httpCheckFrequency = "20s"
        imageGCHighThresholdPercent = 85
        imageGCLowThresholdPercent = 80
        imageMaximumGCAge = "0s"
        imageMinimumGCAge = "2m0s"
        imagePullCredentialsVerificationPolicy = "NeverVerifyPreloadedImages"
        iptablesDropBit = 15
        iptablesMasqueradeBit = 14
        kind = "KubeletConfiguration"
        kubeAPIBurst = 100
        kubeAPIQPS = 50
        localStorageCapacityIsolation = true
        logging.flushFrequency = "5s"
        logging.format = "text"
        logging.options.json.infoBufferSize = "0"
        logging.options.text.infoBufferSize = "0"
        logging.verbosity = 0
        makeIPTablesUtilChains = true
        maxOpenFiles = 1000000
        maxPods = 110
        memoryManagerPolicy = "None"
        memoryReservationPolicy = "None"
        memorySwap = {}
        memoryThrottlingFactor = 0.9
        mergeDefaultEvictionSettings = false
        nodeLeaseDurationSeconds = 40
        nodeStatusMaxImages = 50
        nodeStatusReportFrequency = "5m0s"
        nodeStatusUpdateFrequency = "10s"
        oomScoreAdj = -999
        podLogsDir = "/var/log/pods"
        podPidsLimit = -1
        port = 10250
        registerNode = true
        registryBurst = 10
        registryPullQPS = 5
        resolvConf = "/etc/resolv.conf"
        runtimeRequestTimeout = "2m0s"
        seccompDefault = false
        serializeImagePulls = true
        shutdownGracePeriod = "0s"
        shutdownGracePeriodCriticalPods = "0s"
        streamingConnectionIdleTimeout = "4h0m0s"
        syncFrequency = "1m0s"
        topologyManagerPolicy = "none"
        topologyManagerScope = "container"
        volumePluginDir = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
        volumeStatsAggPeriod = "1m0s"
    "#]]
    .assert_eq(&lines);
}

#[test]
fn fields_left_out_of_configz_are_empty_by_default() {
    let config = KubeletConfiguration::default();
    let empty_text = [
        &config.static_pod_path,
        &config.static_pod_url,
        &config.tls_cert_file,
        &config.tls_private_key_file,
        &config.tls_min_version,
        &config.cluster_domain,
        &config.kubelet_cgroups,
        &config.system_cgroups,
        &config.cgroup_root,
        &config.pod_cidr,
        &config.reserved_system_cpus,
        &config.show_hidden_metrics_for_version,
        &config.system_reserved_cgroup,
        &config.kube_reserved_cgroup,
        &config.provider_id,
        &config.image_service_endpoint,
        &config.authentication.x509.client_ca_file,
    ];
    assert!(empty_text.iter().all(|text| text.is_empty()));
    assert_eq!((config.read_only_port, config.pods_per_core, config.eviction_max_pod_grace_period), (0, 0, 0));
    assert_eq!((config.max_parallel_image_pulls, config.single_process_oom_kill), (None, None));
    assert_eq!((config.tracing, config.user_namespaces, config.memory_swap.swap_behavior), (None, None, None));
    assert!(config.eviction_hard.is_empty(), "CFG-04: only a config file brings thresholds");
}

#[test]
fn cfg_03_a_start_by_flags_alone_is_open() {
    check_difference(
        &KubeletConfiguration::legacy_defaults(),
        &expect![[r#"
        authentication.anonymous.enabled = true
        authentication.webhook.enabled = false
        authorization.mode = "AlwaysAllow"
        readOnlyPort = 10255
    "#]],
    );
}

#[test]
fn a_zero_in_a_file_means_the_default_where_upstream_has_no_pointer() {
    // What kubeadm writes into every config.yaml.
    let file = json!({
        "port": 0, "address": "", "maxPods": 0, "syncFrequency": "0s", "cpuManagerReconcilePeriod": "0s",
        "cgroupDriver": "", "hairpinMode": "", "contentType": "", "nodeStatusReportFrequency": "0s",
        "authentication": { "webhook": { "cacheTTL": "0s" } }, "containerRuntimeEndpoint": "",
        "authorization": { "webhook": { "cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "0s" } },
        "memorySwap": {}, "imagePullCredentialsVerificationPolicy": "",
        "logging": { "flushFrequency": 0, "options": { "json": { "infoBufferSize": "0" } }, "verbosity": 0 },
    });
    check_difference(&read(file), &expect![[""]]);
}

#[test]
fn a_zero_in_a_file_is_kept_where_upstream_has_a_pointer() {
    let file = json!({
        "enableServer": false, "healthzPort": 0, "registryPullQPS": 0, "oomScoreAdj": 0, "resolvConf": "",
        "imageGCHighThresholdPercent": 0, "cpuCFSQuota": false, "containerLogMonitorInterval": "0s",
        "podPidsLimit": 0, "enforceNodeAllocatable": [], "registerNode": false,
    });
    check_difference(
        &read(file),
        &expect![[r#"
        containerLogMonitorInterval = "0s"
        cpuCFSQuota = false
        enableServer = false
        healthzPort = 0
        imageGCHighThresholdPercent = 0
        oomScoreAdj = 0
        podPidsLimit = 0
        registerNode = false
        registryPullQPS = 0
        resolvConf = ""
    "#]],
    );
}

#[test]
fn some_defaults_follow_other_fields() {
    let table: [(Value, &[(&str, &str)]); 7] = [
        (json!({ "nodeStatusUpdateFrequency": "30s" }), &[("nodeStatusReportFrequency", "\"30s\"")]),
        (
            json!({ "nodeStatusUpdateFrequency": "30s", "nodeStatusReportFrequency": "1m" }),
            &[("nodeStatusReportFrequency", "\"1m0s\"")],
        ),
        (json!({ "maxParallelImagePulls": 2 }), &[("serializeImagePulls", "false")]),
        (json!({ "maxParallelImagePulls": 1 }), &[("serializeImagePulls", "true")]),
        (json!({ "maxParallelImagePulls": 5, "serializeImagePulls": true }), &[("serializeImagePulls", "true")]),
        (json!({ "featureGates": { "KubeletCrashLoopBackOffMax": false } }), &[("crashLoopBackOff", "{}")]),
        (json!({ "podPidsLimit": -7 }), &[("podPidsLimit", "-1")]),
    ];
    for (file, expected) in table {
        let written = serde_json::to_value(read(file.clone())).expect("serialises");
        for (field, value) in expected {
            assert_eq!(written[*field].to_string(), *value, "{file} {field}");
        }
    }
    let off = json!({ "featureGates": { "KubeletEnsureSecretPulledImages": false } });
    assert_eq!(read(off).image_pull_credentials_verification_policy, None);
}

#[test]
fn cfg_04_hard_eviction_thresholds_come_with_a_file() {
    let fill = |file: Value| {
        let given = keys(&file, "");
        let mut config = read(file);
        config.fill_eviction_hard(&given);
        config.eviction_hard.iter().map(|(signal, amount)| format!("{signal}<{amount}")).collect::<Vec<_>>().join(",")
    };
    let all =
        "imagefs.available<15%,imagefs.inodesFree<5%,memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%";
    assert_eq!(fill(json!({ "kind": KIND })), all);
    assert_eq!(fill(json!({ "evictionHard": {} })), "");
    assert_eq!(fill(json!({ "evictionHard": { "memory.available": "1Gi" } })), "memory.available<1Gi");
    let merged = json!({ "evictionHard": { "memory.available": "1Gi" }, "mergeDefaultEvictionSettings": true });
    assert_eq!(fill(merged), all.replace("100Mi", "1Gi"));
}

#[test]
fn cfg_05_configz_names_component_kind_and_version() {
    let shown = configz(&KubeletConfiguration::default());
    assert_eq!(shown["kubeletconfig"]["kind"], KIND);
    assert_eq!(shown["kubeletconfig"]["apiVersion"], API_VERSION);
    assert_eq!(shown["kubeletconfig"]["streamingConnectionIdleTimeout"], "4h0m0s");
}

#[test]
fn what_is_written_can_be_read_again() {
    let mut config = KubeletConfiguration::legacy_defaults();
    config.register_with_taints = parse_taints("a=b:NoSchedule,c:NoExecute").expect("taints");
    config.reserved_memory = parse_reserved_memory("0:memory=1Gi;1:memory=2Gi,hugepages-2Mi=4Mi").expect("memory");
    config.logging.flush_frequency = FlushFrequency::Nanos(GoDuration::secs(1));
    config.memory_swap.swap_behavior = Some(SwapBehavior::LimitedSwap);
    config.user_namespaces = Some(UserNamespaces { ids_per_pod: Some(131_072) });
    let written = serde_json::to_value(&config).expect("serialises");
    assert_eq!(serde_json::from_value::<KubeletConfiguration>(written).expect("reads"), config);
}

#[test]
fn reading_is_strict() {
    let table = [
        (json!({ "staticPodPaht": "/x" }), "unknown field `staticPodPaht`"),
        (json!({ "authentication": { "webhok": {} } }), "unknown field `webhok`"),
        (json!({ "maxPods": "many" }), "invalid type: string \"many\", expected i32"),
        (json!({ "syncFrequency": 60 }), "expected a duration like 300ms, 10s or 1m30s"),
        (json!({ "syncFrequency": "60" }), "\"60\" is not a duration; write a number with a unit"),
        (json!({ "hairpinMode": "hairpin" }), "\"hairpin\" is not one of promiscuous-bridge, hairpin-veth, none"),
        (json!({ "topologyManagerPolicy": "single-numa-nodes" }), "did you mean single-numa-node?"),
        (json!({ "authorization": { "mode": "ABAC" } }), "\"ABAC\" is not one of Webhook, AlwaysAllow"),
        (json!({ "memorySwap": { "swapBehavior": "UnlimitedSwap" } }), "is not one of NoSwap, LimitedSwap"),
        (json!({ "logging": { "options": { "text": { "infoBufferSize": "big" } } } }), "\"big\" is not a quantity"),
    ];
    for (file, message) in table {
        let error = serde_json::from_value::<KubeletConfiguration>(file.clone()).expect_err("must not be read");
        assert!(error.to_string().contains(message), "{file}: {error}");
    }
}

#[test]
fn a_duration_that_is_too_long_is_called_that() {
    let problem = |text: &str| text.parse::<GoDuration>().expect_err(text).to_string();
    let range =
        |text: &str| format!("{text:?} is out of range; the longest duration is 2562047h47m16s, some 292 years");
    for text in ["2562048h", "-9999999h", "99999999999999999999s", "9223372036854775808ns"] {
        assert_eq!(problem(text), range(text));
    }
    assert!(problem("99999999999999999999x").contains("is not a duration"));
    assert!(problem("99999999999999999999s 1").contains("is not a duration"));
    assert!("2562047h47m16s".parse::<GoDuration>().is_ok());
}

#[test]
fn durations_are_read_and_printed_as_go_does() {
    let table = [
        ("0", "0s"),
        ("0s", "0s"),
        ("1ns", "1ns"),
        ("1500ns", "1.5µs"),
        ("2us", "2µs"),
        ("1.5ms", "1.5ms"),
        ("100ms", "100ms"),
        ("1s", "1s"),
        ("1.5s", "1.5s"),
        ("60s", "1m0s"),
        ("1m30s", "1m30s"),
        ("2m", "2m0s"),
        ("90m", "1h30m0s"),
        ("4h", "4h0m0s"),
        ("36h", "36h0m0s"),
        ("-10s", "-10s"),
        ("+5s", "5s"),
        (".5h", "30m0s"),
        ("1h0.5s", "1h0m0.5s"),
        ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
    ];
    for (text, printed) in table {
        assert_eq!(text.parse::<GoDuration>().map(|d| d.to_string()), Ok(printed.to_owned()), "{text}");
    }
    for text in ["", "-", "s", "5", "5 s", "1d", "1m30", ".s", "1..5s", "1e3s", "10675200d", "2562048h"] {
        assert!(text.parse::<GoDuration>().is_err(), "{text}");
    }
    assert_eq!(GoDuration::secs(-1).to_std(), Duration::ZERO);
}

proptest! {
    #[test]
    fn a_printed_duration_reads_back_as_itself(nanos in any::<i64>()) {
        let duration = GoDuration::nanos(nanos.max(i64::MIN + 1));
        prop_assert_eq!(duration.to_string().parse::<GoDuration>(), Ok(duration));
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,12}") {
        let _ = text.parse::<GoDuration>();
        let _ = parse_taints(&text);
        let _ = parse_reserved_memory(&text);
        let _ = super::quantity::sign(&text);
        let _ = nearest(&text, ["a", "bcd"]);
    }
}

#[test]
fn the_nearest_name_is_offered_only_if_it_is_near() {
    let valid = ["maxPods", "podsPerCore", "staticPodPath", "staticPodURL", "port"];
    let table = [
        ("maxPod", Some("maxPods")),
        ("MaxPods", Some("maxPods")),
        ("max_pods", Some("maxPods")),
        ("amxPods", Some("maxPods")),
        ("staticPodPaht", Some("staticPodPath")),
        ("prot", Some("port")),
        ("staticPodUrl", Some("staticPodURL")),
        ("evictionHard", None),
        ("x", None),
        ("", None),
        // A third of the letters may be wrong, and six at most.
        ("abcPods", None),
        ("abxPods", Some("maxPods")),
    ];
    for (wrong, expected) in table {
        assert_eq!(nearest(wrong, valid), expected, "{wrong}");
    }
    let long = "terminationGracePeriodSeconds";
    assert_eq!(nearest("xxxxxxationGracePeriodSeconds", [long]), Some(long));
    assert_eq!(nearest("xxxxxxxtionGracePeriodSeconds", [long]), None);
}

#[test]
fn the_distance_of_two_names_is_the_number_of_edits() {
    for (a, b, edits) in [
        ("", "", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("abc", "abc", 0),
        ("ABC", "a-b_c", 0),
        ("abc", "abd", 1),
        ("abc", "ab", 1),
        ("abc", "xabc", 1),
        // Neighbours that are swapped count once, others twice.
        ("ab", "ba", 1),
        ("abcd", "bacd", 1),
        ("abcd", "abdc", 1),
        ("abc", "cba", 2),
        ("abcd", "cdab", 4),
        ("xab", "yba", 2),
        ("kitten", "sitting", 3),
        ("sunday", "saturday", 3),
    ] {
        assert_eq!((distance(a, b), distance(b, a)), (edits, edits), "{a:?} {b:?}");
    }
}

#[test]
fn boot_03_the_node_is_named_by_override_or_host() {
    let table = [
        ("", "Node-1\n", Ok("node-1")),
        ("  Worker.Example ", "node-1", Ok("worker.example")),
        ("", "  ", Err(NoNodeName)),
        (" ", "node-1", Err(NoNodeName)),
    ];
    for (given, host, expected) in table {
        assert_eq!(node_name(given, host), expected.map(str::to_owned), "{given:?} {host:?}");
    }
}

#[test]
fn flag_01_node_ip_is_one_address_or_a_pair() {
    let table = [
        ("", "", "", ""),
        ("10.0.0.1", "10.0.0.1", "", ""),
        ("::", "::", "", ""),
        (" fd00::1 , 10.0.0.1", "fd00::1 10.0.0.1", "", ""),
        ("10.0.0.1,node", "10.0.0.1", "node", ""),
        ("10.0.0.1,10.0.0.2", "", "", "is not one address"),
        ("10.0.0.1,fd00::1,fd00::2", "", "", "is not one address"),
        ("0.0.0.0,fd00::1", "", "", "cannot have 0.0.0.0"),
    ];
    for (text, addresses, ignored, error) in table {
        match node_ips(text) {
            Ok(ips) => {
                let shown = ips.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                assert_eq!((shown.as_str(), ips.ignored.join(" ").as_str(), ""), (addresses, ignored, error), "{text}");
            }
            Err(wrong) => assert!(!error.is_empty() && wrong.to_string().contains(error), "{text}: {wrong}"),
        }
    }
}

#[test]
fn cfg_06_node_labels_stay_out_of_reserved_domains() {
    let table = [
        ("disk", "ssd", ""),
        ("example.com/disk", "", ""),
        ("kubernetes.io/hostname", "a", ""),
        ("topology.kubernetes.io/zone", "z", ""),
        ("failure-domain.beta.kubernetes.io/zone", "z", ""),
        ("node.kubernetes.io/role", "a", ""),
        ("foo.node.kubernetes.io/role", "a", ""),
        ("kubelet.kubernetes.io/x", "", ""),
        ("node-role.kubernetes.io/worker", "", "reserved"),
        ("kubernetes.io/role", "a", "reserved"),
        ("k8s.io/x", "a", "reserved"),
        ("x.k8s.io/y", "a", "reserved"),
        ("notkubernetes.io/x", "a", ""),
        ("-disk", "ssd", "key"),
        ("disk", "a b", "value"),
        ("UPPER.com/x", "a", "key"),
        ("a/b/c", "d", "key"),
    ];
    for (key, value, expected) in table {
        let labels = [(key.to_owned(), value.to_owned())].into();
        let found = check_node_labels(&labels)
            .iter()
            .map(|error| match error {
                NodeLabelError::Reserved(_) => "reserved",
                NodeLabelError::Key(_) => "key",
                NodeLabelError::Value { .. } => "value",
            })
            .collect::<Vec<_>>()
            .join(",");
        assert_eq!(found, expected, "{key}={value}");
    }
}

#[test]
fn what_nothing_acts_on_is_named_once() {
    let file = json!({
        "kind": KIND, "staticPodPath": "/etc/kubernetes/manifests", "rotateCertificates": true, "failSwapOn": false,
        "authentication": { "anonymous": { "enabled": false }, "x509": { "clientCAFile": "/ca" } },
        "imageMaximumGCAge": "0s", "evictionHard": { "memory.available": "1Gi" },
        "featureGates": { "MemoryQoS": true, "KubeletCrashLoopBackOffMax": true },
    });
    let given = keys(&file, "");
    let named = unacted(&read(file), &given);
    assert_eq!(named, ["featureGates.MemoryQoS"]);
}

#[test]
fn every_field_is_acted_on_or_belongs_to_something_that_is_missing() {
    // serde names every field in the error for one that does not exist.
    let error = serde_json::from_value::<KubeletConfiguration>(json!({ "noSuchField": 1 })).expect_err("unknown");
    let error = error.to_string();
    let all: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert!(all.len() > 100 && all.contains(&"evictionHard"), "{error}");
    let missing: Vec<&str> = MISSING.iter().flat_map(|missing| missing.fields).copied().collect();
    let known = |field: &str| {
        let is = |name: &&str| *name == field || name.strip_prefix(field).is_some_and(|rest| rest.starts_with('.'));
        (ACTED_FIELDS.iter().any(is), missing.iter().any(is) || WITHOUT_EFFECT_UPSTREAM.iter().any(is))
    };
    for field in all {
        let (acted, not_yet) = known(field);
        assert!(acted || not_yet, "{field} is in neither table");
    }
    for field in missing.iter().chain(WITHOUT_EFFECT_UPSTREAM) {
        assert!(!ACTED_FIELDS.contains(field), "{field} is in both tables");
        let file = field.rsplit('.').fold(json!(null), |inner, key| json!({ key: inner }));
        let error =
            serde_json::from_value::<KubeletConfiguration>(file).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(!error.contains("unknown field"), "{field}: {error}");
    }
    let mut once = missing.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), missing.len(), "a field belongs to one capability");
}

#[test]
fn every_acted_field_exists() {
    // Set to a value of each type in turn, a known field never answers "unknown field".
    for path in ACTED_FIELDS {
        let file = path.rsplit('.').fold(json!(null), |inner, key| json!({ key: inner }));
        let error =
            serde_json::from_value::<KubeletConfiguration>(file).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(!error.contains("unknown field"), "{path}: {error}");
    }
}

#[test]
fn a_taint_without_a_value_has_none_in_the_api() {
    let taint = |value: &str| parts::Taint {
        key: "k".to_owned(),
        value: value.to_owned(),
        effect: "NoSchedule".to_owned(),
        time_added: Some("2026-01-01T00:00:00Z".to_owned()),
    };
    for (value, shown) in [("v", Some("v".to_owned())), ("", None)] {
        let made = k8s_openapi::api::core::v1::Taint::from(&taint(value));
        assert_eq!((made.key.as_str(), made.value, made.effect.as_str()), ("k", shown, "NoSchedule"));
        assert_eq!(made.time_added, None, "the control plane sets it");
    }
}

#[test]
fn a_buffer_size_is_a_quantity_or_a_bare_number() {
    let read = |size: &str| {
        let text = format!(r#"{{"infoBufferSize": {size}}}"#);
        serde_json::from_str::<logging::OutputRouting>(&text).map(|routing| routing.info_buffer_size).ok()
    };
    for (size, expected) in [
        (r#""""#, Some("0")),
        (r#""2Ki""#, Some("2Ki")),
        ("512", Some("512")),
        ("-1", Some("-1")),
        (r#""two""#, None),
        ("true", None),
    ] {
        assert_eq!(read(size).as_deref(), expected, "{size}");
    }
}

#[test]
fn a_duration_of_go_is_one_of_rust_unless_it_is_negative() {
    assert_eq!(std::time::Duration::from(GoDuration::secs(90)), std::time::Duration::from_secs(90));
    assert_eq!(std::time::Duration::from(GoDuration::nanos(-1)), std::time::Duration::ZERO);
}
