//! The environment of the laws.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rubelet_core::id::{ContainerId, PodUid, SandboxId};
use rubelet_core::launch::{ContainerConfig, ImageSpec, NamespaceMode, Namespaces, SandboxConfig, SandboxSecurity};
use rubelet_core::observe::{ContainerObservation, ContainerState, PodObservation};
use rubelet_core::time::Instant;
use rubelet_engine::ports::{Images, Runtime};

use crate::runtime::marks;

/// How often a condition is polled.
const POLL: Duration = Duration::from_millis(20);

/// A runtime under test, and the settings for starting a container.
pub struct Rig {
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Its images.
    pub images: Arc<dyn Images>,
    /// An image that is on the node and holds a shell, `sleep` and `echo`.
    pub image: String,
    /// The log directory. Its subdirectories are made if it is set, as the kubelet would.
    pub log_root: Option<PathBuf>,
    /// Parent cgroup, in the form of the runtime's cgroup driver; empty lets the runtime choose.
    pub cgroup_parent: String,
    /// The network of the sandboxes: the node's if there is no CNI plugin.
    pub network: NamespaceMode,
    /// Prefix of all names and UIDs, so that runs do not collide.
    pub prefix: String,
    /// How long to wait for a condition.
    pub patience: Duration,
    law: Mutex<String>,
}

impl Rig {
    /// A rig with sandboxes on the node's network and no log directory.
    pub fn new(runtime: Arc<dyn Runtime>, images: Arc<dyn Images>, image: &str, prefix: &str) -> Self {
        Self {
            runtime,
            images,
            image: image.into(),
            log_root: None,
            cgroup_parent: String::new(),
            network: NamespaceMode::Node,
            prefix: prefix.into(),
            patience: Duration::from_secs(30),
            law: Mutex::default(),
        }
    }

    /// Sets the law that runs, so that names do not collide.
    pub fn enter(&self, law: &str) {
        *self.law.lock().unwrap_or_else(PoisonError::into_inner) = law.replace('_', "-");
    }

    /// Removes everything that the laws made.
    pub async fn clean(&self) {
        let pods = self.runtime.list().await.expect("listing pods succeeds");
        for pod in pods.into_iter().filter(|pod| pod.pod.uid.as_str().starts_with(&self.prefix)) {
            for id in pod.sandboxes.keys() {
                self.runtime.stop_sandbox(id).await.expect("stopping a sandbox succeeds");
                self.runtime.remove_sandbox(id).await.expect("removing a sandbox succeeds");
            }
        }
    }

    pub(super) fn uid(&self) -> PodUid {
        let law = self.law.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{}-{law}", self.prefix).into()
    }

    pub(super) fn sandbox_config(&self, attempt: u32) -> SandboxConfig {
        let uid = self.uid();
        let name = uid.to_string();
        let directory = format!("default_{name}_{uid}");
        let namespaces =
            Namespaces { network: self.network.clone(), pid: NamespaceMode::Container, ..Namespaces::default() };
        let own_network = self.network != NamespaceMode::Node;
        SandboxConfig {
            name: name.clone(),
            uid: uid.to_string(),
            namespace: "default".into(),
            attempt,
            hostname: if own_network { "contract".into() } else { String::new() },
            log_directory: match &self.log_root {
                Some(root) => root.join(directory).to_string_lossy().into_owned(),
                None => format!("/var/log/pods/{directory}"),
            },
            labels: crate::map([
                (marks::POD_NAME, name.as_str()),
                (marks::POD_NAMESPACE, "default"),
                (marks::POD_UID, uid.as_str()),
            ]),
            cgroup_parent: self.cgroup_parent.clone(),
            security: SandboxSecurity { namespaces, ..SandboxSecurity::default() },
            ..SandboxConfig::default()
        }
    }

    pub(super) fn container_config(&self, name: &str, attempt: u32, command: &[&str]) -> ContainerConfig {
        let sandbox = self.sandbox_config(0);
        let mut labels = sandbox.labels;
        labels.insert(marks::CONTAINER_NAME.into(), name.into());
        let mut security = rubelet_core::launch::ContainerSecurity::default();
        security.namespaces = sandbox.security.namespaces;
        ContainerConfig {
            name: name.into(),
            attempt,
            image: ImageSpec { image: self.image.clone(), ..ImageSpec::default() },
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            labels,
            annotations: crate::map([(marks::HASH, "8e45cbd0"), (marks::RESTART_COUNT, attempt.to_string().as_str())]),
            log_path: format!("{name}/{attempt}.log"),
            security,
            ..ContainerConfig::default()
        }
    }

    pub(super) async fn run_sandbox(&self, attempt: u32) -> SandboxId {
        let config = self.sandbox_config(attempt);
        self.make_log_dir(&config.log_directory);
        self.runtime.run_sandbox(&config).await.expect("a sandbox can be run")
    }

    pub(super) async fn create(&self, sandbox: &SandboxId, config: &ContainerConfig) -> ContainerId {
        let home = self.sandbox_config(0);
        self.make_log_dir(&format!("{}/{}", home.log_directory, config.name));
        self.runtime.create_container(sandbox, config, &home).await.expect("a container can be created")
    }

    /// A started container in a new sandbox.
    pub(super) async fn start(&self, command: &[&str]) -> (SandboxId, ContainerId) {
        let sandbox = self.run_sandbox(0).await;
        let id = self.create(&sandbox, &self.container_config("app", 0, command)).await;
        self.runtime.start_container(&id).await.expect("a container can be started");
        (sandbox, id)
    }

    pub(super) async fn look(&self) -> PodObservation {
        self.runtime.inspect(&self.uid(), Instant::START).await.expect("inspecting a pod succeeds")
    }

    /// Waits until `wanted` is true of the container, or panics with its state.
    pub(super) async fn until(
        &self,
        id: &ContainerId,
        what: &str,
        wanted: impl Fn(&ContainerState) -> bool,
    ) -> ContainerObservation {
        let mut last = None;
        let waited = async {
            loop {
                last = self.look().await.containers.into_iter().find(|c| c.id == *id);
                if let Some(container) = last.clone().filter(|c| wanted(&c.state)) {
                    return container;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        let found = tokio::time::timeout(self.patience, waited).await;
        found.unwrap_or_else(|_| panic!("container {id} is not {what} in time, but {last:?}"))
    }

    /// Waits until the container of [`Rig::start`] has written `text` to its log. A runtime that writes no logs starts its
    /// containers at once.
    pub(super) async fn until_logged(&self, text: &str) {
        if self.log_root.is_none() {
            return;
        }
        let log = format!("{}/app/0.log", self.sandbox_config(0).log_directory);
        let waited = async {
            while !std::fs::read_to_string(&log).is_ok_and(|lines| lines.contains(text)) {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(self.patience, waited)
            .await
            .unwrap_or_else(|_| panic!("{text:?} is not in {log} in time"));
    }

    fn make_log_dir(&self, path: &str) {
        if self.log_root.is_some() {
            std::fs::create_dir_all(path).expect("a log directory can be made");
        }
    }
}
