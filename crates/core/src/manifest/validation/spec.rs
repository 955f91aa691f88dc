//! What is said of the pod as a whole.
//!
//! upstream: core/validation/validation.go ValidatePodSpec, ValidatePodCreate (v1.36)

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodDNSConfig, PodResourceClaim, PodSpec};

use super::faults::Faults;
use super::{Context, all_containers, meta, names, resources, scheduling, security, text};
use crate::manifest::field::Path;
use crate::manifest::gates::Gate;

const NAMESERVERS: usize = 3;
const SEARCHES: usize = 32;
const SEARCHES_LENGTH: usize = 2048;
const HOSTNAME_LENGTH: usize = 64;

pub(super) fn validate(context: &Context<'_>, at: &Path, faults: &mut Faults) {
    let spec = context.spec;
    claims(spec.resource_claims.as_deref().unwrap_or_default(), &at.child("resourceClaims"), faults);
    if let (true, Some(own)) = (context.on(Gate::PodLevelResources), &spec.resources) {
        resources::pod(context, own, at, faults);
    }
    host_namespaces(context, at, faults);
    policies(spec, at, faults);
    meta::labels(spec.node_selector.as_ref(), &at.child("nodeSelector"), faults);
    if let Some(own) = &spec.security_context {
        security::pod(context, own, &at.child("securityContext"), faults);
    }
    scheduling(context, at, faults);
    dns(context, &at.child("dnsConfig"), faults);
    object_names(spec, at, faults);
    host_names(context, at, faults);
    if let Some(overhead) = &spec.overhead {
        resources::overhead(overhead, &at.child("overhead"), faults);
    }
    operating_system(spec, at, faults);
    files_for_env(spec, at, faults);
}

fn policies(spec: &PodSpec, at: &Path, faults: &mut Faults) {
    let restart = text(spec.restart_policy.as_ref());
    faults.choice(&at.child("restartPolicy"), restart, &["Always", "OnFailure", "Never"]);
    let dns = text(spec.dns_policy.as_ref());
    faults.choice(&at.child("dnsPolicy"), dns, &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]);
    if let Some(policy) = &spec.preemption_policy {
        faults.choice(&at.child("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    if let Some(deadline) = spec.active_deadline_seconds {
        faults.range(&at.child("activeDeadlineSeconds"), deadline, 1, i64::from(i32::MAX));
    }
}

fn scheduling(context: &Context<'_>, at: &Path, faults: &mut Faults) {
    let spec = context.spec;
    if let Some(affinity) = &spec.affinity {
        scheduling::affinity(affinity, &at.child("affinity"), faults);
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    scheduling::tolerations(tolerations, context.gates, &at.child("tolerations"), faults);
    let spread = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    scheduling::spread(context, spread, &at.child("topologySpreadConstraints"), faults);
    for (index, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let at = at.child("readinessGates").index(index).child("conditionType");
        faults.rule(&at, &gate.condition_type, names::qualified_name(&gate.condition_type));
    }
    let gates = at.child("schedulingGates");
    let mut seen = BTreeSet::new();
    for (index, gate) in spec.scheduling_gates.iter().flatten().enumerate() {
        faults.rule(&gates.index(index), &gate.name, names::qualified_name(&gate.name));
        if !seen.insert(&gate.name) {
            faults.duplicate(&gates.index(index), &gate.name);
        }
    }
    if spec.node_name.is_some() && !seen.is_empty() {
        faults.forbidden(&at.child("nodeName"), "a pod with schedulingGates has no node yet");
    }
    if let Some(group) = &spec.scheduling_group {
        let at = at.child("schedulingGroup").child("podGroupName");
        match &group.pod_group_name {
            Some(name) => faults.rule(&at, name, names::dns_subdomain(name)),
            None => faults.invalid(&at, "", "must be set"),
        }
    }
}

fn claims(claims: &[PodResourceClaim], at: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let at = at.index(index);
        match claim.name.as_str() {
            "" => faults.required(&at.child("name"), ""),
            name if !seen.insert(name) => faults.duplicate(&at.child("name"), name),
            name => faults.rule(&at.child("name"), name, names::dns_label(name)),
        }
        if claim.resource_claim_name.is_some() == claim.resource_claim_template_name.is_some() {
            let detail = "must have exactly one of resourceClaimName and resourceClaimTemplateName";
            faults.invalid(&at, &claim.name, detail);
        }
        for (field, name) in [
            ("resourceClaimName", &claim.resource_claim_name),
            ("resourceClaimTemplateName", &claim.resource_claim_template_name),
        ] {
            if let Some(name) = name {
                faults.rule(&at.child(field), name, names::dns_subdomain(name));
            }
        }
    }
}

fn host_namespaces(context: &Context<'_>, at: &Path, faults: &mut Faults) {
    let spec = context.spec;
    if context.host_network() {
        for (container, at) in spec.containers.iter().enumerate().map(|(i, c)| (c, at.child("containers").index(i))) {
            for (index, port) in container.ports.iter().flatten().enumerate() {
                if let Some(number) = port.host_port.filter(|number| *number != port.container_port) {
                    let at = at.child("ports").index(index).child("hostPort");
                    faults.invalid(&at, number, "must be the containerPort on the host's network");
                }
            }
        }
    }
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        faults.invalid(&at.child("shareProcessNamespace"), true, "must not be set together with hostPID");
    }
    if context.host_users() {
        return;
    }
    let own_users = "must not be set when hostUsers is false";
    if context.host_network() && !context.on(Gate::UserNamespacesHostNetworkSupport) {
        faults.forbidden(&at.child("hostNetwork"), own_users);
    }
    if spec.host_pid == Some(true) {
        faults.forbidden(&at.child("hostPID"), own_users);
    }
    if spec.host_ipc == Some(true) {
        faults.forbidden(&at.child("hostIPC"), own_users);
    }
    for (container, at) in all_containers(spec, at) {
        if container.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
            faults.forbidden(&at.child("volumeDevices"), own_users);
        }
    }
}

fn dns(context: &Context<'_>, at: &Path, faults: &mut Faults) {
    let none = context.spec.dns_policy.as_deref() == Some("None");
    let Some(config) = &context.spec.dns_config else {
        if none {
            faults.required(at, "dnsPolicy: None needs it");
        }
        return;
    };
    let servers = config.nameservers.as_deref().unwrap_or_default();
    if none && servers.is_empty() {
        return faults.required(&at.child("nameservers"), "dnsPolicy: None needs at least one");
    }
    if servers.len() > NAMESERVERS {
        faults.invalid(&at.child("nameservers"), servers.len(), "at most 3 are allowed");
    }
    for (index, server) in servers.iter().enumerate() {
        ip(context, server, &at.child("nameservers").index(index), faults);
    }
    searches(config, at, faults);
    for (index, option) in config.options.iter().flatten().enumerate() {
        faults.required_text(&at.child("options").index(index).child("name"), text(option.name.as_ref()));
    }
}

fn searches(config: &PodDNSConfig, at: &Path, faults: &mut Faults) {
    let at = at.child("searches");
    let searches = config.searches.as_deref().unwrap_or_default();
    if searches.len() > SEARCHES {
        faults.invalid(&at, searches.len(), "at most 32 are allowed");
    }
    if searches.join(" ").len() > SEARCHES_LENGTH {
        faults.invalid(&at, searches.len(), "at most 2048 characters are allowed, spaces between them included");
    }
    for (index, search) in searches.iter().enumerate() {
        faults.rule(&at.index(index), search, names::dns_search(search));
    }
}

fn ip(context: &Context<'_>, address: &str, at: &Path, faults: &mut Faults) {
    faults.rule(at, address, names::ip_address(address, context.on(Gate::StrictIpCidrValidation)));
}

fn object_names(spec: &PodSpec, at: &Path, faults: &mut Faults) {
    for (field, name) in [
        ("serviceAccountName", &spec.service_account_name),
        ("nodeName", &spec.node_name),
        ("priorityClassName", &spec.priority_class_name),
        ("runtimeClassName", &spec.runtime_class_name),
    ] {
        if let Some(name) = name {
            faults.rule(&at.child(field), name, names::dns_subdomain(name));
        }
    }
}

fn host_names(context: &Context<'_>, at: &Path, faults: &mut Faults) {
    let spec = context.spec;
    for (field, name) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        if let Some(name) = name {
            faults.rule(&at.child(field), name, names::dns_label(name));
        }
    }
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let at = at.child("hostAliases").index(index);
        ip(context, &alias.ip, &at.child("ip"), faults);
        for (index, name) in alias.hostnames.iter().flatten().enumerate() {
            faults.rule(&at.child("hostnames").index(index), name, names::dns_subdomain(name));
        }
    }
    let Some(name) = &spec.hostname_override else { return };
    let at = at.child("hostnameOverride");
    if spec.set_hostname_as_fqdn == Some(true) {
        faults.forbidden(&at, "must not be set together with setHostnameAsFQDN");
    }
    if context.host_network() {
        faults.forbidden(&at, "a pod on the host's network has the host's name");
    }
    if name.len() > HOSTNAME_LENGTH {
        faults.too_long(&at, HOSTNAME_LENGTH);
    }
    faults.rule(&at, name, names::dns_subdomain(name));
}

fn operating_system(spec: &PodSpec, at: &Path, faults: &mut Faults) {
    let Some(os) = &spec.os else { return };
    faults.choice(&at.child("os").child("name"), &os.name, &["linux", "windows"]);
    if os.name != "linux" {
        return;
    }
    let not_here = "a linux pod cannot have it";
    if spec.security_context.as_ref().is_some_and(|context| context.windows_options.is_some()) {
        faults.forbidden(&at.child("securityContext").child("windowsOptions"), not_here);
    }
    for (container, at) in all_containers(spec, at) {
        if container.security_context.as_ref().is_some_and(|context| context.windows_options.is_some()) {
            faults.forbidden(&at.child("securityContext").child("windowsOptions"), not_here);
        }
    }
}

/// A variable read from a file: the file must be in an emptyDir, where an init container can put it.
fn files_for_env(spec: &PodSpec, at: &Path, faults: &mut Faults) {
    for (container, at) in all_containers(spec, at) {
        for (index, variable) in container.env.iter().flatten().enumerate() {
            let Some(file) = variable.value_from.as_ref().and_then(|source| source.file_key_ref.as_ref()) else {
                continue;
            };
            let at = at.child("env").index(index).child("valueFrom").child("fileKeyRef").child("volumeName");
            let name = &file.volume_name;
            match spec.volumes.iter().flatten().rev().find(|volume| volume.name == *name) {
                None => faults.not_found(&at, name),
                Some(volume) if volume.empty_dir.is_none() => faults.invalid(&at, name, "must be an emptyDir"),
                Some(_) => {}
            }
        }
    }
}
