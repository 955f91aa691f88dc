//! Whether the node can ever allocate a resize (RSZ-05). Whether it has room now is decided by admission: a resize without
//! room is deferred.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::requests;
use crate::pod::PodExt;
use crate::resources::{Amount, MEMORY};

/// Why a resize is infeasible on this node, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Infeasible {
    /// The message of the condition and of the event.
    pub message: String,
    /// The label of upstream's metric.
    pub label: &'static str,
}

/// Whether the resources of `desired` can replace those of `allocated`. `swaps` says whether a container may use swap.
///
/// upstream: allocation/handlers.go podResizesAdmitHandler.Admit (v1.36)
pub fn feasible(desired: &Pod, allocated: &Pod, swaps: impl Fn(&Pod, &Container) -> bool) -> Result<(), Infeasible> {
    for container in desired.regular().iter().chain(desired.init()) {
        let before = allocated.regular().iter().chain(allocated.init()).find(|c| c.name == container.name);
        let Some(before) = before else { continue };
        if memory_request(container) != memory_request(before)
            && !restarts_for_memory(before)
            && (swaps(desired, container) || swaps(allocated, before))
        {
            return Err(Infeasible {
                message: "In-place resize of containers with swap is not supported.".to_owned(),
                label: "swap_limitation",
            });
        }
    }
    Ok(())
}

fn memory_request(container: &Container) -> Amount {
    let list = container.resources.as_ref().and_then(requests);
    list.and_then(|list| list.get(MEMORY)).map(Amount::of).unwrap_or_default()
}

fn restarts_for_memory(container: &Container) -> bool {
    let policies = container.resize_policy.as_deref().unwrap_or_default();
    let policy = policies.iter().find(|policy| policy.resource_name == MEMORY);
    policy.is_some_and(|policy| policy.restart_policy == "RestartContainer")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_restarts_for_memory_if_its_policy_for_memory_says_so() {
        for (policy, restarts) in [
            (json!([]), false),
            (json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]), true),
            (json!([{"resourceName": "memory", "restartPolicy": "NotRequired"}]), false),
            (json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]), false),
            (
                json!([
                    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                    {"resourceName": "memory", "restartPolicy": "RestartContainer"},
                ]),
                true,
            ),
        ] {
            let container = serde_json::from_value(json!({"name": "a", "resizePolicy": policy})).expect("a container");
            assert_eq!(restarts_for_memory(&container), restarts, "{policy}");
        }
    }
}
