//! Defaults of one container.

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};

use crate::image::PullPolicy;

pub(super) fn apply(container: &mut Container) {
    let image = container.image.as_deref().unwrap_or_default();
    container.image_pull_policy.get_or_insert_with(|| PullPolicy::by_default(image).as_str().to_owned());
    container.termination_message_path.get_or_insert_with(|| "/dev/termination-log".to_owned());
    container.termination_message_policy.get_or_insert_with(|| "File".to_owned());
    for port in container.ports.iter_mut().flatten() {
        port.protocol.get_or_insert_with(|| "TCP".to_owned());
    }
    for source in container.env.iter_mut().flatten().filter_map(|env| env.value_from.as_mut()) {
        if let Some(field) = &mut source.field_ref {
            field.api_version.get_or_insert_with(|| "v1".to_owned());
        }
        if let Some(file) = &mut source.file_key_ref {
            file.optional.get_or_insert(false);
        }
    }
    let probes = [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(probe);
    if let Some(lifecycle) = &mut container.lifecycle {
        let hooks = [&mut lifecycle.post_start, &mut lifecycle.pre_stop];
        hooks.into_iter().flatten().filter_map(|hook| hook.http_get.as_mut()).for_each(http_get);
    }
}

/// On the host's network a container port is a host port, whether the manifest says so or not.
/// upstream: v1/defaults.go defaultHostNetworkPorts (v1.36)
pub(super) fn host_ports_from_container_ports(container: &mut Container) {
    for port in container.ports.iter_mut().flatten() {
        if port.host_port.is_none() && port.container_port != 0 {
            port.host_port = Some(port.container_port);
        }
    }
}

fn probe(probe: &mut Probe) {
    probe.timeout_seconds.get_or_insert(1);
    probe.period_seconds.get_or_insert(10);
    probe.success_threshold.get_or_insert(1);
    probe.failure_threshold.get_or_insert(3);
    if let Some(action) = &mut probe.http_get {
        http_get(action);
    }
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn http_get(action: &mut HTTPGetAction) {
    action.path.get_or_insert_with(|| "/".to_owned());
    action.scheme.get_or_insert_with(|| "HTTP".to_owned());
}
