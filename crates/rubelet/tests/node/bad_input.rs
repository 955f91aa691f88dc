//! Bad input: each has a clear message that names the thing, and every other pod goes on unharmed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rubelet_server::documents::PodState;
use rustix::mount::{MountFlags, mount};
use serde_json::{Value, json};

use crate::rig::{Node, Setup, WAIT, app, pod, running_ids, with};

/// Larger than any manifest may be: 10 MiB (SRC-01).
const TOO_LARGE: usize = 10 * 1024 * 1024 + 1;

#[test]
fn a_command_line_that_makes_no_sense_is_named() {
    let node = Setup::default().prepare();
    let rows: [(&[&str], &[&str]); 3] = [
        (&["--no-such-flag=1"], &["no-such-flag"]),
        (&["--root-dri=/tmp/x"], &["root-dri", "--root-dir"]),
        (&["--max-pods=many"], &["max-pods", "many"]),
    ];
    for (flags, words) in rows {
        let ended = node.run_another(flags);
        assert!(matches!(ended.code, Some(1 | 2)), "{ended:?}");
        assert!(words.iter().all(|word| ended.stderr.contains(word)), "{words:?} in {ended:?}");
    }
}

#[test]
fn a_configuration_that_makes_no_sense_is_named() {
    let rows: [(&str, Value, &[&str]); 3] = [
        ("maxPods", json!(-1), &["maxPods"]),
        ("imageGCHighThresholdPercent", json!(101), &["imageGCHighThresholdPercent"]),
        ("healthzPort", json!("http"), &["healthzPort"]),
    ];
    for (field, value, words) in rows {
        let node = Setup::default().config(field, value).prepare();
        let ended = node.run_another(&[]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(words.iter().all(|word| ended.stderr.contains(word)), "{words:?} in {ended:?}");
    }
}

#[test]
fn a_configuration_of_another_release_is_reported_and_the_node_runs() {
    let node = Setup::default().config("noSuchField", 1).config("staticPodPaht", "/tmp/x").start();
    node.until_logged(&["WARN", "config.yaml", "noSuchField: unknown field"]);
    node.until_logged(&["WARN", "config.yaml", "staticPodPaht: unknown field; did you mean staticPodPath?"]);
    node.until("the node", || node.document());
    let file = node.config_file();
    let check = node.run_bare(&["check", "--config", file.to_str().expect("we named it")]);
    assert!(check.code == Some(1) && check.stdout.contains("staticPodPaht"), "{check:?}");
}

#[test]
fn a_second_rubelet_on_the_same_root_directory_is_refused() {
    let mut node = Node::started();
    node.apply(&pod("good", WAIT));
    let good = node.running("good");
    let ended = node.run_another(&[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let root = node.root();
    assert!(ended.stderr.contains(root.to_str().expect("we named it")), "{ended:?}");
    assert!(ended.stderr.contains("another") && ended.stderr.contains(&node.pid().to_string()), "{ended:?}");
    assert!(node.runs());
    unharmed(&node, &good);
    assert!(node.document().is_some(), "the first one still answers");
}

#[test]
fn a_file_that_is_no_manifest_is_named_and_stops_that_pod_alone() {
    let node = Node::started();
    node.apply(&pod("good", WAIT));
    let good = node.running("good");
    let dir = node.manifests();
    node.write("not-yaml", "apiVersion: v1\nkind: [Pod\n");
    node.write("not-a-pod", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n");
    node.write("empty", "");
    node.write("binary", "\u{0}\u{1}\u{2}ELF");
    node.write("too-large", &"#".repeat(TOO_LARGE));
    fs::create_dir(dir.join("directory")).expect("the directory is ours");
    symlink("/no/such/file", dir.join("dangling")).expect("the directory is ours");
    node.write(
        "misspelt",
        &with(pod("misspelt", WAIT), "/spec/containers/0/imagePullPolicy", json!("Sometimes")).to_string(),
    );
    node.write("no-container", &with(pod("none", WAIT), "/spec/containers", json!([])).to_string());

    let rows: [(&str, &[&str]); 8] = [
        ("not-yaml", &["line"]),
        ("not-a-pod", &["Service"]),
        ("binary", &[]),
        ("too-large", &["10485760"]),
        ("directory", &["directory"]),
        ("dangling", &["/no/such/file"]),
        ("misspelt", &["spec.containers[0].imagePullPolicy", "Sometimes"]),
        ("no-container", &["spec.containers"]),
    ];
    for (file, words) in rows {
        let line = node.until_line(file, "as no manifest", |line| line.state == PodState::Invalid);
        let message = line.message.unwrap_or_default();
        assert!(!message.is_empty() && words.iter().all(|word| message.contains(word)), "{words:?} in {message:?}");
        node.until_logged(&["WARN", dir.join(file).to_str().expect("we named it")]);
    }
    unharmed(&node, &good);

    // A good pod whose manifest goes bad runs on as it was.
    node.write("good.json", "{");
    node.until_logged(&["WARN", "good.json"]);
    unharmed(&node, &good);
    // Fixed, it is no problem any more.
    node.apply(&pod("good", WAIT));
    node.write("not-yaml", &pod("mended", WAIT).to_string());
    node.running("mended");
    node.until("its problem to be forgotten", || node.line("not-yaml").is_none().then_some(()));
    unharmed(&node, &good);
}

#[test]
fn two_manifests_with_one_name_are_one_pod_with_an_event() {
    let node = Node::started();
    node.write("a.json", &pod("twice", WAIT).to_string());
    let first = node.running("twice");
    node.write("b.json", &with(pod("twice", WAIT), "/metadata/labels", json!({"from": "b"})).to_string());
    node.until_logged(&["WARN", &node.full_name("twice")]);
    unharmed(&node, &first);
    assert_eq!(node.all_named("twice").len(), 1);

    // Once the first has gone, the second takes its place.
    fs::remove_file(node.manifests().join("a.json")).expect("it was there");
    node.gone(&first.pod);
    assert_ne!(node.running("twice").pod.uid, first.pod.uid);
}

#[test]
fn an_image_or_command_that_cannot_be_had_is_named() {
    let node = Node::started();
    node.apply(&pod("good", WAIT));
    let good = node.running("good");
    let image = |name: &str, image: &str, policy: &str| {
        let pod = with(pod(name, WAIT), "/spec/containers/0/image", json!(image));
        node.apply(&with(pod, "/spec/containers/0/imagePullPolicy", json!(policy)));
    };
    image("never", "rubelet.test/absent:1", "Never");
    // Nobody listens there: no name is looked up and nothing leaves the machine.
    image("refused", "127.0.0.1:1/absent:1", "IfNotPresent");
    image("misnamed", "Not A Name", "IfNotPresent");
    node.apply(&with(pod("no-program", ""), "/spec/containers/0/command", json!(["/no/such/program"])));
    let user = json!({"runAsUser": 0, "runAsNonRoot": true});
    node.apply(&with(pod("no-user", WAIT), "/spec/containers/0/securityContext", user));
    let no_path = json!([{"name": "gone", "hostPath": {"path": "/no/such/path", "type": "Directory"}}]);
    // A volume that no container mounts is not looked at (VOL-04).
    let mounted =
        with(pod("no-path", WAIT), "/spec/containers/0/volumeMounts", json!([{"name": "gone", "mountPath": "/gone"}]));
    node.apply(&with(mounted, "/spec/volumes", no_path));

    let rows: [(&str, &[&str], &str); 4] = [
        ("never", &["ErrImageNeverPull"], "rubelet.test/absent:1"),
        ("refused", &["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"], "127.0.0.1:1/absent:1"),
        ("misnamed", &["InvalidImageName"], "Not A Name"),
        ("no-user", &["CreateContainerConfigError"], "non-root policy"),
    ];
    for (name, reasons, word) in rows {
        let line = node.until_line(name, "with its reason", |line| {
            line.reason.as_deref().is_some_and(|reason| reasons.contains(&reason))
        });
        assert!(line.message.as_ref().is_some_and(|message| message.contains(word)), "{line:?}");
    }
    // A command that does not exist is tried again and again, and what is wrong with it stays in its story.
    node.until_line("no-program", "to back off", |line| line.reason.as_deref() == Some("CrashLoopBackOff"));
    node.until_story("no-program", "with the program's name", |story| {
        story.timeline.iter().any(|step| step.bad && step.what.contains("/no/such/program"))
    });
    let line = node.until_line("no-path", "with its problem", |line| line.message.is_some());
    assert!(line.message.as_ref().is_some_and(|message| message.contains("/no/such/path")), "{line:?}");
    unharmed(&node, &good);
}

#[test]
fn a_full_disk_stops_new_pods_and_they_start_when_there_is_room() {
    let mut node = Setup::default().prepare();
    let size = c"size=256k";
    mount("tmpfs", node.root(), "tmpfs", MountFlags::empty(), Some(size)).expect("a file system can be mounted");
    node.start();
    node.apply(&pod("good", WAIT));
    let good = node.running("good");
    let filler = node.root().join("filler");
    let full = fs::write(&filler, vec![0; 1024 * 1024]).expect_err("there is no room for it");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);

    node.apply(&pod("late", WAIT));
    let line = node.until_line("late", "with its problem", |line| {
        line.message.as_ref().is_some_and(|message| message.contains("No space left on device"))
    });
    let message = line.message.unwrap_or_default();
    assert!(message.contains(node.root().to_str().expect("we named it")), "{message}");
    unharmed(&node, &good);
    assert!(node.runs());

    fs::remove_file(&filler).expect("it is ours");
    node.running("late");
    unharmed(&node, &good);
}

#[track_caller]
fn unharmed(node: &Node, before: &rubelet_core::observe::PodObservation) {
    let now = node.running(before.pod.name.trim_end_matches(&format!("-{}", node.name)));
    assert_eq!(running_ids(&now), running_ids(before), "the other pod goes on");
    assert_eq!(app(&now).marks.restart_count, app(before).marks.restart_count);
    assert!(Path::new(&app(&now).log_path).exists());
}
