//! Whether a resize can ever be (RSZ-05). Whether there is room for it now is admission's question, and its answer is
//! "later".

use k8s_openapi::api::core::v1::{Container, Pod};

use super::requests;
use crate::pod::PodExt;
use crate::resources::{Amount, MEMORY};

/// Why a resize can't be made on this node, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Infeasible {
    /// What people read.
    pub message: String,
    /// Upstream's label for its metric.
    pub label: &'static str,
}

/// Whether `desired` can ever be given to the pod that has `allocated`. `swaps` says whether a container may use swap.
///
/// upstream: allocation/handlers.go podResizesAdmitHandler.Admit (v1.36)
pub fn feasible(desired: &Pod, allocated: &Pod, swaps: impl Fn(&Pod, &Container) -> bool) -> Result<(), Infeasible> {
    for container in desired.regular().iter().chain(desired.init()) {
        let given = allocated.regular().iter().chain(allocated.init()).find(|c| c.name == container.name);
        let Some(given) = given else { continue };
        if memory_request(container) != memory_request(given)
            && !restarts_for_memory(given)
            && (swaps(desired, container) || swaps(allocated, given))
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
