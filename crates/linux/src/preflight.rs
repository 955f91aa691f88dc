//! A look at a machine before it becomes a node: what `rubelet check` tells of the host itself.
//!
//! Each finding says what was seen and, if it is not well, what a person can do about it. Nothing is changed.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use rubelet_engine::blocking::HOST;
use rubelet_engine::ports::CgroupVersion;

use crate::cgroups::Layout;
use crate::host::KernelFiles;
use crate::host::facts::{hostname, kernel_version, swap_is_on, tmpfs_noswap};
use crate::host::tunables::{self, TunableError, TunablePolicy};

/// Kernel that everything here needs: `openat2` came with 5.6, `statx` tells mount points since 5.8.
const OLDEST_KERNEL: (u32, u32) = (5, 8);

/// Below this much free space or free inodes the node would evict pods (EV-02: `nodefs.available`, `nodefs.inodesFree`).
const MIN_FREE_PERCENT: u64 = 10;
const MIN_FREE_INODES_PERCENT: u64 = 5;

/// Capability to set a negative `oom_score_adj` and raise hard limits. upstream: linux/capability.h
const CAP_SYS_RESOURCE: u32 = 24;

/// What to look at, and by which configuration to judge it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCheck {
    /// The root directory.
    pub root: PathBuf,
    /// `podLogsDir`.
    pub pod_logs: PathBuf,
    /// Addresses that will be listened on, with the configuration field that names each.
    pub listen: Vec<(String, SocketAddr)>,
    /// `hostnameOverride`.
    pub hostname_override: String,
    /// `failSwapOn`.
    pub fail_swap_on: bool,
    /// `failCgroupV1`.
    pub fail_cgroup_v1: bool,
    /// `protectKernelDefaults`.
    pub protect_kernel_defaults: bool,
    /// Where the kernel shows itself.
    pub files: KernelFiles,
}

/// How well something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// As it should be.
    Ok,
    /// rubelet will start; something will work less well.
    Warn,
    /// rubelet, or pods, will not start.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, such as `swap`. The same word each time.
    pub name: String,
    /// How well it is.
    pub grade: Grade,
    /// What was seen.
    pub what: String,
    /// What to do about it; empty if nothing needs doing.
    pub mend: String,
}

impl Finding {
    fn ok(name: &str, what: impl Into<String>) -> Self {
        Self { name: name.to_owned(), grade: Grade::Ok, what: what.into(), mend: String::new() }
    }

    fn warn(name: &str, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name: name.to_owned(), grade: Grade::Warn, what: what.into(), mend: mend.into() }
    }

    fn fail(name: &str, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name: name.to_owned(), grade: Grade::Fail, what: what.into(), mend: mend.into() }
    }
}

/// Looks at everything. Takes no longer than the slowest file system takes to tell its free space.
pub async fn check_host(request: HostCheck) -> Vec<Finding> {
    HOST.run("check", move || {
        let mut found = vec![user(), kernel(), name(&request)];
        found.extend(cgroups(&request));
        found.push(swap(&request));
        found.extend(kernel_settings(&request));
        found.push(capability(&request.files));
        found.push(forwarding(&request.files));
        found.extend(request.listen.iter().map(|(field, address)| port(field, *address)));
        found.push(disk("root-dir", &request.root));
        found.push(disk("pod-logs", &request.pod_logs));
        found
    })
    .await
}

fn user() -> Finding {
    if rustix::process::geteuid().is_root() {
        Finding::ok("user", "root")
    } else {
        let uid = rustix::process::geteuid().as_raw();
        Finding::fail("user", format!("uid {uid}"), "run rubelet as root: it makes mounts and cgroups")
    }
}

fn kernel() -> Finding {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    match kernel_version(&release) {
        Some(version) if version >= OLDEST_KERNEL => Finding::ok("kernel", release),
        _ => {
            let (major, minor) = OLDEST_KERNEL;
            Finding::fail(
                "kernel",
                release,
                format!("Linux {major}.{minor} or later is needed: install a newer kernel"),
            )
        }
    }
}

fn name(request: &HostCheck) -> Finding {
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

fn cgroups(request: &HostCheck) -> Vec<Finding> {
    let layout = match Layout::discover(&request.files.proc) {
        Ok(layout) => layout,
        Err(err) => return vec![Finding::fail("cgroups", format!("mounts cannot be read: {err}"), "mount /proc")],
    };
    let version = match layout.version() {
        CgroupVersion::V2 => Finding::ok("cgroups", "v2"),
        CgroupVersion::V1 => {
            let mend = "boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in the configuration";
            if request.fail_cgroup_v1 {
                Finding::fail("cgroups", "v1, which failCgroupV1 forbids", mend)
            } else {
                Finding::warn("cgroups", "v1: memory QoS, PSI and swap limits need v2", mend)
            }
        }
    };
    let controllers = match layout.missing_controllers() {
        Ok(missing) if missing.is_empty() => Finding::ok("cgroup-controllers", "all that pods need"),
        Ok(missing) => {
            let mend = match layout.version() {
                CgroupVersion::V1 => "mount them below /sys/fs/cgroup; the boot option cgroup_enable= may be needed",
                CgroupVersion::V2 => "see that no v1 tree holds them and that the boot options do not disable them",
            };
            Finding::fail("cgroup-controllers", format!("missing: {}", missing.join(", ")), mend)
        }
        Err(err) => Finding::fail("cgroup-controllers", format!("cannot be read: {err}"), "mount /sys/fs/cgroup"),
    };
    vec![version, controllers]
}

fn swap(request: &HostCheck) -> Finding {
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

/// Without `protectKernelDefaults` rubelet sets them itself, and what is wrong now is no finding.
fn kernel_settings(request: &HostCheck) -> Vec<Finding> {
    let wrong = tunables::apply(&request.files, TunablePolicy::Verify);
    let findings: Vec<_> = wrong.iter().filter_map(|err| kernel_setting(request, err)).collect();
    if findings.is_empty() {
        let what = if wrong.is_empty() { "as they should be" } else { "will be set at start" };
        return vec![Finding::ok("kernel-settings", what)];
    }
    findings
}

fn kernel_setting(request: &HostCheck, err: &TunableError) -> Option<Finding> {
    match err {
        TunableError::Wrong { name, wanted, found } if request.protect_kernel_defaults => Some(Finding::fail(
            "kernel-settings",
            format!("{name} is {found} and protectKernelDefaults forbids to change it"),
            format!("`sysctl -w {}={wanted}`", name.replace('/', ".")),
        )),
        TunableError::Wrong { .. } => None,
        TunableError::Read { name, source } | TunableError::Set { name, source, .. } => {
            let mend = "mount /proc, and if this is a container give it the host's";
            Some(Finding::fail("kernel-settings", format!("{name} cannot be read: {source}"), mend))
        }
    }
}

fn capability(files: &KernelFiles) -> Finding {
    let status = std::fs::read_to_string(files.proc.join("self/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).map(str::trim);
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok());
    match mask {
        Some(mask) if mask & (1 << CAP_SYS_RESOURCE) == 0 => Finding::warn(
            "capabilities",
            "CAP_SYS_RESOURCE is missing: rubelet and guaranteed pods cannot be shielded from the OOM killer",
            "give it to rubelet; for containerd set restrict_oom_score_adj = true",
        ),
        _ => Finding::ok("capabilities", "sufficient"),
    }
}

fn forwarding(files: &KernelFiles) -> Finding {
    match std::fs::read_to_string(files.proc.join("sys/net/ipv4/ip_forward")) {
        Ok(value) if value.trim() == "1" => Finding::ok("ip-forward", "on"),
        _ => {
            let what = "off: pods reach other nodes and the outside only if their network sets it up";
            Finding::warn("ip-forward", what, "`sysctl -w net.ipv4.ip_forward=1`")
        }
    }
}

fn port(field: &str, address: SocketAddr) -> Finding {
    let name = format!("port-{}", address.port());
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok(&name, format!("{address} is free for {field}")),
        Err(err) if err.kind() == io::ErrorKind::AddrInUse => Finding::fail(
            &name,
            format!("{address} ({field}) is in use"),
            format!(
                "stop who listens there (`ss -ltnp 'sport = :{}'`), another kubelet perhaps, or change {field}",
                address.port()
            ),
        ),
        Err(err) => {
            Finding::fail(&name, format!("{address} ({field}) cannot be listened on: {err}"), format!("change {field}"))
        }
    }
}

fn disk(name: &str, path: &Path) -> Finding {
    // What does not exist yet will be on the file system of the nearest directory above.
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let stat = match rustix::fs::statvfs(there) {
        Ok(stat) => stat,
        Err(err) => {
            let what = format!("{}: free space cannot be read: {err}", there.display());
            return Finding::fail(name, what, "check the file system");
        }
    };
    let percent = |free: u64, of: u64| free.saturating_mul(100).checked_div(of).unwrap_or(100);
    let free = percent(stat.f_bavail, stat.f_blocks);
    let inodes = percent(stat.f_ffree, stat.f_files);
    let gigabytes = stat.f_bavail.saturating_mul(stat.f_frsize) >> 30;
    let what = format!("{}: {gigabytes} GiB free ({free} %), {inodes} % of inodes free", path.display());
    if stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Finding::fail(name, format!("{}: read-only", path.display()), "mount it writable, or choose another");
    }
    if free < MIN_FREE_PERCENT || inodes < MIN_FREE_INODES_PERCENT {
        return Finding::warn(name, what, "make room: below 10 % of space or 5 % of inodes pods are evicted");
    }
    Finding::ok(name, what)
}

#[cfg(test)]
mod tests;
