//! The resizes in a plan.

use rubelet_core::observe::PodObservation;
use rubelet_core::pod::PodExt as _;
use rubelet_core::resize::{ResizeContainer, Sizes};
use serde_json::{Map, Value, json};

use super::Case;

/// What upstream's message says of a container that restarts to be resized.
const RESTARTS: &str = "resize requires restart";

/// Containers that change while they run, with their sizes.
pub(super) fn answer(list: &[ResizeContainer]) -> Value {
    let sizes = |s: Sizes| {
        json!({
            "memoryLimit": s.memory_limit, "memoryRequest": s.memory_request,
            "cpuLimit": s.cpu_limit, "cpuRequest": s.cpu_request,
        })
    };
    list.iter().map(|c| json!({ "id": c.id.as_str(), "old": sizes(c.old), "new": sizes(c.new) })).collect()
}

/// Upstream takes a running container of which no actuated resources are recorded for one without resources, and resizes or
/// restarts it; ours leaves it as it is.
pub(super) fn without_record(
    case: &Case,
    seen: &PodObservation,
    plan: &mut Map<String, Value>,
) -> Option<&'static str> {
    let mut take = |key: &str| plan.remove(key).unwrap_or_default();
    let pod_level = take("podLevelChanges");
    let mut resized = [take("initResized"), take("regularResized")];
    let recorded = |name: &str| case.actuated.as_ref().is_some_and(|actuated| actuated.containers.contains_key(name));
    let mut stated = false;
    let lists = [("startInit", case.pod.init()), ("startRegular", case.pod.regular())];
    for ((list, containers), resized) in lists.into_iter().zip(&mut resized) {
        for (index, container) in containers.iter().enumerate().filter(|(_, c)| !recorded(&c.name)) {
            let Some(running) = seen.current(&container.name).filter(|c| c.state.is_running()) else { continue };
            let restarts = |kill: &Value| kill["message"].as_str().is_some_and(|text| text.ends_with(RESTARTS));
            let mut found = remove(&mut plan["resizeMemory"], |one| one["id"] == running.id.as_str());
            found |= remove(&mut plan["resizeCPU"], |one| one["id"] == running.id.as_str());
            if remove(&mut plan["kill"], |kill| kill["id"] == running.id.as_str() && restarts(kill)) {
                found = true;
                remove(&mut plan[list], |start| *start == index);
                remove(resized, |start| *start == index);
            }
            stated |= found;
        }
    }
    if !stated {
        return None;
    }
    let starts = resized.iter().filter_map(Value::as_array).any(|starts| !starts.is_empty());
    plan.insert("resizePod".into(), (pod_level == true || starts).into());
    Some("a running container without a record of what was actuated is neither resized nor restarted")
}

/// Removes elements of a list; says whether there were any.
fn remove(list: &mut Value, unwanted: impl Fn(&Value) -> bool) -> bool {
    let Some(list) = list.as_array_mut() else { return false };
    let before = list.len();
    list.retain(|element| !unwanted(element));
    list.len() != before
}
