//! The functions that are compared, one file each.

mod gc;
mod hash;
mod merge;
mod phase;
mod plan;
mod status;

use crate::function::Function;

/// All of them, in the order in which they are compared.
pub fn all() -> Vec<Box<dyn Function>> {
    vec![
        Box::new(plan::ComputePodActions),
        Box::new(hash::HashContainer),
        Box::new(phase::GetPhase),
        Box::new(status::GenerateApiPodStatus),
        Box::new(merge::NormalizeStatus),
        Box::new(merge::MergePodStatus),
        Box::new(gc::EvictContainers),
        Box::new(gc::PruneDead),
    ]
}
