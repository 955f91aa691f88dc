//! A node under test: the real rubelet on the runtime under test, in a directory, a cgroup and under a name of its own.
//!
//! What the runtime answers over CRI is the truth here, asked directly and not through rubelet. Every wait is for a
//! condition, with a bound. Processes that a test starts are ended by PID; [`Drop`] takes away all that the node left, and
//! the next node takes away what a killed test left.

mod containerd;
mod manifest;
mod remains;
mod rubelet;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use rubelet_cri::{Connection, ConnectionOptions, CriImages, CriRuntime, Endpoint, ListMode, OperationMetrics};
use rubelet_engine::clock::Clock;
use serde_json::{Value, json};

pub(crate) use containerd::Containerd;
pub(crate) use manifest::*;
pub(crate) use remains::*;
pub(crate) use world::*;

/// How long a condition may take to come true. Far more than anything takes on an idle machine: a busy one must not
/// make a test fail, and a test that passes does not wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(50);
/// Begins the name of every directory and cgroup of a node under test.
const PREFIX: &str = "rubelet-node.";
/// In a node's directory: the test process that it belongs to.
const OWNER: &str = "owner";

/// The socket of the runtime under test. A test that finds none fails: a tier that did not run must not look as if it
/// passed.
pub(crate) fn containerd_socket() -> PathBuf {
    assert!(
        std::env::var_os("RUBELET_NODE_TESTS").is_some(),
        "node tests need a machine prepared for them: run `make test`"
    );
    std::env::var_os("RUBELET_TEST_CONTAINERD_SOCK").expect("set by tests/env/test.sh").into()
}

/// How the node differs from an ordinary one.
#[derive(Default)]
pub(crate) struct Setup {
    config: BTreeMap<String, Value>,
    endpoint: Option<PathBuf>,
}

impl Setup {
    /// Sets a field of the configuration file.
    pub(crate) fn config(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.config.insert(field.into(), value.into());
        self
    }

    /// The socket for rubelet to use instead of that of the runtime under test.
    pub(crate) fn endpoint(mut self, socket: impl Into<PathBuf>) -> Self {
        self.endpoint = Some(socket.into());
        self
    }

    /// The node, with rubelet not started.
    pub(crate) fn prepare(self) -> Node {
        Node::new(self)
    }

    /// The node, with rubelet started.
    pub(crate) fn start(self) -> Node {
        let mut node = self.prepare();
        node.start();
        node
    }
}

/// A node under test.
pub(crate) struct Node {
    /// Its name, which ends the names of its pods.
    pub(crate) name: String,
    /// The runtime under test.
    pub(crate) cri: Arc<CriRuntime>,
    /// Its images.
    pub(crate) images: Arc<CriImages>,
    pub(crate) clock: Clock,
    dir: PathBuf,
    child: Option<Child>,
    tokio: tokio::runtime::Runtime,
}

impl Node {
    fn new(setup: Setup) -> Self {
        let socket = containerd_socket();
        remains::sweep_dead_tests();
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir().expect("a directory can be made").keep();
        std::fs::write(dir.join(OWNER), std::process::id().to_string()).expect("it can be written to");
        let name = dir.file_name().and_then(|n| n.to_str()).expect("we named it").replace('.', "-").to_lowercase();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio starts");
        let (cri, images, clock) = tokio.block_on(async { connect(&socket) });
        let node = Self { name, cri, images, clock, dir, child: None, tokio };
        for dir in [node.root(), node.manifests(), node.logs(), node.dir.join("drafts")] {
            std::fs::create_dir_all(dir).expect("a directory can be made");
        }
        remains::make_cgroup(&node.cgroup());
        node.empty_the_runtime();
        node.write_config(setup.config, setup.endpoint.as_deref().unwrap_or(&socket));
        node
    }

    fn write_config(&self, fields: BTreeMap<String, Value>, socket: &Path) {
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "staticPodPath": self.manifests(),
            "podLogsDir": self.logs(),
            "containerRuntimeEndpoint": format!("unix://{}", socket.display()),
            "cgroupRoot": format!("/{}", self.cgroup()),
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": false,
            "failSwapOn": false,
            // No registry can be reached: an image that was removed could not be pulled again.
            "imageGCHighThresholdPercent": 100,
            // The disk is shared with other work, and may be nearly full.
            "evictionHard": {"memory.available": "100Mi"},
            "enableServer": false,
            "healthzPort": 0,
            // What the machine's own file says is no part of a test.
            "resolvConf": self.dir.join("resolv.conf"),
        });
        std::fs::write(self.dir.join("resolv.conf"), "nameserver 127.0.0.53\nsearch node.test\n").expect("it is ours");
        for (field, value) in fields {
            config[field] = value;
        }
        std::fs::write(self.config_file(), config.to_string()).expect("the directory is ours");
    }

    /// An ordinary node.
    pub(crate) fn started() -> Self {
        Setup::default().start()
    }

    /// rubelet's root directory.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// Where manifests are.
    pub(crate) fn manifests(&self) -> PathBuf {
        self.dir.join("manifests")
    }

    /// Where pod logs are.
    pub(crate) fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// A directory for what a test needs on the host, made if need be.
    pub(crate) fn host_dir(&self, name: &str) -> PathBuf {
        let dir = self.dir.join("host").join(name);
        std::fs::create_dir_all(&dir).expect("a directory can be made");
        dir
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.dir.join("config.yaml")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.join("rubelet.log")
    }

    /// The cgroup in which all of this node's are, without a leading slash.
    pub(crate) fn cgroup(&self) -> String {
        self.dir.file_name().and_then(|n| n.to_str()).expect("we named it").to_owned()
    }

    /// Runs a future to its end.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.tokio.block_on(future)
    }

    /// Lets time pass, bounded: for a test of what happens in time, never to hope that something has happened.
    pub(crate) fn let_pass(&self, time: Duration) {
        self.block_on(async { tokio::time::sleep(time).await });
    }

    /// Waits until `ask` has an answer; fails with what was waited for, and the node's own log.
    pub(crate) fn until<T>(&self, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        self.until_or(what, || ask().ok_or_else(String::new))
    }

    /// The same; an answer that is not the one says how it is instead.
    pub(crate) fn until_or<T>(&self, what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
        let began = self.clock.mono();
        loop {
            match ask() {
                Ok(answer) => return answer,
                Err(_) if self.clock.mono().since(began) < PATIENCE => self.let_pass(POLL),
                Err(instead) => {
                    let world = self.describe();
                    panic!("waited {PATIENCE:?} for: {what}\ninstead: {instead}\nthe runtime has:\n{world}")
                }
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed || std::env::var_os("RUBELET_TEST_SHOW_LOG").is_some() {
            eprintln!("--- log of rubelet on {} ---\n{}--- end of log ---", self.name, self.log());
        }
        self.end();
        self.empty_the_runtime();
        let left = remains::remove_node(&self.dir, &self.cgroup());
        if !left.is_empty() {
            eprintln!("left behind: {left:#?}");
        }
        assert!(failed || left.is_empty(), "something was left behind");
    }
}

/// Must be called within tokio.
fn connect(socket: &Path) -> (Arc<CriRuntime>, Arc<CriImages>, Clock) {
    let clock = Clock::real();
    let endpoint: Endpoint = format!("unix://{}", socket.display()).parse().expect("a socket is an endpoint");
    let now = clock.clone();
    let options = ConnectionOptions {
        request_timeout: PATIENCE,
        list_mode: ListMode::Whole,
        metrics: Arc::new(OperationMetrics::default()),
        now: Arc::new(move || now.mono()),
        tracer: rubelet_engine::trace::Tracer::off(),
        kept: None,
    };
    let connection = Connection::lazy(&endpoint, options);
    (Arc::new(CriRuntime::new(connection.clone())), Arc::new(CriImages::new(connection)), clock)
}
