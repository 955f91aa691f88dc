//! Back-off of crash loops and image pulls, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use rubelet_core::backoff::{BackoffPolicy, Backoffs};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::function::{Function, read};
use crate::rng::Rng;

const REDUCED: &str = "ReduceDefaultCrashLoopBackOffDecay";
const CONFIGURED: &str = "KubeletCrashLoopBackOffMax";
/// The first moment of a case, in milliseconds.
const START: i64 = 1_700_000_000_000;

/// upstream: `client-go/util/flowcontrol/backoff.go` `Backoff`, `kubelet.go` `newCrashLoopBackOff` (v1.36)
pub(super) struct Backoff;

#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    image: bool,
    max: Option<u64>,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    #[serde(rename = "do")]
    what: String,
    key: String,
    now: i64,
    event: i64,
}

impl Function for Backoff {
    fn name(&self) -> &'static str {
        "Backoff"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["RT-60", "RT-62", "IMG-04"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let mut gates = Map::new();
        gates.insert(REDUCED.into(), rng.chance(30).into());
        let configured = rng.chance(60);
        gates.insert(CONFIGURED.into(), configured.into());
        let max = configured.then(|| *rng.pick(&[300_000_u64, 1000, 1001, 5000, 9999, 10_000, 60_000, 299_999]));
        let mut now = START;
        let steps = (0..1 + rng.below(size * 3)).map(|_| {
            now = now.saturating_add(*rng.pick(&[
                0, 1, 999, 1000, 5000, 10_000, 10_001, 20_000, 60_000, 160_000, 300_000, 599_999, 600_000, 600_001,
                1_200_001,
            ]));
            // What happened lies in the past, as far as the clock can be trusted.
            let ago = *rng.pick(&[0, 0, 1, 500, 1000, 9999, 10_000, 60_000, 300_000, 600_001]);
            let what = rng.weighted(&[(5, "next"), (4, "since"), (3, "update"), (1, "reset"), (1, "gc")]);
            json!({ "do": what, "key": rng.pick(&["a", "b"]), "now": now, "event": now.saturating_sub(ago) })
        });
        let steps: Vec<Value> = steps.collect();
        json!({ "image": rng.chance(30), "max": max, "gates": gates, "steps": steps })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: Case = read(case)?;
        let on = |gate: &str, default| case.gates.get(gate).copied().unwrap_or(default);
        let policy = if case.image {
            BackoffPolicy::image()
        } else {
            BackoffPolicy::crash(
                case.max.filter(|_| on(CONFIGURED, true)).map(Duration::from_millis),
                on(REDUCED, false),
            )
        };
        let mut backoffs = Backoffs::new(policy);
        let mut answers = Vec::new();
        for Step { what, key, now, event } in &case.steps {
            let (now, event) = (Timestamp::from_millisecond(*now)?, Timestamp::from_millisecond(*event)?);
            let mut answer = Map::new();
            let mut waits = |left: Option<Duration>| answer.insert("waits".into(), left.is_some().into());
            match what.as_str() {
                "next" => backoffs.next(key, event, now),
                "reset" => backoffs.reset(key),
                "gc" => backoffs.gc(now),
                "since" => drop(waits(backoffs.wait_left(key, event, now))),
                "update" => drop(waits(backoffs.wait_left_since_update(key, now))),
                _ => anyhow::bail!("there is no such step"),
            }
            answer.insert("delay".into(), u64::try_from(backoffs.delay(key).as_millis())?.into());
            answers.push(Value::Object(answer));
        }
        Ok(answers.into())
    }
}
