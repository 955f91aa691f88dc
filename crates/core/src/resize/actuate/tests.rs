use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;
use crate::resize::Sizes;

fn change(id: &str) -> ResizeContainer {
    ResizeContainer { id: id.into(), name: id.to_owned(), old: Sizes::default(), new: Sizes::default() }
}

fn steps(memory: &[&str], cpu: &[&str]) -> Vec<(String, &'static [&'static str])> {
    let changes = |ids: &[&str]| ids.iter().map(|id| change(id)).collect();
    let plan = ResizePlan { memory: changes(memory), cpu: changes(cpu), pod: true };
    plan.steps().into_iter().map(|(change, resources)| (change.name.clone(), resources)).collect()
}

#[test]
fn memory_changes_before_cpu_and_a_container_that_changes_alone_changes_both_at_once_rsz_07() {
    assert_eq!(steps(&["a"], &["a"]), [("a".to_owned(), [MEMORY, CPU].as_slice())]);
    let one = |name: &str, resource: &'static [&'static str]| (name.to_owned(), resource);
    assert_eq!(steps(&["a"], &["b"]), [one("a", &[MEMORY]), one("b", &[CPU])]);
    assert_eq!(steps(&["a", "b"], &["a"]), [one("a", &[MEMORY]), one("b", &[MEMORY]), one("a", &[CPU])]);
    assert_eq!(steps(&[], &[]), []);
}

fn resources(limits: &[(&str, &str)]) -> ResourceRequirements {
    let list: BTreeMap<_, _> = limits.iter().map(|(name, n)| ((*name).to_owned(), Quantity((*n).to_owned()))).collect();
    ResourceRequirements { limits: Some(list).filter(|list| !list.is_empty()), ..ResourceRequirements::default() }
}

#[test]
fn a_step_leaves_the_other_resources_of_its_container_as_actuated() {
    let container = |of| Container { name: "app".to_owned(), resources: Some(of), ..Container::default() };
    let mut actuated = PodAllocation::default();
    actuated.set(&Pod::default(), &container(resources(&[(CPU, "1"), (MEMORY, "1Gi")])));
    let wanted = container(resources(&[(CPU, "2")]));
    let resized = |of: &[&str]| actuated.with_resized(&Pod::default(), &wanted, of).resources;
    assert_eq!(resized(&[CPU]), Some(resources(&[(CPU, "2"), (MEMORY, "1Gi")])));
    assert_eq!(resized(&[MEMORY]), Some(resources(&[(CPU, "1")])));
    assert_eq!(resized(&[MEMORY, CPU]), wanted.resources);
}

#[test]
fn a_container_without_a_limit_keeps_that_of_its_pod_until_it_is_resized() {
    let pod = |cpu: &str, memory: &str| {
        crate::resources::tests::pod(serde_json::json!({
            "containers": [{"name": "app"}], "resources": {"limits": {"cpu": cpu, "memory": memory}},
        }))
    };
    let (old, new) = (pod("1", "1Gi"), pod("2", "2Gi"));
    let mut actuated = PodAllocation::actuated(&old);
    actuated.pod = PodAllocation::of(&new).pod;
    let app = &new.spec.as_ref().expect("a spec").containers[0];
    let resized = actuated.with_resized(&new, app, &[MEMORY]);
    assert_eq!(resized.resources, Some(resources(&[(CPU, "1"), (MEMORY, "2Gi")])));
    assert!(crate::resize::starts_resized(&new, app, &actuated));
    actuated.set(&new, app);
    assert!(!crate::resize::starts_resized(&new, app, &actuated));
}

#[test]
fn the_pods_cgroup_has_room_for_both_sizes_and_no_limit_is_the_largest() {
    let values = |shares, quota, memory| CgroupValues {
        cpu_shares: Some(shares),
        cpu_quota: quota,
        memory_limit: memory,
        ..CgroupValues::default()
    };
    let (small, large) = (values(2, Some(100), Some(10)), values(4, Some(200), Some(20)));
    assert_eq!(larger(&small, &large), large);
    assert_eq!(larger(&large, &small), large);
    assert_eq!(larger(&small, &values(2, None, None)), values(2, Some(-1), Some(-1)));
    assert_eq!(lower_memory_limit(&large, &small), Some(10));
    assert_eq!(lower_memory_limit(&values(2, None, None), &small), Some(10));
    assert_eq!(lower_memory_limit(&small, &large), None);
    assert_eq!(lower_memory_limit(&small, &values(2, None, Some(-1))), None);
}

#[test]
fn the_record_of_a_sandbox_has_the_values_of_the_pods_cgroup() {
    let values = CgroupValues {
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory_limit: Some(1 << 20),
        ..CgroupValues::default()
    };
    let expected = LinuxResources {
        cpu_shares: 512,
        cpu_quota: 50_000,
        cpu_period: 100_000,
        memory_limit_in_bytes: 1 << 20,
        ..LinuxResources::default()
    };
    assert_eq!(LinuxResources::of_pod(&values), expected);
    let unlimited = CgroupValues { memory_limit: Some(-1), ..CgroupValues::default() };
    assert_eq!(LinuxResources::of_pod(&unlimited), LinuxResources::default());
}

#[test]
fn no_limit_is_written_as_minus_one_whichever_size_has_none() {
    let memory = |memory_limit| CgroupValues { memory_limit, ..CgroupValues::default() };
    for (a, b, expected) in [
        (Some(10), None, Some(-1)),
        (None, Some(10), Some(-1)),
        (Some(0), Some(10), Some(0)),
        (Some(10), Some(20), Some(20)),
        (Some(20), Some(10), Some(20)),
        (None, None, Some(-1)),
    ] {
        assert_eq!(larger(&memory(a), &memory(b)).memory_limit, expected, "{a:?} {b:?}");
    }
    // Zero is no limit, and the same limit is no lower one.
    for (old, new, lower) in
        [(Some(10), Some(0), None), (Some(0), Some(10), Some(10)), (Some(10), Some(10), None), (None, None, None)]
    {
        assert_eq!(lower_memory_limit(&memory(old), &memory(new)), lower, "{old:?} {new:?}");
    }
}

#[test]
fn a_plan_is_empty_when_neither_containers_nor_the_pod_change() {
    let plan = |memory: usize, cpu: usize, pod| {
        ResizePlan { memory: vec![change("a"); memory], cpu: vec![change("a"); cpu], pod }.is_empty()
    };
    assert!(plan(0, 0, false));
    assert!(!plan(1, 0, false) && !plan(0, 1, false) && !plan(0, 0, true) && !plan(1, 1, true));
}
