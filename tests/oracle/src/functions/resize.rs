//! Resizes: what can be at all, whose turn it is, and whether one is under way.

mod actuate;

pub(super) use actuate::DoResize;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::pod::{PodExt as _, is_sidecar};
use rubelet_core::resize::{INFEASIBLE, PendingResize, by_turn, feasible, in_progress};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::allocation::{self, Actuated};
use crate::case::observation::{self, Observation};
use crate::case::{pod, quantities};
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `allocation/handlers.go` `podResizesAdmitHandler.Admit`, `disallowResizeForSwappableContainers` (v1.36)
pub(super) struct ResizeAdmit;

#[derive(Deserialize)]
struct AdmitCase {
    desired: Pod,
    allocated: Pod,
    #[serde(default)]
    swaps: BTreeMap<String, bool>,
}

impl Function for ResizeAdmit {
    fn name(&self) -> &'static str {
        "podResizesAdmitHandler"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["RSZ-05", "ADM-01"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let desired = quantities::pod(rng, size);
        let mut swaps = serde_json::Map::new();
        for name in ["c0", "c1", "c2", "i0", "i1"] {
            if rng.chance(30) {
                swaps.insert(name.to_owned(), rng.chance(60).into());
            }
        }
        json!({ "desired": desired, "allocated": resized(rng, &desired), "swaps": swaps })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let AdmitCase { desired, allocated, swaps } = read(case)?;
        let may = |_: &Pod, c: &k8s_openapi::api::core::v1::Container| swaps.get(&c.name).copied().unwrap_or_default();
        Ok(match feasible(&desired, &allocated, may) {
            Ok(()) => json!({ "admit": true, "reason": "", "message": "" }),
            Err(err) => json!({ "admit": false, "reason": INFEASIBLE, "message": err.message }),
        })
    }
}

/// upstream: `allocation/allocation_manager.go` `sortPendingResizes` (v1.36)
pub(super) struct SortPending;

#[derive(Deserialize)]
struct PendingCase {
    #[serde(default)]
    pods: Vec<PendingPod>,
}

#[derive(Deserialize)]
struct PendingPod {
    desired: Pod,
    allocated: Pod,
    since: Option<i64>,
}

impl Function for SortPending {
    fn name(&self) -> &'static str {
        "sortPendingResizes"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["RSZ-03"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        // Few enough that upstream's sort keeps the order of equals.
        let pods = (0..1 + rng.below(size.min(6) + 1)).map(|place| {
            let mut desired = quantities::pod_summed_up(rng, 1);
            desired["metadata"]["uid"] = format!("u{place}").into();
            let allocated = resized(rng, &desired);
            let since = if rng.chance(70) { json!(1_700_000_000 + rng.between(0, 3)) } else { Value::Null };
            json!({ "desired": desired, "allocated": allocated, "since": since })
        });
        let pods: Vec<Value> = pods.collect();
        json!({ "pods": pods })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let PendingCase { pods } = read(case)?;
        let mut queue = Vec::new();
        for PendingPod { desired, allocated, since } in &pods {
            queue.push(PendingResize {
                desired,
                allocated,
                deferred_since: since.map(Timestamp::from_second).transpose()?,
            });
        }
        queue.sort_by(by_turn);
        let order: Vec<&str> = queue.iter().filter_map(|p| p.desired.metadata.uid.as_deref()).collect();
        Ok(json!({ "order": order }))
    }

    fn adjust(&self, case: &Value, theirs: &mut Value) -> Vec<&'static str> {
        let Some(growing) = theirs.as_object_mut().and_then(|answer| answer.remove("growing")) else {
            return Vec::new();
        };
        let Ok(ours) = self.ours(case) else { return Vec::new() };
        let grows = |uid: &Value| uid.as_str().is_some_and(|uid| growing[uid] == true);
        let (Some(order), Some(ours)) = (theirs["order"].as_array_mut(), ours["order"].as_array()) else {
            return Vec::new();
        };
        // They have to come first; upstream's comparison does not say in which order.
        let first = order.iter().take_while(|uid| !grows(uid)).count();
        let mut arranged: Vec<Value> = order.iter().take(first).cloned().collect();
        arranged.sort_by_key(|uid| ours.iter().position(|other| other == uid));
        let changed = !order.starts_with(&arranged);
        order.splice(..first, arranged);
        if changed {
            vec!["pods that ask for no more than they have go by priority, class and time, too"]
        } else {
            Vec::new()
        }
    }
}

/// upstream: `kuberuntime_manager.go` `IsPodResizeInProgress` (v1.36)
pub(super) struct InProgress;

#[derive(Deserialize)]
struct ProgressCase {
    pod: Pod,
    #[serde(default)]
    observation: Observation,
    #[serde(default)]
    actuated: Actuated,
}

impl Function for InProgress {
    fn name(&self) -> &'static str {
        "IsPodResizeInProgress"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["RSZ-10", "RSZ-11"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let pod = pod::pod(rng, size);
        let observation = observation::generate(rng, &pod, size);
        let actuated = allocation::actuated(rng, &pod);
        json!({ "pod": pod, "observation": observation, "actuated": actuated })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: ProgressCase = read(case)?;
        let seen = case.observation.view(&case.pod)?;
        Ok(in_progress(&case.pod, &seen, &case.actuated.view(&case.pod)).into())
    }

    fn incomparable(&self, case: &Value) -> Option<&'static str> {
        let case: ProgressCase = read(case).ok()?;
        let seen = case.observation.view(&case.pod).ok()?;
        let mut stay = case.pod.init().iter().filter(|c| is_sidecar(c)).chain(case.pod.regular());
        let unknown = stay.any(|c| {
            let runs = seen.current(&c.name).is_some_and(|c| c.state.is_running());
            runs && !case.actuated.containers.contains_key(&c.name)
        });
        let other = |name: &str| seen.newest(name).map(|c| &c.id) != seen.current(name).map(|c| &c.id);
        if seen.containers.iter().any(|c| other(&c.name)) {
            Some("an instance that runs counts, though a newer one does not")
        } else if unknown {
            Some("a running container without a record of what was actuated is neither resized nor restarted")
        } else {
            None
        }
    }
}

/// The pod as it was before somebody asked for other resources.
fn resized(rng: &mut Rng, desired: &Value) -> Value {
    let mut allocated = desired.clone();
    for list in ["containers", "initContainers"] {
        for container in allocated["spec"][list].as_array_mut().into_iter().flatten() {
            if rng.chance(60) {
                container["resources"] = quantities::resources(rng);
            }
        }
    }
    allocated
}
