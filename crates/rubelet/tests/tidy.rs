//! Which crate may depend on which, and what sources must not contain. Reads the tree; needs no network and no build.

mod tree;

use std::collections::{BTreeMap, BTreeSet};

use tree::{bytes, files, read};

const ADAPTERS: [&str; 7] = ["cri", "cluster", "linux", "volume", "plugins", "probe", "server"];

/// Which crate of ours may name which. What is not here may name none.
const ARROWS: [(&str, &[&str]); 11] = [
    ("core", &[]),
    ("engine", &["core"]),
    ("proto", &[]),
    ("cri", &["core", "engine", "proto"]),
    ("cluster", &["core", "engine"]),
    ("linux", &["core", "engine"]),
    ("volume", &["core", "engine", "proto"]),
    ("plugins", &["core", "engine", "proto"]),
    ("probe", &["core", "engine", "proto"]),
    ("server", &["core", "engine", "proto"]),
    ("testkit", &["core", "engine"]),
];

/// What others made and `core` may use: values and errors, nothing that acts.
const CORE_MAY: [&str; 5] = ["jiff", "k8s-openapi", "serde", "serde_json", "thiserror"];
/// What `engine` may use beside that: tasks and logs, no protocol and no system call.
const ENGINE_MAY: [&str; 5] = ["async-trait", "futures-util", "tokio", "tokio-util", "tracing"];
/// Protocols and system calls: for adapters alone.
const EDGE: [&str; 8] = ["kube", "tonic", "hyper", "hyper-util", "h2", "tokio-rustls", "rustix", "nix"];

/// The dependencies of a crate, by section of its `Cargo.toml`.
fn manifest(krate: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut sections: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in read(&format!("crates/{krate}/Cargo.toml")).lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((name, _)) = line.split_once(['.', ' ', '=']).filter(|_| !line.starts_with('#')) {
            sections.entry(section.clone()).or_default().insert(name.trim().to_owned());
        }
    }
    sections
}

fn crates() -> Vec<String> {
    let manifests = files("crates", &["Cargo.toml"]);
    manifests.iter().filter_map(|path| Some(path.split('/').nth(1)?.to_owned())).collect()
}

/// What a crate needs to be built for the program: neither dev- nor build-dependencies.
fn dependencies(krate: &str) -> BTreeSet<String> {
    manifest(krate).remove("dependencies").unwrap_or_default()
}

fn ours(name: &str) -> Option<&str> {
    name.strip_prefix("rubelet-")
}

#[test]
fn arrows_point_inwards() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into();
    for krate in crates().iter().filter(|krate| *krate != "rubelet") {
        let may = allowed.get(krate.as_str()).unwrap_or_else(|| panic!("crates/{krate} has no place: see ARROWS"));
        for name in dependencies(krate).iter().filter_map(|name| ours(name)) {
            assert!(may.contains(&name), "crates/{krate} must not depend on rubelet-{name}");
        }
    }
}

#[test]
fn adapters_do_not_know_each_other_even_in_tests() {
    for adapter in ADAPTERS {
        for (section, names) in manifest(adapter) {
            let other = names.iter().filter_map(|name| ours(name)).find(|name| ADAPTERS.contains(name));
            assert_eq!(other, None, "crates/{adapter} [{section}]");
        }
    }
}

#[test]
fn the_testkit_is_for_tests_alone() {
    for krate in crates() {
        assert!(!dependencies(&krate).contains("rubelet-testkit"), "crates/{krate} has the testkit in the program");
    }
}

#[test]
fn core_and_engine_use_what_they_may() {
    let core: BTreeSet<&str> = CORE_MAY.into();
    let engine: BTreeSet<&str> = core.iter().copied().chain(ENGINE_MAY).collect();
    for (krate, may) in [("core", core), ("engine", engine)] {
        let odd: Vec<String> = dependencies(krate)
            .into_iter()
            .filter(|name| ours(name).is_none() && !may.contains(name.as_str()))
            .collect();
        assert!(odd.is_empty(), "crates/{krate} must not use {odd:?}");
    }
}

#[test]
fn only_adapters_name_protocols_and_system_calls() {
    for krate in crates() {
        if ADAPTERS.contains(&krate.as_str()) || krate == "proto" {
            continue;
        }
        let edge: Vec<&str> = EDGE.into_iter().filter(|name| dependencies(&krate).contains(*name)).collect();
        assert!(edge.is_empty(), "crates/{krate} must not use {edge:?}");
    }
}

#[test]
fn every_crate_has_the_lints_of_the_workspace() {
    for krate in crates() {
        assert!(read(&format!("crates/{krate}/Cargo.toml")).contains("[lints]\nworkspace = true"), "crates/{krate}");
    }
}

/// Lines of code: without comments, and without this file, which names what it forbids.
fn code_lines() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for file in files("crates", &[".rs"]).into_iter().filter(|file| file != "crates/rubelet/tests/tidy.rs") {
        for (at, line) in read(&file).lines().enumerate() {
            let line = line.trim();
            if !line.starts_with("//") {
                lines.push((format!("{file}:{}", at + 1), line.to_owned()));
            }
        }
    }
    lines
}

fn is_test_file(place: &str) -> bool {
    place.contains("/tests") || place.contains("/benches/") || place.contains("crates/testkit/")
}

#[test]
fn code_is_free_of_what_hides_trouble() {
    for (place, line) in code_lines() {
        let forbidden = |word: &str| assert!(!line.contains(word), "{place}: {word} has no place here: {line}");
        forbidden("#[ignore");
        forbidden("todo!(");
        forbidden("unimplemented!(");
        // Shared modules of tests may have parts that one binary does not use; they say so.
        assert!(
            !line.contains("[allow(") || line.contains("reason = "),
            "{place}: use #[expect(…, reason = \"…\")]: {line}"
        );
    }
}

#[test]
fn unsafe_code_is_in_linux_alone() {
    for (place, line) in code_lines().iter().filter(|(place, _)| !place.starts_with("crates/linux/")) {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '"' && c != '-');
        let named = words.clone().any(|word| word == "unsafe") && !line.contains('"');
        assert!(!named && !words.clone().any(|word| word == "unsafe_code"), "{place}: {line}");
    }
}

#[test]
fn core_decides_and_does_nothing_else() {
    let forbidden = [
        "async fn",
        ".await",
        "std::fs",
        "std::env::",
        "std::thread",
        "std::process",
        "TcpStream",
        "UnixStream",
        "SystemTime",
        "OnceLock",
        "LazyLock",
        "thread_local!",
        "static mut",
    ];
    for (place, line) in code_lines() {
        if place.starts_with("crates/core/src/") && !is_test_file(&place) {
            for word in forbidden {
                // A table that is only ever read, built at first use, is a constant by another name.
                if word == "LazyLock" && place.starts_with("crates/core/src/manifest/schema.rs") {
                    continue;
                }
                assert!(!line.contains(word), "{place}: {word} has no place in core: {line}");
            }
        }
    }
}

/// The books of the pools for blocking calls, which callers of every crate share (ADR 14).
const LOCKED: &str = "crates/engine/src/blocking";

#[test]
fn core_and_engine_hold_no_lock() {
    for (place, line) in code_lines() {
        if place.starts_with(LOCKED) {
            continue;
        }
        if (place.starts_with("crates/core/src/") || place.starts_with("crates/engine/src/")) && !is_test_file(&place) {
            for word in ["Mutex<", "RwLock<", "Mutex::new", "RwLock::new"] {
                assert!(!line.contains(word), "{place}: {line}");
            }
        }
    }
}

/// What may hang or takes long, and the places that know how to call it: in a pool of `engine::blocking`, before there is
/// a runtime, or on a path that cannot hang.
const MAY_BLOCK: [(&str, &[&str]); 5] = [
    (
        "std::fs",
        &[
            "crates/linux/src/",
            "crates/volume/src/host_path.rs",
            "crates/cluster/src/api/credentials.rs",
            "crates/cluster/src/api/kubeconfig.rs",
            "crates/cluster/src/certs/",
            "crates/cluster/src/file/",
            "crates/cluster/src/logins",
            "crates/cluster/src/pod_cache/",
            "crates/server/src/api/tls.rs",
            "crates/server/src/local/socket.rs",
            "crates/rubelet/src/",
        ],
    ),
    ("Command::new", &["crates/cluster/src/", "crates/linux/src/", "crates/rubelet/src/"]),
    ("lookup_host", &[]),
    (
        "to_socket_addrs",
        &[
            "crates/probe/src/names.rs",
            "crates/linux/src/host/addresses.rs",
            "crates/cluster/src/api/",
            "crates/server/src/api/upgrade.rs",
        ],
    ),
    ("spawn_blocking", &["crates/engine/src/blocking.rs"]),
];

#[test]
fn what_may_block_is_called_where_it_may_be() {
    for (place, line) in code_lines().iter().filter(|(place, _)| place.contains("/src/") && !is_test_file(place)) {
        for (word, places) in MAY_BLOCK {
            let may = !line.contains(word) || places.iter().any(|may| place.starts_with(may));
            assert!(may, "{place}: {word} has no place here; see engine::blocking: {line}");
        }
    }
}

#[test]
fn no_file_names_a_machine_or_a_package_registry() {
    // In two halves, so that this file does not name what it forbids.
    let hosts = [
        ("crates", "io"),
        ("golang", "org"),
        ("debian", "org"),
        ("pypi", "org"),
        ("npmjs", "com"),
        ("rubygems", "org"),
    ]
    .map(|(name, end)| format!("{name}.{end}"));
    // This machine's own places: the checkout, and what is in the user's home.
    let home = std::env::var("HOME").unwrap_or_else(|_| "/nowhere".to_owned());
    let checkout = env!("CARGO_MANIFEST_DIR").trim_end_matches("/crates/rubelet").to_owned();
    let homes = [checkout, format!("{home}/."), format!("{home}/go")].map(|place| place.replace("//", "/"));
    let mut all = files("crates", &[".rs", ".toml", ".md", ".proto"]);
    all.extend(files("docs", &[""]));
    all.extend(files("tests", &[""]));
    all.extend(files("examples", &[""]));
    all.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(str::to_owned));
    all.extend(["Makefile", "Cargo.toml", "deny.toml", ".ci/run"].map(str::to_owned));
    // The names of Go's modules are hosts, and these files hold nothing else.
    let exempt = ["/tidy.rs", "/go.mod", "/go.sum"];
    for file in all.iter().filter(|file| !exempt.iter().any(|end| file.ends_with(end))) {
        let Ok(text) = String::from_utf8(bytes(file)) else { continue };
        for word in hosts.iter().chain(&homes) {
            assert!(!text.contains(word.as_str()), "{file} names {word}");
        }
    }
}

/// Names that an engineer who knows upstream's kubelet will search for.
const KNOWN_BY: [&str; 32] = [
    "syncLoop",
    "syncLoopIteration",
    "syncLoopMonitor",
    "HandlePodAdditions",
    "HandlePodUpdates",
    "HandlePodRemoves",
    "HandlePodReconcile",
    "HandlePodCleanups",
    "podWorkers",
    "managePodLoop",
    "UpdatePod",
    "completeWork",
    "SyncPod",
    "SyncTerminatingPod",
    "SyncTerminatedPod",
    "SyncKnownPods",
    "killPodNow",
    "podSyncStatus",
    "GenericPLEG",
    "EventedPLEG",
    "podCache",
    "computePodActions",
    "podActions",
    "kubeGenericRuntimeManager",
    "startContainer",
    "createPodSandbox",
    "killContainer",
    "generateAPIPodStatus",
    "statusManager",
    "PodConfig",
    "podManager",
    "containerGC",
];

#[test]
fn upstreams_names_lead_to_ours() {
    let text: String = files("crates", &[".rs"]).iter().map(|file| read(file)).collect();
    let lost: Vec<&str> =
        KNOWN_BY.into_iter().filter(|name| !text.contains(&format!("#[doc(alias = \"{name}\")]"))).collect();
    assert!(lost.is_empty(), "no #[doc(alias)] for {lost:?}");
}
