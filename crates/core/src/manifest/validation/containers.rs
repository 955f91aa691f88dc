//! Containers and init containers: what each must have, and what they must not share.
//!
//! upstream: core/validation/validation.go validateContainers, validateInitContainers, validateContainerCommon (v1.36)

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort};

use super::faults::Faults;
use super::{Context, env, handlers, mounts, names, resources, restart, security, text};
use crate::manifest::field::Path;

pub(super) fn validate(context: &Context<'_>, at: &Path, faults: &mut Faults) {
    regular(context, &at.child("containers"), faults);
    init(context, &at.child("initContainers"), faults);
    if context.spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty()) {
        faults.forbidden(&at.child("ephemeralContainers"), "can only be added to a running pod");
    }
}

fn regular(context: &Context<'_>, at: &Path, faults: &mut Faults) {
    let containers = &context.spec.containers;
    if containers.is_empty() {
        return faults.required(at, "a pod needs at least one container");
    }
    let (mut seen, mut host_ports) = (BTreeSet::new(), BTreeSet::new());
    for (index, container) in containers.iter().enumerate() {
        let at = at.index(index);
        common(context, container, &at, faults);
        if !seen.insert(container.name.as_str()) {
            faults.duplicate(&at.child("name"), &container.name);
        }
        handlers::validate(context, container, &at, faults);
        restart::container_policy(context, container, &at, faults);
        unique_host_ports(container, &mut host_ports, &at.child("ports"), faults);
    }
}

fn init(context: &Context<'_>, at: &Path, faults: &mut Faults) {
    let mut seen: BTreeSet<&str> = context.spec.containers.iter().map(|container| container.name.as_str()).collect();
    for (index, container) in context.spec.init_containers.iter().flatten().enumerate() {
        let at = at.index(index);
        common(context, container, &at, faults);
        restart::init_policy(context, container, &at, faults);
        // Two init containers without a name lack a name each, and are no duplicates.
        if seen.contains(container.name.as_str()) {
            faults.duplicate(&at.child("name"), &container.name);
        } else if !container.name.is_empty() {
            seen.insert(&container.name);
        }
        // Init containers run one after another, so only a container's own ports can clash.
        unique_host_ports(container, &mut BTreeSet::new(), &at.child("ports"), faults);
        if container.restart_policy.as_deref() == Some("Always") {
            handlers::validate(context, container, &at, faults);
        } else {
            only_for_sidecars(container, &at, faults);
        }
    }
}

/// An init container that ends has nothing to probe and nothing to stop.
fn only_for_sidecars(container: &Container, at: &Path, faults: &mut Faults) {
    let set = [
        (container.lifecycle.is_some(), "lifecycle"),
        (container.liveness_probe.is_some(), "livenessProbe"),
        (container.readiness_probe.is_some(), "readinessProbe"),
        (container.startup_probe.is_some(), "startupProbe"),
    ];
    for (_, name) in set.iter().filter(|(is_set, _)| *is_set) {
        faults.forbidden(&at.child(name), "only init containers with restartPolicy: Always may have it");
    }
    for (index, policy) in container.resize_policy.iter().flatten().enumerate() {
        if policy.restart_policy == "RestartContainer" {
            let at = at.child("resizePolicy").index(index).child("restartPolicy");
            faults.invalid(&at, &policy.restart_policy, "an init container that ends cannot be restarted to resize it");
        }
    }
}

fn common(context: &Context<'_>, container: &Container, at: &Path, faults: &mut Faults) {
    faults.required_rule(&at.child("name"), &container.name, names::dns_label);
    let image = text(container.image.as_ref());
    faults.required_text(&at.child("image"), image);
    if image.trim() != image {
        faults.invalid(&at.child("image"), image, "must not begin or end with white space");
    }
    let policy = text(container.termination_message_policy.as_ref());
    faults.choice(&at.child("terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    ports(container.ports.as_deref().unwrap_or_default(), &at.child("ports"), faults);
    env::validate(container, at, faults);
    mounts::validate(context, container, at, faults);
    pull_policy(text(container.image_pull_policy.as_ref()), &at.child("imagePullPolicy"), faults);
    if let Some(requirements) = &container.resources {
        resources::container(context, requirements, &at.child("resources"), faults);
    }
    restart::resize_policy(context, container, &at.child("resizePolicy"), faults);
    if let Some(security) = &container.security_context {
        security::container(context, security, &at.child("securityContext"), faults);
    }
}

pub(super) fn pull_policy(policy: &str, at: &Path, faults: &mut Faults) {
    faults.choice(at, policy, &["Always", "IfNotPresent", "Never"]);
}

fn ports(ports: &[ContainerPort], at: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = at.index(index);
        let name = text(port.name.as_ref());
        match names::port_name(name) {
            _ if name.is_empty() => {}
            Err(detail) => faults.invalid(&at.child("name"), name, detail),
            Ok(()) if seen.insert(name) => {}
            Ok(()) => faults.duplicate(&at.child("name"), name),
        }
        match port.container_port {
            0 => faults.required(&at.child("containerPort"), ""),
            number => port_number(i64::from(number), &at.child("containerPort"), faults),
        }
        if let Some(number) = port.host_port {
            port_number(i64::from(number), &at.child("hostPort"), faults);
        }
        faults.choice(&at.child("protocol"), text(port.protocol.as_ref()), &["SCTP", "TCP", "UDP"]);
    }
}

pub(super) fn port_number(number: i64, at: &Path, faults: &mut Faults) {
    faults.range(at, number, 1, 65535);
}

fn unique_host_ports(container: &Container, taken: &mut BTreeSet<String>, at: &Path, faults: &mut Faults) {
    for (index, port) in container.ports.iter().flatten().enumerate() {
        let Some(number) = port.host_port else { continue };
        let key = format!("{}/{}/{number}", text(port.protocol.as_ref()), text(port.host_ip.as_ref()));
        if !taken.insert(key.clone()) {
            faults.duplicate(&at.index(index).child("hostPort"), key);
        }
    }
}
