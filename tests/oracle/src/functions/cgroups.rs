//! Values of cgroups: of pods, of the levels of quality of service, of the cgroup that holds all pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_core::qos::{
    CgroupValues, CpuPolicy, PodCgroupPolicy, computed_qos_class, milli_cpu_to_quota, milli_cpu_to_shares, node_values,
    pod_values, qos_class, qos_values, shares_to_weight,
};
use rubelet_core::resources::amounts;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::quantities;
use crate::function::{Function, read};
use crate::rng::Rng;

fn answer(values: &CgroupValues) -> Value {
    json!({
        "shares": values.cpu_shares, "quota": values.cpu_quota, "period": values.cpu_period,
        "memory": values.memory_limit, "pids": values.pids_limit, "hugepages": values.hugepages,
    })
}

/// upstream: `cm/helpers_linux.go` `ResourceConfigForPod`, `qos/qos.go` `GetPodQOS`, `ComputePodQOS` (v1.36)
pub(super) struct ResourceConfigForPod;

#[derive(Deserialize)]
struct PodCase {
    pod: Pod,
    #[serde(default)]
    quota: bool,
    period: u32,
}

impl Function for ResourceConfigForPod {
    fn name(&self) -> &'static str {
        "ResourceConfigForPod"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["CG-11"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let period = *rng.pick(&[100_000, 100_000, 1000, 1, 5000, 33_333, 1_000_000]);
        json!({ "pod": quantities::pod(rng, size), "quota": rng.chance(80), "period": period })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let PodCase { pod, quota, period } = read(case)?;
        let policy = PodCgroupPolicy { cpu: CpuPolicy { quota, period }, ..PodCgroupPolicy::default() };
        Ok(json!({
            "config": answer(&pod_values(&pod, &policy)),
            "class": qos_class(&pod).as_str(),
            "computed": computed_qos_class(&pod).as_str(),
        }))
    }
}

/// upstream: `cm/helpers_linux.go` `MilliCPUToShares`, `MilliCPUToQuota`, `cm/cgroup_manager_linux.go` `getCPUWeight` (v1.36)
pub(super) struct MilliCpuToShares;

#[derive(Deserialize)]
struct CpuCase {
    #[serde(default)]
    milli: i64,
    #[serde(default)]
    period: u32,
    #[serde(default = "fewest")]
    shares: u64,
}

fn fewest() -> u64 {
    rubelet_core::qos::MIN_SHARES
}

impl Function for MilliCpuToShares {
    fn name(&self) -> &'static str {
        "MilliCPUToShares"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["CG-05", "CG-11"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let most = 10_i64.pow(u32::try_from(size).unwrap_or(6).min(6) + 2);
        let least = if rng.chance(5) { -most } else { 0 };
        let milli = rng.between(least, most);
        let period = *rng.pick(&[100_000, 1, 999, 1000, 5000, 12_345, 1_000_000]);
        let most = if rng.chance(50) { 300 } else { 300_000 };
        json!({ "milli": milli, "period": period, "shares": rng.between(2, most) })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let CpuCase { milli, period, shares } = read(case)?;
        Ok(json!({
            "shares": milli_cpu_to_shares(milli),
            "quota": milli_cpu_to_quota(milli, period),
            "weight": shares_to_weight(shares),
        }))
    }
}

/// upstream: `cm/qos_container_manager_linux.go` `setCPUCgroupConfig` (v1.36)
pub(super) struct SetCpuCgroupConfig;

#[derive(Deserialize)]
struct LevelsCase {
    #[serde(default)]
    pods: Vec<Pod>,
}

impl Function for SetCpuCgroupConfig {
    fn name(&self) -> &'static str {
        "setCPUCgroupConfig"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["CG-10"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let pods: Vec<Value> = (0..rng.below(size + 1)).map(|_| quantities::pod(rng, 2)).collect();
        json!({ "pods": pods })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let LevelsCase { pods } = read(case)?;
        let values = qos_values(&pods, &[]);
        Ok(json!({ "burstable": answer(&values.burstable), "bestEffort": answer(&values.best_effort) }))
    }
}

/// upstream: `cm/node_container_manager_linux.go` `getCgroupConfigInternal` (v1.36)
pub(super) struct GetCgroupConfig;

#[derive(Deserialize)]
struct NodeCase {
    #[serde(default)]
    allocatable: BTreeMap<String, Quantity>,
}

impl Function for GetCgroupConfig {
    fn name(&self) -> &'static str {
        "getCgroupConfigInternal"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["CG-21"]
    }

    fn generate(&self, rng: &mut Rng, _size: usize) -> Value {
        let mut allocatable = quantities::list(rng);
        if rng.chance(50) {
            allocatable["pid"] = (*rng.pick(&["0", "1", "1k", "32768", "4Ki", "4194304"])).into();
        }
        json!({ "allocatable": allocatable })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let NodeCase { allocatable } = read(case)?;
        Ok(answer(&node_values(&amounts(Some(&allocatable)), &[])))
    }
}
