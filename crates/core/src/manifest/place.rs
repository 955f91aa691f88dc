//! What makes a manifest this node's pod: its name, its node, and marks of where it came from.
//!
//! upstream: kubelet/config/common.go applyDefaults (v1.36), row SRC-05

use k8s_openapi::api::core::v1::{Pod, Toleration};

use super::Origin;

/// Holds the UID, which is the hash of the manifest, so that a mirror pod can be matched with its static pod.
const HASH_ANNOTATION: &str = "kubernetes.io/config.hash";

pub(super) fn place(pod: &mut Pod, uid: String, origin: &Origin, node: &str) {
    let meta = &mut pod.metadata;
    let name = meta.name.take().unwrap_or_default();
    meta.name = Some(format!("{name}-{}", node.to_lowercase()));
    meta.namespace.get_or_insert_with(|| "default".to_owned());
    meta.annotations.get_or_insert_default().insert(HASH_ANNOTATION.to_owned(), uid.clone());
    meta.uid = Some(uid);
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = (!node.is_empty()).then(|| node.to_owned());
    match origin {
        Origin::File(_) => tolerate_every_no_execute(spec.tolerations.get_or_insert_default()),
        Origin::Url(_) => {}
    }
    pod.status.get_or_insert_default().phase = Some("Pending".to_owned());
}

/// A static pod must stay when the node is in trouble: it may be what gets the node out of it.
/// upstream: core/helper/helpers.go AddOrUpdateTolerationInPod (v1.36)
fn tolerate_every_no_execute(tolerations: &mut Vec<Toleration>) {
    let wanted = Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    };
    let mut found = false;
    for toleration in tolerations.iter_mut() {
        let same = Toleration { toleration_seconds: None, ..toleration.clone() } == wanted;
        if same {
            // A time limit on it would defeat the purpose.
            toleration.toleration_seconds = None;
            found = true;
        }
    }
    if !found {
        tolerations.push(wanted);
    }
}
