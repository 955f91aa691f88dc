//! Namespaces, security profiles and cgroup values of sandboxes and containers.

use rubelet_core::launch::{
    GroupsPolicy, IdMapping, LinuxResources, NamespaceMode, Namespaces, SecurityProfile, SelinuxOptions,
};
use rubelet_proto::cri;

pub(super) fn namespace_option(namespaces: &Namespaces) -> cri::NamespaceOption {
    let modes = [&namespaces.network, &namespaces.pid, &namespaces.ipc];
    let target_id = modes.into_iter().find_map(|mode| match mode {
        NamespaceMode::Target(id) => Some(id.clone()),
        NamespaceMode::Pod | NamespaceMode::Container | NamespaceMode::Node => None,
    });
    cri::NamespaceOption {
        network: namespace_mode(&namespaces.network).into(),
        pid: namespace_mode(&namespaces.pid).into(),
        ipc: namespace_mode(&namespaces.ipc).into(),
        target_id: target_id.unwrap_or_default(),
        userns_options: Some(namespaces.user.as_ref().map_or_else(
            // Upstream sends the mode explicitly. upstream: userns_manager.go GetOrCreateUserNamespaceMappings (v1.36)
            || cri::UserNamespace { mode: cri::NamespaceMode::Node.into(), uids: Vec::new(), gids: Vec::new() },
            |user| cri::UserNamespace {
                mode: cri::NamespaceMode::Pod.into(),
                uids: id_mappings(&user.uids),
                gids: id_mappings(&user.gids),
            },
        )),
    }
}

fn namespace_mode(mode: &NamespaceMode) -> cri::NamespaceMode {
    match mode {
        NamespaceMode::Pod => cri::NamespaceMode::Pod,
        NamespaceMode::Container => cri::NamespaceMode::Container,
        NamespaceMode::Node => cri::NamespaceMode::Node,
        NamespaceMode::Target(_) => cri::NamespaceMode::Target,
    }
}

pub(super) fn id_mappings(mappings: &[IdMapping]) -> Vec<cri::IdMapping> {
    let mapping = |m: &IdMapping| cri::IdMapping { host_id: m.host_id, container_id: m.container_id, length: m.length };
    mappings.iter().map(mapping).collect()
}

pub(super) fn int64_value(value: i64) -> cri::Int64Value {
    cri::Int64Value { value }
}

pub(super) fn groups_policy(policy: GroupsPolicy) -> cri::SupplementalGroupsPolicy {
    match policy {
        GroupsPolicy::Merge => cri::SupplementalGroupsPolicy::Merge,
        GroupsPolicy::Strict => cri::SupplementalGroupsPolicy::Strict,
    }
}

pub(super) fn selinux_option(options: &SelinuxOptions) -> cri::SeLinuxOption {
    cri::SeLinuxOption {
        user: options.user.clone(),
        role: options.role.clone(),
        r#type: options.type_.clone(),
        level: options.level.clone(),
    }
}

pub(super) fn security_profile(profile: &SecurityProfile) -> cri::SecurityProfile {
    use cri::security_profile::ProfileType;
    let (profile_type, localhost_ref) = match profile {
        SecurityProfile::Unconfined => (ProfileType::Unconfined, String::new()),
        SecurityProfile::RuntimeDefault => (ProfileType::RuntimeDefault, String::new()),
        SecurityProfile::Localhost(name) => (ProfileType::Localhost, name.clone()),
    };
    cri::SecurityProfile { profile_type: profile_type.into(), localhost_ref }
}

pub(crate) fn linux_resources(resources: &LinuxResources) -> cri::LinuxContainerResources {
    cri::LinuxContainerResources {
        cpu_period: resources.cpu_period,
        cpu_quota: resources.cpu_quota,
        cpu_shares: resources.cpu_shares,
        memory_limit_in_bytes: resources.memory_limit_in_bytes,
        oom_score_adj: resources.oom_score_adj,
        cpuset_cpus: resources.cpuset_cpus.clone(),
        cpuset_mems: resources.cpuset_mems.clone(),
        hugepage_limits: resources.hugepage_limits.iter().map(hugepage_limit).collect(),
        unified: resources.unified.clone(),
        memory_swap_limit_in_bytes: resources.memory_swap_limit_in_bytes,
    }
}

fn hugepage_limit((page_size, limit): &(String, u64)) -> cri::HugepageLimit {
    cri::HugepageLimit { page_size: page_size.clone(), limit: *limit }
}
