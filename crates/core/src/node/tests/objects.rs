//! The object: made, found, brought up to date.

use super::*;

fn value(node: &Node) -> Value {
    serde_json::to_value(node).unwrap()
}

fn quantities(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, Quantity>> {
    Some(pairs.iter().map(|(name, text)| ((*name).to_owned(), Quantity((*text).to_owned()))).collect())
}

#[test]
fn node_02_03_04_the_first_object() {
    let (mut setup, health) = (setup(), well());
    setup.labels = strings(&[("node.kubernetes.io/pool", "a"), ("kubernetes.io/hostname", "other")]);
    setup.taints = vec![k8s_openapi::api::core::v1::Taint {
        key: "dedicated".into(),
        value: Some("gpu".into()),
        effect: "NoSchedule".into(),
        time_added: None,
    }];
    setup.provider_id = "cloud://1".into();
    setup.declared_features = Some(vec!["A".into()]);
    let node = value(&initial_node(&view(&setup, &health)).node);
    assert_eq!(
        node["metadata"],
        json!({
            "name": "web-1",
            "labels": {
                "kubernetes.io/hostname": "other", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "node.kubernetes.io/pool": "a",
            },
            "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
        })
    );
    assert_eq!(
        node["spec"],
        json!({
            "providerID": "cloud://1",
            "taints": [{ "key": "dedicated", "value": "gpu", "effect": "NoSchedule" }],
        })
    );
    let status = &node["status"];
    assert_eq!(
        status["addresses"],
        json!([{ "type": "InternalIP", "address": "192.0.2.7" }, { "type": "Hostname", "address": "web-1" }])
    );
    assert_eq!(
        status["nodeInfo"],
        json!({
            "architecture": "amd64", "bootID": "boot", "containerRuntimeVersion": "containerd://2.1.9",
            "kernelVersion": "6.1.0", "kubeProxyVersion": "", "kubeletVersion": "v1.36.4", "machineID": "machine",
            "operatingSystem": "linux", "osImage": "Debian", "systemUUID": "system",
        })
    );
    assert_eq!(status["capacity"], json!({ "cpu": "2", "ephemeral-storage": "100Gi", "memory": "4Gi", "pods": "110" }));
    assert_eq!(status["capacity"], status["allocatable"]);
    assert_eq!(status["daemonEndpoints"], json!({ "kubeletEndpoint": { "Port": 10250 } }));
    assert_eq!(status["declaredFeatures"], json!(["A"]));
    setup.controller_attach_detach = false;
    assert_eq!(value(&initial_node(&view(&setup, &health)).node)["metadata"]["annotations"], Value::Null);
}

#[test]
fn node_03_04_12_a_cloud_controller_has_the_last_word_on_addresses() {
    let (mut setup, health) = (setup(), well());
    setup.cloud = Cloud::External;
    let addresses = |node: &Node| value(node)["status"]["addresses"].clone();
    let first = initial_node(&view(&setup, &health)).node;
    assert_eq!(
        addresses(&first),
        json!([{ "type": "Hostname", "address": "web-1" }]),
        "until the controller sets them"
    );
    assert_eq!(
        value(&first)["spec"]["taints"],
        json!([{
            "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule",
        }])
    );
    let mut theirs = first.clone();
    theirs.status.as_mut().unwrap().addresses = Some(vec![k8s_openapi::api::core::v1::NodeAddress {
        type_: "ExternalIP".into(),
        address: "198.51.100.1".into(),
    }]);
    assert_eq!(addresses(&updated_node(&view(&setup, &health), &theirs).node), addresses(&theirs));

    let ips: Vec<IpAddr> = vec!["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
    setup.asked_ips = ips.clone();
    let mut seen = view(&setup, &health);
    seen.ips = &ips;
    let asked = initial_node(&seen).node;
    assert_eq!(addresses(&asked)[1], json!({ "type": "InternalIP", "address": "2001:db8::7" }));
    let provided = |node: &Node| value(node)["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"].clone();
    assert_eq!(provided(&asked), json!("192.0.2.7,2001:db8::7"));
    let mut plain = setup.clone();
    plain.cloud = Cloud::None;
    assert_eq!(provided(&updated_node(&view(&plain, &health), &asked).node), Value::Null, "stale: taken away");
}

#[test]
fn node_12_a_node_without_an_address_keeps_those_it_had() {
    let (setup, health) = (setup(), well());
    let first = initial_node(&view(&setup, &health)).node;
    let mut lost = view(&setup, &health);
    lost.ips = &[];
    assert_eq!(updated_node(&lost, &first).node.status.unwrap().addresses, first.status.unwrap().addresses);
    assert_eq!(initial_node(&lost).node.status.unwrap().addresses, None);
}

#[test]
fn node_14_images_handlers_and_features() {
    let (mut setup, health) = (setup(), well());
    setup.max_images = Some(2);
    let image = |id: &str, size, digests: &[&str], tags: &[&str]| NodeImage {
        id: id.into(),
        digests: digests.iter().map(|&name| name.into()).collect(),
        tags: tags.iter().map(|&name| name.into()).collect(),
        size,
    };
    let images = [
        image("a", 5, &["a@1"], &["a:1"]),
        image("b", 9, &[], &["b:1", "b:2", "b:3", "b:4", "b:5", "b:6"]),
        image("c", 9, &["c@1", "c@2"], &["c:1", "c:2", "c:3", "c:4"]),
    ];
    let handlers = BTreeMap::from([
        ("".to_owned(), HandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true }),
        ("gvisor".to_owned(), HandlerFeatures::default()),
    ]);
    let mut seen = view(&setup, &health);
    seen.images = Some(&images);
    seen.handlers = Some(&handlers);
    seen.supplemental_groups_policy = Some(true);
    let in_use = ["kubernetes.io/csi/x^1".to_owned()];
    seen.volumes_in_use = Some(&in_use);
    let status = value(&initial_node(&seen).node)["status"].clone();
    assert_eq!(
        status["images"],
        json!([
            { "names": ["c@1", "c@2", "c:1", "c:2", "c:3"], "sizeBytes": 9 },
            { "names": ["b:1", "b:2", "b:3", "b:4", "b:5"], "sizeBytes": 9 },
        ])
    );
    assert_eq!(
        status["runtimeHandlers"],
        json!([
            { "name": "", "features": { "recursiveReadOnlyMounts": true } },
            { "name": "gvisor", "features": { "recursiveReadOnlyMounts": false } },
        ])
    );
    assert_eq!(status["features"], json!({ "supplementalGroupsPolicy": true }));
    assert_eq!(status["volumesInUse"], json!(["kubernetes.io/csi/x^1"]));

    let before = initial_node(&seen).node;
    seen.images = None;
    seen.handlers = None;
    seen.volumes_in_use = None;
    assert_eq!(node_change(&before, &updated_node(&seen, &before).node), None, "what is not known yet stays");
}

#[test]
fn node_15_a_reboot_is_reported_once() {
    let (setup, health) = (setup(), well());
    let mut node = initial_node(&view(&setup, &health)).node;
    node.status.as_mut().unwrap().node_info =
        Some(NodeSystemInfo { boot_id: "earlier".into(), ..NodeSystemInfo::default() });
    let update = updated_node(&view(&setup, &health), &node);
    let event = &update.news[0];
    assert_eq!((event.reason, event.warning), ("Rebooted", true));
    assert_eq!(event.message, "Node web-1 has been rebooted, boot id: boot");
    assert!(updated_node(&view(&setup, &health), &update.node).news.is_empty());
}

#[test]
fn node_02_wrong_labels_of_system_and_architecture_are_put_back() {
    let (setup, health) = (setup(), well());
    let mut node = initial_node(&view(&setup, &health)).node;
    let labels = node.metadata.labels.as_mut().unwrap();
    labels.insert("kubernetes.io/arch".into(), "z80".into());
    labels.remove("kubernetes.io/os");
    labels.insert("kubernetes.io/hostname".into(), "theirs".into());
    let updated = updated_node(&view(&setup, &health), &node).node;
    assert!(node_change(&node, &updated).is_some());
    let labels = updated.metadata.labels.unwrap();
    assert_eq!((labels["kubernetes.io/arch"].as_str(), labels["kubernetes.io/os"].as_str()), ("amd64", "linux"));
    assert_eq!(labels["kubernetes.io/hostname"], "theirs", "only registration sets that one right");
}

#[test]
fn node_05_registration_puts_right_what_is_stale_and_touches_nothing_else() {
    let (mut setup, health) = (setup(), well());
    setup.unserved = Unserved::All;
    setup.labels = strings(&[("topology.kubernetes.io/zone", "b"), ("node.kubernetes.io/pool", "new")]);
    setup.machine.hugepages = BTreeMap::from([(2 << 20, 4)]);
    setup.taints = vec![k8s_openapi::api::core::v1::Taint {
        key: "dedicated".into(),
        effect: "NoSchedule".into(),
        ..k8s_openapi::api::core::v1::Taint::default()
    }];
    let mut existing = Node::default();
    existing.metadata.labels =
        Some(strings(&[("topology.kubernetes.io/zone", "a"), ("node.kubernetes.io/pool", "old"), ("theirs", "yes")]));
    existing.spec = Some(k8s_openapi::api::core::v1::NodeSpec {
        unschedulable: Some(true),
        ..k8s_openapi::api::core::v1::NodeSpec::default()
    });
    let status = existing.status.get_or_insert_default();
    status.capacity = quantities(&[("cpu", "1"), ("example.com/gpu", "2"), ("hugepages-1Gi", "1Gi"), ("pods", "10")]);
    status.allocatable = quantities(&[("example.com/gpu", "2"), ("hugepages-1Gi", "1Gi")]);
    let node = value(&reconcile_existing(&view(&setup, &health), &existing));
    assert_eq!(
        node["metadata"]["labels"],
        json!({
            "kubernetes.io/hostname": "web-1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": "b", "node.kubernetes.io/pool": "old", "theirs": "yes",
        })
    );
    assert_eq!(
        node["metadata"]["annotations"]["volumes.kubernetes.io/controller-managed-attach-detach"],
        json!("true")
    );
    assert_eq!(node["spec"], json!({ "unschedulable": true }));
    assert_eq!(
        node["status"]["capacity"],
        json!({ "cpu": "1", "example.com/gpu": "0", "hugepages-2Mi": "8Mi", "pods": "10" })
    );
    assert_eq!(node["status"]["allocatable"], json!({ "example.com/gpu": "0", "hugepages-2Mi": "8Mi" }));

    setup.controller_attach_detach = false;
    setup.unserved = Unserved::default();
    let mut again: Node = serde_json::from_value(node).unwrap();
    again.status.as_mut().unwrap().capacity = quantities(&[("example.com/gpu", "2")]);
    let node = value(&reconcile_existing(&view(&setup, &health), &again));
    assert_eq!(node["metadata"]["annotations"], json!({}));
    assert_eq!(node["status"]["capacity"]["example.com/gpu"], json!("2"), "an administrator advertises them");
}

/// DEV-07: of what device plugins had under another agent there is none, whatever the object says.
#[test]
fn dev_07_what_device_plugins_had_before_is_nothing_now_and_what_people_advertise_stays() {
    let (mut setup, health) = (setup(), well());
    setup.unserved = Unserved::from_checkpoint(Some(
        r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"nvidia.com/gpu":["GPU-1","GPU-2"]}},"Checksum":1}"#,
    ));
    let mut node = initial_node(&view(&setup, &health)).node;
    let status = node.status.get_or_insert_default();
    for list in [&mut status.capacity, &mut status.allocatable] {
        list.get_or_insert_default().extend(quantities(&[("nvidia.com/gpu", "2"), ("example.com/foo", "5")]).unwrap());
    }
    for updated in [reconcile_existing(&view(&setup, &health), &node), updated_node(&view(&setup, &health), &node).node]
    {
        let status = value(&updated)["status"].clone();
        for list in ["capacity", "allocatable"] {
            assert_eq!(status[list]["nvidia.com/gpu"], json!("0"), "{list}");
            assert_eq!(status[list]["example.com/foo"], json!("5"), "{list}");
        }
    }
}

#[test]
fn the_checkpoint_of_a_device_manager_names_what_nothing_serves() {
    let named = |names: &[&str]| Unserved::Named(names.iter().map(|name| (*name).to_owned()).collect());
    for (text, expected) in [
        (None, Unserved::All),
        (Some(""), Unserved::All),
        (Some("{}"), Unserved::All),
        (Some(r#"{"Data":{"RegisteredDevices":7}}"#), Unserved::All),
        (Some(r#"{"Data":{"RegisteredDevices":null}}"#), named(&[])),
        (Some(r#"{"Data":{"RegisteredDevices":{}}}"#), named(&[])),
        (Some(r#"{"Data":{"RegisteredDevices":{"a.b/c":[],"d.e/f":["1"]}}}"#), named(&["a.b/c", "d.e/f"])),
    ] {
        assert_eq!(Unserved::from_checkpoint(text), expected, "{text:?}");
    }
    assert!(Unserved::All.has("a.b/c") && named(&["a.b/c"]).has("a.b/c") && !named(&["a.b/c"]).has("a.b/d"));
}

#[test]
fn node_05_an_object_without_resources_gets_ours() {
    let (setup, health) = (setup(), well());
    let node = reconcile_existing(&view(&setup, &health), &Node::default());
    let ours = initial_node(&view(&setup, &health)).node.status.unwrap();
    assert_eq!(node.status.unwrap().capacity, ours.capacity);
}

#[test]
fn node_13_what_others_advertise_stays_and_equal_amounts_keep_their_notation() {
    let (setup, health) = (setup(), well());
    let mut node = initial_node(&view(&setup, &health)).node;
    let status = node.status.as_mut().unwrap();
    status.capacity.as_mut().unwrap().insert("example.com/dongle".into(), Quantity("4".into()));
    status.capacity.as_mut().unwrap().insert("memory".into(), Quantity("4194304Ki".into()));
    status.allocatable.as_mut().unwrap().insert("example.com/gone".into(), Quantity("1".into()));
    let status = updated_node(&view(&setup, &health), &node).node.status.unwrap();
    let (capacity, allocatable) = (status.capacity.unwrap(), status.allocatable.unwrap());
    assert_eq!(capacity["memory"], Quantity("4194304Ki".into()));
    assert_eq!(allocatable["example.com/dongle"], Quantity("4".into()));
    assert!(!allocatable.contains_key("example.com/gone"), "an extended resource without a capacity");
}

#[test]
fn a_name_that_another_machine_used_is_noticed() {
    let setup = setup();
    let mut node = Node::default();
    assert!(!seems_foreign(&setup.machine, &node));
    let info = |id: &str, uuid: &str| {
        Some(NodeSystemInfo { machine_id: id.into(), system_uuid: uuid.into(), ..NodeSystemInfo::default() })
    };
    for (id, uuid, foreign) in
        [("machine", "system", false), ("", "", false), ("other", "system", true), ("machine", "other", true)]
    {
        node.status.get_or_insert_default().node_info = info(id, uuid);
        assert_eq!(seems_foreign(&setup.machine, &node), foreign, "{id} {uuid}");
    }
}
