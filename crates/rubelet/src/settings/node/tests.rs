//! From flags and configuration to what the node says of itself.

use rubelet_core::qos::CgroupVersion;

use std::net::IpAddr;

use rubelet_core::node::cgroup_limit;

use super::*;
use crate::config_load::load;
use crate::flags::{Command, parse};

fn loaded(line: &str) -> Loaded {
    match parse(line.split_whitespace().map(Into::into)).expect("a valid command line") {
        Command::Run(options) => {
            load(&options, rubelet_core::config::CgroupVersion::V2).expect("a valid configuration")
        }
        other => panic!("{other:?}"),
    }
}

fn facts() -> NodeFacts {
    NodeFacts {
        name: "web-1".into(),
        hostname: "web-1".into(),
        cpu_millis: 2000,
        memory_bytes: 4 << 30,
        swap_bytes: 0,
        hugepage_sizes: Vec::new(),
        cgroups: CgroupVersion::V2,
        resolv_conf: String::new(),
        apparmor: false,
        selinux: false,
        swap_controller: false,
        thermal_throttle_paths: Vec::new(),
        kernel: (6, 1),
    }
}

#[test]
fn node_02_03_flags_come_down_to_the_nodes_setup() {
    let line = "--node-labels=pool=a --register-with-taints=dedicated=gpu:NoSchedule --cloud-provider=external \
                --provider-id=cloud://1 --node-ip=192.0.2.7 --system-reserved=cpu=500m --node-status-max-images=-1";
    let setup = node_setup(&loaded(line), &facts()).expect("a setup");
    assert_eq!(setup.labels.get("pool").map(String::as_str), Some("a"));
    let [taint] = setup.taints.as_slice() else { panic!("{:?}", setup.taints) };
    assert_eq!(
        (taint.key.as_str(), taint.value.as_deref(), taint.effect.as_str()),
        ("dedicated", Some("gpu"), "NoSchedule")
    );
    assert_eq!((setup.cloud, setup.provider_id.as_str(), setup.port), (Cloud::External, "cloud://1", 10250));
    assert_eq!(setup.asked_ips, ["192.0.2.7".parse::<IpAddr>().expect("an address")]);
    assert_eq!((setup.max_images, setup.pods), (None, 110));
    assert_eq!(setup.reserved.get("cpu").map(|amount| amount.millis()), Some(500));
    assert_eq!(setup.kubelet_version, "v1.36.4");
    assert!(setup.declared_features.is_some_and(|features| !features.is_empty()), "the gate is on by default");
}

#[test]
fn node_10_30_frequencies_come_from_the_configuration() {
    let settings = NodeSettings::new(&loaded("--node-status-update-frequency=5s"), NodeSetup::default());
    assert_eq!(settings.timing.update_every, Duration::from_secs(5));
    assert_eq!((settings.timing.lease_seconds, settings.registration), (40, Registration::Ours));
    assert_eq!(settings.deadline(), Duration::from_secs(5));
    let others = NodeSettings::new(&loaded("--register-node=false"), NodeSetup::default());
    assert_eq!(others.registration, Registration::ByOthers);
}

#[test]
fn cg_23_more_reserved_than_there_is_is_refused() {
    let err =
        node_setup(&loaded("--system-reserved=memory=3Gi --kube-reserved=memory=2Gi"), &facts()).expect_err("too much");
    let text = err.to_string();
    assert_eq!(text, "invalid node allocatable configuration: 5Gi of memory is reserved, but the node has only 4Gi");
}

#[test]
fn cg_21_without_enforcement_all_pods_may_use_all_that_the_node_has() {
    let line = "--system-reserved=cpu=500m --kube-reserved=memory=1Gi";
    let limit = |enforce: &str| {
        let loaded = loaded(&format!("{line} --enforce-node-allocatable={enforce}"));
        let setup = node_setup(&loaded, &facts()).expect("a setup");
        let limit = cgroup_limit(&loaded.config, &setup).expect("it can be read");
        (limit["cpu"].millis(), limit["memory"].value())
    };
    let (cpu, memory) = limit("none");
    assert_eq!((cpu, memory), (facts().cpu_millis, facts().memory_bytes));
    assert_eq!(limit("pods"), (cpu - 500, memory - (1 << 30)));
}
