//! Where a container's log is, for `rubelet logs`. The command itself reads the files.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use rubelet_core::id::ContainerId;
use rubelet_core::pod::PodExt;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::sync_loop::NodeView;
use serde::{Deserialize, Serialize};

use super::{Entry, Miss, entries, find};
use crate::api::instance;

/// The annotation that names the container that a user means who names none. upstream: kubectl pkg/cmd/util/podcmd (v1.36)
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Whose log is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogAsk {
    /// The word that names the pod.
    pub pod: String,
    /// The container; without one, the pod's default container.
    pub container: Option<String>,
    /// That of the instance before the present one.
    pub previous: bool,
    /// Answer when this instance has ended.
    pub until_end_of: Option<String>,
}

/// Where a container's log is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogDocument {
    /// `namespace/name`.
    pub pod: String,
    /// The container.
    pub container: String,
    /// The pod's other containers, if the request named none.
    pub others: Vec<String>,
    /// The instance, by the runtime's id.
    pub id: String,
    /// Its log file.
    pub path: String,
    /// The instances of the pod that run.
    pub running: Vec<String>,
}

/// Where the log is.
///
/// # Errors
/// There is no such pod, or the container has no log.
pub fn pod_log(view: &NodeView, ask: &LogAsk) -> Result<LogDocument, Miss> {
    let entries = entries(view);
    let lines: Vec<_> = entries.iter().map(|(_, line)| line).collect();
    let index = find::find(&lines, &ask.pod)?;
    let no_log = |why: String| Miss::NoLog { why };
    match entries.get(index) {
        Some((Entry::Pod(pod), _)) => of_pod(pod, ask).map_err(no_log),
        Some((Entry::Rejected(_) | Entry::Bad(_), _)) | None => {
            Err(no_log(format!("pod {:?} has never run here and has no logs", ask.pod)))
        }
    }
}

fn of_pod(pod: &WorkerView, ask: &LogAsk) -> Result<LogDocument, String> {
    let names = names(&pod.status);
    let container = match &ask.container {
        Some(name) => name.clone(),
        None => default_container(pod, &names).ok_or("the pod has no containers yet")?,
    };
    if !names.contains(&container) {
        return Err(format!("pod {} has no container {container:?}; it has {}", pod.pod.name, names.join(", ")));
    }
    let id = instance(&pod.status, &pod.pod.name, &container, ask.previous)?;
    let id: ContainerId = id.split_once("://").map_or(id.as_str(), |(_, raw)| raw).into();
    let seen = pod.seen.as_ref().ok_or("the pod has not been looked at yet: ask again")?;
    let found = seen.containers.iter().find(|seen| seen.id == id);
    let found = found.ok_or_else(|| format!("the runtime has removed container {container} and its log"))?;
    Ok(LogDocument {
        pod: format!("{}/{}", pod.pod.namespace, pod.pod.name),
        others: names.into_iter().filter(|name| ask.container.is_none() && *name != container).collect(),
        container,
        id: id.to_string(),
        path: found.log_path.clone(),
        running: seen.running().map(|container| container.id.to_string()).collect(),
    })
}

/// The container that `kubectl logs` reads: the one that the pod's annotation names, else the first regular one.
fn default_container(pod: &WorkerView, names: &[String]) -> Option<String> {
    let spec = pod.spec.as_deref();
    let named = spec.and_then(|spec| spec.metadata.annotations.as_ref()?.get(DEFAULT_CONTAINER));
    let first = spec.and_then(|spec| spec.regular().first()).map(|container| &container.name);
    named.filter(|name| names.contains(name)).or(first).or(names.first()).cloned()
}

/// The pod's containers, regular ones first.
fn names(status: &PodStatus) -> Vec<String> {
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().map(|ContainerStatus { name, .. }| name.clone()).collect()
}
