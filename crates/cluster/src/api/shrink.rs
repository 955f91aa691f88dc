//! Frees the spare capacity of a pod's lists.
//!
//! A decoder grows lists by doubling, starting at four items. Items of a pod are large (a volume has a field for each of
//! thirty kinds), most lists have one or two items, and a pod is held for as long as it is bound to the node.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus, Volume};

/// Shrinks the lists that most pods have to their length.
pub(super) fn shrink(pod: &mut Pod) {
    fit(&mut pod.metadata.owner_references);
    if let Some(spec) = &mut pod.spec {
        of_spec(spec);
    }
    if let Some(status) = &mut pod.status {
        of_status(status);
    }
}

fn fit<T>(list: &mut Option<Vec<T>>) {
    if let Some(list) = list {
        list.shrink_to_fit();
    }
}

fn of_spec(spec: &mut PodSpec) {
    spec.containers.shrink_to_fit();
    fit(&mut spec.init_containers);
    fit(&mut spec.volumes);
    fit(&mut spec.tolerations);
    fit(&mut spec.image_pull_secrets);
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()).for_each(of_container);
    spec.volumes.iter_mut().flatten().for_each(of_volume);
}

fn of_container(container: &mut Container) {
    fit(&mut container.args);
    fit(&mut container.command);
    fit(&mut container.env);
    fit(&mut container.env_from);
    fit(&mut container.ports);
    fit(&mut container.volume_mounts);
}

fn of_volume(volume: &mut Volume) {
    let Some(projected) = &mut volume.projected else { return };
    fit(&mut projected.sources);
    for source in projected.sources.iter_mut().flatten() {
        if let Some(api) = &mut source.downward_api {
            fit(&mut api.items);
        }
        if let Some(map) = &mut source.config_map {
            fit(&mut map.items);
        }
    }
}

fn of_status(status: &mut PodStatus) {
    fit(&mut status.conditions);
    fit(&mut status.container_statuses);
    fit(&mut status.init_container_statuses);
    fit(&mut status.host_ips);
    fit(&mut status.pod_ips);
    let containers = status.container_statuses.iter_mut().chain(status.init_container_statuses.iter_mut());
    containers.flatten().for_each(of_container_status);
}

fn of_container_status(status: &mut ContainerStatus) {
    fit(&mut status.volume_mounts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shrunk_pod_is_equal_and_its_lists_have_no_spare_capacity() {
        let text = r#"{"metadata": {"name": "web"}, "spec": {
            "containers": [{"name": "app", "volumeMounts": [{"name": "token", "mountPath": "/token"}]}],
            "volumes": [{"name": "token", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}}, {"configMap": {"items": [{"key": "ca", "path": "ca"}]}}]}}],
            "tolerations": [{"operator": "Exists"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "podIPs": [{"ip": "10.0.0.1"}]}}"#;
        let read: Pod = serde_json::from_str(text).expect("a pod");
        let mut pod = read.clone();
        pod.spec.as_mut().expect("it has one").tolerations.as_mut().expect("it has some").reserve(10);
        shrink(&mut pod);
        assert_eq!(pod, read);
        let (spec, status) = (pod.spec.expect("it has one"), pod.status.expect("it has one"));
        assert_eq!(spec.tolerations.expect("it has some").capacity(), 1);
        assert_eq!(status.conditions.expect("it has some").capacity(), 1);
        let sources = spec.volumes.expect("it has some").remove(0).projected.and_then(|p| p.sources);
        assert_eq!(sources.expect("it has some").capacity(), 2);
    }
}
