//! What changed, as a patch.

use super::*;

fn patch(old: &Node, new: &Node) -> Value {
    node_patch(old, new).map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
}

#[test]
fn a_patch_holds_only_what_differs() {
    let (setup, health) = (setup(), well());
    let mut seen = view(&setup, &health);
    let old = initial_node(&seen).node;
    assert_eq!(patch(&old, &old), Value::Null);

    seen.now = at(10);
    let beat = json!({ "lastHeartbeatTime": "2026-01-01T00:00:10Z" });
    let with = |kind: &str| {
        let mut beat = beat.clone();
        beat["type"] = json!(kind);
        beat
    };
    let order = json!([
        { "type": "MemoryPressure" }, { "type": "DiskPressure" }, { "type": "PIDPressure" }, { "type": "Ready" },
    ]);
    assert_eq!(
        patch(&old, &updated_node(&seen, &old).node),
        json!({ "status": {
            "$setElementOrder/conditions": order,
            "conditions": [with("MemoryPressure"), with("DiskPressure"), with("PIDPressure"), with("Ready")],
        }})
    );
}

#[test]
fn conditions_are_merged_by_type_and_others_are_named_only_for_their_order() {
    let (setup, health) = (setup(), well());
    let mut old = initial_node(&view(&setup, &health)).node;
    let others = NodeCondition { type_: "KernelDeadlock".into(), status: "False".into(), ..NodeCondition::default() };
    old.status.as_mut().unwrap().conditions.as_mut().unwrap().insert(0, others);
    let sick = NodeHealth { contact: RuntimeContact::Long, ..well() };
    let patch = patch(&old, &updated_node(&view(&setup, &sick), &old).node);
    assert_eq!(
        patch["status"]["conditions"],
        json!([{
            "type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "container runtime is down",
        }])
    );
    assert_eq!(patch["status"]["$setElementOrder/conditions"][0], json!({ "type": "KernelDeadlock" }));
}

#[test]
fn addresses_are_replaced_as_a_whole() {
    let (setup, health) = (setup(), well());
    let old = initial_node(&view(&setup, &health)).node;
    let ips: Vec<IpAddr> = vec!["192.0.2.8".parse().unwrap(), "2001:db8::8".parse().unwrap()];
    let mut seen = view(&setup, &health);
    seen.ips = &ips;
    assert_eq!(
        patch(&old, &updated_node(&seen, &old).node),
        json!({ "status": { "addresses": [
            { "type": "InternalIP", "address": "192.0.2.8" },
            { "type": "InternalIP", "address": "2001:db8::8" },
            { "type": "Hostname", "address": "web-1" },
            { "$patch": "replace" },
        ]}})
    );
}

#[test]
fn what_is_gone_is_null_and_the_spec_is_never_sent() {
    let (setup, health) = (setup(), well());
    let old = initial_node(&view(&setup, &health)).node;
    let mut new = old.clone();
    new.metadata.annotations = None;
    new.metadata.labels.as_mut().unwrap().remove("beta.kubernetes.io/os");
    new.spec = None;
    let status = new.status.as_mut().unwrap();
    status.capacity.as_mut().unwrap().remove("pods");
    status.node_info.as_mut().unwrap().kernel_version = "6.2".into();
    status.images = Some(Vec::new());
    assert_eq!(
        patch(&old, &new),
        json!({
            "metadata": {
                "labels": { "beta.kubernetes.io/os": null },
                "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": null },
            },
            "status": { "capacity": { "pods": null }, "nodeInfo": { "kernelVersion": "6.2" }, "images": [] },
        })
    );
}

#[test]
fn a_change_by_others_of_what_is_ours_is_put_back() {
    let (setup, health) = (setup(), well());
    let ours = initial_node(&view(&setup, &health)).node;
    let mut theirs = ours.clone();
    let conditions = theirs.status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions[3].status = "Unknown".into();
    conditions[3].reason = Some("NodeStatusUnknown".into());
    let mut seen = view(&setup, &health);
    seen.now = at(60);
    let update = updated_node(&seen, &theirs);
    assert!(node_change(&theirs, &update.node).is_some());
    assert_eq!(update.news.iter().map(|news| news.reason).collect::<Vec<_>>(), ["NodeReady"]);
    assert_eq!(ready(&update.node).last_transition_time, Some(Time(at(60))));
}
