//! The program as a shell starts it: exit codes, where flags may stand, and an output that cannot be written.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

fn rubelet(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    command.args(args).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = rubelet(args).output().expect("it can be started");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn the_exit_code_is_0_1_or_2() {
    assert_eq!(run(&["version"]).0, Some(0));
    assert_eq!(run(&["pods", "--no-such-flag"]).0, Some(2));
    assert_eq!(run(&["no-such-command"]).0, Some(2));
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().to_str().expect("text");
    let (code, stdout, stderr) = run(&["pods", "--root-dir", root]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains(root), "{stderr}");
    assert_eq!(run(&["--root-dir", root, "pods"]), (code, stdout, stderr), "flags may stand before the command");
}

#[test]
fn status_without_an_agent_is_a_failure_that_names_the_socket() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().to_str().expect("text");
    for output in ["table", "json"] {
        let (code, stdout, stderr) = run(&["status", "-o", output, "--root-dir", root]);
        assert_eq!((code, stdout.as_str()), (Some(1), ""));
        assert!(stderr.starts_with("rubelet: no rubelet answers on ") && stderr.contains(root), "{stderr}");
    }
}

#[test]
fn an_invalid_configuration_is_a_failure_of_validate() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config.yaml");
    let path_text = path.to_str().expect("text");
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n";
    std::fs::write(&path, head).expect("written");
    assert_eq!(run(&["config", "validate", "--config", path_text]).0, Some(0));
    std::fs::write(&path, head.to_owned() + "maxPod: 5\nport: many\n").expect("written");
    let (code, stdout, _) = run(&["--config", path_text, "config", "validate"]);
    assert_eq!(code, Some(1));
    assert!(stdout.contains(":4: maxPod: ") && stdout.contains(":5: port: "), "{stdout}");
    assert_eq!(run(&["config", "show", "--config", path_text]).0, Some(1));
    assert_eq!(run(&["config"]).0, Some(2));
}

#[test]
fn an_output_that_cannot_be_written_is_a_failure_and_a_closed_pipe_is_none() {
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = rubelet(&["--help"]).stdout(full).output().expect("it can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("rubelet: cannot write the result to stdout: "), "{stderr}");

    let (reader, writer) = std::io::pipe().expect("descriptors are free");
    drop(reader);
    let output = rubelet(&["--help"]).stdout(writer).output().expect("it can be started");
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn the_name_kubelet_changes_nothing() {
    for args in [["--version", "--v=2"].as_slice(), &["help", "pods"], &["no-such-command"]] {
        let same = rubelet(args).output().expect("it can be started");
        let renamed = rubelet(args).arg0("kubelet").output().expect("it can be started");
        assert_eq!(renamed, same, "{args:?}");
    }
}

#[test]
fn manual_pages_are_written_into_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let (code, stdout, _) = run(&["man", "--dir", dir.path().to_str().expect("text")]);
    assert_eq!(code, Some(0));
    let page = std::fs::read_to_string(dir.path().join("rubelet-pods.8")).expect("it is written");
    assert_eq!(page, run(&["man", "pods"]).1);
    assert_eq!(stdout.lines().count(), std::fs::read_dir(dir.path()).expect("it is there").count());
    let (code, _, stderr) = run(&["man", "--dir", "/no/such/directory"]);
    assert!(code == Some(1) && stderr.contains("/no/such/directory"), "{stderr}");
}
