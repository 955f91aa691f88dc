//! The container configuration of `CreateContainer` (RT-90 … RT-99).

use rubelet_core::launch::{ContainerConfig, ContainerSecurity, Device, Mount, MountPropagation, SecurityProfile};
use rubelet_proto::cri;

use super::image::image_spec;
use super::linux::{
    groups_policy, id_mappings, int64_value, linux_resources, namespace_option, security_profile, selinux_option,
};

pub(crate) fn container_config(config: &ContainerConfig) -> cri::ContainerConfig {
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: config.name.clone(), attempt: config.attempt }),
        image: Some(image_spec(&config.image)),
        command: config.command.clone(),
        args: config.args.clone(),
        working_dir: config.working_dir.clone(),
        envs: config.envs.iter().map(key_value).collect(),
        mounts: config.mounts.iter().map(mount).collect(),
        devices: config.devices.iter().map(device).collect(),
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        log_path: config.log_path.clone(),
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(linux_resources(&config.resources)),
            security_context: Some(security_context(&config.security)),
        }),
        windows: None,
        cdi_devices: config.cdi_devices.iter().map(|name| cri::CdiDevice { name: name.clone() }).collect(),
        stop_signal: config.stop_signal.as_deref().map_or(cri::Signal::RuntimeDefault, stop_signal).into(),
    }
}

fn key_value((key, value): &(String, String)) -> cri::KeyValue {
    cri::KeyValue { key: key.clone(), value: value.clone().into_bytes() }
}

fn mount(mount: &Mount) -> cri::Mount {
    let propagation = match mount.propagation {
        MountPropagation::Private => cri::MountPropagation::PropagationPrivate,
        MountPropagation::HostToContainer => cri::MountPropagation::PropagationHostToContainer,
        MountPropagation::Bidirectional => cri::MountPropagation::PropagationBidirectional,
    };
    cri::Mount {
        container_path: mount.container_path.clone(),
        host_path: mount.host_path.clone(),
        readonly: mount.readonly,
        selinux_relabel: mount.selinux_relabel,
        propagation: propagation.into(),
        uid_mappings: id_mappings(&mount.uid_mappings),
        gid_mappings: id_mappings(&mount.gid_mappings),
        recursive_read_only: mount.recursive_read_only,
        image: mount.image.as_ref().map(image_spec),
        image_sub_path: mount.image_sub_path.clone(),
    }
}

fn device(device: &Device) -> cri::Device {
    cri::Device {
        container_path: device.container_path.clone(),
        host_path: device.host_path.clone(),
        permissions: device.permissions.clone(),
    }
}

/// The API writes `SIGRTMIN+1` where the protocol writes `SIGRTMINPLUS1`. For a name that the protocol lacks the
/// runtime chooses; API validation refuses such a name.
fn stop_signal(name: &str) -> cri::Signal {
    let name = name.replace('+', "PLUS").replace('-', "MINUS");
    cri::Signal::from_str_name(&name).unwrap_or(cri::Signal::RuntimeDefault)
}

#[expect(deprecated, reason = "runtimes from before CRI's structured profiles read the old AppArmor field (RT-97)")]
fn security_context(security: &ContainerSecurity) -> cri::LinuxContainerSecurityContext {
    cri::LinuxContainerSecurityContext {
        capabilities: capability(security),
        privileged: security.privileged,
        namespace_options: Some(namespace_option(&security.namespaces)),
        selinux_options: security.selinux.as_ref().map(selinux_option),
        run_as_user: security.run_as_user.map(int64_value),
        run_as_username: security.run_as_username.clone(),
        run_as_group: security.run_as_group.map(int64_value),
        readonly_rootfs: security.readonly_rootfs,
        supplemental_groups: security.supplemental_groups.clone(),
        supplemental_groups_policy: groups_policy(security.supplemental_groups_policy).into(),
        no_new_privs: security.no_new_privs,
        masked_paths: security.masked_paths.clone(),
        readonly_paths: security.readonly_paths.clone(),
        seccomp: Some(security_profile(&security.seccomp)),
        apparmor: security.apparmor.as_ref().map(security_profile),
        apparmor_profile: security.apparmor.as_ref().map(old_apparmor_profile).unwrap_or_default(),
        seccomp_profile_path: String::new(),
    }
}

fn capability(security: &ContainerSecurity) -> Option<cri::Capability> {
    if security.add_capabilities.is_empty() && security.drop_capabilities.is_empty() {
        return None;
    }
    Some(cri::Capability {
        add_capabilities: security.add_capabilities.clone(),
        drop_capabilities: security.drop_capabilities.clone(),
        add_ambient_capabilities: Vec::new(),
    })
}

fn old_apparmor_profile(profile: &SecurityProfile) -> String {
    match profile {
        SecurityProfile::Unconfined => "unconfined".to_owned(),
        SecurityProfile::RuntimeDefault => "runtime/default".to_owned(),
        SecurityProfile::Localhost(name) => format!("localhost/{name}"),
    }
}
