//! RT-90 … RT-94.

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::super::*;
use super::{Given, configured, node, one};
use crate::pod::PodExt;
use crate::qos::{CgroupVersion, CpuPolicy};

fn line(r: &LinuxResources) -> String {
    let mut text = vec![
        format!("shares {}", r.cpu_shares),
        format!("quota {}/{}", r.cpu_quota, r.cpu_period),
        format!("memory {}", r.memory_limit_in_bytes),
        format!("swap {}", r.memory_swap_limit_in_bytes),
        format!("oom {}", r.oom_score_adj),
    ];
    text.extend(r.hugepage_limits.iter().map(|(size, limit)| format!("{size} {limit}")));
    text.extend(r.unified.iter().map(|(file, value)| format!("{file}={value}")));
    text.join(", ")
}

fn check(ctx: &LaunchContext, pod: &Pod, expected: &Expect) {
    let config = configured(ctx, pod, &Given::default()).expect("a config");
    expected.assert_eq(&line(&config.resources));
}

fn with(requests: Value, limits: Value) -> Pod {
    one(json!({"resources": {"requests": requests, "limits": limits}}), json!({}))
}

/// RT-90, RT-91, RT-93; upstream: kuberuntime_container_linux_test.go TestCalculateLinuxResources (v1.36)
#[test]
fn rt_90_cpu_and_memory_in_the_kernels_units() {
    let v2 = node();
    check(
        &v2,
        &with(json!({}), json!({})),
        &expect!["shares 2, quota 0/100000, memory 0, swap 0, oom 1000, memory.oom.group=1"],
    );
    let both = json!({"cpu": "2", "memory": "1Gi"});
    check(
        &v2,
        &with(both.clone(), both.clone()),
        &expect!["shares 2048, quota 200000/100000, memory 1073741824, swap 0, oom -997, memory.oom.group=1"],
    );
    // No request: the limit counts. A request of zero is a request.
    check(
        &v2,
        &with(json!({}), both.clone()),
        &expect!["shares 2048, quota 200000/100000, memory 1073741824, swap 0, oom 999, memory.oom.group=1"],
    );
    check(
        &v2,
        &with(json!({"cpu": "0"}), both.clone()),
        &expect!["shares 2, quota 200000/100000, memory 1073741824, swap 0, oom 999, memory.oom.group=1"],
    );
    check(
        &v2,
        &with(json!({"cpu": "1m"}), json!({"cpu": "1m"})),
        &expect!["shares 2, quota 1000/100000, memory 0, swap 0, oom 999, memory.oom.group=1"],
    );
    let free = LaunchContext { cpu: CpuPolicy { quota: false, period: 100_000 }, ..node() };
    check(
        &free,
        &with(both.clone(), both.clone()),
        &expect!["shares 2048, quota 0/0, memory 1073741824, swap 0, oom -997, memory.oom.group=1"],
    );
    let single = LaunchContext { single_process_oom_kill: Some(true), ..node() };
    check(&single, &with(json!({}), json!({})), &expect!["shares 2, quota 0/100000, memory 0, swap 0, oom 1000"]);
    let v1 = LaunchContext { cgroups: CgroupVersion::V1, ..node() };
    check(&v1, &with(json!({}), json!({})), &expect!["shares 2, quota 0/100000, memory 0, swap 0, oom 1000"]);
}

#[test]
fn rt_90_cpus_of_its_own_need_no_quota() {
    let both = json!({"cpu": "2", "memory": "1Gi"});
    let pod = with(both.clone(), both);
    let given = Given::default();
    let inputs = ContainerInputs { exclusive_cpus: true, ..given.inputs(&pod.regular()[0]) };
    assert_eq!(container_config(&node(), &pod, &inputs).expect("a config").resources.cpu_quota, -1);
}

/// RT-91: limits of the pod's own where the container has none; every page size that the host knows.
#[test]
fn rt_91_pod_level_limits_and_huge_pages() {
    let huge = LaunchContext { hugepage_sizes: vec![2 << 20, 1 << 30], ..node() };
    let own = json!({"limits": {"cpu": "1", "memory": "2Gi", "hugepages-2Mi": "4Mi"}});
    let level = one(json!({}), json!({"resources": own}));
    check(
        &huge,
        &level,
        &expect![
            "shares 1024, quota 100000/100000, memory 2147483648, swap 0, oom 999, 2MB 4194304, 1GB 0, memory.oom.group=1"
        ],
    );
    let both =
        one(json!({"resources": {"limits": {"memory": "1Gi", "hugepages-2Mi": "2Mi"}}}), json!({"resources": own}));
    check(
        &huge,
        &both,
        &expect![
            "shares 1024, quota 100000/100000, memory 1073741824, swap 0, oom 999, 2MB 2097152, 1GB 0, memory.oom.group=1"
        ],
    );
}

/// RT-94; upstream: kuberuntime_container_linux_test.go TestGenerateLinuxContainerResourcesWithSwap (v1.36)
#[test]
fn rt_94_swap_by_share_of_memory() {
    let swap = |limited, controller| SwapPolicy { limited, bytes: 5 << 30, controller };
    let burstable = with(json!({"memory": "1Gi"}), json!({"memory": "2Gi"}));
    let value = |ctx: &LaunchContext, pod: &Pod| {
        let resources = configured(ctx, pod, &Given::default()).expect("a config").resources;
        (resources.unified.get("memory.swap.max").cloned().unwrap_or_default(), resources.memory_swap_limit_in_bytes)
    };
    let limited = LaunchContext { swap: swap(true, true), ..node() };
    assert_eq!(value(&limited, &burstable), ((512 << 20).to_string(), 0));
    assert_eq!(value(&LaunchContext { swap: swap(false, true), ..node() }, &burstable), ("0".to_owned(), 0));
    assert_eq!(value(&LaunchContext { swap: swap(true, false), ..node() }, &burstable), (String::new(), 0));
    let v1 = LaunchContext { cgroups: CgroupVersion::V1, ..limited.clone() };
    assert_eq!(value(&v1, &burstable), (String::new(), 2 << 30));
    let same = json!({"cpu": "1", "memory": "1Gi"});
    let none = [
        ("guaranteed", with(same.clone(), same)),
        ("no memory", with(json!({"cpu": "1"}), json!({}))),
        ("request is limit", with(json!({"memory": "1Gi"}), json!({"memory": "1Gi"}))),
        ("critical", one(json!({"resources": {"requests": {"memory": "1Gi"}}}), json!({"priority": 2_000_000_000}))),
        ("more than the node", with(json!({"memory": "11Gi"}), json!({}))),
    ];
    for (name, pod) in none {
        assert_eq!(value(&limited, &pod), ("0".to_owned(), 0), "{name}");
    }
    let all = with(json!({"memory": "10Gi"}), json!({}));
    assert_eq!(value(&limited, &all), ((5_i64 << 30).to_string(), 0), "all of the node's memory, all of its swap");
    // RSZ-05: a resize asks the same.
    let app = |pod: &Pod| pod.regular().first().cloned().expect("a container");
    assert!(may_swap(&limited, &burstable, &app(&burstable)));
    let unlimited = LaunchContext { swap: swap(false, true), ..node() };
    assert!(!may_swap(&unlimited, &burstable, &app(&burstable)));
}

#[test]
fn the_policy_for_cgroups_of_pods_is_that_of_the_node() {
    let ctx = LaunchContext { pod_pids_limit: 77, hugepage_sizes: vec![2 << 20], ..node() };
    let policy = ctx.pod_cgroup_policy();
    assert_eq!((policy.cpu, policy.pids_limit, policy.hugepage_sizes), (ctx.cpu, 77, vec![2 << 20]));
}
