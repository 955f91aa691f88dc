//! The state of an in-place resize (RSZ-06).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_core::pod::PodExt;
use rubelet_core::resize::{ResizeDecision, ResizeProgress};
use rubelet_core::resources::{Amount, CPU, MEMORY};

/// A line for a pending resize, and one for a resize in progress.
pub(super) fn resize_state(pod: Option<&Pod>, status: &PodStatus) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(progress) = ResizeProgress::of(status).condition() {
        let changes = pod.map(|pod| changes(pod, status)).unwrap_or_default();
        let what = if changes.is_empty() { String::new() } else { format!(": {}", changes.join(", ")) };
        let trouble = if progress.message.is_empty() { String::new() } else { format!("; {}", progress.message) };
        lines.push(format!("in progress{what}{trouble}"));
    }
    if let Some(pending) = ResizeDecision::of(status).pending {
        let why = if pending.message.is_empty() { String::new() } else { format!(": {}", pending.message) };
        lines.push(format!("pending ({}){why}", pending.reason));
    }
    lines
}

/// The differences between the pod's allocated resources and those of its containers.
fn changes(pod: &Pod, status: &PodStatus) -> Vec<String> {
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let shown: BTreeMap<&str, &ContainerStatus> = all.map(|c| (c.name.as_str(), c)).collect();
    let mut changes = Vec::new();
    for container in pod.init().iter().chain(pod.regular()) {
        let Some(has) = shown.get(container.name.as_str()).and_then(|c| c.resources.as_ref()) else { continue };
        for resource in [CPU, MEMORY] {
            for (word, list) in [("request", requests as List), ("limit", limits as List)] {
                let of = |r: Option<&ResourceRequirements>| r.and_then(list).and_then(|l| l.get(resource)).cloned();
                let (old, new) = (of(Some(has)), of(container.resources.as_ref()));
                let amount = |q: &Option<Quantity>| q.as_ref().map(Amount::of);
                if amount(&old) != amount(&new) {
                    let text = |q: Option<Quantity>| q.map_or_else(|| "none".to_owned(), |q| q.0);
                    changes.push(format!("{} {resource} {word} {} to {}", container.name, text(old), text(new)));
                }
            }
        }
    }
    changes
}

type List = fn(&ResourceRequirements) -> Option<&BTreeMap<String, Quantity>>;

fn requests(of: &ResourceRequirements) -> Option<&BTreeMap<String, Quantity>> {
    of.requests.as_ref()
}

fn limits(of: &ResourceRequirements) -> Option<&BTreeMap<String, Quantity>> {
    of.limits.as_ref()
}
