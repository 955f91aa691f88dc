//! The machine: who runs this, its name, swap, capabilities, forwarding.

use std::net::IpAddr;

use super::{Finding, HostCheck};
use crate::host::KernelFiles;
use crate::host::facts::{hostname, swap_is_on, tmpfs_noswap};

/// Capability to set a negative `oom_score_adj` and raise hard limits. upstream: linux/capability.h
const CAP_SYS_RESOURCE: u32 = 24;

pub(super) fn user() -> Finding {
    if rustix::process::geteuid().is_root() {
        Finding::ok("user", "root")
    } else {
        let uid = rustix::process::geteuid().as_raw();
        Finding::fail("user", format!("uid {uid}"), "run rubelet as root: it makes mounts and cgroups")
    }
}

pub(super) fn name(request: &HostCheck) -> Finding {
    let name = match hostname(&request.hostname_override) {
        Ok(name) => name,
        Err(err) => return Finding::fail("hostname", err.to_string(), "set --hostname-override"),
    };
    let label = |label: &str| {
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        ends(label.bytes().next())
            && ends(label.bytes().last())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    if name.parse::<IpAddr>().is_ok() || (name.len() <= 253 && name.split('.').all(label)) {
        Finding::ok("hostname", name)
    } else {
        let mend =
            "a node's name may have letters, digits, '-' and '.' only: rename the machine or set --hostname-override";
        Finding::fail("hostname", name, mend)
    }
}

pub(super) fn swap(request: &HostCheck) -> Finding {
    match swap_is_on(&request.files) {
        Ok(false) => Finding::ok("swap", "off"),
        Ok(true) if request.fail_swap_on => Finding::fail(
            "swap",
            "on, which failSwapOn forbids",
            "`swapoff -a` and take swap out of /etc/fstab, or set failSwapOn: false in the configuration",
        ),
        Ok(true) if !tmpfs_noswap(&request.files) => {
            Finding::warn("swap", "on, and volumes in memory may be swapped out", "install Linux 6.4 or later")
        }
        Ok(true) => Finding::ok("swap", "on, as configured"),
        Err(err) => Finding::fail("swap", format!("cannot be read: {err}"), "mount /proc"),
    }
}

pub(super) fn capability(files: &KernelFiles) -> Finding {
    let status = std::fs::read_to_string(files.proc.join("self/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).map(str::trim);
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok());
    match mask {
        Some(mask) if mask & (1 << CAP_SYS_RESOURCE) == 0 => Finding::warn(
            "capabilities",
            "CAP_SYS_RESOURCE is missing: rubelet and guaranteed pods cannot be shielded from the OOM killer",
            "start rubelet with CAP_SYS_RESOURCE; for containerd set restrict_oom_score_adj = true",
        ),
        _ => Finding::ok("capabilities", "sufficient"),
    }
}

pub(super) fn forwarding(files: &KernelFiles) -> Finding {
    match std::fs::read_to_string(files.proc.join("sys/net/ipv4/ip_forward")) {
        Ok(value) if value.trim() == "1" => Finding::ok("ip-forward", "on"),
        _ => {
            let what = "off: pods reach other nodes and the outside only if their network sets it up";
            Finding::warn("ip-forward", what, "`sysctl -w net.ipv4.ip_forward=1`")
        }
    }
}
