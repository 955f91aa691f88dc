use std::fs;

use super::*;
use crate::testing::{TempDir, temp_dir};

fn request() -> (TempDir, HostCheck) {
    let dir = temp_dir();
    let files = KernelFiles { proc: dir.path().join("proc"), sys: dir.path().join("sys") };
    fs::create_dir_all(files.proc.join("self")).unwrap();
    fs::write(files.proc.join("self/mountinfo"), "").unwrap();
    for tunable in tunables::TUNABLES {
        let path = files.proc.join("sys").join(tunable.name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, tunable.wanted.to_string()).unwrap();
    }
    let request = HostCheck {
        root: dir.path().join("var/lib/kubelet"),
        pod_logs: dir.path().join("var/log/pods"),
        listen: Vec::new(),
        hostname_override: "node".to_owned(),
        fail_swap_on: true,
        fail_cgroup_v1: true,
        protect_kernel_defaults: true,
        files,
    };
    (dir, request)
}

fn check(finding: &Finding, grade: Grade, what: &str) {
    assert_eq!(finding.grade, grade, "{finding:?}");
    assert!(finding.what.contains(what), "{finding:?}");
    assert_eq!(finding.mend.is_empty(), grade == Grade::Ok, "what is not well can be mended: {finding:?}");
}

#[tokio::test]
async fn this_machine_can_be_looked_at() {
    let (_dir, mut request) = request();
    request.files = KernelFiles::default();
    let found = check_host(request).await;
    let names: Vec<_> = found.iter().map(|finding| finding.name.as_str()).collect();
    for name in ["user", "kernel", "hostname", "cgroups", "cgroup-controllers", "swap", "capabilities", "root-dir"] {
        assert!(names.contains(&name), "{name}");
    }
    for finding in &found {
        assert_eq!(finding.mend.is_empty(), finding.grade == Grade::Ok, "{finding:?}");
    }
}

#[test]
fn swap_is_judged_by_the_configuration() {
    let (_dir, mut request) = request();
    check(&swap(&request), Grade::Ok, "off");
    fs::write(request.files.proc.join("swaps"), "Filename Type\n/dev/sda2 partition\n").unwrap();
    check(&swap(&request), Grade::Fail, "failSwapOn");
    request.fail_swap_on = false;
    check(&swap(&request), Grade::Warn, "swapped out");
}

#[test]
fn cgroups_are_judged_by_the_configuration_and_missing_controllers_named() {
    let (_dir, mut request) = request();
    let mounts = "1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    fs::write(request.files.proc.join("self/mountinfo"), mounts).unwrap();
    let found = cgroups(&request);
    check(&found[0], Grade::Fail, "failCgroupV1");
    check(&found[1], Grade::Fail, "missing: cpu, cpuacct, cpuset, pids");
    request.fail_cgroup_v1 = false;
    check(&cgroups(&request)[0], Grade::Warn, "v1");
}

#[test]
fn kernel_settings_matter_only_if_we_may_not_change_them() {
    let (_dir, mut request) = request();
    check(&kernel_settings(&request)[0], Grade::Ok, "as they should be");
    fs::write(request.files.proc.join("sys/vm/panic_on_oom"), "2").unwrap();
    let found = kernel_settings(&request);
    check(&found[0], Grade::Fail, "vm/panic_on_oom is 2");
    assert_eq!(found[0].mend, "`sysctl -w vm.panic_on_oom=0`");
    request.protect_kernel_defaults = false;
    check(&kernel_settings(&request)[0], Grade::Ok, "will be set");
    fs::remove_file(request.files.proc.join("sys/vm/panic_on_oom")).unwrap();
    check(&kernel_settings(&request)[0], Grade::Fail, "cannot be read");
}

#[test]
fn a_taken_port_names_the_field_that_asks_for_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    check(&port("healthzPort", address), Grade::Fail, "(healthzPort) is in use");
    drop(taken);
    check(&port("healthzPort", address), Grade::Ok, "is free for healthzPort");
}

#[test]
fn names_that_no_node_can_have() {
    let (_dir, mut request) = request();
    for (node, grade) in [
        ("node-1.example.com", Grade::Ok),
        ("192.0.2.1", Grade::Ok),
        ("2001:db8::1", Grade::Ok),
        ("Node", Grade::Ok),
        ("my_node", Grade::Fail),
        ("-node", Grade::Fail),
        ("a..b", Grade::Fail),
        (" ", Grade::Fail),
    ] {
        request.hostname_override = node.to_owned();
        assert_eq!(name(&request).grade, grade, "{node}");
    }
    request.hostname_override = "a".repeat(254);
    assert_eq!(name(&request).grade, Grade::Fail);
}

#[test]
fn a_missing_capability_and_no_forwarding_are_warnings() {
    let (_dir, request) = request();
    fs::write(request.files.proc.join("self/status"), "Name:\tx\nCapEff:\t000001fffeffffff\n").unwrap();
    check(&capability(&request.files), Grade::Warn, "CAP_SYS_RESOURCE");
    fs::write(request.files.proc.join("self/status"), "CapEff:\t000001ffffffffff\n").unwrap();
    check(&capability(&request.files), Grade::Ok, "sufficient");
    check(&forwarding(&request.files), Grade::Warn, "off");
}

#[test]
fn the_disk_of_a_directory_yet_to_be_made_is_the_one_above() {
    let (_dir, request) = request();
    let found = disk("root-dir", &request.root);
    assert_ne!(found.grade, Grade::Fail, "{found:?}");
    assert!(found.what.starts_with(request.root.to_str().unwrap()));
}
