//! What a watch on the API server sees, and when.
//!
//! The watch has a thread and a connection of its own, so that nothing that the benchmark does delays a time. Each change
//! of a pod is timed as it arrives. That a pod is gone is timed once all that arrived with it has been read, which takes
//! less than a millisecond.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::{Node, Pod};
use rubelet_cluster::api::{Client, Credentials, Kubeconfig, Options, Reflector, Set, Watched};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::Rng;
use rubelet_engine::task::TaskGroup;
use rubelet_linux::host::rng::KernelRng;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What has been seen of one pod. Times are of the first event that showed it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) uid: String,
    version: String,
    /// How often the object changed.
    pub(crate) changes: u32,
    pub(crate) running: Option<Instant>,
    pub(crate) ready: Option<Instant>,
    is_ready: bool,
    /// How often Ready went from True to False.
    pub(crate) flips: u32,
    /// The first container.
    pub(crate) container_id: String,
    pub(crate) restarts: i32,
    /// The first container has ended, or has ended and was started again.
    pub(crate) ended: Option<Instant>,
    /// … and runs again.
    pub(crate) restarted: Option<Instant>,
    pub(crate) gone: Option<Instant>,
}

impl Seen {
    fn take(&mut self, pod: &Pod, now: Instant) {
        let version = pod.metadata.resource_version.as_deref().unwrap_or_default();
        if version == self.version {
            return;
        }
        version.clone_into(&mut self.version);
        self.changes += 1;
        pod.metadata.uid.as_deref().unwrap_or_default().clone_into(&mut self.uid);
        let Some(status) = &pod.status else { return };
        if status.phase.as_deref() == Some("Running") {
            self.running.get_or_insert(now);
        }
        let mut conditions = status.conditions.iter().flatten();
        let ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if ready {
            self.ready.get_or_insert(now);
        }
        // A pod that is being deleted is meant to become unready.
        if self.is_ready && !ready && pod.metadata.deletion_timestamp.is_none() {
            self.flips += 1;
        }
        self.is_ready = ready;
        let Some(first) = status.container_statuses.iter().flatten().next() else { return };
        first.container_id.as_deref().unwrap_or_default().clone_into(&mut self.container_id);
        self.restarts = first.restart_count;
        let state = first.state.as_ref();
        if state.is_some_and(|state| state.terminated.is_some()) || first.restart_count > 0 {
            self.ended.get_or_insert(now);
        }
        if first.restart_count > 0 && state.is_some_and(|state| state.running.is_some()) {
            self.restarted.get_or_insert(now);
        }
    }
}

/// All that has been seen.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) pods: BTreeMap<String, Seen>,
    /// Since when the node is Ready; nothing while it is not, or is not there.
    pub(crate) node_ready: Option<Instant>,
}

/// A handle on what the watch sees.
pub(crate) struct Sight {
    world: Arc<Mutex<World>>,
    news: watch::Receiver<()>,
    cancel: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Sight {
    /// Watches the pods of a namespace, and the node.
    pub(crate) fn start(config: Kubeconfig, namespace: &str, node: &str) -> anyhow::Result<Self> {
        let (changed, news) = watch::channel(());
        let world = Arc::new(Mutex::new(World::default()));
        let cancel = CancellationToken::new();
        let watching = Watching { world: Arc::clone(&world), changed: Arc::new(changed) };
        let (pods, node) = (format!("/api/v1/namespaces/{namespace}/pods"), format!("metadata.name={node}"));
        let stop = cancel.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start a runtime")?;
        let thread = std::thread::spawn(move || runtime.block_on(watching.run(config, pods, node, stop)));
        Ok(Self { world, news, cancel, thread: Some(thread) })
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pod(&self, name: &str) -> Seen {
        self.world().pods.get(name).cloned().unwrap_or_default()
    }

    /// Waits until `look` finds something.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        patience: Duration,
        look: impl Fn(&World) -> Option<T>,
    ) -> anyhow::Result<T> {
        let mut news = self.news.clone();
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            news.borrow_and_update();
            if let Some(found) = look(&self.world()) {
                return Ok(found);
            }
            match tokio::time::timeout_at(deadline, news.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => bail!("the watch has ended"),
                Err(_) => bail!("waited in vain for {what}, {patience:?}"),
            }
        }
    }

    /// Waits until something is so of each of these pods, and answers with when that was first seen of each.
    pub(crate) async fn all(
        &self,
        names: &[String],
        what: &str,
        patience: Duration,
        when: impl Fn(&Seen) -> Option<Instant>,
    ) -> anyhow::Result<Vec<Instant>> {
        let all = |world: &World| names.iter().map(|name| world.pods.get(name).and_then(&when)).collect();
        self.until(what, patience, all).await
    }
}

impl Drop for Sight {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// A client with a connection of its own.
pub(crate) fn connect(config: Kubeconfig, tasks: &mut TaskGroup) -> Client {
    let options = Options { user_agent: "rubelet-bench".to_owned(), ..Options::default() };
    Client::new(config.endpoint, Credentials::new(config.user), &options, Clock::real(), tasks)
}

#[derive(Clone)]
struct Watching {
    world: Arc<Mutex<World>>,
    changed: Arc<watch::Sender<()>>,
}

impl Watching {
    async fn run(self, config: Kubeconfig, pods: String, node: String, cancel: CancellationToken) {
        let mut tasks = TaskGroup::new(&cancel);
        let client = connect(config, &mut tasks);
        let rng: Arc<dyn Rng> = Arc::new(KernelRng::default());
        let watched = Watched { path: pods, ..Watched::default() };
        let (changes, ends) = (self.clone(), self.clone());
        let reflector = Reflector::<Pod>::new(client.clone(), watched, Arc::clone(&rng));
        let reflector = reflector.prepared(move |pod, _| changes.pod(pod));
        tasks.start("pods", reflector.run(move |set: &Set<Pod>| ends.ends(set), tasks.cancel_token()));
        let watched = Watched { path: "/api/v1/nodes".to_owned(), field_selector: Some(node), ..Watched::default() };
        let reflector = Reflector::<Node>::new(client, watched, rng);
        tasks.start("node", reflector.run(move |set: &Set<Node>| self.node(set), tasks.cancel_token()));
        cancel.cancelled().await;
        tasks.stop().await;
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pod(&self, pod: &Pod) {
        let now = Instant::now();
        let name = pod.metadata.name.clone().unwrap_or_default();
        self.world().pods.entry(name).or_default().take(pod, now);
        self.changed.send_replace(());
    }

    fn ends(&self, set: &Set<Pod>) {
        let now = Instant::now();
        let there: std::collections::BTreeSet<&str> =
            set.objects().filter_map(|pod| pod.metadata.name.as_deref()).collect();
        let mut world = self.world();
        for (name, seen) in &mut world.pods {
            if !there.contains(name.as_str()) {
                seen.gone.get_or_insert(now);
            }
        }
        drop(world);
        self.changed.send_replace(());
    }

    fn node(&self, set: &Set<Node>) {
        let now = Instant::now();
        let mut conditions = set.objects().filter_map(|node| node.status.as_ref()?.conditions.as_ref()).flatten();
        let ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let mut world = self.world();
        world.node_ready = if ready { world.node_ready.or(Some(now)) } else { None };
        drop(world);
        self.changed.send_replace(());
    }
}
