//! Feature gates of a case: those that are not as by default.

use std::collections::BTreeMap;

use rubelet_core::plan::PlanGates;
use serde_json::{Map, Value};

use crate::rng::Rng;

const RULES: &str = "ContainerRestartRules";
const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
const RESIZE_INIT: &str = "InPlacePodVerticalScalingInitContainers";
/// Gates of container restarts that can be off together: one depends on the other.
pub const RESTART_GATES: [&[&str]; 2] = [&[RESTART_ALL], &[RULES, RESTART_ALL]];
/// Gates of plans: those and that of resizes of init containers.
pub const PLAN_GATES: [&[&str]; 3] = [&[RESTART_ALL], &[RULES, RESTART_ALL], &[RESIZE_INIT]];

/// No gate most of the time, else one of `sets` turned off.
pub fn generate(rng: &mut Rng, sets: &[&[&str]]) -> Value {
    let mut gates = Map::new();
    if rng.chance(15) {
        for gate in *rng.pick(sets) {
            gates.insert((*gate).to_owned(), false.into());
        }
    }
    Value::Object(gates)
}

/// As plans and statuses read them.
pub fn plan_gates(gates: &BTreeMap<String, bool>) -> PlanGates {
    let on = |gate: &str| gates.get(gate).copied().unwrap_or(true);
    PlanGates {
        container_restart_rules: on(RULES),
        restart_all_containers: on(RESTART_ALL),
        resize_init_containers: on(RESIZE_INIT),
    }
}
