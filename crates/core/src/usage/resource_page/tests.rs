use std::sync::Arc;

use expect_test::expect;

use super::super::prometheus::reader;
use super::super::samples;
use super::*;

/// upstream: kubelet/metrics/collectors/resource_metrics_test.go TestCollectResourceMetrics (v1.36)
#[test]
fn section_28_2_names_types_labels_and_time_stamps() {
    expect![[r##"
        # HELP container_cpu_usage_seconds_total [STABLE] CPU time in seconds.
        # TYPE container_cpu_usage_seconds_total counter
        container_cpu_usage_seconds_total{container="c0",namespace="default",pod="web"} 1.501 1780000000000
        container_cpu_usage_seconds_total{container="c1",namespace="default",pod="web"} 1.502 1780000000000
        container_cpu_usage_seconds_total{container="c0",namespace="kube-system",pod="host"} 1.501 1780000000000
        # HELP container_memory_working_set_bytes [STABLE] Memory that cannot be reclaimed at once, in bytes.
        # TYPE container_memory_working_set_bytes gauge
        container_memory_working_set_bytes{container="c0",namespace="default",pod="web"} 6001 1780000000000
        container_memory_working_set_bytes{container="c1",namespace="default",pod="web"} 6002 1780000000000
        container_memory_working_set_bytes{container="c0",namespace="kube-system",pod="host"} 6001 1780000000000
        # HELP container_start_time_seconds [STABLE] When the container was started, in seconds since 1970.
        # TYPE container_start_time_seconds gauge
        container_start_time_seconds{container="c0",namespace="default",pod="web"} 1779999950
        container_start_time_seconds{container="c1",namespace="default",pod="web"} 1779999950
        container_start_time_seconds{container="c0",namespace="kube-system",pod="host"} 1779999950
        # HELP container_swap_limit_bytes [ALPHA] Swap that may be used, in bytes.
        # TYPE container_swap_limit_bytes gauge
        container_swap_limit_bytes{container="c0",namespace="default",pod="web"} 60000 1780000000000
        container_swap_limit_bytes{container="c1",namespace="default",pod="web"} 60000 1780000000000
        container_swap_limit_bytes{container="c0",namespace="kube-system",pod="host"} 60000 1780000000000
        # HELP container_swap_usage_bytes [ALPHA] Swap in use, in bytes.
        # TYPE container_swap_usage_bytes gauge
        container_swap_usage_bytes{container="c0",namespace="default",pod="web"} 64 1780000000000
        container_swap_usage_bytes{container="c1",namespace="default",pod="web"} 64 1780000000000
        container_swap_usage_bytes{container="c0",namespace="kube-system",pod="host"} 64 1780000000000
        # HELP node_cpu_usage_seconds_total [STABLE] CPU time in seconds.
        # TYPE node_cpu_usage_seconds_total counter
        node_cpu_usage_seconds_total 2.5 1780000000000
        # HELP node_memory_working_set_bytes [STABLE] Memory that cannot be reclaimed at once, in bytes.
        # TYPE node_memory_working_set_bytes gauge
        node_memory_working_set_bytes 7000 1780000000000
        # HELP node_swap_usage_bytes [ALPHA] Swap in use, in bytes.
        # TYPE node_swap_usage_bytes gauge
        node_swap_usage_bytes 64 1780000000000
        # HELP pod_cpu_usage_seconds_total [STABLE] CPU time in seconds.
        # TYPE pod_cpu_usage_seconds_total counter
        pod_cpu_usage_seconds_total{namespace="default",pod="web"} 1.599 1780000000000
        pod_cpu_usage_seconds_total{namespace="kube-system",pod="host"} 1.599 1780000000000
        # HELP pod_memory_working_set_bytes [STABLE] Memory that cannot be reclaimed at once, in bytes.
        # TYPE pod_memory_working_set_bytes gauge
        pod_memory_working_set_bytes{namespace="default",pod="web"} 6099 1780000000000
        pod_memory_working_set_bytes{namespace="kube-system",pod="host"} 6099 1780000000000
        # HELP pod_swap_usage_bytes [ALPHA] Swap in use, in bytes.
        # TYPE pod_swap_usage_bytes gauge
        pod_swap_usage_bytes{namespace="default",pod="web"} 64 1780000000000
        pod_swap_usage_bytes{namespace="kube-system",pod="host"} 64 1780000000000
        # HELP resource_scrape_error [STABLE] 1 if nothing could be measured, else 0.
        # TYPE resource_scrape_error gauge
        resource_scrape_error 0
    "##]]
    .assert_eq(&resource_page(&samples::node()));
}

#[test]
fn section_28_2_a_look_that_failed_is_an_error_on_the_page() {
    expect![[r#"
        # HELP resource_scrape_error [STABLE] 1 if nothing could be measured, else 0.
        # TYPE resource_scrape_error gauge
        resource_scrape_error 1
    "#]]
    .assert_eq(&resource_failure());
}

#[test]
fn a_value_that_could_not_be_read_is_no_sample() {
    let mut node = samples::node();
    let mut sample = (*node.sample).clone();
    for cgroup in sample.cgroups.values_mut() {
        (cgroup.usage.cpu, cgroup.usage.memory) = (None, None);
    }
    node.sample = Arc::new(sample);
    let families = reader::read(&resource_page(&node)).unwrap();
    assert_eq!(families.keys().collect::<Vec<_>>(), ["container_start_time_seconds", "resource_scrape_error"]);
}

#[test]
fn a_pod_without_a_running_container_and_an_older_one_of_the_same_name_are_not_shown() {
    let mut node = samples::node();
    let mut older = node.pods[0].clone();
    older.sandbox.as_mut().unwrap().created_at = samples::at(-900);
    older.cgroup = None;
    node.pods.insert(1, older);
    node.pods[2].containers.clear();
    let families = reader::read(&resource_page(&node)).unwrap();
    let names = |family: &str| families[family].samples.iter().map(|one| one.labels["pod"].clone()).collect::<Vec<_>>();
    assert_eq!(names("pod_cpu_usage_seconds_total"), ["web"]);
    assert_eq!(names("container_cpu_usage_seconds_total"), ["web", "web"]);
}
