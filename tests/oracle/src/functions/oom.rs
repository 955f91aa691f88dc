//! `oom_score_adj` of containers.

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::launch::oom_score_adj;
use rubelet_core::pod::PodExt as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::quantities;
use crate::function::{Function, read};
use crate::rng::Rng;

/// The highest score that the kernel takes.
const HIGHEST: i64 = 1000;

/// upstream: `qos/policy.go` `GetContainerOOMScoreAdjust` (v1.36)
pub(super) struct OomScoreAdjust;

#[derive(Deserialize)]
struct Case {
    pod: Pod,
    memory: i64,
}

impl Function for OomScoreAdjust {
    fn name(&self) -> &'static str {
        "GetContainerOOMScoreAdjust"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["RT-92", "ADM-30"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let memory = *rng.pick(&[1_i64 << 30, 2 << 30, 16 << 30, 1 << 40, 4_000_000_000, 8_353_382_400]);
        json!({ "pod": quantities::pod(rng, size), "memory": memory })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let Case { pod, memory } = read(case)?;
        let score = |c| oom_score_adj(&pod, c, memory).into();
        let scores: Map<_, _> = pod.init().iter().chain(pod.regular()).map(|c| (c.name.clone(), score(c))).collect();
        Ok(Value::Object(scores))
    }

    fn adjust(&self, _case: &Value, theirs: &mut Value) -> Vec<&'static str> {
        let mut stated = Vec::new();
        for score in theirs.as_object_mut().into_iter().flat_map(Map::values_mut) {
            if score.as_i64().is_some_and(|score| score > HIGHEST) {
                *score = (HIGHEST - 1).into();
                stated = vec!["containers that request more than their pod does: a score stays in the kernel's range"];
            }
        }
        stated
    }
}
