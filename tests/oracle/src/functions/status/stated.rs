//! Where our statuses differ from upstream's, as docs/parity states it.

use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStatus, Pod, PodCondition, PodStatus};
use rubelet_core::observe::{ContainerStateKind, PodObservation, SandboxState};
use rubelet_core::plan::{is_abandoned, restarts_all};
use rubelet_core::pod::{PodExt as _, is_sidecar};
use rubelet_core::status::is_terminal;
use serde_json::Value;

use super::Case;
use crate::case::gates::plan_gates;

/// Makes of upstream's answer what the stated differences make of it. Leaves `null` where they change too much of it.
pub(super) fn apply(case: &Case, seen: &PodObservation, theirs: &mut Value) -> Vec<&'static str> {
    let mut stated = Vec::new();
    if let Some(reason) = other_answer(case, seen, theirs) {
        *theirs = Value::Null;
        return vec![reason];
    }
    if drop_zeros(&case.pod, theirs) {
        stated.push("an amount that nobody set is not told as 0 when the runtime tells no resources");
    }
    stated.extend(keep_instance(case, seen, theirs));
    stated.extend(keep_reason(case, theirs));
    if case.gates.get("RestartAllContainersOnContainerExits") == Some(&false)
        && let Some(conditions) = theirs.get_mut("conditions").and_then(Value::as_object_mut)
        && conditions.remove("AllContainersRestarting").is_some()
    {
        stated.push("AllContainersRestarting is not somebody else's condition when its gate is off");
    }
    stated
}

/// The phase is what differs, and with it the conditions.
fn is_lost(case: &Case, seen: &PodObservation, theirs: &Value) -> bool {
    let gates = plan_gates(&case.gates);
    let runs = |list: &str| theirs[list].as_array().into_iter().flatten().any(|c| c["state"].get("running").is_some());
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    is_abandoned(&case.pod, seen)
        && !restarts_all(&case.pod, seen, gates)
        && matches!(theirs["phase"].as_str(), Some("Pending" | "Running"))
        && !lists.into_iter().any(runs)
}

/// A stated difference that changes too much of the answer to be compared.
fn other_answer(case: &Case, seen: &PodObservation, theirs: &Value) -> Option<&'static str> {
    let none = PodStatus::default();
    let shown = case.pod.status.as_ref().unwrap_or(&none);
    let old = case.previous.as_ref().unwrap_or(shown);
    let against = is_terminal(shown) && shown.phase != old.phase;
    let taken_back =
        is_terminal(old) && (against || !is_terminal(shown) && theirs["phase"].as_str() != old.phase.as_deref());
    let names = || seen.containers.iter().map(|c| c.name.as_str());
    let newest_address = seen.sandboxes.first().is_some_and(|s| s.state == SandboxState::Ready && !s.ips.is_empty());
    let gates = plan_gates(&case.gates);
    if is_lost(case, seen, theirs) {
        Some("a pod whose sandbox is gone for good has failed, whatever has yet to start")
    } else if taken_back {
        Some("a terminal phase that was decided before stays")
    } else if names().any(|name| runs_beside(seen, name)) {
        Some("an instance that runs counts, though a newer one does not")
    } else if names().any(|name| seen.instances(name).nth(1).is_some_and(|c| c.state.exit().is_none())) {
        Some("an older instance that has not ended leaves no last state")
    } else if names().any(|name| is_told_as_ended(seen, old, name)) {
        Some("a container that was told as ended stays so when the runtime loses track of it")
    } else if starts_now(case, old, theirs) {
        Some("a sidecar that has started counts for the phase at once, not from the next status on")
    } else if !newest_address && !seen.ips().is_empty() {
        Some("a pod whose newest sandbox has no address keeps that of an older one")
    } else if case.pod.is_deleted() && restarts_all(&undeleted(&case.pod), seen, gates) {
        Some("a deleted pod does not start over")
    } else if names().any(|name| falls_behind(seen, old, name)) {
        Some("a restart count never falls behind that of the instance")
    } else if case.pod.init().iter().any(|c| case.failures.contains_key(&c.name) && was_done(seen, old, &c.name)) {
        Some("an init container that was shown as ended stays so when its record is gone, whatever fails then")
    } else if gates.restart_all_containers && starts_over(case, seen, old) && was_removed(case, seen, old) {
        Some("a container that was removed because the whole pod starts over is shown so until it is made anew")
    } else if gates.restart_all_containers && !restarts_all(&case.pod, seen, gates) && triggered(case, old) {
        Some("the whole pod starts over by what the runtime shows, not by the status before")
    } else if gates.restart_all_containers && starts_over(case, seen, old) && lacks_init(case, seen) {
        Some("an init container that was removed because the whole pod starts over waits, and is not shown as done")
    } else {
        None
    }
}

fn runs_beside(seen: &PodObservation, name: &str) -> bool {
    seen.current(name).map(|c| &c.id) != seen.newest(name).map(|c| &c.id)
}

fn undeleted(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    pod.metadata.deletion_timestamp = None;
    pod
}

fn falls_behind(seen: &PodObservation, old: &PodStatus, name: &str) -> bool {
    let runs = |c: &&ContainerStatus| c.state.as_ref().is_some_and(|s| s.running.is_some());
    let counted = old_status(old, name).filter(runs).and_then(|c| u32::try_from(c.restart_count).ok());
    let lost = seen.newest(name).filter(|c| c.state.kind() == ContainerStateKind::Unknown);
    lost.is_some_and(|lost| counted.is_some_and(|counted| counted + 1 < lost.marks.restart_count))
}

fn starts_over(case: &Case, seen: &PodObservation, old: &PodStatus) -> bool {
    let said = |c: &PodCondition| c.type_ == "AllContainersRestarting" && c.status == "True";
    restarts_all(&case.pod, seen, plan_gates(&case.gates)) || old.conditions.iter().flatten().any(said)
}

fn was_done(seen: &PodObservation, old: &PodStatus, name: &str) -> bool {
    let ended = |c: &ContainerStatus| c.state.as_ref().is_some_and(|s| s.terminated.is_some());
    seen.newest(name).is_none() && old_status(old, name).is_some_and(ended)
}

fn was_removed(case: &Case, seen: &PodObservation, old: &PodStatus) -> bool {
    let waits = |c: &ContainerStatus| c.state.as_ref().is_some_and(|s| s.waiting.is_some());
    let all = case.pod.init().iter().chain(case.pod.regular()).map(|c| c.name.as_str());
    let mut all = all.chain(case.pod.ephemeral().iter().map(|c| c.name.as_str()));
    all.any(|name| seen.newest(name).is_none() && old_status(old, name).is_some_and(waits))
}

/// The status before shows a container whose end restarts the whole pod, or says that the pod starts over.
fn triggered(case: &Case, old: &PodStatus) -> bool {
    let could = |c: &Container| {
        let mut rules = c.restart_policy_rules.iter().flatten();
        rules.any(|rule| rule.action == "RestartAllContainers")
            && old_status(old, &c.name).is_some_and(|c| c.state.as_ref().is_some_and(|s| s.terminated.is_some()))
    };
    let said = |c: &PodCondition| c.type_ == "AllContainersRestarting" && c.status == "True";
    case.pod.init().iter().chain(case.pod.regular()).any(could) || old.conditions.iter().flatten().any(said)
}

fn lacks_init(case: &Case, seen: &PodObservation) -> bool {
    let made = case.pod.regular().iter().any(|c| seen.newest(&c.name).is_some());
    made && case.pod.init().iter().any(|c| !is_sidecar(c) && seen.newest(&c.name).is_none())
}

fn old_status<'a>(old: &'a PodStatus, name: &str) -> Option<&'a ContainerStatus> {
    let lists = [&old.init_container_statuses, &old.container_statuses, &old.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().find(|c| c.name == name)
}

fn is_told_as_ended(seen: &PodObservation, old: &PodStatus, name: &str) -> bool {
    let ended = |state: &Option<ContainerState>| state.as_ref().is_some_and(|s| s.terminated.is_some());
    seen.newest(name).is_some_and(|c| c.state.kind() == ContainerStateKind::Unknown)
        && old_status(old, name).is_some_and(|c| ended(&c.state) || ended(&c.last_state))
}

fn starts_now(case: &Case, old: &PodStatus, theirs: &Value) -> bool {
    let started = |c: &&Value| c["started"] == true;
    let mut now = theirs["initContainerStatuses"].as_array().into_iter().flatten().filter(started);
    let known = |name: &str| old_status(old, name).is_some_and(|c| c.started == Some(true));
    let sidecar = |name: &str| case.pod.init().iter().any(|c| c.name == name && is_sidecar(c));
    theirs["phase"] == "Pending" && now.any(|c| c["name"].as_str().is_some_and(|name| sidecar(name) && !known(name)))
}

/// A container that waits and whose record is gone: the next status that upstream makes names no instance any more.
fn keep_instance(case: &Case, seen: &PodObservation, theirs: &mut Value) -> Option<&'static str> {
    let none = PodStatus::default();
    let old = case.previous.as_ref().or(case.pod.status.as_ref()).unwrap_or(&none);
    let waits = |c: &&ContainerStatus| c.state.as_ref().is_some_and(|s| s.waiting.is_some());
    let mut kept = false;
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for status in theirs.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = status["name"].as_str().unwrap_or_default().to_owned();
            let Some(old) = old_status(old, &name).filter(waits).filter(|_| seen.newest(&name).is_none()) else {
                continue;
            };
            for (key, text) in [("containerID", old.container_id.as_deref()), ("imageID", Some(old.image_id.as_str()))]
            {
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    status[key] = text.into();
                    kept = true;
                }
            }
        }
    }
    kept.then_some("a container that waits still names its last instance when that one's record is gone")
}

fn drop_zeros(pod: &Pod, theirs: &mut Value) -> bool {
    let mut dropped = false;
    for list in ["initContainerStatuses", "containerStatuses"] {
        for status in theirs.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = status["name"].as_str().unwrap_or_default().to_owned();
            let spec = pod.init().iter().chain(pod.regular()).find(|c| c.name == name);
            let asked = spec.and_then(|c| c.resources.as_ref());
            let Some(resources) = status.get_mut("resources").and_then(Value::as_object_mut) else { continue };
            for (part, asked) in [
                ("limits", asked.and_then(|r| r.limits.as_ref())),
                ("requests", asked.and_then(|r| r.requests.as_ref())),
            ] {
                let Some(amounts) = resources.get_mut(part).and_then(Value::as_object_mut) else { continue };
                let before = amounts.len();
                amounts.retain(|key, amount| amount != "0" || asked.is_some_and(|asked| asked.contains_key(key)));
                dropped |= amounts.len() != before;
                if amounts.is_empty() {
                    resources.remove(part);
                }
            }
            if resources.is_empty()
                && let Some(status) = status.as_object_mut()
            {
                status.remove("resources");
            }
        }
    }
    dropped
}

/// Upstream drops reason and message that the API shows with the phase if its own last status had another phase.
fn keep_reason(case: &Case, theirs: &mut Value) -> Option<&'static str> {
    let shown = case.pod.status.as_ref()?;
    if theirs["phase"].as_str() != shown.phase.as_deref() {
        return None;
    }
    let own = case.previous.as_ref().filter(|previous| previous.phase == shown.phase);
    let mut kept = false;
    for (key, text) in [
        ("reason", own.and_then(|s| s.reason.as_ref()).or(shown.reason.as_ref())),
        ("message", own.and_then(|s| s.message.as_ref()).or(shown.message.as_ref())),
    ] {
        if let Some(text) = text
            && theirs[key].is_null()
        {
            theirs[key] = text.as_str().into();
            kept = true;
        }
    }
    kept.then_some("reason and message that the API shows with the phase are kept")
}
