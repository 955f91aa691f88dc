//! Namespaces and security settings (RT-82, RT-96 … RT-98).

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, Container, Pod, PodSecurityContext, SELinuxOptions, SeccompProfile, SecurityContext,
};

use super::{
    ContainerInputs, ContainerSecurity, GroupsPolicy, HandlerFeatures, ImageUser, LaunchContext, LaunchError,
    NamespaceMode, Namespaces, SecurityProfile, SelinuxOptions, UserNamespace,
};
use crate::id::PodRef;
use crate::pod::PodExt;

/// The prefix of the old annotation that held a container's AppArmor profile; the name of the container follows.
const APPARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Paths that expose or change the host, masked unless a container has `procMount: Unmasked`.
///
/// upstream: pkg/securitycontext/util.go defaultMaskedPaths (v1.36)
const MASKED_PATHS: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// upstream: pkg/securitycontext/util.go defaultReadonlyPaths (v1.36)
const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The namespaces of a pod's sandbox and containers.
///
/// upstream: kuberuntime/util/util.go NamespacesForPod, userns/userns_manager.go (v1.36)
#[doc(alias = "NamespacesForPod")]
pub(super) fn namespaces(
    pod: &Pod,
    (handler, features): (&str, HandlerFeatures),
    ids: Option<&UserNamespace>,
) -> Result<Namespaces, LaunchError> {
    let spec = pod.pod_spec();
    let node_or_pod = |node: bool| if node { NamespaceMode::Node } else { NamespaceMode::Pod };
    let pid = if spec.and_then(|s| s.host_pid).unwrap_or_default() {
        NamespaceMode::Node
    } else if spec.and_then(|s| s.share_process_namespace).unwrap_or_default() {
        NamespaceMode::Pod
    } else {
        NamespaceMode::Container
    };
    let user = if spec.and_then(|s| s.host_users).unwrap_or(true) {
        None
    } else if !features.user_namespaces {
        return Err(match handler {
            "" => LaunchError::UserNamespacesUnsupported,
            name => LaunchError::HandlerUserNamespacesUnsupported(name.to_owned()),
        });
    } else {
        Some(ids.cloned().ok_or(LaunchError::UserNamespaceMissing)?)
    };
    Ok(Namespaces {
        network: node_or_pod(pod.host_network()),
        ipc: node_or_pod(spec.and_then(|s| s.host_ipc).unwrap_or_default()),
        pid,
        user,
    })
}

/// The security settings of a container: its own, and the pod's where it has none.
///
/// upstream: kuberuntime/security_context.go determineEffectiveSecurityContext (v1.36)
#[doc(alias = "determineEffectiveSecurityContext")]
pub(super) fn container_security(
    ctx: &LaunchContext,
    pod: &Pod,
    inputs: &ContainerInputs<'_>,
) -> Result<ContainerSecurity, LaunchError> {
    let of_pod = pod.pod_spec().and_then(|spec| spec.security_context.as_ref());
    let own = inputs.container.security_context.as_ref();
    let run_as_user = run_as_user(pod, inputs.container);
    let (uid, username) = image_user(inputs.image_user);
    check_non_root(pod, inputs.container, uid, username)?;
    let mut namespaces = namespaces(pod, (inputs.runtime_handler, inputs.features), inputs.user_namespace)?;
    if let (Some(target), NamespaceMode::Container) = (inputs.target, &namespaces.pid) {
        namespaces.pid = NamespaceMode::Target(target.as_str().to_owned());
    }
    let mut supplemental_groups: Vec<i64> = of_pod.and_then(|sc| sc.fs_group).into_iter().collect();
    supplemental_groups.extend(of_pod.and_then(|sc| sc.supplemental_groups.as_ref()).into_iter().flatten());
    supplemental_groups.extend(inputs.volume_groups);
    let capabilities = own.and_then(|sc| sc.capabilities.as_ref());
    let list =
        |of: fn(&Capabilities) -> &Option<Vec<String>>| capabilities.and_then(|c| of(c).clone()).unwrap_or_default();
    let selinux = own.and_then(|sc| sc.se_linux_options.as_ref());
    let selinux = selinux.or_else(|| of_pod.and_then(|sc| sc.se_linux_options.as_ref()));
    let unmasked = own.and_then(|sc| sc.proc_mount.as_deref()) == Some("Unmasked");
    Ok(ContainerSecurity {
        add_capabilities: list(|c| &c.add),
        drop_capabilities: list(|c| &c.drop),
        privileged: flag(own, |sc| sc.privileged),
        namespaces,
        selinux: selinux.map(selinux_options),
        run_as_user: run_as_user.or(uid),
        run_as_group: own.and_then(|sc| sc.run_as_group).or_else(|| of_pod.and_then(|sc| sc.run_as_group)),
        run_as_username: if run_as_user.is_some() { String::new() } else { username.to_owned() },
        readonly_rootfs: flag(own, |sc| sc.read_only_root_filesystem),
        supplemental_groups,
        supplemental_groups_policy: groups_policy(of_pod.and_then(|sc| sc.supplemental_groups_policy.as_deref()))?,
        no_new_privs: own.and_then(|sc| sc.allow_privilege_escalation) == Some(false),
        masked_paths: if unmasked { Vec::new() } else { masked_paths(ctx) },
        readonly_paths: if unmasked { Vec::new() } else { READONLY_PATHS.map(str::to_owned).to_vec() },
        seccomp: seccomp(ctx, of_pod, own)?,
        apparmor: apparmor(pod, inputs.container)?,
    })
}

pub(super) fn groups_policy(word: Option<&str>) -> Result<GroupsPolicy, LaunchError> {
    match word {
        None | Some("Merge") => Ok(GroupsPolicy::Merge),
        Some("Strict") => Ok(GroupsPolicy::Strict),
        Some(other) => Err(LaunchError::GroupsPolicyUnknown(other.to_owned())),
    }
}

pub(super) fn selinux_options(options: &SELinuxOptions) -> SelinuxOptions {
    SelinuxOptions {
        user: options.user.clone().unwrap_or_default(),
        role: options.role.clone().unwrap_or_default(),
        type_: options.type_.clone().unwrap_or_default(),
        level: options.level.clone().unwrap_or_default(),
    }
}

fn flag(own: Option<&SecurityContext>, of: fn(&SecurityContext) -> Option<bool>) -> bool {
    own.and_then(of).unwrap_or_default()
}

fn masked_paths(ctx: &LaunchContext) -> Vec<String> {
    MASKED_PATHS.map(str::to_owned).into_iter().chain(ctx.masked_paths.iter().cloned()).collect()
}

fn run_as_user(pod: &Pod, container: &Container) -> Option<i64> {
    let own = container.security_context.as_ref().and_then(|sc| sc.run_as_user);
    own.or_else(|| pod.pod_spec()?.security_context.as_ref()?.run_as_user)
}

/// An image without a user runs as root.
fn image_user(user: &ImageUser) -> (Option<i64>, &str) {
    match user.uid {
        Some(uid) => (Some(uid), ""),
        None if user.username.is_empty() => (Some(0), ""),
        None => (None, user.username.as_str()),
    }
}

/// RT-96.
///
/// upstream: kuberuntime/security_context_others.go verifyRunAsNonRoot (v1.36)
#[doc(alias = "verifyRunAsNonRoot")]
fn check_non_root(pod: &Pod, container: &Container, uid: Option<i64>, username: &str) -> Result<(), LaunchError> {
    let own = container.security_context.as_ref().and_then(|sc| sc.run_as_non_root);
    let of_pod = || pod.pod_spec()?.security_context.as_ref()?.run_as_non_root;
    if !own.or_else(of_pod).unwrap_or_default() {
        return Ok(());
    }
    let (pod_text, container_name) = (PodRef::of(pod).to_string(), container.name.clone());
    match (run_as_user(pod, container), uid) {
        (Some(0), _) => Err(LaunchError::RunAsUserIsRoot { pod: pod_text, container: container_name }),
        (Some(_), _) => Ok(()),
        (None, None) => Err(LaunchError::ImageUserNotNumeric {
            user: username.to_owned(),
            pod: pod_text,
            container: container_name,
        }),
        (None, Some(0)) => Err(LaunchError::ImageRunsAsRoot { pod: pod_text, container: container_name }),
        (None, Some(uid)) if i32::try_from(uid).map_or(true, i32::is_negative) => {
            Err(LaunchError::ImageUserOutOfRange { uid, pod: pod_text, container: container_name })
        }
        (None, Some(_)) => Ok(()),
    }
}

/// RT-97.
///
/// upstream: kuberuntime/helpers.go getSeccompProfile (v1.36)
fn seccomp(
    ctx: &LaunchContext,
    of_pod: Option<&PodSecurityContext>,
    own: Option<&SecurityContext>,
) -> Result<SecurityProfile, LaunchError> {
    let own: Option<&SeccompProfile> = own.and_then(|sc| sc.seccomp_profile.as_ref());
    let Some(profile) = own.or_else(|| of_pod.and_then(|sc| sc.seccomp_profile.as_ref())) else {
        return Ok(if ctx.seccomp_default { SecurityProfile::RuntimeDefault } else { SecurityProfile::Unconfined });
    };
    match profile.type_.as_str() {
        "RuntimeDefault" => Ok(SecurityProfile::RuntimeDefault),
        "Localhost" => {
            let name = profile.localhost_profile.as_deref().filter(|name| !name.is_empty());
            let name = name.ok_or(LaunchError::SeccompProfileUnnamed)?;
            let path = ctx.seccomp_dir.join(name.trim_start_matches('/'));
            Ok(SecurityProfile::Localhost(path.to_string_lossy().into_owned()))
        }
        "Unconfined" => Ok(SecurityProfile::Unconfined),
        // A container with an unknown profile type must not run unconfined.
        other => Err(LaunchError::SeccompTypeUnknown(other.to_owned())),
    }
}

/// RT-97. The annotation comes before the pod's field: a static pod may have only that.
///
/// upstream: pkg/security/apparmor/helpers.go GetProfile, kuberuntime/helpers.go getAppArmorProfile (v1.36)
fn apparmor(pod: &Pod, container: &Container) -> Result<Option<SecurityProfile>, LaunchError> {
    let field = |profile: &AppArmorProfile| match profile.type_.as_str() {
        "RuntimeDefault" => Ok(SecurityProfile::RuntimeDefault),
        "Unconfined" => Ok(SecurityProfile::Unconfined),
        "Localhost" => local_profile(profile.localhost_profile.as_deref().unwrap_or_default()),
        other => Err(LaunchError::AppArmorTypeUnknown(other.to_owned())),
    };
    let own = container.security_context.as_ref().and_then(|sc| sc.app_armor_profile.as_ref());
    if let Some(own) = own {
        return field(own).map(Some);
    }
    let annotation = pod.annotation(&format!("{APPARMOR_ANNOTATION}{}", container.name));
    if let Some(annotation) = annotation {
        return apparmor_annotation(annotation).map(Some);
    }
    let of_pod = pod.pod_spec().and_then(|spec| spec.security_context.as_ref());
    of_pod.and_then(|sc| sc.app_armor_profile.as_ref()).map(field).transpose()
}

/// Upstream ignores an annotation with an unknown value, and the container may run unconfined.
fn apparmor_annotation(value: &str) -> Result<SecurityProfile, LaunchError> {
    match value {
        "runtime/default" => Ok(SecurityProfile::RuntimeDefault),
        "unconfined" => Ok(SecurityProfile::Unconfined),
        _ => match value.strip_prefix("localhost/") {
            Some(name) => local_profile(name),
            None => Err(LaunchError::AppArmorTypeUnknown(value.to_owned())),
        },
    }
}

/// Runtimes take an empty name for no profile.
fn local_profile(name: &str) -> Result<SecurityProfile, LaunchError> {
    if name.trim().is_empty() {
        return Err(LaunchError::AppArmorProfileUnnamed);
    }
    Ok(SecurityProfile::Localhost(name.to_owned()))
}
