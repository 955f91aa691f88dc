//! Messages of resize events: a few words, and the resources as JSON (RSZ-06).

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use serde::Serialize;

use crate::pod::PodExt;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Row<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Row<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    resources: ResourceRequirements,
}

/// The resize is allocated.
pub fn started(pod: &Pod, generation: i64) -> String {
    text("Pod resize started", pod, generation, "")
}

/// All running containers have the allocated resources.
pub fn completed(pod: &Pod, generation: i64) -> String {
    text("Pod resize completed", pod, generation, "")
}

/// The runtime or the kernel refused; the next job tries again.
pub fn failed(pod: &Pod, generation: i64, why: &str) -> String {
    text("Pod resize error", pod, generation, why)
}

/// The resize is not allocated: `reason` is `Deferred` or `Infeasible`.
pub fn pending(pod: &Pod, generation: i64, reason: &str, why: &str) -> String {
    text(&format!("Pod resize {reason}"), pod, generation, why)
}

fn text(what: &str, pod: &Pod, generation: i64, error: &str) -> String {
    fn rows(of: &[Container]) -> Vec<Row<'_>> {
        of.iter().map(|c| Row { name: &c.name, resources: c.resources.clone().unwrap_or_default() }).collect()
    }
    let summary = Summary { init_containers: rows(pod.init()), containers: rows(pod.regular()), generation, error };
    match serde_json::to_string(&summary) {
        Ok(json) => format!("{what}: {json}"),
        Err(_) => what.to_owned(),
    }
}
