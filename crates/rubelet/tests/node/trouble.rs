//! The runtime is not there, dies, or is no runtime: rubelet says so, waits, and pods are as they were.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{Containerd, Node, Setup, WAIT, app, container, containerd_socket, pod, pod_of, running_ids};

#[test]
fn pods_outlive_a_runtime_that_is_killed() {
    let mut node = Node::started();
    let containerd = Containerd::under_test();
    node.apply(&pod("one", WAIT));
    node.apply(&pod("dies", WAIT));
    node.apply(&pod_of("two", &[container("app", WAIT), container("other", WAIT)]));
    let one = node.running("one");
    let dies = node.running("dies");
    let two = node.until_pod("two", "to run both", |pod| pod.running().count() == 2);

    containerd.kill(&node);
    node.until_logged(&["The runtime does not answer"]);
    // What ends meanwhile is noticed afterwards; what is asked for meanwhile is started then.
    kill_container(&node, dies.pod.uid.as_str(), app(&dies).id.as_str());
    node.apply(&pod("new", WAIT));
    assert!(node.runs(), "rubelet waits");
    containerd.start(&node);

    let again = node.until_pod("dies", "to run again", |pod| {
        pod.newest("app").is_some_and(|app| app.state.is_running() && app.marks.restart_count == 1)
    });
    assert_eq!(again.running().count(), 1);
    node.running("new");
    assert_eq!(running_ids(&node.running("one")), running_ids(&one));
    assert_eq!(running_ids(&node.running("two")), running_ids(&two));
    assert!(node.runs(), "rubelet goes on");

    // And it still ends pods as it should.
    node.withdraw("one");
    node.gone(&one.pod);
}

/// Kills the first process of a container, which its cgroup names.
fn kill_container(node: &Node, uid: &str, id: &str) {
    let dirs = node.pod_cgroups(uid);
    let pids = dirs.iter().find_map(|dir| fs::read_to_string(dir.join(id).join("cgroup.procs")).ok());
    let first = pids.and_then(|pids| Pid::from_raw(pids.lines().next()?.parse().ok()?)).expect("it has a process");
    kill_process(first, Signal::KILL).expect("we are root");
}

#[test]
fn rubelet_waits_for_a_runtime_that_is_not_there_yet() {
    let place = tempfile::tempdir().expect("a directory can be made");
    let socket = place.path().join("late.sock");
    let mut node = Setup::default().endpoint(&socket).start();
    node.apply(&pod("web", WAIT));
    let line = node.until_logged(&["does not answer", path(&socket)]);
    assert!(line.contains("WARN"), "{line}");
    assert!(node.runs(), "rubelet waits");

    symlink(containerd_socket(), &socket).expect("the directory is ours");
    node.running("web");
    assert!(node.runs());
}

#[test]
fn a_socket_without_cri_is_reported_and_rubelet_goes_on_when_a_runtime_comes() {
    let place = tempfile::tempdir().expect("a directory can be made");
    let (socket, junk) = (place.path().join("link.sock"), place.path().join("junk.sock"));
    let listener = UnixListener::bind(&junk).expect("the directory is ours");
    // Kept open: a peer that closes at once counts as unreachable, not as wrong.
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _gone = stream.write_all(b"SSH-2.0-nonsense\r\n\0\xff\xfe this is not what you want to hear\r\n");
            open.push(stream);
        }
    });
    symlink(&junk, &socket).expect("the directory is ours");
    let mut node = Setup::default().endpoint(&socket).start();
    node.apply(&pod("web", WAIT));
    let line = node.until_logged(&["does not answer", "does not speak CRI"]);
    assert!(line.contains(path(&socket)), "{line}");
    assert!(node.runs(), "rubelet waits");

    let other = place.path().join("other.sock");
    symlink(containerd_socket(), &other).expect("the directory is ours");
    fs::rename(other, &socket).expect("the directory is ours");
    node.running("web");
    assert!(node.runs());
}

fn path(path: &Path) -> &str {
    path.to_str().expect("we named it")
}
