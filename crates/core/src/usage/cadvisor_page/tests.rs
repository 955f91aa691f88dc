use std::collections::BTreeSet;
use std::time::Duration;

use expect_test::expect;
use proptest::prelude::*;

use super::super::prometheus::reader::{self, Family};
use super::super::{Pressure, Stall, Stalls, samples};
use super::*;

fn page(usage: NodeUsage) -> String {
    CadvisorPage::new(Some(Arc::new(usage)), samples::machine()).collect()
}

fn read(usage: NodeUsage) -> BTreeMap<String, Family> {
    reader::read(&page(usage)).unwrap()
}

/// The names of the page with their types, extra labels, and whether samples have a time stamp.
fn shape(families: &BTreeMap<String, Family>) -> String {
    const USUAL: [&str; 6] = ["container", "id", "image", "name", "namespace", "pod"];
    let mut out = String::new();
    for (name, family) in families {
        let first = &family.samples[0];
        let own: Vec<_> = first.labels.keys().map(String::as_str).filter(|name| !USUAL.contains(name)).collect();
        let stamp = if first.stamp.is_some() { " @" } else { "" };
        out.push_str(&format!("{name} {} {own:?} {}{stamp}\n", family.kind, family.samples.len()));
    }
    out
}

/// upstream: cadvisor metrics/testdata/prometheus_metrics, kubelet/server/server.go InstallAuthNotRequiredHandlers (v1.36)
#[test]
fn section_28_4_names_types_labels_and_time_stamps() {
    let mut node = samples::node();
    let mut sample = (*node.sample).clone();
    let stall = Stall { total: Duration::from_millis(1250), ..Stall::default() };
    let stalls = Stalls { some: stall, full: stall };
    sample.cgroups.get_mut("/").unwrap().usage.pressure = Some(Pressure { cpu: stalls, memory: stalls, io: stalls });
    node.sample = Arc::new(sample);
    expect![[r#"
        cadvisor_version_info gauge ["cadvisorRevision", "cadvisorVersion", "dockerVersion", "kernelVersion", "osVersion"] 1
        container_blkio_device_usage_total counter ["device", "major", "minor", "operation"] 22 @
        container_cpu_cfs_burst_periods_total counter [] 7 @
        container_cpu_cfs_burst_seconds_total counter [] 7 @
        container_cpu_cfs_periods_total counter [] 7 @
        container_cpu_cfs_throttled_periods_total counter [] 7 @
        container_cpu_cfs_throttled_seconds_total counter [] 7 @
        container_cpu_load_average_10s gauge [] 11 @
        container_cpu_load_d_average_10s gauge [] 11 @
        container_cpu_system_seconds_total counter [] 11 @
        container_cpu_usage_seconds_total counter ["cpu"] 11 @
        container_cpu_user_seconds_total counter [] 11 @
        container_file_descriptors gauge [] 11 @
        container_fs_inodes_free gauge ["device"] 1 @
        container_fs_inodes_total gauge ["device"] 1 @
        container_fs_limit_bytes gauge ["device"] 1 @
        container_fs_reads_bytes_total counter ["device"] 11 @
        container_fs_reads_total counter ["device"] 11 @
        container_fs_usage_bytes gauge ["device"] 1 @
        container_fs_writes_bytes_total counter ["device"] 11 @
        container_fs_writes_total counter ["device"] 11 @
        container_health_state gauge [] 11 @
        container_last_seen gauge [] 11 @
        container_memory_cache gauge [] 11 @
        container_memory_failcnt counter [] 11 @
        container_memory_failures_total counter ["failure_type", "scope"] 44 @
        container_memory_kernel_usage gauge [] 11 @
        container_memory_mapped_file gauge [] 11 @
        container_memory_max_usage_bytes gauge [] 11 @
        container_memory_rss gauge [] 11 @
        container_memory_swap gauge [] 11 @
        container_memory_total_active_file_bytes gauge [] 11 @
        container_memory_total_inactive_file_bytes gauge [] 11 @
        container_memory_usage_bytes gauge [] 11 @
        container_memory_working_set_bytes gauge [] 11 @
        container_network_receive_bytes_total counter ["interface"] 3 @
        container_network_receive_errors_total counter ["interface"] 3 @
        container_network_receive_packets_dropped_total counter ["interface"] 3 @
        container_network_receive_packets_total counter ["interface"] 3 @
        container_network_transmit_bytes_total counter ["interface"] 3 @
        container_network_transmit_errors_total counter ["interface"] 3 @
        container_network_transmit_packets_dropped_total counter ["interface"] 3 @
        container_network_transmit_packets_total counter ["interface"] 3 @
        container_oom_events_total counter [] 11 @
        container_pressure_cpu_stalled_seconds_total counter [] 1 @
        container_pressure_cpu_waiting_seconds_total counter [] 1 @
        container_pressure_io_stalled_seconds_total counter [] 1 @
        container_pressure_io_waiting_seconds_total counter [] 1 @
        container_pressure_memory_stalled_seconds_total counter [] 1 @
        container_pressure_memory_waiting_seconds_total counter [] 1 @
        container_processes gauge [] 11 @
        container_scrape_error gauge [] 1
        container_sockets gauge [] 11 @
        container_spec_cpu_period gauge [] 11
        container_spec_cpu_quota gauge [] 7
        container_spec_cpu_shares gauge [] 11
        container_spec_memory_limit_bytes gauge [] 11
        container_spec_memory_reservation_limit_bytes gauge [] 11
        container_spec_memory_swap_limit_bytes gauge [] 11
        container_start_time_seconds gauge [] 11
        container_tasks_state gauge ["state"] 55 @
        container_threads gauge [] 11 @
        container_threads_max gauge [] 11 @
        container_ulimits_soft gauge ["ulimit"] 6 @
        machine_cpu_books gauge ["boot_id", "machine_id", "system_uuid"] 1
        machine_cpu_cores gauge ["boot_id", "machine_id", "system_uuid"] 1
        machine_cpu_drawers gauge ["boot_id", "machine_id", "system_uuid"] 1
        machine_cpu_physical_cores gauge ["boot_id", "machine_id", "system_uuid"] 1
        machine_cpu_sockets gauge ["boot_id", "machine_id", "system_uuid"] 1
        machine_memory_bytes gauge ["boot_id", "machine_id", "system_uuid"] 1
        machine_nvm_avg_power_budget_watts gauge ["boot_id", "machine_id", "system_uuid"] 1
        machine_nvm_capacity gauge ["boot_id", "machine_id", "mode", "system_uuid"] 2
        machine_scrape_error gauge [] 1
        machine_swap_bytes gauge ["boot_id", "machine_id", "system_uuid"] 1
    "#]].assert_eq(&shape(&read(node)));
}

/// upstream: kubelet/server/server.go containerPrometheusLabelsFunc (v1.36)
#[test]
fn section_28_4_every_row_names_its_pod_sandbox_or_container() {
    let rows: String = page(samples::node())
        .lines()
        .filter(|line| line.starts_with("container_threads{"))
        .map(|l| format!("{l}\n"))
        .collect();
    expect![[r#"
        container_threads{container="",id="/",image="",name="",namespace="",pod=""} 7 1780000000000
        container_threads{container="",id="/kubepods",image="",name="",namespace="",pod=""} 7 1780000000000
        container_threads{container="",id="/kubepods/burstable",image="",name="",namespace="",pod=""} 7 1780000000000
        container_threads{container="",id="/kubepods/burstable/poduid-default-web",image="",name="",namespace="default",pod="web"} 7 1780000000000
        container_threads{container="c0",id="/kubepods/burstable/poduid-default-web/uid-default-web-c0",image="busybox:1",name="uid-default-web-c0",namespace="default",pod="web"} 7 1780000000000
        container_threads{container="c1",id="/kubepods/burstable/poduid-default-web/uid-default-web-c1",image="busybox:1",name="uid-default-web-c1",namespace="default",pod="web"} 7 1780000000000
        container_threads{container="",id="/kubepods/burstable/poduid-default-web/uid-default-web-s",image="pause:3.10",name="uid-default-web-s",namespace="default",pod="web"} 7 1780000000000
        container_threads{container="",id="/kubepods/burstable/poduid-kube-system-host",image="",name="",namespace="kube-system",pod="host"} 7 1780000000000
        container_threads{container="c0",id="/kubepods/burstable/poduid-kube-system-host/uid-kube-system-host-c0",image="busybox:1",name="uid-kube-system-host-c0",namespace="kube-system",pod="host"} 7 1780000000000
        container_threads{container="",id="/kubepods/burstable/poduid-kube-system-host/uid-kube-system-host-s",image="pause:3.10",name="uid-kube-system-host-s",namespace="kube-system",pod="host"} 7 1780000000000
        container_threads{container="",id="/system.slice/kubelet",image="",name="",namespace="",pod=""} 7 1780000000000
    "#]].assert_eq(&rows);
}

#[test]
fn sts_04_the_network_is_that_of_the_sandbox_and_not_of_pods_on_the_nodes() {
    let page = page(samples::node());
    let rows: String = page
        .lines()
        .filter(|line| line.starts_with("container_network_receive_bytes_total{"))
        .map(|line| format!("{line}\n"))
        .collect();
    expect![[r#"
        container_network_receive_bytes_total{container="",id="/",image="",name="",namespace="",pod="",interface="eth0"} 100 1780000000000
        container_network_receive_bytes_total{container="",id="/",image="",name="",namespace="",pod="",interface="ens4"} 100 1780000000000
        container_network_receive_bytes_total{container="",id="/kubepods/burstable/poduid-default-web/uid-default-web-s",image="pause:3.10",name="uid-default-web-s",namespace="default",pod="web",interface="eth0"} 100 1780000000000
    "#]].assert_eq(&rows);

    let mut node = samples::node();
    node.pods[0].sandbox.as_mut().unwrap().cgroup = None;
    let families = read(node);
    let rows: Vec<_> =
        families["container_network_receive_bytes_total"].samples.iter().map(|one| one.labels["id"].as_str()).collect();
    assert_eq!(rows, ["/", "/", "/kubepods/burstable/poduid-default-web"], "without a cgroup of the sandbox");
}

#[test]
fn a_look_that_failed_leaves_the_machine() {
    let page: String = CadvisorPage::new(None, samples::machine()).collect();
    let families = reader::read(&page).unwrap();
    assert_eq!(families["container_scrape_error"].samples[0].value, 1.0);
    assert_eq!(families["machine_memory_bytes"].samples[0].value, 1_000_000.0);
    let others = families.keys().filter(|name| !name.starts_with("machine_")).collect::<Vec<_>>();
    assert_eq!(others, ["cadvisor_version_info", "container_scrape_error"]);
}

#[test]
fn limits_of_the_root_are_those_of_the_machine() {
    let families = read(samples::node());
    let of = |family: &str, id: &str| {
        families[family].samples.iter().find(|sample| sample.labels["id"] == id).map(|sample| sample.value)
    };
    assert_eq!(of("container_spec_memory_limit_bytes", "/"), Some(1_000_000.0));
    assert_eq!(of("container_spec_memory_swap_limit_bytes", "/"), Some(500_000.0));
    assert_eq!(of("container_spec_memory_limit_bytes", "/kubepods"), Some(0.0));
    assert_eq!(of("container_spec_cpu_quota", "/kubepods"), None);
    assert_eq!(of("container_cpu_cfs_periods_total", "/kubepods"), None, "only with a CPU limit");
}

#[test]
fn file_systems_have_a_device_once() {
    let mut node = samples::node();
    node.disks.imagefs = Some(samples::fs(0x0801, 50_000));
    node.disks.containerfs = Some(samples::fs(0x35, 60_000));
    let families = read(node);
    let devices: Vec<_> = families["container_fs_limit_bytes"]
        .samples
        .iter()
        .map(|sample| (sample.labels["device"].as_str(), sample.value))
        .collect();
    assert_eq!(devices, [("/dev/vda", 100_000.0), ("/dev/block/8:1", 50_000.0), ("0:53", 60_000.0)]);
}

#[test]
fn cgroups_that_a_container_made_are_shown_up_to_a_number() {
    let mut node = samples::node();
    let mut sample = (*node.sample).clone();
    for n in 0..MOST_OTHERS + 50 {
        let other = samples::cgroup(CgroupKind::Other, 0);
        sample.cgroups.insert(format!("/kubepods/burstable/poduid-default-web/uid-default-web-c0/own-{n}"), other);
    }
    sample.cgroups.insert(format!("/kubepods/{}", "x".repeat(LONGEST_VALUE)), samples::cgroup(CgroupKind::Other, 0));
    let gone = CgroupKind::Container { pod: "gone".into(), id: "gone".into() };
    sample.cgroups.insert("/kubepods/podgone/gone".into(), samples::cgroup(gone, 0));
    let before = read(samples::node())["container_threads"].samples.len();
    node.sample = Arc::new(sample);
    assert_eq!(read(node)["container_threads"].samples.len(), before + MOST_OTHERS);
}

#[test]
fn the_page_comes_in_parts_and_a_part_ends_with_a_family() {
    let usage = Arc::new(samples::full_node(125));
    let parts: Vec<_> = CadvisorPage::new(Some(usage), samples::machine()).collect();
    assert!(parts.len() > 20, "{} parts", parts.len());
    let mut names = BTreeSet::new();
    for part in &parts {
        for name in reader::read(part).unwrap().into_keys() {
            assert!(names.insert(name.clone()), "{name} is in two parts");
        }
    }
    // The largest family has five samples for each of 504 cgroups.
    assert!(parts.iter().all(|part| part.len() < 1024 * 1024), "{:?}", parts.iter().map(String::len).max());
}

proptest! {
    /// Whatever users call their things, the page stays one: names of pods and containers, images, paths of cgroups, devices
    /// and interfaces.
    #[test]
    fn a_label_value_never_breaks_the_page(texts in prop::collection::vec("(?s).{0,40}|[\"\\\\\n{}=, #]{0,12}", 8)) {
        let mut node = samples::node();
        let mut sample = (*node.sample).clone();
        let web = &mut node.pods[0];
        web.pod.namespace = texts[0].as_str().into();
        web.pod.name = texts[1].as_str().into();
        web.containers[0].name = texts[2].clone();
        web.containers[0].image = texts[3].clone();
        web.sandbox.as_mut().unwrap().image = texts[4].clone();
        web.network.as_mut().unwrap().interfaces[0].name = texts[5].clone();
        let own = sample.cgroups.get_mut(web.containers[0].cgroup.as_ref().unwrap()).unwrap();
        own.usage.io[0].device = texts[6].clone();
        sample.cgroups.insert(format!("/kubepods/{}", texts[7]), samples::cgroup(CgroupKind::Other, 0));
        node.sample = Arc::new(sample);
        let resource = crate::usage::resource_page(&node);
        let page = reader::read(&page(node)).map_err(TestCaseError::fail)?;
        reader::read(&resource).map_err(TestCaseError::fail)?;
        let rows = &page["container_threads"].samples;
        prop_assert_eq!(rows.len(), 12);
        prop_assert!(rows.iter().any(|row| row.labels["image"] == texts[3] && row.labels["pod"] == texts[1]));
    }
}
