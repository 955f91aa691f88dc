//! A pod's life: it runs, is reached, ends, starts again as its policy says, changes, goes and leaves nothing.

use std::fs;

use rubelet_core::observe::SandboxState;
use rubelet_server::documents::PodState;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::rig::{BUSYBOX, NONROOT, Node, WAIT, app, container, exit_code, http_get, links_of, pod, pod_of, with};

#[test]
fn a_web_page_is_served_from_a_pod_and_nothing_is_left_of_it() {
    let node = Node::started();
    let script = "echo serving; exec httpd -f -p 8080 -h /www";
    let web = with(pod("web", script), "/spec/terminationGracePeriodSeconds", json!(1));
    let web = with(web, "/spec/volumes", json!([{"name": "data", "emptyDir": {"medium": "Memory"}}]));
    let mounts = json!([
        {"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": "/sub", "subPath": "sub"},
    ]);
    node.apply(&with(web, "/spec/containers/0/volumeMounts", mounts));

    let seen = node.running("web");
    let ip = *seen.ips().first().expect("a pod has an address");
    let page = node.until("the page", || http_get(ip, 8080, "/"));
    assert!(page.contains("hello from a pod"), "{page}");
    let line =
        node.until_line("web", "as running and ready", |line| line.state == PodState::Running && line.ready == 1);
    assert_eq!(line.ip, Some(ip.to_string()));
    assert_eq!((line.total, line.restarts), (1, 0));

    // LOG-01, LOG-02: where the log is, and the link to it.
    let log = node.logs().join(format!("default_{}_{}/app/0.log", seen.pod.name, seen.pod.uid));
    assert_eq!(app(&seen).log_path, log.to_str().expect("we named it"));
    node.until("its first words", || (node.container_log(app(&seen)) == "serving").then_some(()));
    let link = format!("/var/log/containers/{}_default_app-{}.log", seen.pod.name, app(&seen).id);
    assert_eq!(fs::read_link(link).ok(), Some(log));
    let parts: Vec<_> = ["in the runtime", "/pods/", "/logs/", "/var/log/containers/", "/kubepods/"]
        .into_iter()
        .filter(|part| !node.remains(&seen.pod).iter().any(|found| found.contains(part)))
        .collect();
    assert_eq!(parts, Vec::<&str>::new(), "what the test of remains would not find");

    node.withdraw("web");
    node.gone(&seen.pod);
    node.until("rubelet pods to forget it", || node.line("web").is_none().then_some(()));
    assert_eq!(links_of(&seen.pod), Vec::<std::path::PathBuf>::new());
}

#[test]
fn containers_start_again_as_the_policy_says() {
    let node = Node::started();
    // The first end is a failure, the second a success. The file is on the host: it outlives the container.
    let script = "echo run >>/host/runs; test $(wc -l </host/runs) -gt 1";
    for policy in ["Always", "OnFailure", "Never"] {
        let name = policy.to_lowercase();
        let twice = with(pod(&name, script), "/spec/restartPolicy", json!(policy));
        let volumes = json!([{"name": "host", "hostPath": {"path": node.host_dir(&name)}}]);
        let twice = with(twice, "/spec/volumes", volumes);
        node.apply(&with(twice, "/spec/containers/0/volumeMounts", json!([{"name": "host", "mountPath": "/host"}])));
    }
    let runs = |name: &str| fs::read_to_string(node.host_dir(name).join("runs")).unwrap_or_default().lines().count();

    let line = node.until_line("never", "as failed", |line| line.state == PodState::Failed);
    assert_eq!(line.restarts, 0);
    assert_eq!(exit_code(&node.ended("never")), Some(1));

    let line = node.until_line("onfailure", "as succeeded", |line| line.state == PodState::Succeeded);
    assert_eq!(line.restarts, 1);
    let again = node.ended("onfailure");
    assert_eq!((exit_code(&again), again.marks.restart_count), (Some(0), 1));

    // RT-60: the first restart is at once, the next after ten seconds, then twenty.
    let story = node.until_story("always", "waiting to start again", |story| {
        story.containers.iter().any(|c| c.reason.as_deref() == Some("CrashLoopBackOff") && c.restarts > 0)
    });
    assert_eq!(story.line.state, PodState::Running);
    let waits = &story.containers[0];
    let wait = 10 << (waits.restarts - 1);
    let words = format!("back-off {wait}s restarting failed container=app");
    assert!(waits.message.as_ref().is_some_and(|message| message.starts_with(&words)), "{waits:#?}");
    assert!(waits.next_start_in_seconds.is_some_and(|secs| secs <= wait), "{waits:#?}");
    assert_eq!(waits.last_end.as_ref().map(|end| end.exit_code), Some(0));
    let third = node.until_pod("always", "to run a third time", |pod| {
        pod.newest("app").is_some_and(|app| app.marks.restart_count > 1) && pod.instances("app").count() > 1
    });
    let (last, before) = (app(&third), third.instances("app").nth(1).expect("the last end is kept"));
    let ended = before.state.exit().expect("it has ended").finished_at;
    assert!(last.created_at.duration_since(ended).as_secs() >= 9, "{third:#?}");

    // What has ended for good stays ended.
    assert_eq!((runs("never"), runs("onfailure")), (1, 2));
}

#[test]
fn init_containers_come_in_order_and_sidecars_leave_last() {
    let node = Node::started();
    let note = |what: &str| format!("echo {what} >>/host/notes");
    let stays = |name: &str| {
        let (begin, end) = (note(&format!("{name}+")), note(&format!("{name}-")));
        format!("trap '{end}; exit 0' TERM; {begin}; while :; do sleep 3600 & wait $!; done")
    };
    let mounts = json!([{"name": "host", "mountPath": "/host"}]);
    let mounted = |name: &str, script: &str| with(container(name, script), "/volumeMounts", mounts.clone());
    let init = json!([
        mounted("first", &note("first")),
        with(mounted("side", &stays("side")), "/restartPolicy", json!("Always")),
        mounted("second", &note("second")),
    ]);
    let whole = pod_of("ordered", &[mounted("app", &stays("app")), mounted("other", &stays("other"))]);
    let whole = with(with(whole, "/spec/initContainers", init), "/spec/terminationGracePeriodSeconds", json!(20));
    let whole = with(whole, "/spec/volumes", json!([{"name": "host", "hostPath": {"path": node.host_dir("ordered")}}]));
    node.apply(&whole);

    let seen = node.until_pod("ordered", "to run all that stays", |pod| pod.running().count() == 3);
    let notes = || fs::read_to_string(node.host_dir("ordered").join("notes")).unwrap_or_default();
    let notes = || notes().lines().map(str::to_owned).collect::<Vec<_>>();
    node.until("every container's first note", || (notes().len() == 5).then_some(()));
    assert_eq!(notes()[0], "first");
    let at =
        |what: &str| notes().iter().position(|note| note == what).unwrap_or_else(|| panic!("{what} in {:?}", notes()));
    // A sidecar has started when its process runs; what it does then, the next container does not wait for.
    assert!(at("second") < at("app+") && at("second") < at("other+") && at("side+") > 0);
    let started = |name: &str| crate::rig::started_at(seen.newest(name).expect("it ran")).expect("it was started");
    assert!(started("first") < started("side") && started("side") < started("second"));
    assert!(started("second") < started("app") && started("app") < started("other"));

    node.withdraw("ordered");
    node.gone(&seen.pod);
    let end = notes().split_off(5);
    assert_eq!((end.len(), end[2].as_str()), (3, "side-"), "{end:?}");
}

#[test]
fn a_changed_manifest_is_another_pod_and_one_with_its_own_uid_changes_in_place() {
    let node = Node::started();
    node.apply(&pod("plain", WAIT));
    let uid = "11111111-2222-3333-4444-555555555555";
    let fixed = with(pod("fixed", WAIT), "/metadata/uid", json!(uid));
    node.apply(&fixed);
    let plain = node.running("plain");
    let before = node.running("fixed");
    assert_eq!(before.pod.uid.as_str(), uid);

    // SRC-05: the UID is a hash of the manifest. WORK-08: the new pod waits until the old one has left.
    node.apply(&with(pod("plain", WAIT), "/metadata/labels", json!({"changed": "yes"})));
    node.gone(&plain.pod);
    let after = node.running("plain");
    assert_ne!(after.pod.uid, plain.pod.uid);
    let old_end = node.until_line("plain", "as running", |line| line.state == PodState::Running);
    assert_eq!(old_end.uid, after.pod.uid.to_string());

    // RT-71: another image makes it another container, in the same sandbox.
    node.apply(&with(fixed, "/spec/containers/0/image", json!(NONROOT)));
    let after = node.until_pod("fixed", "to run the other image", |pod| {
        pod.newest("app").is_some_and(|app| app.image == NONROOT && app.state.is_running())
    });
    assert_eq!(after.pod.uid, before.pod.uid);
    assert_eq!(after.sandboxes.len(), 1);
    assert_eq!(after.sandboxes[0].id, before.sandboxes[0].id);
    assert_eq!(app(&after).marks.restart_count, 1);
    assert_eq!(app(&before).image, BUSYBOX);
    assert_eq!(after.running().count(), 1, "{after:#?}");
}

#[test]
fn a_pod_whose_sandbox_dies_gets_another() {
    let node = Node::started();
    node.apply(&pod("web", WAIT));
    let before = node.running("web");
    let sandbox = &before.sandboxes[0];
    // The sandbox's own process, which its cgroup names.
    let level = node.pod_cgroups(before.pod.uid.as_str());
    let pause =
        level.iter().find_map(|dir| fs::read_to_string(dir.join(sandbox.id.as_str()).join("cgroup.procs")).ok());
    let pause = pause.and_then(|pids| Pid::from_raw(pids.trim().parse().ok()?)).expect("a sandbox has one process");
    kill_process(pause, Signal::KILL).expect("we are root");

    let after = node.until_pod("web", "to run in another sandbox", |pod| {
        pod.ready_sandbox().is_some_and(|s| s.id != sandbox.id)
            && pod.newest("app").is_some_and(|c| c.state.is_running())
    });
    assert_eq!(after.sandboxes[0].attempt, 1);
    assert_eq!(after.sandboxes[0].state, SandboxState::Ready);
    assert_eq!(app(&after).marks.restart_count, 1);
    assert_eq!(after.running().count(), 1);
}

#[test]
fn a_container_that_ignores_sigterm_is_given_its_grace_and_no_more() {
    let node = Node::started();
    let hook = json!({"preStop": {"exec": {"command": ["sh", "-c", "echo hook >>/host/notes"]}}});
    let stubborn = pod("stubborn", "trap 'echo term >>/host/notes' TERM; while :; do sleep 1; done");
    let stubborn = with(stubborn, "/spec/terminationGracePeriodSeconds", json!(3));
    let stubborn = with(stubborn, "/spec/containers/0/lifecycle", hook);
    let dir = node.host_dir("stubborn");
    let stubborn = with(stubborn, "/spec/volumes", json!([{"name": "host", "hostPath": {"path": dir}}]));
    node.apply(&with(stubborn, "/spec/containers/0/volumeMounts", json!([{"name": "host", "mountPath": "/host"}])));
    let seen = node.running("stubborn");
    let began = node.clock.mono();
    node.withdraw("stubborn");
    node.until_logged(&["Ending", "with 3 s of grace"]);
    node.gone(&seen.pod);
    let took = node.clock.mono().since(began);
    assert!(took.as_secs() >= 2, "it was given {took:?}");
    let notes = fs::read_to_string(dir.join("notes")).expect("the hook ran");
    assert_eq!(notes.lines().take(2).collect::<Vec<_>>(), ["hook", "term"]);
}

#[test]
fn a_pod_past_its_deadline_is_ended_and_says_so() {
    let node = Node::started();
    let short = with(pod("short", WAIT), "/spec/activeDeadlineSeconds", json!(2));
    node.apply(&short);
    let line = node.until_line("short", "as failed", |line| line.state == PodState::Failed);
    assert_eq!(line.reason.as_deref(), Some("DeadlineExceeded"));
    node.until("its container to stop", || node.one("short").filter(|pod| pod.is_stopped()));
}
