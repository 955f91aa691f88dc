//! Classes, the tree and its values.

use expect_test::expect;
use serde_json::{Value, json};

use super::*;
use crate::id::PodUid;
use crate::resources::Amount;
use crate::resources::tests::pod;

fn container(requests: Value, limits: Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
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

/// CG-12; upstream: cm/helpers_linux_test.go TestResourceConfigForPod (v1.36)
#[test]
fn cg_12_process_ids_and_huge_pages_are_the_nodes_to_limit() {
    let pages = json!({"cpu": "1", "hugepages-2Mi": "4Mi"});
    let pod = pod(json!({"containers": [container(pages.clone(), pages)]}));
    let policy =
        PodCgroupPolicy { hugepage_sizes: vec![2 << 20, 1 << 30], pids_limit: 100, ..PodCgroupPolicy::default() };
    let values = pod_values(&pod, &policy);
    assert_eq!(values.pids_limit, Some(100));
    assert_eq!(values.hugepages, [("1GB".to_owned(), 0), ("2MB".to_owned(), 4 << 20)].into());
    let levels = qos_values([&pod], &[2 << 20]);
    let all = [("2MB".to_owned(), 1 << 62)].into();
    assert_eq!((&levels.burstable.hugepages, &levels.best_effort.hugepages), (&all, &all));
    let offered = [("hugepages-2Mi".to_owned(), Amount::units(0))].into();
    assert_eq!(node_values(&offered, &[2 << 20]).hugepages, [("2MB".to_owned(), 0)].into());
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
