//! `/checkpoint/{namespace}/{pod}/{container}`: has the runtime write the state of a running container to a file.
//!
//! A checkpoint is as large as the memory of its container, so the number on a node is bounded, and each container is
//! checkpointed once at a time (CVE-2025-0426). The file's name is made of names of the pod's spec, not of the request.
//! upstream: kubelet/server/server.go checkpoint, kubelet.go CheckpointContainer (v1.36)

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use rubelet_core::id::ContainerId;
use rubelet_engine::chain::Chain;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{CheckpointFiles, RpcError, RpcErrorKind, Runtime, RuntimeView};
use rubelet_engine::sync_loop::KnownPod;
use serde_json::json;

use super::answers::{Answer, Refusal, json as json_answer};
use super::pods::{full_name, tty};
use super::routes::Target;
use crate::url::query_values;

/// Checkpoints on a node, those being written included.
const MOST_CHECKPOINTS: usize = 16;

/// Makes checkpoints.
pub(super) struct Checkpointer {
    runtime: Arc<dyn Runtime>,
    files: Arc<dyn CheckpointFiles>,
    clock: Clock,
    /// The containers being checkpointed.
    busy: Arc<Mutex<BTreeSet<ContainerId>>>,
}

impl Checkpointer {
    pub(super) fn new(runtime: Arc<dyn Runtime>, files: Arc<dyn CheckpointFiles>, clock: Clock) -> Self {
        Self { runtime, files, clock, busy: Arc::default() }
    }

    pub(super) async fn answer(&self, query: Option<&str>, pod: &KnownPod, target: &Target) -> Result<Answer, Refusal> {
        let Target { namespace, pod: name, container, .. } = target;
        if tty(pod, container).is_none() {
            return Err((StatusCode::NOT_FOUND, format!("container {container} does not exist")));
        }
        let refused = |status: StatusCode| {
            move |why: String| (status, format!("checkpointing of {namespace}/{name}/{container} failed ({why})"))
        };
        let failed = refused(StatusCode::INTERNAL_SERVER_ERROR);
        let timeout = match query_values(query, "timeout").last() {
            Some(text) => match text.parse::<i64>() {
                Ok(seconds) => u64::try_from(seconds)
                    .map_err(|_| failed("CheckpointContainer requires the timeout value to be > 0".to_owned()))?,
                Err(_) => return Err((StatusCode::NOT_FOUND, "cannot parse value of timeout parameter".to_owned())),
            },
            None => 0,
        };
        let seen = RuntimeView::inspect(self.runtime.as_ref(), &pod.reference.uid, self.clock.mono()).await;
        let seen = seen.map_err(|err| failed(status_text(&err)))?;
        let found = seen.running().find(|running| running.name == *container).map(|running| running.id.clone());
        let id = found.ok_or_else(|| failed(format!("container {container} not found")))?;

        let at = self.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ");
        let file = format!("checkpoint-{}-{container}-{at}.tar", full_name(pod));
        let (path, there) = self.files.place(&file).await.map_err(|err| failed(Chain(&err).to_string()))?;
        let full = refused(StatusCode::TOO_MANY_REQUESTS);
        let _begun = self.begin(&id, there).map_err(full)?;
        let timeout = Duration::from_secs(timeout);
        self.runtime.checkpoint(&id, &path, timeout).await.map_err(|err| failed(status_text(&err)))?;
        Ok(json_answer(json!({ "items": [path.to_string_lossy()] }).to_string()))
    }

    fn begin(&self, id: &ContainerId, there: usize) -> Result<Begun, String> {
        let mut busy = lock(&self.busy);
        if there + busy.len() >= MOST_CHECKPOINTS {
            return Err(format!(
                "there are {MOST_CHECKPOINTS} checkpoints on this node: remove those that are not needed"
            ));
        }
        if !busy.insert(id.clone()) {
            return Err("a checkpoint of this container is being made".to_owned());
        }
        Ok(Begun { busy: Arc::clone(&self.busy), id: id.clone() })
    }
}

/// A checkpoint being made, until dropped.
struct Begun {
    busy: Arc<Mutex<BTreeSet<ContainerId>>>,
    id: ContainerId,
}

impl Drop for Begun {
    fn drop(&mut self) {
        lock(&self.busy).remove(&self.id);
    }
}

fn lock(busy: &Mutex<BTreeSet<ContainerId>>) -> MutexGuard<'_, BTreeSet<ContainerId>> {
    busy.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error as Go's gRPC prints a status: clients look for these words.
/// upstream: test/e2e_node/checkpoint_container.go (v1.36)
fn status_text(err: &RpcError) -> String {
    let code = match err.kind {
        RpcErrorKind::Unavailable => "Unavailable",
        RpcErrorKind::Timeout => "DeadlineExceeded",
        RpcErrorKind::NotFound => "NotFound",
        RpcErrorKind::AlreadyExists => "AlreadyExists",
        RpcErrorKind::Unimplemented => "Unimplemented",
        RpcErrorKind::Garbage => "Internal",
        RpcErrorKind::Failed => "Unknown",
    };
    format!("rpc error: code = {code} desc = {}", err.detail)
}
