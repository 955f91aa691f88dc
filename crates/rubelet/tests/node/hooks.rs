//! Hooks on real containers: what they do, when they are run, and whose time they take.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::json;

use crate::rig::{Node, WAIT, app, container, exec, lines, on_host, pod, pod_of, with};

/// Writes a line at SIGTERM, and goes on.
const STUBBORN: &str = "trap 'echo term >>/host/notes' TERM; while :; do sleep 0.2; done";

#[test]
fn hooks_come_after_the_start_and_before_the_stop() {
    let node = Node::started();
    let dir = node.host_dir("hooked");
    // A page that takes a note: how a test sees that an HTTP hook was here.
    let page = dir.join("cgi-bin/bye");
    fs::create_dir_all(dir.join("cgi-bin")).expect("it is ours");
    fs::write(&page, "#!/bin/sh\necho bye >>/host/notes\nprintf 'Content-Type: text/plain\\n\\n'\n")
        .expect("it is ours");
    fs::set_permissions(&page, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let script = "trap 'echo term >>/host/notes; exit 0' TERM; httpd -p 8080 -h /host; while :; do sleep 0.1; done";
    let get = json!({"httpGet": {"port": 8080, "path": "/cgi-bin/bye"}});
    let started = exec("sleep 1; echo started >>/host/notes");
    let first = with(container("app", script), "/lifecycle", json!({"postStart": started, "preStop": get}));
    let second = container("second", &format!("echo second >>/host/notes; {WAIT}"));
    node.apply(&on_host(pod_of("hooked", &[first, second]), &dir));
    let notes = || lines(&dir.join("notes"));
    let seen = node.until_pod("hooked", "to run both", |pod| pod.running().count() == 2);
    // RT-50: the next container waits for the hook of the one before.
    node.until("the second container's note", || (notes().len() == 2).then_some(()));
    assert_eq!(notes(), ["started", "second"]);
    node.withdraw("hooked");
    node.gone(&seen.pod);
    assert_eq!(notes(), ["started", "second", "bye", "term"]);
}

#[test]
fn a_failed_post_start_hook_ends_the_container_and_a_failed_pre_stop_hook_nothing() {
    let node = Node::started();
    let dir = node.host_dir("fails");
    let hooks = json!({"postStart": exec("test -e /host/good"), "preStop": exec("echo no; exit 5")});
    let fails = with(pod("fails", WAIT), "/spec/containers/0/lifecycle", hooks);
    node.apply(&on_host(fails, &dir));
    node.until_logged(&["FailedPostStartHook", "PostStartHook failed"]);
    // It is started again at once the first time (RT-60); then the hook is as it should be.
    fs::write(dir.join("good"), "").expect("it is ours");
    node.until_line("fails", "as ready", |line| line.ready == 1 && line.restarts > 0);
    let seen = node.running("fails");
    assert!(app(&seen).marks.restart_count > 0);
    node.withdraw("fails");
    node.until_logged(&["FailedPreStopHook", "PreStopHook failed"]);
    node.gone(&seen.pod);
}

#[test]
fn a_pre_stop_hook_takes_its_time_from_the_grace() {
    let node = Node::started();
    // Name, the hook's seconds, the pod's grace, and when it must have been killed: HOOK-03.
    let cases = [("within", 2, 4, 4), ("beyond", 60, 2, 4)];
    let mut pods = Vec::new();
    for (name, sleep, grace, _) in cases {
        // The API takes no sleep that is longer than the grace.
        let sleeps = json!({"sleep": {"seconds": sleep}});
        let hook = json!({"preStop": if sleep <= grace { sleeps } else { exec(&format!("sleep {sleep}")) }});
        let stubborn = with(pod(name, STUBBORN), "/spec/containers/0/lifecycle", hook);
        let stubborn = with(stubborn, "/spec/terminationGracePeriodSeconds", json!(grace));
        node.apply(&on_host(stubborn, &node.host_dir(name)));
    }
    for (name, ..) in cases {
        pods.push(node.running(name));
    }
    let began = node.clock.mono();
    for (name, ..) in cases {
        node.withdraw(name);
    }
    for ((name, sleep, grace, end), seen) in cases.into_iter().zip(pods) {
        let notes = node.host_dir(name).join("notes");
        node.until(&format!("{name} to get SIGTERM"), || (!lines(&notes).is_empty()).then_some(()));
        let signalled = node.clock.mono().since(began);
        assert!(signalled >= Duration::from_secs(sleep.min(grace)), "{name}: SIGTERM after {signalled:?}");
        node.gone(&seen.pod);
        let took = node.clock.mono().since(began);
        let least = Duration::from_millis(end * 1000 - 200);
        // The machine may be busy; the hook's own minute is what must not be waited for.
        assert!(least <= took && took < Duration::from_secs(20), "{name}: gone after {took:?}");
    }
}
