//! What a person can do about cgroups that cannot be made at the start.

use std::io::ErrorKind;

use rubelet_engine::chain::Chain;
use rubelet_engine::ports::CgroupError;

/// The error with its causes, and what to do about it. It ends the start: pods would run without their limits.
pub(super) fn explain(err: CgroupError) -> anyhow::Error {
    anyhow::anyhow!("{}; {}", Chain(&err), advice(&err))
}

fn advice(err: &CgroupError) -> &'static str {
    match err {
        CgroupError::MissingController { .. } => {
            "pods need the cgroup controllers cpu, cpuset, memory and pids: enable them on the kernel's command line \
             (cgroup_enable=memory), or in cgroup.subtree_control of a tree that was delegated; see `rubelet check`"
        }
        CgroupError::Io { source, .. } if source.kind() == ErrorKind::ReadOnlyFilesystem => {
            "the cgroup tree is mounted read-only: `mount -o remount,rw` it; a container needs the host's cgroups writable"
        }
        CgroupError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            "rubelet must run as root, and may make cgroups only in a tree that was delegated to it"
        }
        CgroupError::Io { source, .. } if source.kind() == ErrorKind::ResourceBusy => {
            "processes are in a cgroup that must pass on its controllers: move them into a cgroup below it"
        }
        CgroupError::Unit { .. } => {
            "systemd did not make or set the slice: `systemctl status` and `systemctl cat` of it show whether a unit file of \
             this name exists or is masked"
        }
        CgroupError::Io { .. } | CgroupError::NotThere { .. } | CgroupError::Busy { .. } => {
            "the cgroups of pods cannot be set up; see `rubelet check`"
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn each_bad_cgroup_tree_has_its_own_advice() {
        let io =
            |kind: ErrorKind| CgroupError::Io { action: "make", path: "/sys/fs/cgroup/k".into(), source: kind.into() };
        let unit = CgroupError::Unit { action: "start", unit: "kubepods.slice".into(), source: "masked".into() };
        let lines: Vec<String> = [
            CgroupError::MissingController { controller: "pids".into() },
            io(ErrorKind::ReadOnlyFilesystem),
            io(ErrorKind::PermissionDenied),
            io(ErrorKind::ResourceBusy),
            unit,
            io(ErrorKind::NotFound),
        ]
        .into_iter()
        .map(|err| explain(err).to_string() + "\n")
        .collect();
        expect![[r#"
            cgroup controller pids is not available; pods need the cgroup controllers cpu, cpuset, memory and pids: enable them on the kernel's command line (cgroup_enable=memory), or in cgroup.subtree_control of a tree that was delegated; see `rubelet check`
            make cgroup /sys/fs/cgroup/k: read-only filesystem or storage medium; the cgroup tree is mounted read-only: `mount -o remount,rw` it; a container needs the host's cgroups writable
            make cgroup /sys/fs/cgroup/k: permission denied; rubelet must run as root, and may make cgroups only in a tree that was delegated to it
            make cgroup /sys/fs/cgroup/k: resource busy; processes are in a cgroup that must pass on its controllers: move them into a cgroup below it
            start systemd unit kubepods.slice: masked; systemd did not make or set the slice: `systemctl status` and `systemctl cat` of it show whether a unit file of this name exists or is masked
            make cgroup /sys/fs/cgroup/k: entity not found; the cgroups of pods cannot be set up; see `rubelet check`
        "#]]
        .assert_eq(&lines.concat());
    }
}
