//! The runtime handler of a pod (RTC-01).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::launch::HandlerFeatures;
use rubelet_core::observe::PodObservation;
use rubelet_core::pod::PodExt;

use crate::node::Node;

/// The handler of the pod's RuntimeClass.
pub(super) async fn of_class(node: &Node, pod: &Pod) -> Result<String, String> {
    let class = pod.pod_spec().and_then(|s| s.runtime_class_name.as_deref()).unwrap_or_default();
    if class.is_empty() {
        return Ok(String::new());
    }
    match &node.ports.cluster {
        Some(cluster) => match cluster.view.runtime_handler(class).await {
            Ok(handler) => Ok(handler),
            Err(err) if err.is_not_found() => Err(format!("runtimeclass.node.k8s.io {class:?} not found")),
            Err(err) => Err(format!("failed to lookup RuntimeClass {class}: {err}")),
        },
        None => standalone(&node.now().runtime.status.handlers, class),
    }
}

/// The handler whose features the pod's status shows: that of its sandbox, or, before it has one, that of its RuntimeClass.
///
/// The first status already shows how volumes are mounted, so the RuntimeClass is needed before the sandbox exists. It is
/// looked up only for a pod with a `recursiveReadOnly` mount. If the lookup fails, the default handler counts.
/// upstream: kubelet_pods.go runtimeClassSupportsRecursiveReadOnlyMounts (v1.36)
pub(crate) async fn of_status(node: &Node, pod: &Pod, seen: &PodObservation) -> String {
    if let Some(sandbox) = seen.sandboxes.first() {
        return sandbox.runtime_handler.clone();
    }
    let mut mounts =
        pod.init().iter().chain(pod.regular()).flat_map(|container| container.volume_mounts.iter().flatten());
    let asks = mounts.any(|mount| mount.recursive_read_only.is_some());
    if asks { of_class(node, pod).await.unwrap_or_default() } else { String::new() }
}

/// Without an API server there are no RuntimeClass objects, so the class name is taken as the name of a handler. A
/// standalone upstream kubelet silently uses the default handler for such a pod.
fn standalone(handlers: &BTreeMap<String, HandlerFeatures>, class: &str) -> Result<String, String> {
    // A runtime that does not list its handlers checks the name itself.
    if handlers.is_empty() || handlers.contains_key(class) {
        return Ok(class.to_owned());
    }
    let offered: Vec<&str> = handlers.keys().map(String::as_str).filter(|name| !name.is_empty()).collect();
    Err(format!("RuntimeClass {class:?} names no handler of the runtime, which offers: {}", offered.join(", ")))
}
