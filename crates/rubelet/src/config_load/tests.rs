//! CFG-01 to CFG-07: from flags and files to one configuration.

use std::fs;

use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::*;
use crate::flags::{Command, parse};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// A directory with files; `DIR` in flags and messages stands for it.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = TempDir::new().expect("a directory");
        for (name, content) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("its directory");
            fs::write(path, content.replace("HEAD\n", HEAD)).expect("a file");
        }
        Self(dir)
    }

    fn load(&self, line: &str) -> Result<Loaded, LoadError> {
        let line = line.replace("DIR", &self.0.path().display().to_string());
        match parse(line.split_whitespace().map(Into::into)).expect("a valid command line") {
            Command::Run(options) => load(&options, CgroupVersion::V2),
            other => panic!("{other:?}"),
        }
    }

    fn loaded(&self, line: &str) -> Loaded {
        self.load(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn check_tolerated(&self, line: &str, expected: &Expect) -> Loaded {
        let loaded = self.loaded(line);
        expected.assert_eq(&loaded.tolerated.join("\n").replace(&self.0.path().display().to_string(), "DIR"));
        loaded
    }

    fn check_error(&self, line: &str, expected: &Expect) {
        let error = self.load(line).expect_err(line).to_string();
        expected.assert_eq(&error.replace(&self.0.path().display().to_string(), "DIR"));
    }
}

fn check_file(content: &str, expected: &Expect) {
    Files::new(&[("k.yaml", content)]).check_error("--config=DIR/k.yaml", expected);
}

#[test]
fn cfg_01_flags_win_over_drop_ins_over_the_file_over_defaults() {
    let files = Files::new(&[
        ("k.yaml", "HEAD\nmaxPods: 10\npodsPerCore: 10\nport: 10\n"),
        ("d/10-a.conf", "HEAD\nmaxPods: 20\npodsPerCore: 20\n"),
        ("d/20-b.conf", "HEAD\nmaxPods: 30\n"),
    ]);
    let config = files.loaded("--config=DIR/k.yaml --config-dir=DIR/d --max-pods=40").config;
    assert_eq!((config.max_pods, config.pods_per_core, config.port, config.healthz_port), (40, 20, 10, 10248));
    let config = files.loaded("--config=DIR/k.yaml --config-dir=DIR/d").config;
    assert_eq!((config.max_pods, config.pods_per_core), (30, 20));
    let config = files.loaded("--config=DIR/k.yaml --max-pods=40").config;
    assert_eq!((config.max_pods, config.pods_per_core), (40, 10));
    let config = files.loaded("--config-dir=DIR/d --read-only-port=5").config;
    assert_eq!((config.max_pods, config.pods_per_core, config.read_only_port), (30, 20, 5));
}

#[test]
fn cfg_01_drop_ins_come_in_lexical_order_sub_directories_included() {
    let files = Files::new(&[
        ("d/20.conf", "HEAD\nclusterDomain: a20\n"),
        ("d/10.conf", "HEAD\nclusterDomain: a10\nclusterDNS: [1.1.1.1, 2.2.2.2]\n"),
        ("d/15/99.conf", "HEAD\nclusterDomain: a15\nclusterDNS: [3.3.3.3]\n"),
        ("d/30.conf.bak", "not even yaml: ["),
        ("d/README", "read me"),
    ]);
    let loaded = files.loaded("--config-dir=DIR/d");
    assert_eq!(
        (loaded.config.cluster_domain.as_str(), loaded.config.cluster_dns.join(" ").as_str()),
        ("a20", "3.3.3.3")
    );
    let skipped: Vec<_> = loaded.skipped.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    assert_eq!(skipped, ["30.conf.bak", "README"]);
}

#[test]
fn cfg_01_maps_are_merged_lists_replaced_and_null_brings_the_default_back() {
    let files = Files::new(&[
        (
            "k.yaml",
            "HEAD\nevictionHard: {memory.available: 1Gi}\nenforceNodeAllocatable: [none]\nmaxPods: 10\nauthentication: {anonymous: {enabled: true}}\n",
        ),
        (
            "d/1.conf",
            "HEAD\nevictionHard: {nodefs.available: 5%}\nenforceNodeAllocatable: [pods]\nmaxPods: null\nauthentication: {webhook: {enabled: false}}\n",
        ),
    ]);
    let config = files.loaded("--config=DIR/k.yaml --config-dir=DIR/d").config;
    assert_eq!(config.eviction_hard.len(), 2);
    assert_eq!(config.enforce_node_allocatable, ["pods"]);
    assert_eq!(config.max_pods, 110);
    assert!(config.authentication.anonymous.enabled && !config.authentication.webhook.enabled);
}

#[test]
fn cfg_02_feature_gates_are_merged_per_key() {
    let files = Files::new(&[
        ("k.yaml", "HEAD\nfeatureGates: {MemoryQoS: true, EventedPLEG: true}\n"),
        ("d/1.conf", "HEAD\nfeatureGates: {EventedPLEG: false, ContainerStopSignals: true}\n"),
    ]);
    let loaded = files.loaded("--config=DIR/k.yaml --config-dir=DIR/d --feature-gates=MemoryQoS=false,PodsAPI=true");
    let gates: Vec<_> = loaded.config.feature_gates.iter().map(|(gate, on)| format!("{gate}={on}")).collect();
    assert_eq!(gates, ["ContainerStopSignals=true", "EventedPLEG=false", "MemoryQoS=false", "PodsAPI=true"]);
    assert!(loaded.gates.enabled(rubelet_core::config::Gate::PodsAPI));
}

#[test]
fn cfg_03_and_04_a_file_brings_its_own_defaults() {
    let files = Files::new(&[("k.yaml", "HEAD\n"), ("d/1.conf", "HEAD\n")]);
    let summary = |line: &str| {
        let config = files.loaded(line).config;
        let auth = &config.authentication;
        format!(
            "{} {} {} {} {}",
            auth.anonymous.enabled,
            auth.webhook.enabled,
            config.authorization.mode,
            config.read_only_port,
            config.eviction_hard.len()
        )
    };
    assert_eq!(summary(""), "true false AlwaysAllow 10255 0");
    assert_eq!(summary("--config=DIR/k.yaml"), "false true Webhook 0 5");
    assert_eq!(summary("--config-dir=DIR/d"), "true false AlwaysAllow 10255 0");
    assert_eq!(
        summary("--config=DIR/k.yaml --anonymous-auth --eviction-hard=memory.available<1Gi"),
        "true true Webhook 0 1"
    );
}

#[test]
fn a_map_flag_replaces_the_map_of_the_file() {
    let files = Files::new(&[(
        "k.yaml",
        "HEAD\nsystemReserved: {cpu: 1, memory: 1Gi}\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n"
            .replace("cpu: 1,", "cpu: '1',")
            .as_str(),
    )]);
    let config = files
        .loaded("--config=DIR/k.yaml --system-reserved=pid=100 --system-reserved=cpu=2 --reserved-memory=1:memory=2Gi")
        .config;
    assert_eq!(format!("{:?}", config.system_reserved), r#"{"cpu": "2", "pid": "100"}"#);
    assert_eq!(config.reserved_memory.iter().map(|m| m.numa_node).collect::<Vec<_>>(), [1]);
}

#[test]
fn json_files_are_read_too() {
    let json = "{\n\t\"apiVersion\": \"kubelet.config.k8s.io/v1beta1\",\n\t\"kind\": \"KubeletConfiguration\",\n\t\"maxPods\": 7\n}\n";
    let files = Files::new(&[("k.json", json)]);
    assert_eq!(files.loaded("--config=DIR/k.json").config.max_pods, 7);
}

#[test]
fn paths_in_the_file_are_relative_to_it() {
    let files =
        Files::new(&[("etc/k.yaml", "HEAD\nstaticPodPath: ../manifests\ntlsCertFile: ./a.crt\nresolvConf: /etc/r\n")]);
    let config = files.loaded("--config=DIR/etc/k.yaml").config;
    let dir = files.0.path().display();
    assert_eq!(config.static_pod_path, format!("{dir}/manifests"));
    assert_eq!(config.tls_cert_file, format!("{dir}/etc/a.crt"));
    assert_eq!((config.resolv_conf.as_str(), config.tls_private_key_file.as_str()), ("/etc/r", ""));
}

#[test]
fn what_kubeadm_writes_is_read() {
    let file = "HEAD\nauthentication:\n  anonymous:\n    enabled: false\n  webhook:\n    cacheTTL: 0s\n    enabled: true\n  x509:\n    clientCAFile: /etc/kubernetes/pki/ca.crt\nauthorization:\n  mode: Webhook\n  webhook:\n    cacheAuthorizedTTL: 0s\n    cacheUnauthorizedTTL: 0s\ncgroupDriver: systemd\nclusterDNS:\n- 10.96.0.10\nclusterDomain: cluster.local\ncontainerRuntimeEndpoint: \"\"\ncpuManagerReconcilePeriod: 0s\ncrashLoopBackOff: {}\nevictionPressureTransitionPeriod: 0s\nfileCheckFrequency: 0s\nhealthzBindAddress: 127.0.0.1\nhealthzPort: 10248\nhttpCheckFrequency: 0s\nimageMaximumGCAge: 0s\nimageMinimumGCAge: 0s\nlogging:\n  flushFrequency: 0\n  options:\n    json:\n      infoBufferSize: \"0\"\n    text:\n      infoBufferSize: \"0\"\n  verbosity: 0\nmemorySwap: {}\nnodeStatusReportFrequency: 0s\nnodeStatusUpdateFrequency: 0s\nresolvConf: /run/systemd/resolve/resolv.conf\nrotateCertificates: true\nruntimeRequestTimeout: 0s\nshutdownGracePeriod: 0s\nshutdownGracePeriodCriticalPods: 0s\nstaticPodPath: /etc/kubernetes/manifests\nstreamingConnectionIdleTimeout: 0s\nsyncFrequency: 0s\nvolumeStatsAggPeriod: 0s\n";
    let loaded = Files::new(&[("config.yaml", file)]).loaded("--config=DIR/config.yaml");
    assert_eq!(loaded.config.sync_frequency.to_string(), "1m0s");
    assert_eq!(
        loaded.config.crash_loop_back_off.max_container_restart_period.map(|p| p.to_string()).as_deref(),
        Some("5m0s")
    );
    assert_eq!(loaded.config.container_runtime_endpoint, "unix:///run/containerd/containerd.sock");
    expect![""].assert_eq(&loaded.warnings.join("\n"));
}

#[test]
fn what_is_wrong_in_a_file_is_shown_with_its_place() {
    check_file(
        "HEAD\nmaxPods: many\n",
        &expect![[
            r#"DIR/k.yaml:3:10: maxPods: must be a whole number between -2147483648 and 2147483647, not the text "many""#
        ]],
    );
    check_file(
        "HEAD\nmaxPods: 3000000000\n",
        &expect![
            "DIR/k.yaml:3:10: maxPods: the number 3000000000 is out of range; must be a whole number between -2147483648 and 2147483647"
        ],
    );
    check_file(
        "HEAD\nmaxPods: '5'\n",
        &expect![[
            r#"DIR/k.yaml:3:10: maxPods: must be a whole number between -2147483648 and 2147483647, not the text "5""#
        ]],
    );
    check_file("HEAD\nclusterDomain: 5\n", &expect!["DIR/k.yaml:3:16: clusterDomain: must be text, not the number 5"]);
    check_file(
        "HEAD\nclusterDNS: 10.0.0.1\n",
        &expect![[r#"DIR/k.yaml:3:13: clusterDNS: must be a list, not the text "10.0.0.1""#]],
    );
    check_file(
        "HEAD\nclusterDNS: [10.0.0.1, 5]\n",
        &expect!["DIR/k.yaml:3:24: clusterDNS[1]: must be text, not the number 5"],
    );
    check_file(
        "HEAD\nauthentication: yes please\n",
        &expect!["DIR/k.yaml:3:17: authentication: must be an object, not text"],
    );
    check_file(
        "HEAD\nsyncFrequency: 60\n",
        &expect!["DIR/k.yaml:3:16: syncFrequency: must be a duration like 300ms, 10s or 1m30s, not the number 60"],
    );
    check_file(
        "HEAD\nsyncFrequency: 1 minute\n",
        &expect![[
            r#"DIR/k.yaml:3:16: syncFrequency: "1 minute" is not a duration; write a number with a unit, like 300ms, 10s, 1m30s or 2h"#
        ]],
    );
    check_file(
        "HEAD\nhairpinMode: veth\n",
        &expect![[r#"DIR/k.yaml:3:14: hairpinMode: "veth" is not one of promiscuous-bridge, hairpin-veth, none"#]],
    );
    check_file(
        "HEAD\nfeatureGates:\n  MemoryQoS: \"true\"\n",
        &expect![[r#"DIR/k.yaml:4:14: featureGates.MemoryQoS: must be true or false, not the text "true""#]],
    );
    check_file("HEAD\nmaxPods: [\n", &expect!["DIR/k.yaml:3:10: unclosed bracket '['"]);
    check_file(
        "- a\n- b\n",
        &expect!["DIR/k.yaml:1:1: must be an object with apiVersion, kind and fields, not a list"],
    );
    check_file(
        "apiVersion: kubelet.config.k8s.io/v1\nmaxPods: 5\n",
        &expect![[r#"
        DIR/k.yaml:1:13: apiVersion: must be kubelet.config.k8s.io/v1beta1, not "kubelet.config.k8s.io/v1"
        DIR/k.yaml:1:1: kind: is missing; write kind: KubeletConfiguration"#]],
    );
    check_file(
        "\n",
        &expect![
            "configuration DIR/k.yaml is empty; it needs at least apiVersion: kubelet.config.k8s.io/v1beta1 and kind: KubeletConfiguration"
        ],
    );
}

#[test]
fn a_field_that_does_not_exist_does_not_take_a_node_down() {
    let tolerated = |content: &str, expected: &Expect| {
        Files::new(&[("k.yaml", content)]).check_tolerated("--config=DIR/k.yaml", expected)
    };
    let loaded = tolerated(
        "HEAD\nmaxPods: 5\nstaticPodPaht: /x\n",
        &expect!["DIR/k.yaml:4:1: staticPodPaht: unknown field; did you mean staticPodPath?"],
    );
    assert_eq!((loaded.config.max_pods, loaded.config.static_pod_path.as_str()), (5, ""));
    assert_eq!(loaded.warnings, [""; 0], "a field that does not exist is no setting without effect");
    tolerated(
        "HEAD\nauthentication:\n  webhok: {}\n  x509:\n    clientCaFile: /x\nzzz: {a: {b: [1]}}\nmaxPod:\n",
        &expect![[r#"
            DIR/k.yaml:4:3: authentication.webhok: unknown field; did you mean webhook?
            DIR/k.yaml:6:5: authentication.x509.clientCaFile: unknown field; did you mean clientCAFile?
            DIR/k.yaml:7:1: zzz: unknown field
            DIR/k.yaml:8:1: maxPod: unknown field; did you mean maxPods?"#]],
    );
    tolerated(
        "HEAD\nregisterWithTaints:\n- key: a\n  effect: NoSchedule\n- key: b\n  efect: x\n  effect: NoSchedule\n",
        &expect!["DIR/k.yaml:7:3: registerWithTaints[1].efect: unknown field; did you mean effect?"],
    );
    check_file(
        "HEAD\nmaxPod: 5\nmaxPods: many\n",
        &expect![[
            r#"DIR/k.yaml:4:10: maxPods: must be a whole number between -2147483648 and 2147483647, not the text "many""#
        ]],
    );
}

#[test]
fn a_field_that_does_not_exist_in_a_drop_in_is_passed_over() {
    let files = Files::new(&[
        ("k.yaml", "HEAD\nmaxPods: 5\n"),
        ("d/1.conf", "HEAD\nofTomorrow: {a: 1}\nlogging: {v: 3}\nmaxPods: 6\n"),
        ("d/2.conf", "HEAD\npodsPerCore: 1\npodsPerCore: 2\n"),
    ]);
    let loaded = files.check_tolerated(
        "--config=DIR/k.yaml --config-dir=DIR/d",
        &expect![[r#"
            DIR/d/1.conf:3:1: ofTomorrow: unknown field
            DIR/d/1.conf:4:11: logging.v: unknown field; there are format, flushFrequency, verbosity, vmodule, options
            DIR/d/2.conf:4:1: podsPerCore: is a duplicate key; the value of line 3 is ignored"#]],
    );
    assert_eq!((loaded.config.max_pods, loaded.config.pods_per_core), (6, 2));
}

#[test]
fn of_a_key_that_is_there_twice_the_last_counts() {
    let files = Files::new(&[(
        "k.yaml",
        "HEAD\nmaxPods: 5\nmaxPods: 6\nauthentication:\n  anonymous: {enabled: true, enabled: false}\nsystemReserved: &a {cpu: 1m, pid: '1'}\nkubeReserved:\n  <<: *a\n  cpu: 2m\n",
    )]);
    let loaded = files.check_tolerated(
        "--config=DIR/k.yaml",
        &expect![[r#"
            DIR/k.yaml:4:1: maxPods: is a duplicate key; the value of line 3 is ignored
            DIR/k.yaml:6:30: authentication.anonymous.enabled: is a duplicate key; the value of line 6 is ignored"#]],
    );
    assert_eq!((loaded.config.max_pods, loaded.config.authentication.anonymous.enabled), (6, false));
    assert_eq!(format!("{:?}", loaded.config.kube_reserved), r#"{"cpu": "2m", "pid": "1"}"#);
}

#[test]
fn a_huge_number_is_shown_as_it_is_written() {
    check_file(
        "HEAD\nmaxPods: 99999999999999999999 # many\n",
        &expect![
            "DIR/k.yaml:3:10: maxPods: the number 99999999999999999999 is out of range; must be a whole number between -2147483648 and 2147483647"
        ],
    );
    check_file(
        "HEAD\nauthentication: {webhook: {enabled: -99999999999999999999}}\n",
        &expect![
            "DIR/k.yaml:3:37: authentication.webhook.enabled: the number -99999999999999999999 is out of range; must be true or false"
        ],
    );
    check_file(
        "HEAD\nimageMinimumGCAge: 9999999h\n",
        &expect![[
            r#"DIR/k.yaml:3:20: imageMinimumGCAge: "9999999h" is out of range; the longest duration is 2562047h47m16s, some 292 years"#
        ]],
    );
    check_file(
        "HEAD\nmaxPods: 1.5e30\n",
        &expect![
            "DIR/k.yaml:3:10: maxPods: must be a whole number between -2147483648 and 2147483647, not the number 1500000000000000000000000000000"
        ],
    );
}

/// Files that would cost a reader without bounds seconds or gigabytes.
#[test]
fn the_size_the_depth_and_the_aliases_of_a_file_are_bounded() {
    check_file(
        &format!("HEAD\nclusterDomain: {}\n", "x".repeat(1024 * 1024)),
        &expect!["configuration DIR/k.yaml is larger than 1048576 bytes: it is no KubeletConfiguration"],
    );
    let deep = |open: &str, levels: usize, close: &str| {
        format!("HEAD\nclusterDNS: {}{}\n", open.repeat(levels), close.repeat(levels))
    };
    check_file(&deep("[", 33, "]"), &expect!["DIR/k.yaml:3:45: recursion limit exceeded"]);
    check_file(&deep("{a: ", 33, "}"), &expect!["DIR/k.yaml:3:137: is nested deeper than 32 levels"]);
    check_file(&deep("[", 100_000, "]"), &expect!["DIR/k.yaml:3:45: recursion limit exceeded"]);
    check_file(
        &format!("HEAD\nclusterDNS: [{}]\n", "x, ".repeat(60_000)),
        &expect!["DIR/k.yaml:3:149993: has more than 50000 values: it is no KubeletConfiguration"],
    );
    let shown_again = "*a, ".repeat(1_500);
    check_file(
        &format!("HEAD\nclusterDomain: &a x\nclusterDNS: [{shown_again}]\n"),
        &expect!["DIR/k.yaml:4:4014: has more than 1000 aliases: it is no KubeletConfiguration"],
    );
    let anchors: String = (0..1_500).map(|at| format!("&a{at} x, ")).collect();
    check_file(
        &format!("HEAD\nclusterDNS: [{anchors}]\n"),
        &expect!["DIR/k.yaml:3:8911: has more than 1000 anchors: it is no KubeletConfiguration"],
    );
    let merged = "  <<: {}\n".repeat(1_500);
    check_file(
        &format!("HEAD\nauthentication:\n{merged}"),
        &expect!["DIR/k.yaml:1004:3: has more than 1000 merge keys: it is no KubeletConfiguration"],
    );
    let mut bomb = "HEAD\na0: &a0 [x, x]\n".to_owned();
    for level in 1..30 {
        let below = level - 1;
        bomb += &format!("a{level}: &a{level} [*a{below}, *a{below}]\n");
    }
    check_file(
        &bomb,
        &expect!["DIR/k.yaml:16:12: YAML document too large or too complex: total_replayed_events=50001 > 50000"],
    );
    let names: String = (0..20_000).map(|at| format!("maxPodz{at}: 1\n")).collect();
    let files = Files::new(&[("k.yaml", &format!("HEAD\n{names}"))]);
    let loaded = files.loaded("--config=DIR/k.yaml");
    assert_eq!(loaded.tolerated.len(), 51);
    let last = loaded.tolerated.last().expect("one of 51");
    assert!(last.ends_with("and 19950 more unknown or duplicate fields"), "{last}");
    let long = format!("HEAD\n? {}\n: 1\n", "x".repeat(500_000));
    let loaded = Files::new(&[("k.yaml", &long)]).loaded("--config=DIR/k.yaml");
    assert!(loaded.tolerated.iter().all(|line| line.len() < 500), "names are cut");
}

#[test]
fn a_value_out_of_range_is_shown_with_its_range() {
    check_file(
        "HEAD\nmaxPods: -5\nhealthzPort: 70000\nfeatureGates: {MemoryQos: true}\n",
        &expect![[r#"
        invalid configuration:
          featureGates (--feature-gates): unrecognized feature gate: MemoryQos; did you mean MemoryQoS?
          maxPods (--max-pods) -5: must be 0 or more
          healthzPort (--healthz-port) 70000: must be between 0 and 65535"#]],
    );
    Files::new(&[]).check_error(
        "--max-pods=-5",
        &expect![[r#"
        invalid configuration:
          maxPods (--max-pods) -5: must be 0 or more"#]],
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    Files::new(&[]).check_error("--config=DIR/none.yaml", &expect!["cannot read configuration DIR/none.yaml"]);
    Files::new(&[]).check_error("--config-dir=DIR/none", &expect!["cannot read configuration DIR/none"]);
    let files = Files::new(&[("d/1.conf", "maxPods: 5\n"), ("e/1.conf", "HEAD\nmaxPod: 5\n"), ("f/1.conf", "")]);
    files.check_error(
        "--config-dir=DIR/d",
        &expect![[r#"
        DIR/d/1.conf:1:1: apiVersion: is missing; write apiVersion: kubelet.config.k8s.io/v1beta1
        DIR/d/1.conf:1:1: kind: is missing; write kind: KubeletConfiguration"#]],
    );
    files.check_tolerated(
        "--config-dir=DIR/e",
        &expect!["DIR/e/1.conf:3:1: maxPod: unknown field; did you mean maxPods?"],
    );
    files.check_error("--config-dir=DIR/f", &expect!["configuration DIR/f/1.conf is empty; it needs at least apiVersion: kubelet.config.k8s.io/v1beta1 and kind: KubeletConfiguration"]);
}

#[test]
fn cfg_06_wrong_node_labels_stop_the_start() {
    Files::new(&[]).check_error("--node-labels=node-role.kubernetes.io/x=,a=b/c", &expect![[r#"
        invalid --node-labels:
          node label "a" has the value "b/c", which is not valid; a value is empty, or at most 63 letters, digits, '-', '_' and '.', and starts and ends with a letter or digit
          node label "node-role.kubernetes.io/x" is in a reserved domain; a node may set beta.kubernetes.io/arch, beta.kubernetes.io/instance-type, beta.kubernetes.io/os, failure-domain.beta.kubernetes.io/region, failure-domain.beta.kubernetes.io/zone, kubernetes.io/arch, kubernetes.io/hostname, kubernetes.io/os, node.kubernetes.io/instance-type, topology.kubernetes.io/region, topology.kubernetes.io/zone and labels in kubelet.kubernetes.io or node.kubernetes.io"#]]);
}

#[test]
fn what_has_no_effect_is_said_once() {
    let files = Files::new(&[(
        "k.yaml",
        "HEAD\nfailSwapOn: false\nrotateCertificates: true\nfeatureGates: {MemoryQoS: true, NodeSwap: true}\n",
    )]);
    let loaded = files.loaded("--config=DIR/k.yaml --eviction-hard=memory.available<1Gi --node-ip=10.0.0.1,x");
    expect![[r#"
        flag --eviction-hard is deprecated: set evictionHard in the --config file instead
        setting GA feature gate NodeSwap=true; the gate will be removed in a future release
        --node-ip: x is not an IP address and is ignored
        these settings are accepted but have no effect yet: featureGates.MemoryQoS, featureGates.NodeSwap"#]]
    .assert_eq(&loaded.warnings.join("\n"));
}

#[test]
fn no_flags_no_files_no_warnings() {
    let loaded = Files::new(&[]).loaded("");
    assert_eq!((loaded.warnings.len(), loaded.tolerated.len(), loaded.skipped.len()), (0, 0, 0));
    assert_eq!(loaded.config, KubeletConfiguration::legacy_defaults());
}

#[test]
fn yaml_is_read_as_kubernetes_reads_it() {
    type Get = fn(&KubeletConfiguration) -> String;
    let table: [(&str, Get, &str); 12] = [
        ("failSwapOn: no", |c| c.fail_swap_on.to_string(), "false"),
        ("failSwapOn: off", |c| c.fail_swap_on.to_string(), "false"),
        ("rotateCertificates: yes", |c| c.rotate_certificates.to_string(), "true"),
        ("rotateCertificates: True", |c| c.rotate_certificates.to_string(), "true"),
        ("maxPods: ~", |c| c.max_pods.to_string(), "110"),
        ("maxPods:", |c| c.max_pods.to_string(), "110"),
        ("evictionHard:", |c| c.eviction_hard.len().to_string(), "5"),
        ("authentication:", |c| c.authentication.webhook.enabled.to_string(), "true"),
        ("maxPods: 0x10", |c| c.max_pods.to_string(), "16"),
        ("memoryThrottlingFactor: 1", |c| format!("{:?}", c.memory_throttling_factor), "Some(1.0)"),
        ("podsPerCore: &a 7\nmaxPods: *a", |c| c.max_pods.to_string(), "7"),
        ("clusterDomain: \"yes\"", |c| c.cluster_domain.clone(), "yes"),
    ];
    for (line, get, expected) in table {
        let file = format!("{HEAD}{line}\n");
        let loaded = Files::new(&[("k.yaml", &file)]).loaded("--config=DIR/k.yaml");
        assert_eq!(get(&loaded.config), expected, "{line}");
    }
}

#[test]
fn no_text_makes_the_reader_panic() {
    let words = [
        "{", "}", "[", "]", ":", " ", "\n", "- ", "maxPods", "\t", "&a", "*a", "<<", "'", "\"", "~", "1", "é", "---",
        "!!x",
    ];
    let mut seed: usize = 7;
    for _ in 0..3000 {
        let text: String = (0..12)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                words[(seed >> 33) % words.len()]
            })
            .collect();
        let mut tolerated = Tolerated::default();
        if let Ok(tree) = tree::Node::parse(&text, &mut tolerated) {
            let _ = tree.given();
            let _ = decode::decode::<KubeletConfiguration>(&tree, &mut tolerated);
        }
    }
}
