//! Which sysctls pods may set (ADM-20, ADM-21).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::Rejection;
use crate::launch::normal_sysctl;
use crate::pod::PodExt;

/// Sysctls that affect no other pod, with the kernel version since which they are namespaced.
///
/// upstream: sysctl/safe_sysctls.go safeSysctls (v1.36)
const SAFE: [(&str, (u32, u32)); 12] = [
    ("kernel.shm_rmid_forced", (0, 0)),
    ("net.ipv4.ip_local_port_range", (0, 0)),
    ("net.ipv4.tcp_syncookies", (0, 0)),
    ("net.ipv4.ping_group_range", (0, 0)),
    ("net.ipv4.ip_unprivileged_port_start", (0, 0)),
    ("net.ipv4.ip_local_reserved_ports", (3, 16)),
    ("net.ipv4.tcp_keepalive_time", (4, 5)),
    ("net.ipv4.tcp_fin_timeout", (4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", (4, 5)),
    ("net.ipv4.tcp_keepalive_probes", (4, 5)),
    ("net.ipv4.tcp_rmem", (4, 15)),
    ("net.ipv4.tcp_wmem", (4, 15)),
];
/// Sysctls of the IPC namespace without a common prefix, and the prefixes of the others.
const IPC: [&str; 10] = [
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];

/// The namespace of a sysctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Net,
}

impl Namespace {
    fn of(name: &str) -> Option<Self> {
        if IPC.contains(&name) || name.starts_with("fs.mqueue.") {
            Some(Self::Ipc)
        } else if name.starts_with("net.") {
            Some(Self::Net)
        } else {
            None
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Ipc => "IPC",
            Self::Net => "Net",
        }
    }
}

/// The sysctls that pods may set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SysctlAllowlist {
    names: BTreeMap<String, Namespace>,
    prefixes: BTreeMap<String, Namespace>,
}

/// A sysctl that cannot be allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SysctlError {
    /// The sysctl has no namespace: setting it would change the whole node.
    #[error("the sysctls {0:?} are not known to be namespaced")]
    NotNamespaced(String),
}

impl SysctlAllowlist {
    /// The safe sysctls of this kernel (major and minor version) and those of `allowedUnsafeSysctls`: names, or prefixes
    /// that end in `*`.
    pub fn new(kernel: (u32, u32), allowed_unsafe: &[String]) -> Result<Self, SysctlError> {
        let mut list = Self::default();
        for (name, since) in SAFE {
            if kernel >= since {
                list.allow(name)?;
            }
        }
        for pattern in allowed_unsafe {
            list.allow(pattern)?;
        }
        Ok(list)
    }

    fn allow(&mut self, pattern: &str) -> Result<(), SysctlError> {
        let name = normal_sysctl(pattern);
        let (stem, prefixed) = name.split_once('*').map_or((name.as_str(), false), |(stem, _)| (stem, true));
        let namespace = Namespace::of(stem).ok_or_else(|| SysctlError::NotNamespaced(stem.to_owned()))?;
        let list = if prefixed { &mut self.prefixes } else { &mut self.names };
        list.insert(stem.to_owned(), namespace);
        Ok(())
    }

    /// Rejects a pod with a sysctl that is not allowed, or with one that would change the node because the pod shares the
    /// node's namespace.
    pub(super) fn check(&self, pod: &Pod) -> Result<(), Rejection> {
        let Some(spec) = pod.pod_spec() else { return Ok(()) };
        let forbidden = |why: String| Rejection::new("SysctlForbidden", format!("forbidden sysctl: {why}"));
        let wanted = spec.security_context.as_ref().and_then(|sc| sc.sysctls.as_deref()).unwrap_or_default();
        for sysctl in wanted {
            let name = normal_sysctl(&sysctl.name);
            let by_prefix = || self.prefixes.iter().find(|(prefix, _)| name.starts_with(*prefix)).map(|(_, ns)| *ns);
            let Some(namespace) = self.names.get(&name).copied().or_else(by_prefix) else {
                return Err(forbidden(format!("{name:?} not allowlisted")));
            };
            let shared = match namespace {
                Namespace::Ipc => spec.host_ipc.unwrap_or_default(),
                Namespace::Net => pod.host_network(),
            };
            if shared {
                return Err(forbidden(format!("{name:?} not allowed with host {} enabled", namespace.as_str())));
            }
        }
        Ok(())
    }
}
