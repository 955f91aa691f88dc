//! The kernel: its version, its settings, and whether it measures pressure.

use std::io;

use super::{Finding, HostCheck};
use crate::host::KernelFiles;
use crate::host::facts::kernel_version;
use crate::host::tunables::{self, TunableError, TunablePolicy};

/// Kernel that everything here needs: `openat2` came with 5.6, `statx` reports mount points since 5.8.
const OLDEST_KERNEL: (u32, u32) = (5, 8);

pub(super) fn release() -> Finding {
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

/// Without `protectKernelDefaults` rubelet sets them itself, and what is wrong now is no finding.
pub(super) fn settings(request: &HostCheck) -> Vec<Finding> {
    let wrong = tunables::apply(&request.files, TunablePolicy::Verify);
    let findings: Vec<_> = wrong.iter().filter_map(|err| setting(request, err)).collect();
    if findings.is_empty() {
        let what = if wrong.is_empty() { "as they should be" } else { "will be set at start" };
        return vec![Finding::ok("kernel-settings", what)];
    }
    findings
}

fn setting(request: &HostCheck, err: &TunableError) -> Option<Finding> {
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

/// Whether the kernel measures pressure (PSI).
pub(super) fn pressure(files: &KernelFiles) -> Finding {
    judge_pressure(std::fs::read_to_string(files.proc.join("pressure/cpu")).map(drop))
}

fn judge_pressure(read: io::Result<()>) -> Finding {
    let mend = "boot with psi=1 on the kernel's command line; a kernel without CONFIG_PSI cannot measure pressure";
    match read {
        Ok(()) => Finding::ok("psi", "the kernel measures pressure"),
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            Finding::warn("psi", "/proc/pressure is absent: there are no measurements of pressure on this node", mend)
        }
        Err(err) => Finding::warn("psi", format!("/proc/pressure/cpu cannot be read: {err}"), mend),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Grade;
    use super::super::tests::{check, request};
    use super::*;

    #[test]
    fn kernel_settings_matter_only_if_we_may_not_change_them() {
        let (_dir, mut request) = request();
        check(&settings(&request)[0], Grade::Ok, "as they should be");
        fs::write(request.files.proc.join("sys/vm/panic_on_oom"), "2").unwrap();
        let found = settings(&request);
        check(&found[0], Grade::Fail, "vm/panic_on_oom is 2");
        assert_eq!(found[0].mend, "`sysctl -w vm.panic_on_oom=0`");
        request.protect_kernel_defaults = false;
        check(&settings(&request)[0], Grade::Ok, "will be set");
        fs::remove_file(request.files.proc.join("sys/vm/panic_on_oom")).unwrap();
        check(&settings(&request)[0], Grade::Fail, "cannot be read");
    }

    #[test]
    fn a_kernel_without_pressure_is_a_warning_with_its_boot_option() {
        let (_dir, request) = request();
        let absent = pressure(&request.files);
        check(&absent, Grade::Warn, "/proc/pressure is absent");
        assert!(absent.mend.contains("psi=1"), "{absent:?}");
        fs::create_dir(request.files.proc.join("pressure")).unwrap();
        fs::write(request.files.proc.join("pressure/cpu"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n").unwrap();
        check(&pressure(&request.files), Grade::Ok, "measures pressure");
        check(&judge_pressure(Err(io::ErrorKind::Unsupported.into())), Grade::Warn, "cannot be read");
    }
}
