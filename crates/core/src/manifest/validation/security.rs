//! Security contexts of pods and containers.
//!
//! Privileged containers are allowed: the kubelet has no switch against them.
//! upstream: core/validation/validation.go ValidateSecurityContext, validatePodSpecSecurityContext (v1.36)

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{AppArmorProfile, PodSecurityContext, SeccompProfile, SecurityContext, Sysctl};

use super::faults::Faults;
use super::{Context, names};
use crate::manifest::field::Path;
use crate::manifest::gates::Gate;

const MAX_ID: i64 = 2_147_483_647;
/// One less than the longest path that Linux knows.
const PROFILE_LENGTH: usize = 4095;
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

pub(super) fn container(context: &Context<'_>, own: &SecurityContext, at: &Path, faults: &mut Faults) {
    id(own.run_as_user, &at.child("runAsUser"), faults);
    id(own.run_as_group, &at.child("runAsGroup"), faults);
    if let Some(mount) = &own.proc_mount {
        let at = at.child("procMount");
        faults.one_of(&at, mount, &["Default", "Unmasked"]);
        if mount == "Unmasked" && context.host_users() {
            faults.invalid(&at, mount, "needs hostUsers: false");
        }
    }
    seccomp(own.seccomp_profile.as_ref(), &at.child("seccompProfile"), faults);
    if own.allow_privilege_escalation == Some(false) {
        if own.privileged == Some(true) {
            faults.invalid(at, "privileged", "is privilege escalation, which allowPrivilegeEscalation forbids");
        }
        let added = own.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
        if added.into_iter().any(|name| name == "CAP_SYS_ADMIN") {
            faults.invalid(at, "CAP_SYS_ADMIN", "is privilege escalation, which allowPrivilegeEscalation forbids");
        }
    }
    app_armor(own.app_armor_profile.as_ref(), &at.child("appArmorProfile"), faults);
}

pub(super) fn pod(context: &Context<'_>, own: &PodSecurityContext, at: &Path, faults: &mut Faults) {
    id(own.fs_group, &at.child("fsGroup"), faults);
    id(own.run_as_user, &at.child("runAsUser"), faults);
    id(own.run_as_group, &at.child("runAsGroup"), faults);
    for (index, group) in own.supplemental_groups.iter().flatten().enumerate() {
        id(Some(*group), &at.child("supplementalGroups").index(index), faults);
    }
    sysctls(context, own.sysctls.as_deref().unwrap_or_default(), &at.child("sysctls"), faults);
    if let Some(policy) = &own.fs_group_change_policy {
        faults.one_of(&at.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    }
    seccomp(own.seccomp_profile.as_ref(), &at.child("seccompProfile"), faults);
    app_armor(own.app_armor_profile.as_ref(), &at.child("appArmorProfile"), faults);
    if let Some(policy) = &own.supplemental_groups_policy {
        faults.one_of(&at.child("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    }
    if let Some(policy) = &own.se_linux_change_policy {
        let known: &[&str] =
            if context.on(Gate::SeLinuxMount) { &["MountOption", "Recursive"] } else { &["Recursive"] };
        faults.one_of(&at.child("seLinuxChangePolicy"), policy, known);
    }
}

fn id(id: Option<i64>, at: &Path, faults: &mut Faults) {
    if let Some(id) = id {
        faults.range(at, id, 0, MAX_ID);
    }
}

fn seccomp(profile: Option<&SeccompProfile>, at: &Path, faults: &mut Faults) {
    let Some(profile) = profile else { return };
    faults.choice(&at.child("type"), &profile.type_, &PROFILES);
    let at = at.child("localhostProfile");
    match (profile.type_.as_str(), &profile.localhost_profile) {
        ("Localhost", None) => faults.required(&at, "type Localhost needs it"),
        ("Localhost", Some(path)) => faults.rule(&at, path, names::descending_path(path)),
        (_, Some(path)) => faults.invalid(&at, path, "only type Localhost has it"),
        (_, None) => {}
    }
}

fn app_armor(profile: Option<&AppArmorProfile>, at: &Path, faults: &mut Faults) {
    let Some(profile) = profile else { return };
    faults.choice(&at.child("type"), &profile.type_, &PROFILES);
    let at = at.child("localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => faults.required(&at, "type Localhost needs it"),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                faults.invalid(&at, name, "must not begin or end with white space");
            }
            if name.len() > PROFILE_LENGTH {
                faults.too_long(&at, PROFILE_LENGTH);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => faults.invalid(&at, name, "only type Localhost has it"),
        (_, _) => {}
    }
}

fn sysctls(context: &Context<'_>, sysctls: &[Sysctl], at: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let at = at.index(index).child("name");
        let name = sysctl.name.as_str();
        faults.required_rule(&at, name, names::sysctl_name);
        if !seen.insert(name) && names::sysctl_name(name).is_ok() {
            faults.duplicate(&at, name);
        }
        match namespace(name) {
            Some("net") if context.host_network() => faults.invalid(&at, name, "would change the host's network"),
            Some("ipc") if context.spec.host_ipc == Some(true) => {
                faults.invalid(&at, name, "would change the host's IPC")
            }
            Some(_) | None => {}
        }
    }
}

/// The kernel namespace that keeps a sysctl apart from the host's.
/// upstream: component-helpers/node/util/sysctl/namespace.go GetNamespace (v1.36)
fn namespace(name: &str) -> Option<&'static str> {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let slashes = name.find(['.', '/']).is_some_and(|at| name.get(at..).is_some_and(|rest| rest.starts_with('/')));
    let name: String = if slashes { name.chars().map(swap).collect() } else { name.to_owned() };
    match name.split('*').next().unwrap_or_default() {
        "kernel.sem"
        | "kernel.shmall"
        | "kernel.shmmax"
        | "kernel.shmmni"
        | "kernel.shm_rmid_forced"
        | "kernel.shm"
        | "kernel.msgmax"
        | "kernel.msgmnb"
        | "kernel.msgmni"
        | "kernel.msg" => Some("ipc"),
        name if name.starts_with("net.") => Some("net"),
        name if name.starts_with("fs.mqueue.") => Some("ipc"),
        _ => None,
    }
}
