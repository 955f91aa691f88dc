//! Classes, the tree and its values.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::id::PodUid;
use crate::resources::tests::pod;
use crate::resources::{Amount, Amounts};

fn container(requests: Value, limits: Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
}

/// upstream: pkg/apis/core/v1/helper/qos/qos_test.go (v1.36)
#[test]
fn a_pods_class_follows_from_requests_and_limits() {
    use QosClass::{BestEffort, Burstable, Guaranteed};
    let both = json!({"cpu": "1", "memory": "1Gi"});
    let rows = [
        ("nothing", json!({"containers": [container(json!({}), json!({}))]}), BestEffort),
        (
            "only other resources",
            json!({"containers": [container(json!({"a/b": "1"}), json!({"a/b": "1"}))]}),
            BestEffort,
        ),
        ("zero", json!({"containers": [container(json!({"cpu": "0"}), json!({}))]}), BestEffort),
        ("equal", json!({"containers": [container(both.clone(), both.clone())]}), Guaranteed),
        (
            "equal in other words",
            json!({"containers":
            [container(json!({"cpu": "1000m", "memory": "1024Mi"}), both.clone())]}),
            Guaranteed,
        ),
        ("no requests", json!({"containers": [container(json!({}), both.clone())]}), Burstable),
        ("no memory limit", json!({"containers": [container(json!({"cpu": "1"}), json!({"cpu": "1"}))]}), Burstable),
        (
            "one container without",
            json!({"containers":
            [container(both.clone(), both.clone()), container(json!({}), json!({}))]}),
            Burstable,
        ),
        (
            "init container without",
            json!({"containers": [container(both.clone(), both.clone())],
            "initContainers": [container(json!({}), json!({}))]}),
            Burstable,
        ),
        (
            "pod level decides alone",
            json!({"containers": [container(json!({}), json!({}))],
            "resources": {"requests": both, "limits": both}}),
            Guaranteed,
        ),
        (
            "pod level requests only",
            json!({"containers": [container(both.clone(), both.clone())],
            "resources": {"requests": {"cpu": "1"}}}),
            Burstable,
        ),
    ];
    for (name, spec, class) in rows {
        assert_eq!(qos_class(&pod(spec)), class, "{name}");
    }
}

#[test]
fn a_stated_class_counts() {
    let mut stated = pod(json!({"containers": []}));
    stated.status = Some(serde_json::from_value(json!({"qosClass": "Guaranteed"})).expect("a status"));
    assert_eq!(qos_class(&stated), QosClass::Guaranteed);
    assert_eq!(computed_qos_class(&stated), QosClass::BestEffort);
}

#[test]
fn adm_30_static_mirror_and_high_priority_pods_are_critical() {
    let plain = pod(json!({"containers": []}));
    let with = |key: &str, value: &str| {
        let mut pod = plain.clone();
        pod.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
        pod
    };
    assert!(!is_critical(&plain));
    assert!(is_critical(&with("kubernetes.io/config.source", "file")));
    assert!(is_critical(&with("kubernetes.io/config.mirror", "x")));
    assert!(!is_critical(&with("kubernetes.io/config.source", "api")));
    assert!(is_critical(&pod(json!({"containers": [], "priority": 2_000_000_000}))));
    assert!(!is_critical(&pod(json!({"containers": [], "priority": 1_999_999_999}))));
    assert!(is_node_critical(&pod(
        json!({"containers": [], "priority": 2_000_001_000, "priorityClassName": "system-node-critical"})
    )));
}

/// CG-01 … CG-03, the table of section 19.1, TRAP-13.
#[test]
fn cg_01_each_driver_spells_the_tree_its_own_way() {
    let mut text = String::new();
    let uid = PodUid::from("12-ab");
    for (root, driver, per_qos) in [
        ("", CgroupDriver::Cgroupfs, true),
        ("/", CgroupDriver::Systemd, true),
        ("/node/pods", CgroupDriver::Cgroupfs, true),
        ("/my-node", CgroupDriver::Systemd, true),
        ("/node", CgroupDriver::Cgroupfs, false),
    ] {
        let tree = CgroupTree::new(root, driver, per_qos);
        text.push_str(&format!(
            "{root:?} {driver:?} per_qos={per_qos}\n  root        {}\n",
            tree.literal(&tree.root())
        ));
        for class in [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort] {
            text.push_str(&format!("  {:<11} {}\n", class.as_str(), tree.literal(&tree.pod(class, &uid))));
        }
    }
    expect![[r#"
        "" Cgroupfs per_qos=true
          root        /kubepods
          Guaranteed  /kubepods/pod12-ab
          Burstable   /kubepods/burstable/pod12-ab
          BestEffort  /kubepods/besteffort/pod12-ab
        "/" Systemd per_qos=true
          root        /kubepods.slice
          Guaranteed  /kubepods.slice/kubepods-pod12_ab.slice
          Burstable   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_ab.slice
          BestEffort  /kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod12_ab.slice
        "/node/pods" Cgroupfs per_qos=true
          root        /node/pods/kubepods
          Guaranteed  /node/pods/kubepods/pod12-ab
          Burstable   /node/pods/kubepods/burstable/pod12-ab
          BestEffort  /node/pods/kubepods/besteffort/pod12-ab
        "/my-node" Systemd per_qos=true
          root        /my_node.slice/my_node-kubepods.slice
          Guaranteed  /my_node.slice/my_node-kubepods.slice/my_node-kubepods-pod12_ab.slice
          Burstable   /my_node.slice/my_node-kubepods.slice/my_node-kubepods-burstable.slice/my_node-kubepods-burstable-pod12_ab.slice
          BestEffort  /my_node.slice/my_node-kubepods.slice/my_node-kubepods-besteffort.slice/my_node-kubepods-besteffort-pod12_ab.slice
        "/node" Cgroupfs per_qos=false
          root        /node
          Guaranteed  /node
          Burstable   /node
          BestEffort  /node
    "#]]
    .assert_eq(&text);
}

/// HK-01: what is found on disk leads back to the pod, and nothing else does.
#[test]
fn hk_01_a_directory_tells_its_pod() {
    for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
        let tree = CgroupTree::new("/", driver, true);
        let uid = PodUid::from("8dbc7f8e-7a1b-4c0e-bd2e-0123456789ab");
        for (class, level) in tree.levels() {
            let path = tree.pod(class, &uid);
            let literal = tree.literal(&path);
            let name = literal.strip_prefix(&format!("{level}/")).expect("below its level");
            assert_eq!(tree.pod_at(class, name), Some((uid.clone(), path)), "{literal}");
        }
    }
    let cgroupfs = CgroupTree::new("", CgroupDriver::Cgroupfs, true);
    let systemd = CgroupTree::new("", CgroupDriver::Systemd, true);
    for name in ["burstable", "pod", "podless/x", "crio-1.scope", ""] {
        let found = cgroupfs.pod_at(QosClass::Guaranteed, name);
        assert!(found.is_none() || name == "podless/x", "{name}: {found:?}");
        assert_eq!(systemd.pod_at(QosClass::Guaranteed, name), None, "{name}");
    }
    assert_eq!(systemd.pod_at(QosClass::Guaranteed, "kubepods-burstable.slice"), None);
    assert_eq!(systemd.pod_at(QosClass::Guaranteed, "kubepods-burstable-pod1.slice"), None);
    assert_eq!(CgroupTree::new("", CgroupDriver::Cgroupfs, false).pod_at(QosClass::Guaranteed, "pod1"), None);
}

/// RT-90, CG-05; upstream: cm/helpers_linux_test.go TestMilliCPUToQuota, TestMilliCPUToShares (v1.36)
#[test]
fn cg_05_cpu_in_the_kernels_units() {
    let shares =
        [(0, 2), (1, 2), (2, 2), (3, 3), (4, 4), (100, 102), (1000, 1024), (32000, 32768), (i64::MAX, 262_144)];
    for (millis, expected) in shares {
        assert_eq!(milli_cpu_to_shares(millis), expected, "{millis}");
    }
    let quotas = [
        (0, 100_000, 0),
        (5, 100_000, 1000),
        (9, 100_000, 1000),
        (10, 100_000, 1000),
        (200, 100_000, 20_000),
        (500, 100_000, 50_000),
        (1500, 100_000, 150_000),
        (500, 5000, 2500),
    ];
    for (millis, period, expected) in quotas {
        assert_eq!(milli_cpu_to_quota(millis, period), expected, "{millis}");
    }
    for (shares, weight) in
        [(0, 1), (2, 1), (3, 1), (102, 4), (1024, 39), (262_143, 9999), (262_144, 10_000), (u64::MAX, 10_000)]
    {
        assert_eq!(shares_to_weight(shares), weight, "{shares}");
    }
}

fn check(spec: Value, policy: &PodCgroupPolicy, expected: &Expect) {
    expected.assert_eq(&line(&pod_values(&pod(spec), policy)));
}

fn line(values: &CgroupValues) -> String {
    let CgroupValues { cpu_shares, cpu_quota, cpu_period, memory_limit, pids_limit, hugepages, unified } = values;
    let mut text = Vec::new();
    text.extend(cpu_shares.map(|v| format!("shares {v}")));
    text.extend(cpu_quota.map(|v| format!("quota {v}")));
    text.extend(cpu_period.map(|v| format!("period {v}")));
    text.extend(memory_limit.map(|v| format!("memory {v}")));
    text.extend(pids_limit.map(|v| format!("pids {v}")));
    text.extend(hugepages.iter().map(|(size, limit)| format!("{size} {limit}")));
    text.extend(unified.iter().map(|(file, value)| format!("{file} {value}")));
    text.join(", ")
}

/// CG-11, CG-12; upstream: cm/helpers_linux_test.go TestResourceConfigForPod (v1.36)
#[test]
fn cg_11_values_of_a_pods_cgroup() {
    let usual = PodCgroupPolicy::default();
    let one = json!({"cpu": "200m", "memory": "100Mi"});
    let guaranteed = json!({"containers": [container(one.clone(), one.clone())]});
    check(json!({"containers": [container(json!({}), json!({}))]}), &usual, &expect!["shares 2"]);
    check(guaranteed.clone(), &usual, &expect!["shares 204, quota 20000, period 100000, memory 104857600"]);
    let no_quota = PodCgroupPolicy { cpu: CpuPolicy { quota: false, period: 100_000 }, ..usual.clone() };
    check(guaranteed.clone(), &no_quota, &expect!["shares 204, quota -1, period 100000, memory 104857600"]);
    let long = PodCgroupPolicy { cpu: CpuPolicy { quota: true, period: 5000 }, pids_limit: 100, ..usual.clone() };
    check(guaranteed, &long, &expect!["shares 204, quota 1000, period 5000, memory 104857600, pids 100"]);
    check(json!({"containers": [container(one.clone(), json!({}))]}), &usual, &expect!["shares 204"]);
    // One container without a limit leaves the pod without.
    let partly = json!({"containers": [container(one.clone(), json!({"cpu": "1", "memory": "1"})),
        container(one.clone(), json!({"memory": "2"}))]});
    check(partly, &usual, &expect!["shares 409, memory 3"]);
    // An init container before any sidecar counts as one, too.
    let init = json!({"containers": [container(one.clone(), json!({"cpu": "1", "memory": "1"}))],
        "initContainers": [container(json!({"cpu": "2"}), json!({}))]});
    check(init, &usual, &expect!["shares 2048"]);
    // Limits of the pod's own make up for it.
    let level = json!({"containers": [container(json!({}), json!({}))],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "5Gi"}}});
    check(level, &usual, &expect!["shares 102, quota 100000, period 100000, memory 5368709120"]);
    let huge = PodCgroupPolicy { hugepage_sizes: vec![2 << 20, 1 << 30], ..usual };
    let pages = json!({"cpu": "1", "hugepages-2Mi": "4Mi"});
    check(
        json!({"containers": [container(pages.clone(), pages)], "overhead": {"cpu": "500m"}}),
        &huge,
        &expect!["shares 1536, quota 150000, period 100000, 1GB 0, 2MB 4194304"],
    );
}

/// CG-10; upstream: cm/qos_container_manager_linux.go (v1.36)
#[test]
fn cg_10_levels_follow_the_active_pods() {
    let burstable = pod(json!({"containers": [container(json!({"cpu": "1500m"}), json!({}))]}));
    let one = json!({"cpu": "4", "memory": "1"});
    let guaranteed = pod(json!({"containers": [container(one.clone(), one)]}));
    let values = qos_values([&burstable, &burstable, &guaranteed], &[2 << 20]);
    expect!["shares 3072, 2MB 4611686018427387904"].assert_eq(&line(&values.burstable));
    expect!["shares 2, 2MB 4611686018427387904"].assert_eq(&line(&values.best_effort));
    expect!["shares 2"].assert_eq(&line(&qos_values([], &[]).burstable));
}

/// CG-21; upstream: cm/node_container_manager_linux_test.go (v1.36)
#[test]
fn cg_21_values_of_the_cgroup_of_all_pods() {
    let amounts = |rows: &[(&str, &str)]| -> Amounts {
        rows.iter().map(|(name, text)| ((*name).to_owned(), Amount::parse(text).expect("an amount"))).collect()
    };
    let all = amounts(&[
        ("cpu", "2"),
        ("memory", "4Gi"),
        ("pid", "1000"),
        ("hugepages-2Mi", "0"),
        ("ephemeral-storage", "9"),
    ]);
    expect!["shares 2048, memory 4294967296, pids 1000, 2MB 0"].assert_eq(&line(&node_values(&all, &[2 << 20])));
    expect!["shares 512"].assert_eq(&line(&node_values(&amounts(&[("cpu", "500m")]), &[])));
}

#[test]
fn the_tree_knows_its_driver_and_whether_classes_have_a_level() {
    for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
        for per_qos in [true, false] {
            let tree = CgroupTree::new("/", driver, per_qos);
            assert_eq!((tree.driver(), tree.per_qos()), (driver, per_qos));
        }
    }
}

#[test]
fn pods_of_each_class_have_their_directory() {
    let levels = |driver| {
        let levels = CgroupTree::new("/", driver, true).levels();
        levels.into_iter().map(|(class, path)| format!("{} {path}", class.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(
        levels(CgroupDriver::Cgroupfs),
        ["Guaranteed /kubepods", "Burstable /kubepods/burstable", "BestEffort /kubepods/besteffort"]
    );
}
