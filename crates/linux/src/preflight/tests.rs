use std::fs;

use super::machine::{capability, forwarding, name, swap};
use super::*;
use crate::host::tunables;
use crate::testing::{TempDir, temp_dir};

pub(super) fn request() -> (TempDir, HostCheck) {
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
        static_pods: None,
        listen: Vec::new(),
        hostname_override: "node".to_owned(),
        fail_swap_on: true,
        fail_cgroup_v1: true,
        protect_kernel_defaults: true,
        files,
    };
    (dir, request)
}

pub(super) fn check(finding: &Finding, grade: Grade, what: &str) {
    assert_eq!(finding.grade, grade, "{finding:?}");
    assert!(finding.what.contains(what), "{finding:?}");
    assert_eq!(finding.mend.is_empty(), grade == Grade::Ok, "what is not well can be mended: {finding:?}");
}

/// Findings as text, for tables.
pub(super) fn lines(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let Finding { name, grade, what, mend } = finding;
        let fix = if mend.is_empty() { String::new() } else { format!("  fix: {mend}\n") };
        format!("{grade:?} {name}: {what}\n{fix}")
    };
    findings.iter().map(line).collect()
}

#[tokio::test]
async fn this_machine_can_be_looked_at() {
    let (_dir, mut request) = request();
    request.files = KernelFiles::default();
    let found = check_host(request).await;
    let names: Vec<_> = found.iter().map(|finding| finding.name.as_str()).collect();
    for name in [
        "user",
        "kernel",
        "hostname",
        "cgroups",
        "cgroup-controllers",
        "cgroup-tree",
        "swap",
        "psi",
        "time-sync",
        "capabilities",
        "root-dir",
    ] {
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
fn systemd_is_pid_1_only_by_its_name() {
    let (_dir, request) = request();
    assert!(!systemd_is_pid_1(&request.files), "without /proc/1/comm");
    fs::create_dir(request.files.proc.join("1")).unwrap();
    fs::write(request.files.proc.join("1/comm"), "init\n").unwrap();
    assert!(!systemd_is_pid_1(&request.files));
}
