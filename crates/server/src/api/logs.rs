//! `/containerLogs`: selects the instance of the container and serves its log (LOG-05, LOG-06).
//! upstream: kubelet_pods.go GetKubeletContainerLogs, validateContainerLogStatus (v1.36)

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::StatusCode;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use rubelet_core::id::{ContainerId, PodUid};
use rubelet_engine::chain::Chain;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{LogReader, LogText, RuntimeView};
use rubelet_engine::sync_loop::KnownPod;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answers::{Answer, Body, stream, text};
use super::log_options::LogOptions;
use crate::watched::WatchedNode;

/// Pause between a change on the node and the check whether the container still runs: the status follows a moment later, and
/// on a busy node not every change leads to a check.
const SETTLE: Duration = Duration::from_millis(300);

/// Concurrent log readers. Each costs two file descriptors and some hundred kilobytes of buffers.
pub(super) const MOST_READERS: usize = 512;

/// Serves logs.
pub(super) struct Logs {
    node: Arc<dyn WatchedNode>,
    runtime: Arc<dyn RuntimeView>,
    reader: Arc<dyn LogReader>,
    clock: Clock,
    readers: Arc<Semaphore>,
}

impl Logs {
    pub(super) fn new(
        node: Arc<dyn WatchedNode>,
        runtime: Arc<dyn RuntimeView>,
        reader: Arc<dyn LogReader>,
        clock: Clock,
    ) -> Self {
        Self { node, runtime, reader, clock, readers: Arc::new(Semaphore::new(MOST_READERS)) }
    }

    pub(super) async fn answer(&self, pod: &KnownPod, container: &str, options: &LogOptions) -> Answer {
        let id = match instance(&pod.status, &pod.reference.name, container, options.previous) {
            Ok(id) => id,
            Err(why) => return text(StatusCode::BAD_REQUEST, why),
        };
        let Ok(place) = Arc::clone(&self.readers).try_acquire_owned() else {
            return text(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many logs of this node are being read: try again later\n",
            );
        };
        // From here on errors are sent in the body with status 200, as upstream does.
        let raw: ContainerId = id.split_once("://").map_or(id.as_str(), |(_, raw)| raw).into();
        let unknown = || text(StatusCode::OK, format!("unable to retrieve container logs for {id}"));
        let uid = &pod.reference.uid;
        let Ok(seen) = self.runtime.inspect(uid, self.clock.mono()).await else { return unknown() };
        let Some(found) = seen.containers.iter().find(|container| container.id == raw) else { return unknown() };
        match self.reader.open(&found.log_path, &options.wish).await {
            Ok(log) => {
                let (node, runtime, clock) = (Arc::clone(&self.node), Arc::clone(&self.runtime), self.clock.clone());
                let ended = ContainerExit { node, runtime, clock }.wait(uid.clone(), raw);
                let ended = options.wish.follow.then(|| Box::pin(ended) as _);
                stream(body(LogStream { log, ended, _place: place }))
            }
            Err(err) => text(StatusCode::OK, format!("failed to open log file: {}", Chain(&err))),
        }
    }
}

/// The id of the requested instance, or why there is none.
pub(crate) fn instance(status: &PodStatus, pod: &str, container: &str, previous: bool) -> Result<String, String> {
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    let about = |what: &str| Err(format!("container {container:?} in pod {pod:?} {what}"));
    let Some(found) = all.find(|found| found.name == container) else { return about("is not available") };
    let ContainerStatus { state, last_state, container_id, .. } = found;
    let state = state.as_ref();
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let runs = state.is_some_and(|state| state.running.is_some());
    let known = |id: &Option<String>| id.clone().filter(|id| !id.is_empty());
    let ended = state.and_then(|state| state.terminated.as_ref());
    let last = last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let last_id = last.and_then(|last| known(&last.container_id));
    if previous {
        let none = || format!("previous terminated container {container:?} in pod {pod:?} not found");
        return last_id.ok_or_else(none);
    }
    if runs {
        return Ok(container_id.clone().unwrap_or_default());
    }
    if let Some(ended) = ended {
        // Without an id the terminated instance was never created: the one before it has the log.
        return known(&ended.container_id).or(last_id).map_or_else(|| about("is terminated"), Ok);
    }
    if last.is_some() {
        return last_id.map_or_else(|| about("is terminated"), Ok);
    }
    match waiting.map(|waiting| waiting.reason.as_deref().unwrap_or_default()) {
        Some("ErrImagePull") => about("is waiting to start: image can't be pulled"),
        Some("ImagePullBackOff") => about("is waiting to start: trying and failing to pull image"),
        Some(reason) => about(&format!("is waiting to start: {reason}")),
        None => about("is waiting to start - no logs yet"),
    }
}

/// Waits for a container's exit without polling: a check follows each change that the sync loop announces.
struct ContainerExit {
    node: Arc<dyn WatchedNode>,
    runtime: Arc<dyn RuntimeView>,
    clock: Clock,
}

impl ContainerExit {
    async fn wait(self, uid: PodUid, id: ContainerId) {
        let mut news = self.node.news();
        loop {
            news.borrow_and_update();
            if !self.runs(&uid, &id).await {
                return;
            }
            // The sync loop has ended: the process is ending.
            if news.changed().await.is_err() {
                return;
            }
            tokio::time::sleep(SETTLE).await;
        }
    }

    async fn runs(&self, uid: &PodUid, id: &ContainerId) -> bool {
        let Some(found) = self.node.pod(uid).await else { return false };
        let ours = |status: &&ContainerStatus| {
            status
                .container_id
                .as_ref()
                .and_then(|found| found.split_once("://"))
                .is_some_and(|(_, raw)| raw == id.as_str())
        };
        let runs = found.is_some_and(|found| {
            let status = found.status;
            let lists =
                [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
            let found = lists.into_iter().flatten().flatten().find(ours);
            found.and_then(|found| found.state.as_ref()).is_some_and(|state| state.running.is_some())
        });
        if runs {
            return true;
        }
        // The status may be older than the container. If the runtime does not respond, the container may still run.
        match RuntimeView::inspect(self.runtime.as_ref(), uid, self.clock.mono()).await {
            Ok(seen) => seen.containers.iter().any(|container| container.id == *id && container.state.is_running()),
            Err(_) => true,
        }
    }
}

struct LogStream {
    log: Box<dyn LogText>,
    /// For a followed log, the exit of its container.
    ended: Option<BoxFuture<'static, ()>>,
    /// The permit of this reader.
    _place: OwnedSemaphorePermit,
}

/// The log as a body: read at the client's pace, and ended after the container's exit.
fn body(reading: LogStream) -> Body {
    let pieces = stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        match reading.next().await {
            Ok(Some(piece)) => Some((Ok(Frame::data(Bytes::from(piece))), Some(reading))),
            Ok(None) => None,
            Err(err) => Some((Ok(Frame::data(Bytes::from(format!("failed to read log file: {}", Chain(&err))))), None)),
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

impl LogStream {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, rubelet_engine::ports::FileError> {
        if let Some(ended) = &mut self.ended {
            tokio::select! {
                biased;
                // Both are cancel-safe: the log documents it, and the other future is kept.
                piece = self.log.next() => return piece,
                () = ended => {}
            }
            self.ended = None;
            self.log.finish();
        }
        self.log.next().await
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated};

    use super::*;
    use crate::testing::{end, ended, running, status, waiting};

    fn with_id(mut status: ContainerStatus, id: &str) -> ContainerStatus {
        status.container_id = Some(id.into());
        if let Some(ended) = status.state.as_mut().and_then(|state| state.terminated.as_mut()) {
            ended.container_id = Some(id.into());
        }
        status
    }

    fn after(mut status: ContainerStatus, id: Option<&str>) -> ContainerStatus {
        let mut last: ContainerState = end(1, "Error", 60);
        if let Some(ContainerStateTerminated { container_id, .. }) = &mut last.terminated {
            *container_id = id.map(str::to_owned);
        }
        status.last_state = Some(last);
        status
    }

    #[test]
    fn log_06_which_instance_or_why_none() {
        let none = || ContainerStatus { name: "app".into(), ..ContainerStatus::default() };
        let creating = || waiting("app", "ContainerCreating", "");
        let rows = [
            (with_id(running("app", 5, true), "c://2"), false, Ok("c://2")),
            (
                with_id(running("app", 5, true), "c://2"),
                true,
                Err("previous terminated container \"app\" in pod \"web\" not found"),
            ),
            (after(with_id(running("app", 5, true), "c://2"), Some("c://1")), true, Ok("c://1")),
            (with_id(ended("app", 0, "Completed", 5), "c://2"), false, Ok("c://2")),
            (ended("app", 0, "Completed", 5), false, Err("container \"app\" in pod \"web\" is terminated")),
            (after(ended("app", 128, "StartError", 5), Some("c://1")), false, Ok("c://1")),
            (after(waiting("app", "CrashLoopBackOff", ""), Some("c://1")), false, Ok("c://1")),
            (
                after(waiting("app", "CrashLoopBackOff", ""), None),
                false,
                Err("container \"app\" in pod \"web\" is terminated"),
            ),
            (creating(), false, Err("container \"app\" in pod \"web\" is waiting to start: ContainerCreating")),
            (creating(), true, Err("previous terminated container \"app\" in pod \"web\" not found")),
            (
                waiting("app", "PodInitializing", ""),
                false,
                Err("container \"app\" in pod \"web\" is waiting to start: PodInitializing"),
            ),
            (
                waiting("app", "ErrImagePull", ""),
                false,
                Err("container \"app\" in pod \"web\" is waiting to start: image can't be pulled"),
            ),
            (
                waiting("app", "ImagePullBackOff", ""),
                false,
                Err("container \"app\" in pod \"web\" is waiting to start: trying and failing to pull image"),
            ),
            (none(), false, Err("container \"app\" in pod \"web\" is waiting to start - no logs yet")),
            (running("other", 5, true), false, Err("container \"app\" in pod \"web\" is not available")),
        ];
        for (container, previous, expected) in rows {
            let found = instance(&status("Running", vec![container.clone()]), "web", "app", previous);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{container:?}");
            let init = PodStatus { init_container_statuses: Some(vec![container]), ..PodStatus::default() };
            let found = instance(&init, "web", "app", previous);
            assert_eq!(found.as_deref().map_err(String::as_str), expected);
        }
    }
}
