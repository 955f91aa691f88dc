//! What a container finds when it looks around: its environment, names, files, volumes, user and limits.

use std::fs;

use rubelet_core::observe::ContainerObservation;
use rubelet_core::qos::shares_to_weight;
use rubelet_server::documents::PodState;
use serde_json::{Value, json};

use crate::rig::{NAMED_USER, NONROOT, Node, WAIT, app, cgroup_trees, container, pod, pod_of, with};

#[test]
fn a_container_finds_its_environment_names_and_addresses() {
    let node = Node::started();
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let env = json!([
        {"name": "PLAIN", "value": "one"},
        {"name": "EXPANDED", "value": "$(PLAIN) two $$(PLAIN) $(NOBODY)"},
        field("NAME", "metadata.name"),
        field("NAMESPACE", "metadata.namespace"),
        field("UID", "metadata.uid"),
        field("NODE", "spec.nodeName"),
        field("IP", "status.podIP"),
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]);
    let around = with(pod("around", WAIT), "/spec/containers/0/env", env);
    let around = with(around, "/spec/containers/0/args", json!(["$(PLAIN)"]));
    let around = with(around, "/spec/containers/0/resources", json!({"limits": {"memory": "64Mi"}}));
    let around = with(around, "/spec/hostAliases", json!([{"ip": "192.0.2.7", "hostnames": ["alias.test"]}]));
    node.apply(&with(around, "/spec/dnsConfig", json!({"nameservers": ["192.0.2.53"], "searches": ["pod.test"]})));
    let seen = node.running("around");
    let ip = seen.ips().first().expect("a pod has an address").to_string();

    let env = node.exec(app(&seen), &["env"]);
    let expected = [
        "PLAIN=one".to_owned(),
        "EXPANDED=one two $(PLAIN) $(NOBODY)".to_owned(),
        format!("NAME={}", seen.pod.name),
        "NAMESPACE=default".to_owned(),
        format!("UID={}", seen.pod.uid),
        format!("NODE={}", node.name),
        format!("IP={ip}"),
        "LIMIT=64".to_owned(),
        format!("HOSTNAME={}", seen.pod.name),
    ];
    let missing: Vec<_> = expected.iter().filter(|line| !env.lines().any(|found| found == **line)).collect();
    assert!(missing.is_empty(), "{missing:?} in\n{env}");
    let words = node.exec(app(&seen), &["cat", "/proc/1/cmdline"]);
    assert!(words.ends_with("\0one\0"), "{words:?}");

    assert_eq!(node.exec(app(&seen), &["hostname"]).trim(), &*seen.pod.name);
    let hosts = node.exec(app(&seen), &["cat", "/etc/hosts"]);
    assert!(hosts.starts_with("# Kubernetes-managed hosts file.\n"), "{hosts}");
    assert!(hosts.contains(&format!("{ip}\t{}\n", seen.pod.name)), "{hosts}");
    assert!(hosts.contains("192.0.2.7\talias.test\n"), "{hosts}");
    let resolv = node.exec(app(&seen), &["cat", "/etc/resolv.conf"]);
    assert!(resolv.contains("nameserver 127.0.0.53") && resolv.contains("nameserver 192.0.2.53"), "{resolv}");
    assert!(resolv.contains("node.test") && resolv.contains("pod.test"), "{resolv}");

    // The hash, worked out by hand from upstream's recipe: the restart of another kubelet would keep this container.
    assert_eq!(app(&seen).marks.hash, Some(0xf431_d3c9));
}

#[test]
fn a_pod_on_the_nodes_network_has_the_nodes_names() {
    let node = Node::started();
    node.apply(&with(pod("host", WAIT), "/spec/hostNetwork", json!(true)));
    let seen = node.running("host");
    assert!(seen.ips().is_empty());
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a machine has a name");
    assert_eq!(node.exec(app(&seen), &["hostname"]), host);
    let hosts = node.exec(app(&seen), &["cat", "/etc/hosts"]);
    let own = fs::read_to_string("/etc/hosts").unwrap_or_default();
    assert_eq!(hosts, format!("# Kubernetes-managed hosts file (host network).\n{own}"));
    let interfaces = node.exec(app(&seen), &["ls", "/sys/class/net"]);
    assert!(interfaces.lines().count() > 2, "it sees the node's own: {interfaces}");
}

#[test]
fn volumes_are_shared_kept_and_guarded() {
    let node = Node::started();
    let host = node.host_dir("files");
    fs::write(host.join("file"), "from the host\n").expect("it is ours");
    let volumes = json!([
        {"name": "scratch", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "host", "hostPath": {"path": host, "type": "Directory"}},
        {"name": "made", "hostPath": {"path": node.host_dir("made").join("below"), "type": "DirectoryOrCreate"}},
    ]);
    let mounts = json!([
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "memory", "mountPath": "/memory"},
        {"name": "host", "mountPath": "/host", "readOnly": true},
        {"name": "host", "mountPath": "/one-file", "subPath": "file"},
        {"name": "host", "mountPath": "/expanded", "subPathExpr": "by-$(NAME)"},
        {"name": "made", "mountPath": "/made"},
    ]);
    let env = json!([{"name": "NAME", "value": "name"}]);
    let both = pod_of("volumes", &[container("app", WAIT), container("other", WAIT)]);
    let both = with(both, "/spec/volumes", volumes);
    let both = with(both, "/spec/securityContext", json!({"fsGroup": 2345}));
    let both = with(both, "/spec/containers/0/env", env);
    let both = with(both, "/spec/containers/0/volumeMounts", mounts);
    let shared = json!([{"name": "scratch", "mountPath": "/elsewhere"}]);
    node.apply(&with(both, "/spec/containers/1/volumeMounts", shared));
    let seen = node.until_pod("volumes", "to run both containers", |pod| pod.running().count() == 2);
    let run = |name: &str, script: &str| node.exec(seen.newest(name).expect("it runs"), &["sh", "-c", script]);

    run("app", "echo shared >/scratch/word");
    assert_eq!(run("other", "cat /elsewhere/word"), "shared\n");
    assert_eq!(run("app", "stat -c %g /scratch"), "2345\n");
    assert!(run("app", "id -G").split_whitespace().any(|group| group == "2345"));
    assert_eq!(run("app", "grep ' /memory ' /proc/mounts | cut -d' ' -f3"), "tmpfs\n");
    assert_eq!(run("app", "df -k /memory | tail -n 1 | awk '{print $2}'"), "1024\n");
    assert_eq!(run("app", "cat /host/file /one-file"), "from the host\nfrom the host\n");
    let refused = node.try_exec(&app(&seen).id, &["touch", "/host/new"]).expect("it can be run");
    assert_ne!(refused.exit_code, 0, "the mount is read-only");
    run("app", "touch /expanded/here /made/here");
    assert!(host.join("by-name/here").exists() && node.host_dir("made").join("below/here").exists());

    // Killing the container leaves its volumes.
    let _killed_with_it = node.try_exec(&app(&seen).id, &["kill", "1"]);
    let again = node.until_pod("volumes", "to run again", |pod| {
        pod.running().count() == 2 && pod.newest("app").is_some_and(|app| app.marks.restart_count == 1)
    });
    assert_eq!(node.exec(app(&again), &["cat", "/scratch/word"]), "shared\n");
    assert_eq!(node.exec(app(&again), &["cat", "/one-file"]), "from the host\n");

    node.withdraw("volumes");
    node.gone(&seen.pod);
    assert!(host.join("file").exists(), "what is the host's stays");
}

#[test]
fn a_runtime_class_chooses_among_the_runtimes_handlers() {
    let node = Node::started();
    node.apply(&with(pod("other", WAIT), "/spec/runtimeClassName", json!("runc-alt")));
    node.apply(&with(pod("unknown", WAIT), "/spec/runtimeClassName", json!("nobody")));
    assert_eq!(node.running("other").sandboxes[0].runtime_handler, "runc-alt");
    let line = node.until_line("unknown", "with its problem", |line| line.message.is_some());
    assert!(line.message.as_ref().is_some_and(|message| message.contains("nobody")), "{line:?}");
    assert!(node.all_named("unknown").is_empty(), "nothing was made");
}

#[test]
fn termination_messages_are_reported() {
    let node = Node::started();
    let never = |name: &str, script: &str| with(pod(name, script), "/spec/restartPolicy", json!("Never"));
    node.apply(&never("file", "echo -n last words >/dev/termination-log; exit 3"));
    let from_log = never("log", "echo one; echo two; exit 4");
    let policy = json!("FallbackToLogsOnError");
    node.apply(&with(from_log, "/spec/containers/0/terminationMessagePolicy", policy));
    for (name, code, words) in [("file", 3, "last words"), ("log", 4, "one\ntwo\n")] {
        let story = node.until_story(name, "as failed", |story| story.line.state == PodState::Failed);
        let app = &story.containers[0];
        assert_eq!((app.exit_code, app.message.as_deref()), (Some(code), Some(words)), "{story:#?}");
    }
}

#[test]
fn users_are_as_asked_and_root_is_refused_where_it_must_be() {
    let node = Node::started();
    let asked = |name: &str, image: &str, context: Value| {
        let pod = with(pod(name, WAIT), "/spec/containers/0/image", json!(image));
        node.apply(&with(pod, "/spec/containers/0/securityContext", context));
    };
    let nonroot = json!({"runAsNonRoot": true});
    asked("image-user", NONROOT, nonroot.clone());
    asked("own-user", crate::rig::BUSYBOX, json!({"runAsNonRoot": true, "runAsUser": 65534, "runAsGroup": 2000}));
    asked("named", NAMED_USER, nonroot.clone());
    asked("root", crate::rig::BUSYBOX, nonroot);
    asked("read-only", crate::rig::BUSYBOX, json!({"readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}));
    asked("by-name", NAMED_USER, json!({}));

    let ids = |name: &str| node.exec(app(&node.running(name)), &["sh", "-c", "echo $(id -u):$(id -g)"]);
    assert_eq!(ids("image-user").trim_end().split(':').next(), Some("1000"));
    assert_eq!(ids("own-user"), "65534:2000\n");
    assert_eq!(ids("by-name").trim_end().split(':').next(), Some("1000"));
    let guarded = node.running("read-only");
    assert_ne!(node.try_exec(&app(&guarded).id, &["touch", "/here"]).expect("it can be run").exit_code, 0);
    assert!(node.exec(app(&guarded), &["cat", "/proc/1/status"]).contains("CapEff:\t0000000000000000"));

    // RT-96: a user by name cannot be shown not to be root.
    for (name, words) in [("named", "image has non-numeric user (www)"), ("root", "image will run as root")] {
        let line =
            node.until_line(name, "as refused", |line| line.reason.as_deref() == Some("CreateContainerConfigError"));
        assert!(line.message.as_ref().is_some_and(|message| message.contains(words)), "{line:?}");
        assert_eq!(node.one(name).map(|pod| pod.containers.len()), Some(0), "nothing was made");
    }
}

#[test]
fn a_pod_lives_in_the_cgroup_of_its_class_with_its_limits() {
    let node = Node::started();
    let resources = |name: &str, resources: Value| {
        node.apply(&with(pod(name, WAIT), "/spec/containers/0/resources", resources));
    };
    resources("guaranteed", json!({"limits": {"cpu": "200m", "memory": "64Mi"}}));
    resources("burstable", json!({"requests": {"cpu": "100m", "memory": "96Mi"}, "limits": {"memory": "128Mi"}}));
    resources("besteffort", json!({}));

    // CG-11: of the pod; RT-90 … RT-92: of the container.
    let burstable = (1000 - 1000 * (96 << 20) / memory_of_the_machine()).clamp(3, 999);
    let rows: [(&str, &str, u64, Option<i64>, i64); 3] = [
        ("guaranteed", "kubepods", 204, Some(64 << 20), -997),
        ("burstable", "kubepods/burstable", 102, Some(128 << 20), burstable),
        ("besteffort", "kubepods/besteffort", 2, None, 1000),
    ];
    for (name, level, shares, memory, oom_score) in rows {
        let seen = node.running(name);
        let at = format!("{}/{level}/pod{}", node.cgroup(), seen.pod.uid);
        let within = format!("{at}/{}", app(&seen).id);
        assert_eq!(shares_of(&at), shares, "{name}");
        assert_eq!(memory_of(&at), memory, "{name}");
        assert_eq!(memory_of(&within), memory, "{name}");
        assert!(!read(&within, "pids", "cgroup.procs").trim().is_empty(), "its processes are in {within}");
        assert_oom_score(&node, app(&seen), oom_score);
    }
    // CG-10: the level of burstable pods has what they request together.
    let level = format!("{}/kubepods/burstable", node.cgroup());
    node.until("the level's shares", || (shares_of(&level) == 102).then_some(()));
}

/// On machines where scores cannot be lowered, containerd is configured to leave them at its own.
fn assert_oom_score(node: &Node, container: &ContainerObservation, wanted: i64) {
    let own = fs::read_to_string("/proc/self/oom_score_adj").expect("a process has one");
    let own: i64 = own.trim().parse().expect("a number");
    let found: i64 = node.exec(container, &["cat", "/proc/1/oom_score_adj"]).trim().parse().expect("a number");
    assert!(found == wanted || (wanted < own && found == own), "score {found}, not {wanted}");
}

fn memory_of_the_machine() -> i64 {
    let info = fs::read_to_string("/proc/meminfo").expect("a machine has memory");
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("a total");
    total.trim().trim_end_matches(" kB").parse::<i64>().expect("a number") * 1024
}

fn read(cgroup: &str, controller: &str, file: &str) -> String {
    let trees = cgroup_trees();
    let tree = trees.iter().find(|tree| tree.options.iter().any(|option| option == controller));
    let tree = tree.or(trees.iter().find(|tree| tree.unified)).expect("the machine has cgroups");
    let path = tree.root.join(cgroup).join(file);
    fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

fn is_v2() -> bool {
    std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// In v1's scale, in which upstream's rows are. On v2 shares that give the same weight are the same.
fn shares_of(cgroup: &str) -> u64 {
    if !is_v2() {
        return read(cgroup, "cpu", "cpu.shares").trim().parse().expect("a number");
    }
    let weight: u64 = read(cgroup, "cpu", "cpu.weight").trim().parse().expect("a number");
    [2, 102, 204].into_iter().find(|shares| shares_to_weight(*shares) == weight).unwrap_or(weight)
}

fn memory_of(cgroup: &str) -> Option<i64> {
    let limit =
        if is_v2() { read(cgroup, "memory", "memory.max") } else { read(cgroup, "memory", "memory.limit_in_bytes") };
    limit.trim().parse().ok().filter(|bytes| *bytes < 1 << 60)
}
