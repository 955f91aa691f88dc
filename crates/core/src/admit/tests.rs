//! Section 15.

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::ContainerPort;
use serde_json::{Value, json};

use super::*;
use crate::resources::Amount;
use crate::resources::tests::pod;

struct Node {
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    allocatable: Amounts,
    sysctls: SysctlAllowlist,
}

fn node(unsafe_sysctls: &[&str], taints: Value) -> Node {
    let amount = |(name, text): (&str, &str)| (name.to_owned(), Amount::parse(text).expect("an amount"));
    let unsafe_sysctls: Vec<String> = unsafe_sysctls.iter().map(|name| (*name).to_owned()).collect();
    Node {
        labels: [("kubernetes.io/hostname", "n1"), ("disk", "ssd"), ("cores", "8")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        taints: serde_json::from_value(taints).expect("taints"),
        allocatable: [("cpu", "2"), ("memory", "1000"), ("ephemeral-storage", "10"), ("pods", "3"), ("a.b/gpu", "1")]
            .map(amount)
            .into(),
        sysctls: SysctlAllowlist::new((5, 10), &unsafe_sysctls).expect("an allow-list"),
    }
}

impl Node {
    fn view(&self) -> AdmitView<'_> {
        AdmitView {
            node_name: "n1",
            labels: &self.labels,
            taints: &self.taints,
            allocatable: &self.allocatable,
            sysctls: &self.sysctls,
            apparmor: false,
            supplemental_groups_policy: false,
        }
    }
}

fn spec(more: Value) -> Value {
    let mut whole = json!({"containers": [{"name": "c"}]});
    whole.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    whole
}

fn requesting(requests: Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": requests}}]})
}

fn of_file(mut pod: Pod) -> Pod {
    pod.metadata.annotations = Some([("kubernetes.io/config.source".to_owned(), "file".to_owned())].into());
    pod
}

fn answer(node: &Node, pod: &Pod, others: &[Pod]) -> String {
    let others: Vec<Allocation> = others.iter().map(|other| Allocation::of(Arc::new(other.clone()))).collect();
    match admit(&node.view(), &Arc::new(pod.clone()), &others) {
        Ok(_) => "admitted".to_owned(),
        Err(Rejection { reason, message, .. }) => format!("{reason}: {message}"),
    }
}

fn check(more: Value, expected: &Expect) {
    expected.assert_eq(&answer(&node(&[], json!([])), &pod(spec(more)), &[]));
}

/// ADM-05: operating system, node, groups policy.
#[test]
fn adm_05_where_a_pod_belongs() {
    check(json!({}), &expect!["admitted"]);
    check(json!({"os": {"name": "linux"}, "nodeName": "n1", "nodeSelector": {"disk": "ssd"}}), &expect!["admitted"]);
    check(
        json!({"os": {"name": "windows"}}),
        &expect!["PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS"],
    );
    check(
        json!({"nodeName": "n2"}),
        &expect!["NodeName: Predicate NodeName failed: node(s) didn't match the requested node name"],
    );
    check(
        json!({"nodeSelector": {"disk": "hdd"}}),
        &expect!["NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"],
    );
    check(
        json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}}),
        &expect!["SupplementalGroupsPolicyNotSupported: SupplementalGroupsPolicy=Strict is not supported in this node"],
    );
    let mut labelled = pod(spec(json!({})));
    labelled.metadata.labels = Some([("kubernetes.io/os".to_owned(), "windows".to_owned())].into());
    expect!["PodOSSelectorNodeLabelDoesNotMatch: Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"]
        .assert_eq(&answer(&node(&[], json!([])), &labelled, &[]));
}

#[test]
fn adm_05_required_node_affinity() {
    let term = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let required = |terms: Value| {
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        answer(&node(&[], json!([])), &pod(spec(json!({"affinity": affinity}))), &[]) == "admitted"
    };
    let rows = [
        (json!([term("disk", "In", json!(["hdd", "ssd"]))]), true),
        (json!([term("disk", "NotIn", json!(["ssd"]))]), false),
        (json!([term("none", "NotIn", json!(["ssd"]))]), true),
        (json!([term("disk", "Exists", json!([]))]), true),
        (json!([term("disk", "DoesNotExist", json!([]))]), false),
        (json!([term("none", "DoesNotExist", json!([]))]), true),
        (json!([term("cores", "Gt", json!(["4"]))]), true),
        (json!([term("cores", "Gt", json!(["8"]))]), false),
        (json!([term("cores", "Gt", json!(["9"]))]), false),
        (json!([term("cores", "Lt", json!(["8"]))]), false),
        (json!([term("cores", "Lt", json!(["9"]))]), true),
        (json!([term("cores", "Lt", json!(["4"]))]), false),
        (json!([term("disk", "Near", json!(["ssd"]))]), false),
        (json!([term("disk", "In", json!(["hdd"])), term("cores", "Exists", json!([]))]), true),
        (json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]), true),
        (json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]), false),
        (json!([{}]), false),
    ];
    for (terms, expected) in rows {
        assert_eq!(required(terms.clone()), expected, "{terms}");
    }
}

/// ADM-05; the example of the row. upstream: lifecycle/predicate_test.go TestGeneralPredicates (v1.36)
#[test]
fn adm_05_what_does_not_fit() {
    let node = node(&[], json!([]));
    let used = |requests: Value| vec![pod(requesting(requests))];
    let fits = |requests: Value, others: &[Pod]| answer(&node, &pod(requesting(requests)), others);
    assert_eq!(fits(json!({"cpu": "100m", "memory": "1000"}), &used(json!({"cpu": "1900m"}))), "admitted");
    expect!["OutOfcpu: Node didn't have enough resource: cpu, requested: 200, used: 1900, capacity: 2000"]
        .assert_eq(&fits(json!({"cpu": "200m"}), &used(json!({"cpu": "1900m"}))));
    expect!["OutOfmemory: Node didn't have enough resource: memory, requested: 600, used: 500, capacity: 1000"]
        .assert_eq(&fits(json!({"memory": "600"}), &used(json!({"memory": "500"}))));
    expect!["OutOfephemeral-storage: Node didn't have enough resource: ephemeral-storage, requested: 11, used: 0, capacity: 10"]
        .assert_eq(&fits(json!({"ephemeral-storage": "11"}), &[]));
    expect!["OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"]
        .assert_eq(&fits(json!({}), &[pod(spec(json!({}))), pod(spec(json!({}))), pod(spec(json!({})))]));
    expect!["OutOfa.b/gpu: Node didn't have enough resource: a.b/gpu, requested: 2, used: 0, capacity: 1"]
        .assert_eq(&fits(json!({"a.b/gpu": "2"}), &[]));
    assert!(fits(json!({"hugepages-2Mi": "2Mi"}), &[]).starts_with("OutOfhugepages-2Mi: "));
}

/// No pod runs without what it asked for; of what nothing serves there is none.
#[test]
fn extended_resources_that_nothing_serves_and_resource_claims_are_refused() {
    let node = node(&[], json!([]));
    let gpu = || pod(requesting(json!({"nvidia.com/gpu": "1"})));
    expect![
        "OutOfnvidia.com/gpu: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 0, capacity: 0"
    ]
    .assert_eq(&answer(&node, &gpu(), &[]));
    expect!["UnexpectedAdmissionError: Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: nvidia.com/gpu, q: 1), ]"]
        .assert_eq(&answer(&node, &of_file(gpu()), &[]));
    let init = json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i", "resources": {"requests": {"c.d/e": "1"}}}]});
    assert!(answer(&node, &pod(init), &[]).starts_with("OutOfc.d/e: "));
    assert_eq!(answer(&node, &pod(requesting(json!({"nvidia.com/gpu": "0"}))), &[]), "admitted", "it asks for none");
    for (more, is_static) in [
        (json!({"resourceClaims": [{"name": "net", "resourceClaimName": "x"}]}), false),
        (json!({"resourceClaims": [{"name": "net", "resourceClaimName": "x"}]}), true),
        (json!({"containers": [{"name": "c", "resources": {"claims": [{"name": "net"}]}}]}), false),
        (json!({"initContainers": [{"name": "i", "resources": {"claims": [{"name": "net"}]}}]}), false),
    ] {
        let plain = pod(spec(more));
        let claiming = if is_static { of_file(plain) } else { plain };
        expect![[r#"UnexpectedAdmissionError: Allocate failed due to resource claim "net" cannot be prepared: this node has no dynamic resource allocation, which is unexpected"#]]
            .assert_eq(&answer(&node, &claiming, &[]));
    }
}

#[test]
fn a_pod_that_asks_for_too_much_is_refused_with_the_number_and_the_limit() {
    let node = node(&[], json!([]));
    let list = |n: usize, of: &dyn Fn(usize) -> Value| json!((0..n).map(of).collect::<Vec<_>>());
    let containers = |key: &'static str| move |n: usize| json!({key: list(n, &|i| json!({"name": format!("x{i}")}))});
    let own = |key: &'static str, of: fn(usize) -> Value| move |n: usize| json!({"containers": [{"name": "c", key: list(n, &of)}]});
    let volume = |of: fn(usize) -> Value| move |n: usize| json!({"volumes": list(n, &of)});
    let items = |i: usize| json!({"key": "k", "path": format!("p{i}")});
    type Make<'a> = Box<dyn Fn(usize) -> Value + 'a>;
    let rows: [(&str, usize, usize, Make<'_>); 12] = [
        ("containers", 256, 0, Box::new(containers("containers"))),
        // Beside the one container of every pod.
        ("containers", 256, 1, Box::new(containers("initContainers"))),
        ("containers", 256, 1, Box::new(containers("ephemeralContainers"))),
        ("volumes", 512, 0, Box::new(volume(|i| json!({"name": format!("v{i}"), "emptyDir": {}})))),
        (
            "volume mounts",
            2048,
            0,
            Box::new(own("volumeMounts", |i| json!({"name": "v", "mountPath": format!("/{i}")}))),
        ),
        ("ports", 4096, 0, Box::new(own("ports", |i| json!({"containerPort": i + 1})))),
        (
            "files in its volumes",
            8192,
            0,
            Box::new(|n| json!({"volumes": [{"name": "v", "configMap": {"name": "m", "items": list(n, &items)}}]})),
        ),
        (
            "files in its volumes",
            8192,
            0,
            Box::new(|n| json!({"volumes": [{"name": "v", "secret": {"secretName": "m", "items": list(n, &items)}}]})),
        ),
        (
            "files in its volumes",
            8192,
            0,
            Box::new(
                |n| json!({"volumes": [{"name": "v", "downwardAPI": {"items": list(n, &|i| json!({"path": format!("p{i}"), "fieldRef": {"fieldPath": "metadata.annotations"}}))}}]}),
            ),
        ),
        (
            "files in its volumes",
            8192,
            0,
            Box::new(
                |n| json!({"volumes": [{"name": "v", "projected": {"sources": list(n, &|_| json!({"serviceAccountToken": {"path": "t"}}))}}]}),
            ),
        ),
        ("config maps", 500, 0, Box::new(own("envFrom", |i| json!({"configMapRef": {"name": format!("m{i}")}})))),
        (
            "secrets",
            500,
            0,
            Box::new(own(
                "env",
                |i| json!({"name": format!("E{i}"), "valueFrom": {"secretKeyRef": {"name": format!("s{i}"), "key": "k"}}}),
            )),
        ),
    ];
    for (what, limit, more, make) in rows {
        assert_eq!(answer(&node, &pod(spec(make(limit - more))), &[]), "admitted", "{what}");
        let count = limit + 1;
        let expected =
            format!("PodTooLarge: Pod asks for {count} {what}, and this node runs pods with at most {limit}");
        assert_eq!(answer(&node, &pod(spec(make(count - more))), &[]), expected);
        assert!(answer(&node, &pod(spec(make(10_000))), &[]).starts_with("PodTooLarge: Pod asks for 1"), "{what}");
    }
}

#[test]
fn adm_05_ports_of_the_node() {
    let port = |value: Value| pod(json!({"containers": [{"name": "c", "ports": [value]}]}));
    let node = node(&[], json!([]));
    let taken = [port(json!({"containerPort": 1, "hostPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1"}))];
    let why = "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    assert_eq!(answer(&node, &port(json!({"containerPort": 2, "hostPort": 80})), &taken), why);
    assert_eq!(
        answer(&node, &port(json!({"containerPort": 2, "hostPort": 80, "hostIP": "10.0.0.2"})), &taken),
        "admitted"
    );
    assert_eq!(
        answer(&node, &port(json!({"containerPort": 2, "hostPort": 80, "protocol": "UDP"})), &taken),
        "admitted"
    );
    assert_eq!(answer(&node, &port(json!({"containerPort": 80})), &taken), "admitted");
    // On all addresses, on either side, in either notation.
    for all in [json!({}), json!({"hostIP": ""}), json!({"hostIP": "0.0.0.0"})] {
        let mut on_all = json!({"containerPort": 2, "hostPort": 80});
        on_all.as_object_mut().expect("an object").extend(all.as_object().expect("an object").clone());
        assert_eq!(answer(&node, &port(on_all.clone()), &taken), why, "{on_all}");
        assert_eq!(answer(&node, &taken[0], &[port(on_all.clone())]), why, "{on_all}");
        assert_eq!(answer(&node, &port(on_all.clone()), &[port(on_all.clone())]), why, "{on_all}");
    }
    assert_eq!(answer(&node, &taken[0], &taken), why, "the same address");
    assert_eq!(answer(&node, &port(json!({"containerPort": 2, "hostPort": 81})), &taken), "admitted");
}

/// Forty pods with 4,000 ports each, and one more: a comparison of each with each would be 10^9 of them, and take a minute
/// in a slow build.
#[test]
#[expect(clippy::disallowed_methods, reason = "the cost itself is what is tested")]
fn ports_of_many_pods_are_looked_up_and_not_compared_with_each_other() {
    let mut node = node(&[], json!([]));
    node.allocatable.insert("pods".to_owned(), Amount::units(500));
    let many = |first: i32| {
        let ports =
            (0..4000).map(|n| ContainerPort { host_port: Some(first + n), ..ContainerPort::default() }).collect();
        let mut many = pod(spec(json!({})));
        many.spec.as_mut().expect("a spec").containers[0].ports = Some(ports);
        many
    };
    let others = vec![Allocation::of(Arc::new(many(1))); 40];
    let began = std::time::Instant::now();
    assert!(admit(&node.view(), &Arc::new(many(5000)), &others).is_ok());
    assert_eq!(admit(&node.view(), &Arc::new(many(4000)), &others).expect_err("one is taken").reason, "NodePorts");
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}

/// ADM-30; upstream: types/pod_update.go Preemptable (v1.36)
#[test]
fn adm_30_only_a_higher_pod_pushes_another_aside() {
    let with = |priority: Option<i32>| pod(spec(json!({"priority": priority})));
    let critical = Some(2_000_000_000);
    for (pod, other, expected) in [
        (with(Some(5)), with(Some(4)), true),
        (with(Some(5)), with(Some(5)), false),
        (with(Some(4)), with(Some(5)), false),
        (with(None), with(Some(-1)), false),
        (with(critical), with(Some(1_999_999_999)), true),
        (with(critical), with(critical), false),
        (with(Some(2_000_000_001)), with(critical), true),
        (of_file(with(None)), with(Some(7)), true),
        (of_file(with(None)), of_file(with(None)), false),
        (of_file(with(Some(0))), with(critical), false),
    ] {
        assert_eq!(fit::can_preempt(&pod, &other), expected, "{:?} {:?}", pod.spec, other.spec);
    }
}

#[test]
fn adm_05_no_execute_taints_do_not_count_for_static_pods() {
    let tainted =
        node(&[], json!([{"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "x", "effect": "NoSchedule"}]));
    let plain = pod(spec(json!({})));
    let why = "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
    assert_eq!(answer(&tainted, &plain, &[]), why);
    assert_eq!(answer(&tainted, &of_file(plain), &[]), "admitted");
    for (toleration, expected) in [
        (json!({"operator": "Exists"}), true),
        (json!({"key": "k", "value": "v"}), true),
        (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), true),
        (json!({"key": "k", "value": "w"}), false),
        (json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}), false),
    ] {
        let tolerant = pod(spec(json!({"tolerations": [toleration]})));
        assert_eq!(answer(&tainted, &tolerant, &[]) == "admitted", expected, "{toleration}");
    }
}

/// ADM-30, ADM-31: a critical pod is never rejected for `OutOf` resources; upstream: preemption/preemption_test.go (v1.36)
#[test]
fn adm_31_a_critical_pod_for_which_nothing_makes_room() {
    let node = node(&[], json!([]));
    let big = of_file(pod(requesting(json!({"cpu": "1500m", "memory": "2000"}))));
    let other = [of_file(pod(requesting(json!({"cpu": "1"}))))];
    expect!["UnexpectedAdmissionError: Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 500), (res: memory, q: 1000), ]"]
        .assert_eq(&answer(&node, &big, &other));
    // Whatever else is wrong is said instead.
    let elsewhere =
        of_file(pod(json!({"nodeName": "n2", "containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]})));
    assert!(answer(&node, &elsewhere, &[]).starts_with("NodeName: "));
    // Preemption could make room: the rejection lists the shortages for it.
    let victim = pod(requesting(json!({"cpu": "1"})));
    let urgent = of_file(pod(requesting(json!({"cpu": "1500m"}))));
    let rejection = admit(&node.view(), &Arc::new(urgent), &[Allocation::of(Arc::new(victim))]).expect_err("refused");
    assert_eq!((rejection.reason.as_str(), rejection.shortages.len()), ("OutOfcpu", 1));
    assert_eq!(rejection.shortages[0].missing(), 500);
}

/// ADM-20: each safe setting, and the first kernel on which it is one.
#[test]
fn adm_20_every_safe_sysctl_from_its_kernel_on() {
    let allowed = |name: &str, kernel: (u32, u32)| {
        let mut whole = spec(json!({}));
        whole["securityContext"] = json!({"sysctls": [{"name": name, "value": "1"}]});
        SysctlAllowlist::new(kernel, &[]).expect("an allow-list").check(&pod(whole)).is_ok()
    };
    for (name, since) in [
        ("kernel.shm_rmid_forced", None),
        ("net.ipv4.ip_local_port_range", None),
        ("net.ipv4.tcp_syncookies", None),
        ("net.ipv4.ping_group_range", None),
        ("net.ipv4.ip_unprivileged_port_start", None),
        ("net.ipv4.ip_local_reserved_ports", Some((3, 16))),
        ("net.ipv4.tcp_keepalive_time", Some((4, 5))),
        ("net.ipv4.tcp_fin_timeout", Some((4, 6))),
        ("net.ipv4.tcp_keepalive_intvl", Some((4, 5))),
        ("net.ipv4.tcp_keepalive_probes", Some((4, 5))),
        ("net.ipv4.tcp_rmem", Some((4, 15))),
        ("net.ipv4.tcp_wmem", Some((4, 15))),
    ] {
        let (major, minor) = since.unwrap_or((3, 0));
        assert!(allowed(name, (major, minor)), "{name} on {major}.{minor}");
        assert!(since.is_none() || !allowed(name, (major, minor - 1)), "{name} before {major}.{minor}");
    }
}

/// ADM-20, ADM-21; upstream: sysctl/allowlist_test.go (v1.36)
#[test]
fn adm_20_adm_21_sysctls() {
    let node = node(&["kernel.msg*", "net.core.somaxconn", "fs/mqueue/*"], json!([]));
    let with = |name: &str, more: Value| {
        let mut whole = spec(more);
        whole["securityContext"] = json!({"sysctls": [{"name": name, "value": "1"}]});
        answer(&node, &pod(whole), &[])
    };
    for name in [
        "kernel.shm_rmid_forced",
        "net/ipv4/tcp_syncookies",
        "net.ipv4.tcp_rmem",
        "kernel.msgmax",
        "net.core.somaxconn",
        "fs.mqueue.msg_max",
    ] {
        assert_eq!(with(name, json!({})), "admitted", "{name}");
    }
    expect![[r#"SysctlForbidden: forbidden sysctl: "kernel.shmmax" not allowlisted"#]]
        .assert_eq(&with("kernel.shmmax", json!({})));
    expect![[r#"SysctlForbidden: forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled"#]]
        .assert_eq(&with("net.ipv4.tcp_syncookies", json!({"hostNetwork": true})));
    expect![[r#"SysctlForbidden: forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled"#]]
        .assert_eq(&with("kernel.msgmax", json!({"hostIPC": true})));
    let old = SysctlAllowlist::new((4, 4), &[]).expect("an allow-list");
    assert!(old != SysctlAllowlist::new((4, 5), &[]).expect("an allow-list"));
    assert_eq!(
        SysctlAllowlist::new((5, 10), &["vm.swappiness".to_owned()]),
        Err(SysctlError::NotNamespaced("vm.swappiness".to_owned()))
    );
}

#[test]
fn adm_06_apparmor() {
    let plain = node(&[], json!([]));
    let profile = |value: Value| pod(spec(json!({"securityContext": {"appArmorProfile": value}})));
    let with_apparmor = |pod: &Pod| {
        admit(&AdmitView { apparmor: true, ..plain.view() }, &Arc::new(pod.clone()), &[])
            .map(drop)
            .map_err(|r| r.message)
    };
    let required = profile(json!({"type": "RuntimeDefault"}));
    assert_eq!(
        answer(&plain, &required, &[]),
        "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host"
    );
    assert_eq!(with_apparmor(&required), Ok(()));
    assert_eq!(answer(&plain, &profile(json!({"type": "Unconfined"})), &[]), "admitted");
    let unnamed = profile(json!({"type": "Localhost", "localhostProfile": " "}));
    assert_eq!(
        with_apparmor(&unnamed),
        Err("Cannot enforce AppArmor: invalid empty AppArmor profile name: \"\"".to_owned())
    );
    let mut running = required;
    running.status = Some(serde_json::from_value(json!({"phase": "Running"})).expect("a status"));
    assert_eq!(answer(&plain, &running, &[]), "admitted");
}

/// ADM-31; upstream: preemption/preemption_test.go TestGetPodsToPreempt (v1.36)
#[test]
fn adm_31_who_makes_room() {
    let named = |name: &str, resources: Value, priority: i32| {
        let containers = json!([{"name": "c", "resources": resources}]);
        let mut pod = pod(json!({"containers": containers, "priority": priority}));
        pod.metadata.name = Some(name.to_owned());
        Allocation::of(Arc::new(pod))
    };
    let requests = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
    let all = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}});
    let others = [
        named("best-effort", json!({}), 0),
        named("tiny", requests("1m", "1"), 0),
        named("burstable", requests("100m", "100"), 0),
        named("large-burstable", requests("300m", "300"), 0),
        named("guaranteed", all("100m", "100"), 0),
        named("large-guaranteed", all("300m", "300"), 0),
        named("critical", requests("500m", "500"), 2_000_000_000),
    ];
    let urgent = of_file(pod(spec(json!({}))));
    let short =
        |resource: &str, missing: i64| Shortage { resource: resource.into(), requested: missing, used: 0, capacity: 0 };
    for (shortages, expected) in [
        (vec![short("pods", 1)], Some(vec!["best-effort"])),
        (vec![short("pods", 2)], Some(vec!["best-effort", "tiny"])),
        (vec![short("cpu", 1)], Some(vec!["tiny"])),
        (vec![short("cpu", 90)], Some(vec!["burstable"])),
        (vec![short("cpu", 150), short("memory", 100)], Some(vec!["large-burstable"])),
        (vec![short("cpu", 400)], Some(vec!["large-burstable", "burstable"])),
        // Without all burstable ones it would not do, and then the smallest guaranteed one that does.
        (vec![short("cpu", 450)], Some(vec!["large-burstable", "burstable", "guaranteed"])),
        (vec![short("cpu", 600)], Some(vec!["large-burstable", "large-guaranteed"])),
        (vec![short("cpu", 900)], None),
        (vec![short("example.com/gpu", 1)], None),
    ] {
        let found = victims(&urgent, &others, &shortages);
        let names = found
            .as_ref()
            .map(|found| found.iter().map(|pod| pod.metadata.name.as_deref().unwrap_or_default()).collect::<Vec<_>>());
        assert_eq!(names, expected, "{shortages:?}");
    }
}

/// ADM-31: the pod that is nearest to all missing amounts together, each by its share, and of two as near the smaller.
#[test]
fn adm_31_the_nearest_pod_makes_room() {
    let named = |name: &str, cpu: &str, memory: &str| {
        let resources = json!({"requests": {"cpu": cpu, "memory": memory}});
        let mut pod = pod(json!({"containers": [{"name": "c", "resources": resources}], "priority": 0}));
        pod.metadata.name = Some(name.to_owned());
        Allocation::of(Arc::new(pod))
    };
    let urgent = of_file(pod(spec(json!({}))));
    let short =
        |resource: &str, missing: i64| Shortage { resource: resource.into(), requested: missing, used: 0, capacity: 0 };
    let first = |others: &[Allocation], shortages: &[Shortage]| {
        let found = victims(&urgent, others, shortages).expect("there is room to make");
        found.first().and_then(|pod| pod.metadata.name.clone())
    };
    // Half of a small amount is farther than a tenth of a large one.
    let uneven =
        [named("half-the-cpu", "50m", "1000"), named("most-of-both", "100m", "900"), named("rest", "1", "2000")];
    let both = [short("cpu", 100), short("memory", 1000)];
    assert_eq!(first(&uneven[..2], &both).as_deref(), Some("most-of-both"));
    let same = [named("large", "100m", "500"), named("small", "100m", "100"), named("middle", "100m", "300")];
    assert_eq!(first(&same, &[short("cpu", 100)]).as_deref(), Some("small"));
}

#[test]
fn every_list_of_files_in_a_volume_counts() {
    let items = |count: usize| json!({"name": "x", "items": (0..count).map(|n| json!({"key": "k", "path": n.to_string()})).collect::<Vec<_>>()});
    let downward =
        |count: usize| json!({"items": (0..count).map(|n| json!({"path": n.to_string()})).collect::<Vec<_>>()});
    let secret = |count: usize| json!({"secretName": "s", "items": items(count)["items"]});
    for (volume, count) in [
        (json!({"name": "v", "configMap": items(3)}), 3),
        (json!({"name": "v", "secret": secret(4)}), 4),
        (json!({"name": "v", "downwardAPI": downward(5)}), 5),
        (json!({"name": "v", "emptyDir": {}}), 0),
        (
            json!({"name": "v", "projected": {"sources": [
                {"configMap": items(3)}, {"secret": items(4)}, {"downwardAPI": downward(5)}, {"configMap": {"name": "x"}},
                {"configMap": items(2), "secret": items(3), "downwardAPI": downward(4)},
            ]}}),
            22,
        ),
    ] {
        assert_eq!(bounds::files(&serde_json::from_value(volume.clone()).expect("a volume")), count, "{volume}");
    }
}

#[test]
fn an_allocation_has_its_pod_and_the_resources_of_its_containers() {
    let pod = Arc::new(pod(requesting(json!({"cpu": "1"}))));
    let allocation = Allocation::of(Arc::clone(&pod));
    assert!(Arc::ptr_eq(allocation.pod(), &pod));
    assert_eq!(allocation.resources(), PodAllocation::of(&pod));
    assert_ne!(allocation.resources(), PodAllocation::default());
}
