//! Checks a machine before it becomes a node: the findings of `rubelet check` about the host itself.
//!
//! Each subject has a file of its own, which reads the machine at its edge and judges what was read by a function. A
//! finding says what was seen, on which object, and what to do about it. Nothing is changed.

mod cgroups;
mod clock;
mod dirs;
mod kernel;
mod machine;
mod ports;

use std::net::SocketAddr;
use std::path::PathBuf;

use rubelet_engine::blocking::HOST;

use crate::host::KernelFiles;

/// What to check, and by which configuration to judge it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCheck {
    /// The root directory.
    pub root: PathBuf,
    /// `podLogsDir`.
    pub pod_logs: PathBuf,
    /// `staticPodPath`, if it is set.
    pub static_pods: Option<PathBuf>,
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

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// As it should be.
    Ok,
    /// rubelet will start; something will work less well.
    Warn,
    /// rubelet, or pods, will not start.
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked, such as `swap`. The same word each time.
    pub name: String,
    /// How serious it is.
    pub grade: Grade,
    /// What was seen.
    pub what: String,
    /// What to do about it; empty if nothing needs doing.
    pub mend: String,
}

impl Finding {
    /// As it should be.
    pub fn ok(name: &str, what: impl Into<String>) -> Self {
        Self { name: name.to_owned(), grade: Grade::Ok, what: what.into(), mend: String::new() }
    }

    /// Something will work less well, and how to change that.
    pub fn warn(name: &str, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name: name.to_owned(), grade: Grade::Warn, what: what.into(), mend: mend.into() }
    }

    /// Something will not start, and how to change that.
    pub fn fail(name: &str, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name: name.to_owned(), grade: Grade::Fail, what: what.into(), mend: mend.into() }
    }
}

/// Checks the host. Takes no longer than the slowest file system takes to report its free space.
pub async fn check_host(request: HostCheck) -> Vec<Finding> {
    HOST.run("check", move || {
        let mut found = vec![machine::user(), kernel::release(), machine::name(&request)];
        found.extend(cgroups::findings(&request));
        found.push(machine::swap(&request));
        found.extend(kernel::settings(&request));
        found.push(kernel::pressure(&request.files));
        found.push(clock::finding());
        found.push(machine::capability(&request.files));
        found.push(machine::forwarding(&request.files));
        found.extend(ports::findings(&request.listen));
        found.extend(dirs::findings(&request));
        found
    })
    .await
}

/// Whether PID 1 of this machine is systemd.
///
/// upstream: coreos/go-systemd util.IsRunningSystemd
#[doc(alias = "sd_booted")]
pub fn systemd_is_pid_1(files: &KernelFiles) -> bool {
    // The directory is what sd_booted(3) looks for; a container may have it from its host without that PID 1.
    let name = std::fs::read_to_string(files.proc.join("1/comm")).unwrap_or_default();
    name.trim() == "systemd" && std::path::Path::new("/run/systemd/system").is_dir()
}

#[cfg(test)]
mod tests;
