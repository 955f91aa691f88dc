//! Section 15: what `tests/golden/decision/admit.yaml` cannot show.

use expect_test::expect;
use k8s_openapi::api::core::v1::ContainerPort;
use serde_json::{Value, json};

use super::*;
use crate::resources::Amount;
use crate::resources::tests::pod;

struct Node {
    labels: BTreeMap<String, String>,
    allocatable: Amounts,
    sysctls: SysctlAllowlist,
}

fn node(unsafe_sysctls: &[&str]) -> Node {
    let amount = |(name, text): (&str, &str)| (name.to_owned(), Amount::parse(text).expect("an amount"));
    let unsafe_sysctls: Vec<String> = unsafe_sysctls.iter().map(|name| (*name).to_owned()).collect();
    Node {
        labels: [("kubernetes.io/hostname", "n1"), ("disk", "ssd"), ("cores", "8")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        allocatable: [("cpu", "2"), ("memory", "1000"), ("ephemeral-storage", "10"), ("pods", "3"), ("a.b/gpu", "1")]
            .map(amount)
            .into(),
        sysctls: SysctlAllowlist::new((5, 10), &unsafe_sysctls).expect("an allow-list"),
    }
}

impl Node {
    fn view(&self) -> AdmitView<'_> {
        AdmitView {
            pressure: crate::node::Pressure::default(),
            node_name: "n1",
            labels: &self.labels,
            taints: &[],
            allocatable: &self.allocatable,
            sysctls: &self.sysctls,
            apparmor: false,
            supplemental_groups_policy: false,
            shutting_down: false,
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

/// No pod runs without what it asked for; of what nothing serves there is none.
#[test]
fn extended_resources_that_nothing_serves_and_resource_claims_are_refused() {
    let node = node(&[]);
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
    let node = node(&[]);
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

/// Forty pods with 4,000 ports each, and one more: a comparison of each with each would be 10^9 of them, and take a minute
/// in a slow build.
#[test]
#[expect(clippy::disallowed_methods, reason = "the cost itself is what is tested")]
fn ports_of_many_pods_are_looked_up_and_not_compared_with_each_other() {
    let mut node = node(&[]);
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

/// ADM-31
#[test]
fn adm_31_a_rejection_lists_the_shortages_for_preemption() {
    let node = node(&[]);
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
    let node = node(&["kernel.msg*", "net.core.somaxconn", "fs/mqueue/*"]);
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
    let plain = node(&[]);
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

#[test]
fn adm_02_a_node_under_pressure_refuses_new_pods() {
    let node = node(&[]);
    let tolerant =
        || pod(spec(json!({"tolerations": [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]})));
    let pods = || {
        let critical = pod(spec(json!({"priority": 2_000_000_000})));
        [
            pod(spec(json!({}))),
            pod(requesting(json!({"memory": "1"}))),
            tolerant(),
            critical,
            of_file(pod(spec(json!({})))),
        ]
    };
    let of = |memory: bool, disk: bool, pid: bool| {
        let view = AdmitView { pressure: crate::node::Pressure { memory, disk, pid }, ..node.view() };
        let answer = |pod: Pod| admit(&view, &Arc::new(pod), &[]).map_err(|refused| refused.message);
        let refused = pods().map(|pod| answer(pod).err());
        let message = refused.iter().flatten().next().cloned().unwrap_or_default();
        (refused.map(|one| one.is_none()), message)
    };
    assert_eq!(of(false, false, false).0, [true; 5]);
    let memory = of(true, false, false);
    assert_eq!(memory, ([false, true, true, true, true], "The node had condition: [MemoryPressure]. ".to_owned()));
    let both = of(true, true, false);
    let message = "The node had condition: [DiskPressure MemoryPressure]. ".to_owned();
    assert_eq!(both, ([false, false, false, true, true], message));
    assert_eq!(of(false, false, true).0, [false, false, false, true, true]);
}
