//! Resizes: what can be at all, and whose turn it is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::resize::{INFEASIBLE, PendingResize, by_turn, feasible};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::quantities;
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
