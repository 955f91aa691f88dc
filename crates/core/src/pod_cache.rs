//! What a copy of the API's pods keeps, and how a pod from it is used (`--api-pod-cache`). The files are `cluster`'s.

use k8s_openapi::api::core::v1::Pod;

use crate::pod::PodExt;

/// The pod as it is delivered from the copy, without node selector and node affinity: it was placed here and admitted. The
/// labels of the node are not known while the API server is away, and a pod that is rejected for want of them has failed for
/// good.
#[must_use]
pub fn restored(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    if let Some(spec) = &mut pod.spec {
        spec.node_selector = None;
        if let Some(affinity) = &mut spec.affinity {
            affinity.node_affinity = None;
        }
    }
    pod
}

/// The two differ in nothing that a restart of the node would need, so the copy need not be written again. Of the status it
/// counts only whether the pod has ended.
pub fn same_in_copy(old: &Pod, new: &Pod) -> bool {
    let (a, b) = (&old.metadata, &new.metadata);
    old.spec == new.spec
        && a.labels == b.labels
        && a.annotations == b.annotations
        && a.deletion_timestamp == b.deletion_timestamp
        && a.deletion_grace_period_seconds == b.deletion_grace_period_seconds
        && old.is_terminal() == new.is_terminal()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: &serde_json::Value, status: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec, "status": status})).expect("a pod")
    }

    #[test]
    fn a_restored_pod_is_not_picky_about_nodes_any_more() {
        let affinity = json!({"nodeAffinity": {}, "podAffinity": {}});
        let spec = json!({"containers": [], "nodeSelector": {"disk": "ssd"}, "affinity": affinity});
        let restored = restored(&pod(&spec, &json!({})));
        assert_eq!(restored, pod(&json!({"containers": [], "affinity": {"podAffinity": {}}}), &json!({})));
    }

    #[test]
    fn of_the_status_only_the_end_is_worth_a_write() {
        let spec = json!({"containers": [{"name": "app"}]});
        let at = |phase: &str| pod(&spec, &json!({"phase": phase}));
        assert!(same_in_copy(&at("Pending"), &at("Running")));
        assert!(!same_in_copy(&at("Running"), &at("Succeeded")));
        let other = pod(&json!({"containers": [{"name": "app", "image": "b"}]}), &json!({"phase": "Running"}));
        assert!(!same_in_copy(&at("Running"), &other));
    }
}
