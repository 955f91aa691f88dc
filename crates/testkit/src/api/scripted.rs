//! An API server that answers requests about pods according to a script, and records each request with its time.
//!
//! For tests of the exact sequence of requests. [`FakeApi`](super::FakeApi) is for tests of their results.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::PodRef;
use rubelet_engine::ports::{ApiError, ApiErrorKind, PodApi};
use serde_json::Value;

use super::faults::error;
use super::strategic;
use crate::clock::TestClock;

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// As a server does: a patch is applied, a deletion removes the pod, a get returns it.
    Obey,
    /// The patch is accepted without effect, as for a field that the server does not know or does not let us change.
    Ignore,
    /// The request fails without effect.
    Fail(ApiErrorKind),
    /// The request takes effect, and the answer is an error.
    Lose(ApiErrorKind),
    /// This pod, whatever was requested.
    With(Box<Pod>),
    /// Like the other, after this time. The effect is at the end.
    After(Duration, Box<Answer>),
    /// Never.
    Never,
    /// The adapter panics.
    Panic,
}

/// A scripted API server. Clones share one script and one log. A request without a scripted answer is obeyed.
#[derive(Clone)]
pub struct ScriptedPodApi {
    clock: TestClock,
    world: Arc<Mutex<World>>,
}

#[derive(Default)]
struct World {
    /// By name.
    pods: BTreeMap<String, Pod>,
    version: u64,
    answers: VecDeque<Answer>,
    /// Answers to requests about this pod only; they come first.
    answers_for: BTreeMap<String, VecDeque<Answer>>,
    log: Vec<String>,
    in_flight: usize,
    most_in_flight: usize,
}

impl ScriptedPodApi {
    /// A server with no pods and an empty script.
    pub fn new(clock: TestClock) -> Self {
        Self { clock, world: Arc::default() }
    }

    /// Stores a pod with the next version, and returns the stored pod.
    pub fn put(&self, pod: &Pod) -> Arc<Pod> {
        Arc::new(self.world().store(pod.clone()))
    }

    /// Removes a pod, bypassing the script.
    pub fn take_away(&self, name: &str) {
        self.world().pods.remove(name);
    }

    /// The pod called `name`.
    pub fn pod(&self, name: &str) -> Option<Pod> {
        self.world().pods.get(name).cloned()
    }

    /// Answers of the next requests, in order.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.world().answers.extend(answers);
    }

    /// Answers of the next requests about the pod called `name`, in order.
    pub fn script_for(&self, name: &str, answers: impl IntoIterator<Item = Answer>) {
        self.world().answers_for.entry(name.to_owned()).or_default().extend(answers);
    }

    /// The requests since the last call, in order: `250ms patch web Running hello`, with phase and message of a patch.
    /// The time is when the request arrived.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.world().log)
    }

    /// The highest number of requests in flight at once.
    pub fn most_in_flight(&self) -> usize {
        self.world().most_in_flight
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn request(&self, verb: &'static str, pod: &PodRef, patch: &str) -> Result<Option<Pod>, ApiError> {
        let (mut answer, _flying) = {
            let mut world = self.world();
            let said = phase_and_message(patch);
            let line = format!("{}ms {verb} {}{said}", self.clock.elapsed().as_millis(), pod.name);
            world.log.push(line);
            world.in_flight += 1;
            world.most_in_flight = world.most_in_flight.max(world.in_flight);
            let own = world.answers_for.get_mut(&*pod.name).and_then(VecDeque::pop_front);
            let answer = own.or_else(|| world.answers.pop_front()).unwrap_or(Answer::Obey);
            (answer, InFlight(self.clone()))
        };
        loop {
            answer = match answer {
                Answer::After(time, then) => {
                    tokio::time::sleep(time).await;
                    *then
                }
                Answer::Never => std::future::pending().await,
                Answer::Panic => panic!("an adapter with a bug"),
                Answer::Fail(kind) => return Err(error(kind)),
                Answer::Lose(kind) => return self.world().obey(verb, pod, patch).and(Err(error(kind))),
                Answer::With(pod) => return Ok(Some(*pod)),
                Answer::Ignore => return Ok(self.world().pods.get(&*pod.name).cloned()),
                Answer::Obey => return self.world().obey(verb, pod, patch),
            };
        }
    }
}

/// Counts a request in flight, a dropped one included.
struct InFlight(ScriptedPodApi);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.world().in_flight -= 1;
    }
}

impl World {
    fn store(&mut self, mut pod: Pod) -> Pod {
        self.version += 1;
        pod.metadata.resource_version = Some(self.version.to_string());
        self.pods.insert(pod.metadata.name.clone().unwrap_or_default(), pod.clone());
        pod
    }

    fn obey(&mut self, verb: &str, pod: &PodRef, patch: &str) -> Result<Option<Pod>, ApiError> {
        let found = self.pods.get(&*pod.name).cloned().ok_or_else(|| error(ApiErrorKind::NotFound))?;
        match verb {
            "patch" => {
                let status = strategic::patched(&found, patch).ok_or_else(|| error(ApiErrorKind::Conflict))?;
                Ok(Some(self.store(Pod { status: Some(status), ..found })))
            }
            "delete" if found.metadata.uid.as_deref() != Some(pod.uid.as_str()) => Err(error(ApiErrorKind::Conflict)),
            "delete" => {
                self.pods.remove(&*pod.name);
                Ok(None)
            }
            _ => Ok(Some(found)),
        }
    }
}

/// Phase and message of a patch.
fn phase_and_message(patch: &str) -> String {
    let patch: Value = serde_json::from_str(patch).unwrap_or_default();
    let text = |path| patch.pointer(path).and_then(Value::as_str).map(|text| format!(" {text}")).unwrap_or_default();
    format!("{}{}", text("/status/phase"), text("/status/message"))
}

#[async_trait]
impl PodApi for ScriptedPodApi {
    async fn get(&self, pod: &PodRef) -> Result<Pod, ApiError> {
        self.request("get", pod, "").await?.ok_or_else(|| error(ApiErrorKind::NotFound))
    }

    async fn patch_status(&self, pod: &PodRef, patch: &str) -> Result<Pod, ApiError> {
        self.request("patch", pod, patch).await?.ok_or_else(|| error(ApiErrorKind::NotFound))
    }

    async fn create(&self, _pod: &Pod) -> Result<Pod, ApiError> {
        Err(error(ApiErrorKind::Forbidden))
    }

    async fn delete(&self, pod: &PodRef) -> Result<(), ApiError> {
        self.request("delete", pod, "").await.map(drop)
    }
}
