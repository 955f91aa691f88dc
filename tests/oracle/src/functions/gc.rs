//! `evictContainers`, `evictSandboxes` and `getContainersToDeleteInPod`: which dead containers and sandboxes are removed.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::gc::{GcPolicy, GcView, PodFate, plan_gc, prune_dead};
use rubelet_core::id::PodRef;
use rubelet_core::observe::{ContainerStateKind, ContainerSummary, PodSummary, SandboxState, SandboxSummary};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::observation::{self, Observation};
use crate::case::pod;
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `kuberuntime_gc.go` `evictContainers`, `evictSandboxes` (v1.36)
pub(super) struct EvictContainers;
/// upstream: `pod_container_deletor.go` `getContainersToDeleteInPod` (v1.36)
pub(super) struct PruneDead;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Case {
    pods: Vec<Listed>,
    min_age: u64,
    per_container: i64,
    total: i64,
    all_sources_ready: bool,
    remove_ended: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Listed {
    uid: String,
    fate: Fate,
    sandboxes: Vec<Sandbox>,
    containers: Vec<Container>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Fate {
    #[default]
    MayRun,
    Ended,
    Unneeded,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sandbox {
    id: String,
    ready: bool,
    age: i64,
}

#[derive(Deserialize)]
struct Container {
    id: String,
    name: String,
    #[serde(default)]
    sandbox: String,
    state: String,
    #[serde(default)]
    age: i64,
}

impl Fate {
    fn view(self) -> PodFate {
        match self {
            Self::MayRun => PodFate::MayRun,
            Self::Ended => PodFate::Ended,
            Self::Unneeded => PodFate::Unneeded,
        }
    }
}

fn limit(flag: i64) -> Option<usize> {
    usize::try_from(flag).ok()
}

fn ago(now: Timestamp, secs: i64) -> Timestamp {
    now.checked_sub(SignedDuration::from_secs(secs)).unwrap_or(Timestamp::MIN)
}

impl Listed {
    fn view(&self, now: Timestamp) -> anyhow::Result<PodSummary> {
        let kind = |word: &str| {
            Ok(match word {
                "created" => ContainerStateKind::Created,
                "running" => ContainerStateKind::Running,
                "exited" => ContainerStateKind::Exited,
                "unknown" => ContainerStateKind::Unknown,
                _ => anyhow::bail!("no such state: {word}"),
            })
        };
        let sandbox = |s: &Sandbox| SandboxSummary {
            state: if s.ready { SandboxState::Ready } else { SandboxState::NotReady },
            attempt: 0,
            created_at: ago(now, s.age),
        };
        let container = |c: &Container| {
            anyhow::Ok(ContainerSummary {
                name: c.name.clone(),
                sandbox: c.sandbox.as_str().into(),
                state: kind(&c.state)?,
                created_at: ago(now, c.age),
                restart_count: 0,
                image_id: String::new(),
            })
        };
        let containers: anyhow::Result<BTreeMap<_, _>> =
            self.containers.iter().map(|c| Ok((c.id.as_str().into(), container(c)?))).collect();
        Ok(PodSummary {
            pod: PodRef { namespace: "default".into(), name: self.uid.as_str().into(), uid: self.uid.as_str().into() },
            sandboxes: self.sandboxes.iter().map(|s| (s.id.as_str().into(), sandbox(s))).collect(),
            containers: containers?,
        })
    }
}

impl Function for EvictContainers {
    fn name(&self) -> &'static str {
        "evictContainers"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["GC-01", "GC-02", "GC-03"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        // No two are of the same age: upstream sorts those in any order.
        let mut age = 0;
        let pods: Vec<Value> = (0..1 + rng.below(size)).map(|place| listed(rng, place, size, &mut age)).collect();
        json!({
            "pods": pods, "minAge": rng.weighted(&[(3, 0), (1, 25), (1, 105)]),
            "perContainer": rng.between(-1, 2), "total": rng.between(-1, 8),
            "allSourcesReady": rng.chance(80), "removeEnded": rng.chance(30),
        })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: Case = read(case)?;
        let now = Timestamp::from_nanosecond(observation::EPOCH.into())?;
        let pods = case.pods.iter().map(|pod| pod.view(now)).collect::<anyhow::Result<Vec<_>>>()?;
        let fates: BTreeMap<&str, PodFate> = case.pods.iter().map(|pod| (pod.uid.as_str(), pod.fate.view())).collect();
        let view = GcView {
            policy: GcPolicy {
                min_age: Duration::from_secs(case.min_age),
                per_container: limit(case.per_container),
                total: limit(case.total),
            },
            all_sources_seen: case.all_sources_ready,
            remove_ended: case.remove_ended,
            now,
        };
        let fate = |uid: &rubelet_core::id::PodUid| fates.get(uid.as_str()).copied().unwrap_or(PodFate::MayRun);
        let plan = plan_gc(&pods.iter().collect::<Vec<_>>(), fate, &view);
        let sorted = |mut ids: Vec<String>| {
            ids.sort_unstable();
            ids
        };
        let ids = |stop: bool| {
            let chosen = plan.containers.iter().filter(|c| !stop || c.stop_first);
            sorted(chosen.map(|c| c.id.to_string()).collect())
        };
        let sandboxes = sorted(plan.sandboxes.iter().map(ToString::to_string).collect());
        Ok(json!({ "containers": ids(false), "stopped": ids(true), "sandboxes": sandboxes }))
    }
}

fn listed(rng: &mut Rng, place: usize, size: usize, age: &mut i64) -> Value {
    let mut next = |rng: &mut Rng| {
        *age += 10 * rng.between(1, 3);
        *age
    };
    let sandboxes: Vec<Value> = (0..rng.below(4))
        .map(|s| json!({ "id": format!("p{place}-s{s}"), "ready": rng.chance(25), "age": next(rng) }))
        .collect();
    let containers: Vec<Value> = (0..rng.below(size * 2 + 1))
        .map(|c| {
            json!({
                "id": format!("p{place}-c{c}"), "name": format!("c{}", rng.below(2)),
                "sandbox": format!("p{place}-s{}", rng.below(3)), "age": next(rng),
                "state": rng.weighted(&[(1, "created"), (2, "running"), (6, "exited"), (1, "unknown")]),
            })
        })
        .collect();
    let fate = rng.weighted(&[(5, "mayRun"), (2, "ended"), (2, "unneeded")]);
    json!({ "uid": format!("u{place}"), "fate": fate, "sandboxes": sandboxes, "containers": containers })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PruneCase {
    pod: Pod,
    #[serde(default)]
    observation: Observation,
    #[serde(default)]
    per_container: i64,
    #[serde(default)]
    remove_all: bool,
}

impl Function for PruneDead {
    fn name(&self) -> &'static str {
        "getContainersToDeleteInPod"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["GC-05", "LOOP-09"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let pod = pod::pod(rng, size);
        let observation = observation::generate(rng, &pod, size);
        json!({
            "pod": pod, "observation": observation, "perContainer": rng.between(-1, 2), "removeAll": rng.chance(30),
        })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: PruneCase = read(case)?;
        let seen = case.observation.view(&case.pod)?;
        let policy = GcPolicy { per_container: limit(case.per_container), ..GcPolicy::default() };
        let fate = if case.remove_all { PodFate::Unneeded } else { PodFate::MayRun };
        let mut ids: Vec<String> = prune_dead(&seen, &policy, fate).iter().map(ToString::to_string).collect();
        ids.sort_unstable();
        Ok(ids.into())
    }
}
