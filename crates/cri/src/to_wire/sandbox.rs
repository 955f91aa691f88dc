//! The sandbox configuration of `RunPodSandbox` (RT-80, RT-81).

use rubelet_core::launch::{DnsConfig, PortMapping, Protocol, SandboxConfig, SandboxSecurity};
use rubelet_proto::cri;

use super::linux::{groups_policy, int64_value, linux_resources, namespace_option, security_profile, selinux_option};

pub(crate) fn sandbox_config(config: &SandboxConfig) -> cri::PodSandboxConfig {
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: config.name.clone(),
            uid: config.uid.clone(),
            namespace: config.namespace.clone(),
            attempt: config.attempt,
        }),
        hostname: config.hostname.clone(),
        log_directory: config.log_directory.clone(),
        dns_config: config.dns.as_ref().map(dns_config),
        port_mappings: config.port_mappings.iter().map(port_mapping).collect(),
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: config.cgroup_parent.clone(),
            security_context: Some(security_context(&config.security)),
            sysctls: config.sysctls.clone(),
            overhead: config.overhead.as_ref().map(linux_resources),
            resources: config.resources.as_ref().map(linux_resources),
        }),
        windows: None,
    }
}

fn dns_config(dns: &DnsConfig) -> cri::DnsConfig {
    cri::DnsConfig { servers: dns.servers.clone(), searches: dns.searches.clone(), options: dns.options.clone() }
}

fn port_mapping(mapping: &PortMapping) -> cri::PortMapping {
    let protocol = match mapping.protocol {
        Protocol::Tcp => cri::Protocol::Tcp,
        Protocol::Udp => cri::Protocol::Udp,
        Protocol::Sctp => cri::Protocol::Sctp,
    };
    cri::PortMapping {
        protocol: protocol.into(),
        container_port: mapping.container_port,
        host_port: mapping.host_port,
        host_ip: mapping.host_ip.clone(),
    }
}

fn security_context(security: &SandboxSecurity) -> cri::LinuxSandboxSecurityContext {
    cri::LinuxSandboxSecurityContext {
        namespace_options: Some(namespace_option(&security.namespaces)),
        selinux_options: security.selinux.as_ref().map(selinux_option),
        run_as_user: security.run_as_user.map(int64_value),
        run_as_group: security.run_as_group.map(int64_value),
        readonly_rootfs: security.readonly_rootfs,
        supplemental_groups: security.supplemental_groups.clone(),
        supplemental_groups_policy: groups_policy(security.supplemental_groups_policy).into(),
        privileged: security.privileged,
        seccomp: Some(security_profile(&security.seccomp)),
        ..Default::default()
    }
}
