//! Probes on real containers: over the pod's network and in its containers.

use std::fs;
use std::time::Duration;

use rubelet_server::documents::PodState;
use serde_json::{Value, json};

use crate::rig::{Node, WAIT, app, container, exec, lines, on_host, pod, pod_of, running_ids, started_at, with};

/// `handler` as a probe that is asked every second.
fn every_second(mut handler: Value) -> Value {
    handler["periodSeconds"] = json!(1);
    handler
}

/// A web server of the directory `/host` in its container.
fn server(name: &str, port: u16) -> Value {
    container(name, &format!("exec httpd -f -p {port} -h /host"))
}

#[test]
fn readiness_follows_probes_of_each_kind() {
    let node = Node::started();
    let dir = node.host_dir("ready");
    let page = json!({"httpGet": {"port": "page", "path": "/page"}, "failureThreshold": 1});
    let page = with(server("page", 8080), "/readinessProbe", every_second(page));
    let page = with(page, "/ports", json!([{"name": "page", "containerPort": 8080}]));
    // Nothing listens at first: the port is opened when the file is there.
    let waits = "while ! test -e /host/open; do sleep 0.1; done; exec httpd -f -p 8081 -h /host";
    let tcp = json!({"tcpSocket": {"port": 8081}, "failureThreshold": 1});
    let port = with(container("port", waits), "/readinessProbe", every_second(tcp));
    let file = with(exec("test -e /host/file || { printf 'no file'; exit 3; }"), "/failureThreshold", json!(2));
    let file = with(container("app", WAIT), "/readinessProbe", every_second(file));
    node.apply(&on_host(pod_of("ready", &[file, page, port]), &dir));
    let ready = |count: u32| {
        node.until_line("ready", &format!("with {count} ready"), |l| l.state == PodState::Running && l.ready == count)
    };
    let seen = node.until_pod("ready", "to run", |pod| pod.running().count() == 3);
    ready(0);
    // PRB-07, and why a pod waits.
    node.until_logged(&["Unhealthy", "Readiness probe failed: no file"]);
    node.until_logged(&["Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 404"]);
    node.until_logged(&["Unhealthy", "Readiness probe failed: dial tcp", ":8081", "connection refused"]);

    for (made, count) in [("file", 1), ("page", 2), ("open", 3)] {
        fs::write(dir.join(made), "").expect("it is ours");
        ready(count);
    }
    fs::remove_file(dir.join("page")).expect("it is there");
    ready(2);
    let gone = node.clock.mono();
    fs::remove_file(dir.join("file")).expect("it is there");
    ready(1);
    let took = node.clock.mono().since(gone);
    assert!(took > Duration::from_millis(900), "one failure of two was enough: {took:?}");
    fs::write(dir.join("page"), "").expect("it is ours");
    fs::write(dir.join("file"), "").expect("it is ours");
    ready(3);
    assert_eq!(running_ids(&node.inspect(&seen.pod)), running_ids(&seen), "readiness restarts nothing");
}

#[test]
fn a_startup_probe_goes_first_and_a_failed_liveness_probe_restarts() {
    let node = Node::started();
    let dir = node.host_dir("slow");
    let asked = |who: &str, then: &str| every_second(exec(&format!("echo {who} >>/host/asked; {then}")));
    // It ends by SIGKILL alone, and the probe says how long that takes.
    let slow = pod("slow", "trap '' TERM; while :; do sleep 1; done");
    let slow = with(slow, "/spec/terminationGracePeriodSeconds", json!(30));
    let startup = with(asked("startup", "test -e /host/up"), "/failureThreshold", json!(100));
    let slow = with(slow, "/spec/containers/0/startupProbe", startup);
    // Its period would keep it from saying anything for long: success of the first asks it at once (PRB-10).
    let readiness = with(asked("readiness", "true"), "/periodSeconds", json!(30));
    let slow = with(slow, "/spec/containers/0/readinessProbe", readiness);
    let liveness = with(asked("liveness", "test ! -e /host/sick"), "/failureThreshold", json!(2));
    let liveness = with(liveness, "/terminationGracePeriodSeconds", json!(1));
    node.apply(&on_host(with(slow, "/spec/containers/0/livenessProbe", liveness), &dir));
    let said = |who: &str| lines(&dir.join("asked")).iter().filter(|line| *line == who).count();

    let first = node.running("slow");
    node.until("the startup probe to have failed", || (said("startup") >= 2).then_some(()));
    assert_eq!((said("readiness"), said("liveness")), (0, 0), "PRB-04");
    let up = node.clock.mono();
    fs::write(dir.join("up"), "").expect("it is ours");
    node.until_line("slow", "as ready", |line| line.ready == 1);
    let took = node.clock.mono().since(up);
    assert!(took < Duration::from_secs(15), "it waited for the period of its readiness probe: {took:?}");
    node.until("the liveness probe", || (said("liveness") >= 1).then_some(()));
    let startups = said("startup");

    let sick = node.clock.wall();
    fs::write(dir.join("sick"), "").expect("it is ours");
    node.until_logged(&["Container app failed liveness probe, will be restarted"]);
    fs::remove_file(dir.join("sick")).expect("it is there");
    let again = node.until_pod("slow", "to run anew", |pod| {
        pod.newest("app").is_some_and(|app| app.marks.restart_count == 1 && app.state.is_running())
    });
    let old = node.inspect(&first.pod).instances("app").nth(1).and_then(|old| old.state.exit().cloned());
    let old = old.expect("the last end is kept");
    assert_eq!(old.code, 137, "it was killed");
    let took = Duration::try_from(old.finished_at.duration_since(sick)).unwrap_or_default();
    // Two failures a second apart, and the second of grace that the probe gives; far from the pod's thirty.
    assert!(Duration::from_secs(1) < took && took < Duration::from_secs(15), "{took:?}");
    assert!(started_at(app(&again)).is_some_and(|at| at >= old.finished_at), "{again:#?}");
    // The new instance starts from the beginning.
    node.until("the startup probe of the new instance", || (said("startup") > startups).then_some(()));
    node.until_line("slow", "as ready again", |line| line.ready == 1 && line.restarts == 1);
}

#[test]
fn a_restart_of_rubelet_restarts_nothing_that_is_probed() {
    let mut node = Node::started();
    let dir = node.host_dir("kept");
    fs::write(dir.join("page"), "").expect("it is ours");
    let get = json!({"httpGet": {"port": 8080, "path": "/page"}, "failureThreshold": 1});
    let probed = with(server("app", 8080), "/livenessProbe", every_second(get.clone()));
    let probed = with(probed, "/readinessProbe", every_second(get.clone()));
    let probed = with(probed, "/startupProbe", with(every_second(get), "/failureThreshold", json!(30)));
    node.apply(&on_host(pod_of("kept", &[probed]), &dir));
    node.until_line("kept", "as ready", |line| line.ready == 1);
    let before = node.running("kept");
    for _ in 0..2 {
        node.kill();
        node.start();
        node.until_line("kept", "as ready again", |line| line.ready == 1);
    }
    let after = node.running("kept");
    assert_eq!(running_ids(&after), running_ids(&before));
    assert_eq!(app(&after).marks.restart_count, 0);
    let log = node.log();
    let bad: Vec<_> = log.lines().filter(|line| line.contains("will be restarted")).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}
