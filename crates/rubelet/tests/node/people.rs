//! What users see: the commands, health, and where pods may come from.

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

use rubelet_server::documents::PodState;
use serde_json::Value;

use crate::rig::{Node, Setup, WAIT, http_get, pod, running_ids};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[test]
fn the_commands_tell_of_a_running_node_and_of_none() {
    let mut node = Node::started();
    node.apply(&pod("web", WAIT));
    node.until_line("web", "as running", |line| line.state == PodState::Running && line.ready == 1);
    let root = node.root();
    let root = root.to_str().expect("we named it");
    let full = node.full_name("web");

    let table = node.run_bare(&["pods", "--root-dir", root]);
    assert_eq!(table.code, Some(0), "{table:?}");
    let row = table.stdout.lines().find(|line| line.contains(&full)).unwrap_or_else(|| panic!("{table:?}"));
    assert!(row.contains("Running"), "{row}");
    let json = node.run_bare(&["pods", "-o", "json", "--root-dir", root]);
    let document: Value = serde_json::from_str(&json.stdout).expect("it prints JSON");
    assert_eq!(document["pods"][0]["name"], full.as_str());
    assert_eq!((&document["kind"], &document["runtime"]["up"]), (&"Pods".into(), &true.into()));
    let status = node.run_bare(&["status", "-o", "json", "--root-dir", root]);
    let status: Value = serde_json::from_str(&status.stdout).expect("it prints JSON");
    assert_eq!((&status["kind"], &status["pods"]["running"]), (&"Status".into(), &1.into()), "{status}");
    assert_eq!((&status["runtime"]["up"], &status["api_server"]), (&true.into(), &Value::Null), "{status}");
    let story = node.run_bare(&["explain", "web", "--root-dir", root]);
    assert!(story.code == Some(0) && story.stdout.contains("Sandbox created"), "{story:?}");
    let missed = node.run_bare(&["explain", "nobody", "--root-dir", root]);
    assert!(missed.code == Some(1) && missed.stderr.contains("nobody"), "{missed:?}");

    let socket = fs::metadata(node.root().join("rubelet.sock")).expect("it is there");
    assert_eq!(socket.mode() & 0o777, 0o600, "only root may ask");
    assert_eq!(node.terminate(), Some(0));
    let nobody = node.run_bare(&["pods", "--root-dir", root]);
    assert!(nobody.code == Some(1) && nobody.stderr.contains(root), "{nobody:?}");
}

#[test]
fn health_is_served_on_its_port() {
    let port = free_port();
    let node = Setup::default().config("healthzPort", port).start();
    let answer = node.until("health", || http_get(LOOPBACK, port, "/healthz"));
    assert!(answer.starts_with("HTTP/1.") && answer.contains(" 200 ") && answer.ends_with("ok"), "{answer}");
}

#[test]
fn a_log_that_is_not_read_blocks_nothing() {
    let port = free_port();
    let mut node = Setup::default().config("healthzPort", port).prepare();
    let mut log = node.start_with_a_stuck_log(8);
    node.until("health", || http_get(LOOPBACK, port, "/healthz").filter(|answer| answer.ends_with("ok")));
    node.apply(&pod("web", WAIT));
    node.until_line("web", "as running", |line| line.state == PodState::Running && line.ready == 1);

    // Read at last, the log says what it lacks.
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    let missing = "log lines were dropped because the reader of stderr did not keep up";
    while !String::from_utf8_lossy(&text).contains(missing) {
        let count = log.read(&mut piece).expect("it can be read");
        assert!(count > 0, "the log ended: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&piece[..count]);
    }
    // And stuck again, it does not keep rubelet from its end.
    assert_eq!(node.terminate(), Some(0));
}

/// A port that is free at this moment.
fn free_port() -> u16 {
    TcpListener::bind((LOOPBACK, 0)).and_then(|listener| listener.local_addr()).expect("there is one").port()
}

#[test]
fn pods_come_from_a_url_and_outlive_its_troubles() {
    let listener = TcpListener::bind((LOOPBACK, 0)).expect("there is a port");
    let url = format!("http://{}/pods", listener.local_addr().expect("it is bound"));
    let page = Arc::new(Mutex::new((200, pod("far", WAIT).to_string())));
    serve(listener, Arc::clone(&page));
    let node = Setup::default().config("staticPodURL", url.as_str()).config("httpCheckFrequency", "1s").start();
    node.apply(&pod("near", WAIT));
    let far = node.running("far");
    node.running("near");

    *page.lock().expect("no thread panics") = (500, "trouble".to_owned());
    node.until_logged(&["WARN", &url]);
    assert_eq!(running_ids(&node.running("far")), running_ids(&far));
    *page.lock().expect("no thread panics") = (200, pod("other", WAIT).to_string());
    node.gone(&far.pod);
    node.running("other");
    node.running("near");
}

/// Answers every request with the page of the moment. Ends with the test.
fn serve(listener: TcpListener, page: Arc<Mutex<(u16, String)>>) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let request = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let _lines = request.count();
            let (code, body) = page.lock().expect("no thread panics").clone();
            let length = body.len();
            let _gone =
                write!(stream, "HTTP/1.1 {code} OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        }
    });
}

#[test]
fn a_single_file_is_a_source_too() {
    let place = tempfile::tempdir().expect("a directory can be made");
    let file = place.path().join("one.yaml");
    fs::write(&file, pod("one", WAIT).to_string()).expect("the directory is ours");
    let node = Setup::default().config("staticPodPath", file.to_str().expect("we named it")).start();
    let one = node.running("one");
    let draft = place.path().join("draft");
    fs::write(&draft, pod("two", WAIT).to_string()).expect("the directory is ours");
    fs::rename(draft, &file).expect("the directory is ours");
    node.gone(&one.pod);
    node.running("two");
}
