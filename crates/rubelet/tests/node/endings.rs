//! How containers end: their order, reason and termination message.

use std::fs;
use std::time::Duration;

use rubelet_server::documents::PodState;
use serde_json::json;

use crate::rig::{Node, container, exec, exit_code, lines, on_host, pod, pod_of, with};

#[test]
fn sidecars_start_one_after_the_other_and_stop_in_reverse() {
    let node = Node::started();
    let dir = node.host_dir("sides");
    let stays = |name: &str| {
        let end = format!("echo {name}- >>/host/notes");
        let script = format!("trap '{end}; exit 0' TERM; echo {name}+ >>/host/notes; while :; do sleep 0.1; done");
        container(name, &script)
    };
    let gate = with(exec("test -e /host/open"), "/periodSeconds", json!(1));
    let gate = with(gate, "/failureThreshold", json!(100));
    let side = |name: &str| with(stays(name), "/restartPolicy", json!("Always"));
    let init = json!([
        side("one"),
        with(side("two"), "/startupProbe", gate),
        side("three"),
        container("last", "echo last >>/host/notes")
    ]);
    let whole = with(pod_of("sides", &[stays("app")]), "/spec/initContainers", init);
    node.apply(&on_host(with(whole, "/spec/terminationGracePeriodSeconds", json!(20)), &dir));
    let notes = || lines(&dir.join("notes"));
    node.until_logged(&["Startup probe failed"]);
    node.until("two sidecars' notes", || (notes().len() >= 2).then_some(()));
    assert_eq!(notes().len(), 2, "the third waits until the second has started: {:?}", notes());
    let story = node.until_story("sides", "waiting", |story| story.line.state == PodState::Pending);
    let waits: Vec<_> = story.containers.iter().filter(|c| c.state == "Waiting").map(|c| c.name.as_str()).collect();
    assert_eq!(waits, ["three", "last", "app"]);

    fs::write(dir.join("open"), "").expect("it is ours");
    node.until("every note", || (notes().len() == 5).then_some(()));
    let seen = node.until_pod("sides", "to run all that stays", |pod| pod.running().count() == 4);
    assert_eq!(notes()[4], "app+");
    node.withdraw("sides");
    node.gone(&seen.pod);
    assert_eq!(notes()[5..], ["app-", "three-", "two-", "one-"]);
}

#[test]
fn the_reason_and_the_termination_message_of_a_container_are_reported() {
    let node = Node::started();
    let words = |script: &str, policy: &str| with(container("app", script), "/terminationMessagePolicy", json!(policy));
    let greedy = container("app", "exec dd if=/dev/zero of=/dev/null bs=256M count=1");
    let greedy = with(greedy, "/resources", json!({"limits": {"memory": "32Mi"}}));
    let fallback = "FallbackToLogsOnError";
    let cases = [
        ("file", words("printf bye >/dev/termination-log; exit 3", "File"), 3, "Error", Some("bye")),
        ("log", words("echo first; echo last words; exit 4", fallback), 4, "Error", Some("first\nlast words\n")),
        ("well", words("echo not shown; exit 0", fallback), 0, "Completed", None),
        ("greedy", greedy, 137, "OOMKilled", None),
    ];
    for (name, container, ..) in &cases {
        node.apply(&with(pod_of(name, std::slice::from_ref(container)), "/spec/restartPolicy", json!("Never")));
    }
    for (name, _, code, reason, message) in &cases {
        let story = node.until_story(name, "as ended", |story| {
            story.containers.first().is_some_and(|container| container.state == "Terminated")
        });
        let end = &story.containers[0];
        let shown = (end.exit_code, end.reason.as_deref(), end.message.as_deref());
        assert_eq!(shown, (Some(*code), Some(*reason), *message), "{name}");
        let state = if *code == 0 { PodState::Succeeded } else { PodState::Failed };
        node.until_line(name, "as ended", |line| line.state == state);
    }
}

#[test]
fn a_container_that_ignores_sigterm_is_killed_when_its_grace_is_over() {
    let node = Node::started();
    let stubborn = pod("stubborn", "trap '' TERM; while :; do sleep 1; done");
    let stubborn = with(stubborn, "/spec/terminationGracePeriodSeconds", json!(2));
    node.apply(&with(stubborn, "/spec/activeDeadlineSeconds", json!(1)));
    node.running("stubborn");
    let ended = node.ended("stubborn");
    assert_eq!(exit_code(&ended), Some(137));
    let exit = ended.state.exit().expect("it has ended");
    let ran = Duration::try_from(exit.finished_at.duration_since(exit.started_at)).unwrap_or_default();
    // The deadline counts from before the container's start.
    assert!(Duration::from_millis(1900) < ran && ran < Duration::from_secs(10), "{ran:?}");
    let line = node.until_line("stubborn", "as failed", |line| line.state == PodState::Failed);
    assert_eq!(line.reason.as_deref(), Some("DeadlineExceeded"));
}
