//! The functions that are compared, one file each.

mod admit;
mod backoff;
mod cgroups;
mod dns;
mod env;
mod env_file;
mod eviction;
mod expand;
mod gc;
mod hash;
mod hosts;
mod manifest;
mod merge;
mod oom;
mod phase;
mod plan;
mod resize;
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
        Box::new(cgroups::ResourceConfigForPod),
        Box::new(cgroups::MilliCpuToShares),
        Box::new(cgroups::SetCpuCgroupConfig),
        Box::new(cgroups::GetCgroupConfig),
        Box::new(oom::OomScoreAdjust),
        Box::new(env::MakeEnvironment),
        Box::new(expand::Expand),
        Box::new(env_file::ParseEnv),
        Box::new(admit::PredicateAdmit),
        Box::new(backoff::Backoff),
        Box::new(resize::ResizeAdmit),
        Box::new(resize::SortPending),
        Box::new(resize::InProgress),
        Box::new(resize::DoResize),
        Box::new(dns::GetPodDns),
        Box::new(hosts::Hosts),
        Box::new(manifest::StaticPod),
        Box::new(eviction::ParseThresholds),
        Box::new(eviction::RankMemory),
        Box::new(eviction::RankDisk),
        Box::new(eviction::RankPids),
        Box::new(eviction::EvictionMessage),
        Box::new(eviction::Synchronize),
    ]
}
