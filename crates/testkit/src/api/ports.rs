//! The engine's ports on top of the fake API server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rubelet_core::id::PodRef;
use rubelet_core::pod::Source;
use rubelet_engine::ports::{ApiError, ApiErrorKind, ClusterPorts, ClusterView, Delivery, PodApi, PodSource};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::faults::{ApiFault, error};
use super::{ApiCall, FakeApi, World, key, seconds, strategic};

/// Duration of a request.
const LATENCY: Duration = Duration::from_millis(3);
/// Additional duration of a slow request.
const SLOW: Duration = Duration::from_secs(2);

impl FakeApi {
    /// This API server as the engine's ports.
    pub fn ports(&self) -> ClusterPorts {
        ClusterPorts {
            pods: Arc::new(self.clone()),
            objects: Arc::new(self.objects.clone()),
            view: Arc::new(self.clone()),
            tokens: Arc::new(self.tokens.clone()),
        }
    }

    /// One request: it takes its time, draws its fault, and has its effect or not.
    async fn request<T>(
        &self,
        verb: &'static str,
        pod: &PodRef,
        patch: &str,
        effect: impl FnOnce(&mut World, Time) -> Result<T, ApiError> + Send,
    ) -> Result<T, ApiError> {
        tokio::time::sleep(LATENCY).await;
        let fault = {
            let world = self.world();
            if self.clock.elapsed() < world.away_until {
                return Err(error(ApiErrorKind::Unavailable));
            }
            world.faults.draw(&self.rng)
        };
        if matches!(fault, ApiFault::Slow) {
            tokio::time::sleep(SLOW).await;
        }
        let now = Time(seconds(&self.clock));
        let mut world = self.world();
        let result = match fault {
            ApiFault::Before(err) => Err(err),
            ApiFault::None | ApiFault::Slow => effect(&mut world, now),
            ApiFault::After(err) => effect(&mut world, now).and(Err(err)),
        };
        let outcome = result.as_ref().map_or_else(|err| format!("{:?}", err.kind), |_| "ok".to_owned());
        let (at, pod, patch) = (self.clock.elapsed(), pod.name.to_string(), patch.to_owned());
        world.log.push(ApiCall { at, verb, pod, patch, outcome });
        drop(world);
        self.changed();
        result
    }
}

/// The pod, if it exists with the UID of the request.
fn find_pod(world: &World, pod: &PodRef) -> Result<Arc<Pod>, ApiError> {
    let found = world.find(&(pod.namespace.to_string(), pod.name.to_string()));
    let found = found.ok_or_else(|| error(ApiErrorKind::NotFound))?;
    if pod.uid.is_empty() || found.metadata.uid.as_deref() == Some(pod.uid.as_str()) {
        return Ok(found);
    }
    Err(error(ApiErrorKind::Conflict))
}

#[async_trait]
impl PodApi for FakeApi {
    async fn get(&self, pod: &PodRef) -> Result<Pod, ApiError> {
        let unnamed = PodRef { uid: "".into(), ..pod.clone() };
        self.request("get", pod, "", |world, _| find_pod(world, &unnamed).map(|pod| (*pod).clone())).await
    }

    async fn patch_status(&self, pod: &PodRef, patch: &str) -> Result<Pod, ApiError> {
        let apply = |world: &mut World, _| {
            let unnamed = PodRef { uid: "".into(), ..pod.clone() };
            let found = find_pod(world, &unnamed)?;
            // The UID in the patch is the precondition.
            let status = strategic::patched(&found, patch).ok_or_else(|| error(ApiErrorKind::Conflict))?;
            Ok((*world.write_status(&found, status)).clone())
        };
        self.request("patch", pod, patch, apply).await
    }

    async fn create(&self, pod: &Pod) -> Result<Pod, ApiError> {
        let apply = |world: &mut World, now| {
            if world.find(&key(pod)).is_some() {
                return Err(error(ApiErrorKind::AlreadyExists));
            }
            let mut pod = pod.clone();
            pod.metadata.uid = Some(format!("api-{}", world.version));
            pod.metadata.creation_timestamp = Some(now);
            pod.metadata.generation = Some(1);
            pod.status = Some(serde_json::from_str(r#"{"phase":"Pending"}"#).unwrap_or_default());
            Ok((*world.store(pod)).clone())
        };
        self.request("create", &PodRef::of(pod), "", apply).await
    }

    async fn delete(&self, pod: &PodRef) -> Result<(), ApiError> {
        let apply = |world: &mut World, now| {
            let found = find_pod(world, pod)?;
            world.delete(&found, 0, now);
            Ok(())
        };
        self.request("delete", pod, "", apply).await
    }
}

#[async_trait]
impl PodSource for FakeApi {
    fn source(&self) -> Source {
        Source::Api
    }

    async fn run(&self, out: mpsc::Sender<Delivery>, cancel: CancellationToken) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let (pods, back) = {
                let world = self.world();
                let pods: Vec<Arc<Pod>> = world.pods.values().cloned().collect();
                let away = self.clock.elapsed() < world.away_until;
                ((!away && !world.watch_stalled).then_some(pods), away.then_some(world.away_until))
            };
            if let Some(pods) = pods {
                let delivery = Delivery { source: Source::Api, pods, bad: Vec::new() };
                if out.send(delivery).await.is_err() {
                    return;
                }
            }
            let back = async {
                match back {
                    Some(at) => self.clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
                () = back => {}
            }
            // Latency of a watch.
            tokio::time::sleep(LATENCY).await;
        }
    }
}

#[async_trait]
impl ClusterView for FakeApi {
    fn services(&self) -> Option<Arc<Vec<Service>>> {
        self.world().services.clone()
    }

    fn node_changes(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.node.subscribe()
    }

    async fn runtime_handler(&self, class: &str) -> Result<String, ApiError> {
        self.world().classes.get(class).cloned().ok_or_else(|| error(ApiErrorKind::NotFound))
    }
}
