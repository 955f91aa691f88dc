//! The cgroup tree: its version, its controllers, and whether rubelet may make cgroups in it.

use std::io;
use std::path::{Path, PathBuf};

use rubelet_engine::ports::CgroupVersion;
use rustix::fs::Access;

use super::{Finding, HostCheck};
use crate::cgroups::Layout;

/// Controllers that pods need on v2 (CG-04).
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// Version, controllers, and whether cgroups can be made.
pub(super) fn findings(request: &HostCheck) -> Vec<Finding> {
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
    vec![version, controllers, tree(&layout)]
}

/// What was read of one mounted tree.
#[derive(Debug)]
struct Tree {
    root: PathBuf,
    /// Whether directories can be made in it.
    write: Result<(), rustix::io::Errno>,
    /// Needed controllers that the root cannot pass on to cgroups below it, because processes are in the root itself.
    held: Vec<&'static str>,
}

fn tree(layout: &Layout) -> Finding {
    let v2 = layout.version() == CgroupVersion::V2;
    let trees = layout.own_trees().map(|tree| Tree {
        write: rustix::fs::access(&tree.root, Access::WRITE_OK),
        held: if v2 { held(&tree.root) } else { Vec::new() },
        root: tree.root.clone(),
    });
    judge(&trees.collect::<Vec<_>>())
}

/// The root of the whole machine passes on controllers even with processes in it; the root that a container or a service
/// got delegated does not.
/// upstream: Linux, Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint"
fn held(root: &Path) -> Vec<&'static str> {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    let delegated = root.join("cgroup.type").exists();
    if !delegated || read("cgroup.procs").trim().is_empty() {
        return Vec::new();
    }
    let passed_on = read("cgroup.subtree_control");
    NEEDED.into_iter().filter(|needed| !passed_on.split_whitespace().any(|name| name == *needed)).collect()
}

fn judge(trees: &[Tree]) -> Finding {
    let name = "cgroup-tree";
    for Tree { root, write, held } in trees {
        let at = root.display();
        match write {
            Ok(()) => {}
            Err(err) if *err == rustix::io::Errno::ROFS => {
                let mend =
                    format!("`mount -o remount,rw {at}`; a container needs the host's cgroups writable (--privileged)");
                return Finding::fail(
                    name,
                    format!("{at} is mounted read-only: no cgroup can be made for a pod"),
                    mend,
                );
            }
            Err(err) => {
                let what = format!("{at}: no cgroup can be made in it: {}", io::Error::from(*err));
                return Finding::fail(name, what, "run rubelet as root of the machine; a service needs Delegate=yes");
            }
        }
        if !held.is_empty() {
            let what =
                format!("{at} does not pass on {}: it is delegated, and processes are in its root", held.join(", "));
            let mend = format!(
                "move the processes of {at}/cgroup.procs into a cgroup below it, and enable the controllers \
                                in {at}/cgroup.subtree_control"
            );
            return Finding::fail(name, what, mend);
        }
    }
    Finding::ok(name, "writable")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::expect;

    use super::super::Grade;
    use super::super::tests::{check, lines, request};
    use super::*;
    use crate::testing::temp_dir;

    #[test]
    fn cgroups_are_judged_by_the_configuration_and_missing_controllers_named() {
        let (_dir, mut request) = request();
        let mounts = "1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        fs::write(request.files.proc.join("self/mountinfo"), mounts).unwrap();
        let found = findings(&request);
        check(&found[0], Grade::Fail, "failCgroupV1");
        check(&found[1], Grade::Fail, "missing: cpu, cpuacct, cpuset, pids");
        request.fail_cgroup_v1 = false;
        check(&findings(&request)[0], Grade::Warn, "v1");
    }

    #[test]
    fn a_tree_that_is_read_only_or_half_delegated_fails_and_names_its_root() {
        let with = |write: Result<(), rustix::io::Errno>, held: &[&'static str]| {
            judge(&[
                Tree { root: "/sys/fs/cgroup/cpu".into(), write: Ok(()), held: Vec::new() },
                Tree { root: "/sys/fs/cgroup/x".into(), write, held: held.to_vec() },
            ])
        };
        expect![[r#"
            Ok cgroup-tree: writable
            Fail cgroup-tree: /sys/fs/cgroup/x is mounted read-only: no cgroup can be made for a pod
              fix: `mount -o remount,rw /sys/fs/cgroup/x`; a container needs the host's cgroups writable (--privileged)
            Fail cgroup-tree: /sys/fs/cgroup/x: no cgroup can be made in it: Permission denied (os error 13)
              fix: run rubelet as root of the machine; a service needs Delegate=yes
            Fail cgroup-tree: /sys/fs/cgroup/x does not pass on cpuset, pids: it is delegated, and processes are in its root
              fix: move the processes of /sys/fs/cgroup/x/cgroup.procs into a cgroup below it, and enable the controllers in /sys/fs/cgroup/x/cgroup.subtree_control
        "#]]
        .assert_eq(&lines(&[
            with(Ok(()), &[]),
            with(Err(rustix::io::Errno::ROFS), &[]),
            with(Err(rustix::io::Errno::ACCESS), &[]),
            with(Ok(()), &["cpuset", "pids"]),
        ]));
    }

    #[test]
    fn only_a_delegated_root_with_processes_holds_controllers_back() {
        let root = temp_dir();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write("cgroup.procs", "1\n");
        write("cgroup.subtree_control", "cpu memory\n");
        assert!(held(root.path()).is_empty(), "the machine's own root has no cgroup.type");
        write("cgroup.type", "domain\n");
        assert_eq!(held(root.path()), ["cpuset", "pids"]);
        write("cgroup.subtree_control", "cpu cpuset memory pids\n");
        assert!(held(root.path()).is_empty());
        write("cgroup.subtree_control", "");
        write("cgroup.procs", "");
        assert!(held(root.path()).is_empty(), "no process is in the way");
    }
}
