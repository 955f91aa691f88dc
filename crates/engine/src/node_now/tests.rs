use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_core::admit::SysctlAllowlist;

use super::*;

fn labels(zone: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("zone".to_owned(), zone.to_owned())])
}

fn taint(key: &str) -> Taint {
    Taint { key: key.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

fn configured() -> Admission {
    Admission {
        labels: labels("configured"),
        taints: vec![taint("configured")],
        allocatable: Amounts::from([("cpu".to_owned(), Amount::units(4))]),
        unserved: BTreeSet::from(["example.com/old".to_owned()]),
        sysctls: SysctlAllowlist::new((6, 1), &[]).expect("an empty list"),
    }
}

#[test]
fn configured_labels_and_taints_count_until_the_object_has_been_read() {
    let runtime = RuntimeHealth::default();
    let before = NodeNow::of(&configured(), &[], &runtime, None);
    assert_eq!((before.labels, before.taints), (labels("configured"), vec![taint("configured")]));

    let mut object = ApiNode { spec: Some(NodeSpec::default()), ..ApiNode::default() };
    object.metadata.labels = Some(labels("object"));
    let after = NodeNow::of(&configured(), &[], &runtime, Some(&object));
    assert_eq!((after.labels, after.taints), (labels("object"), Vec::new()), "taints may be taken away");
}

#[test]
fn the_object_adds_resources_but_does_not_change_the_nodes_own() {
    let listed = [("cpu", "64"), ("example.com/served", "2"), ("example.com/old", "3")];
    let listed = listed.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).into();
    let status = NodeStatus { allocatable: Some(listed), ..NodeStatus::default() };
    let object = ApiNode { status: Some(status), ..ApiNode::default() };
    let now = NodeNow::of(&configured(), &[], &RuntimeHealth::default(), Some(&object));
    let amounts: Vec<_> = now.allocatable.iter().map(|(name, amount)| (name.as_str(), amount.value())).collect();
    assert_eq!(amounts, [("cpu", 4), ("example.com/old", 0), ("example.com/served", 2)]);
}

#[test]
fn each_runtime_handler_has_features_of_its_own() {
    let able = HandlerFeatures { recursive_read_only_mounts: true, ..HandlerFeatures::default() };
    let mut runtime = RuntimeHealth::default();
    runtime.status.handlers = BTreeMap::from([(String::new(), HandlerFeatures::default()), ("kata".to_owned(), able)]);
    let now = NodeNow::of(&configured(), &[], &runtime, None);
    assert_eq!(now.handler("kata"), able);
    assert_eq!(now.handler(""), HandlerFeatures::default());
    assert_eq!(now.handler("unknown"), HandlerFeatures::default());
}
