use std::fs;

use rubelet_engine::ports::CgroupVersion;

use super::*;
use crate::testing::{TempDir, temp_dir};

fn fake_host() -> (TempDir, KernelFiles) {
    let dir = temp_dir();
    let files = KernelFiles { proc: dir.path().join("proc"), sys: dir.path().join("sys") };
    for path in [
        "proc/self",
        "sys/devices/system/cpu/cpu0",
        "sys/devices/system/cpu/cpu1/thermal_throttle",
        "sys/fs/selinux",
        "sys/kernel/mm/hugepages/hugepages-1048576kB",
        "sys/kernel/mm/hugepages/hugepages-2048kB",
        "sys/kernel/mm/hugepages/else",
    ] {
        fs::create_dir_all(dir.path().join(path)).unwrap();
    }
    fs::write(files.proc.join("meminfo"), "MemTotal:       16384 kB\nMemFree: 1 kB\nSwapTotal:       2 kB\n").unwrap();
    fs::write(files.sys.join("devices/system/cpu/online"), "0-3,6\n").unwrap();
    fs::write(files.sys.join("fs/selinux/enforce"), "0").unwrap();
    let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    fs::write(files.proc.join("self/mountinfo"), mounts).unwrap();
    (dir, files)
}

fn request(files: &KernelFiles) -> FactsRequest {
    FactsRequest {
        hostname_override: " 192.0.2.7 ".to_owned(),
        resolv_conf: "/etc/resolv.conf".to_owned(),
        files: files.clone(),
        ..FactsRequest::default()
    }
}

#[tokio::test]
async fn facts_are_read_from_the_kernels_files() {
    let (_dir, files) = fake_host();
    let facts = node_facts(request(&files)).await.unwrap();
    let expected = NodeFacts {
        name: "192.0.2.7".to_owned(),
        hostname: "192.0.2.7".to_owned(),
        cpu_millis: 5_000,
        memory_bytes: 16 << 20,
        swap_bytes: 2048,
        hugepage_sizes: vec![2 << 20, 1 << 30],
        cgroups: CgroupVersion::V2,
        resolv_conf: "/etc/resolv.conf".to_owned(),
        apparmor: false,
        selinux: true,
        swap_controller: false,
        thermal_throttle_paths: vec![files.sys.join("devices/system/cpu/cpu1/thermal_throttle").display().to_string()],
        kernel: running_kernel().unwrap_or_default(),
    };
    assert_eq!(facts.node, expected);
    assert_eq!(facts.ips, ["192.0.2.7".parse::<IpAddr>().unwrap()]);
    assert!(facts.no_address.is_none());
}

#[tokio::test]
async fn an_unreadable_kernel_file_is_named() {
    let (_dir, files) = fake_host();
    fs::write(files.sys.join("devices/system/cpu/online"), "all\n").unwrap();
    let err = node_facts(request(&files)).await.unwrap_err();
    assert_eq!(err.to_string(), format!("read CPUs from {}", files.sys.join("devices/system/cpu/online").display()));
    fs::remove_file(files.proc.join("meminfo")).unwrap();
    let err = node_facts(request(&files)).await.unwrap_err();
    assert_eq!(err.to_string(), format!("read memory from {}", files.proc.join("meminfo").display()));
}

#[tokio::test]
async fn an_unusable_address_leaves_the_node_without_addresses() {
    let (_dir, files) = fake_host();
    let request = FactsRequest { node_ips: vec!["127.0.0.1".parse().unwrap()], ..request(&files) };
    let facts = node_facts(request).await.unwrap();
    assert!(facts.ips.is_empty());
    assert_eq!(facts.no_address.unwrap().to_string(), "node IP 127.0.0.1 can't be loopback address");
}

#[tokio::test]
async fn facts_of_this_machine_can_be_read() {
    let facts = node_facts(FactsRequest::default()).await.unwrap().node;
    assert!(facts.cpu_millis >= 1000 && facts.memory_bytes > 0 && !facts.name.is_empty());
}

#[test]
fn boot_03_a_name_has_neither_blanks_nor_capitals() {
    assert_eq!(hostname(" My-Node\n").unwrap(), "my-node");
    assert!(matches!(hostname("  "), Err(FactsError::NoHostname)));
    assert!(!hostname("").unwrap().is_empty());
}

#[test]
fn cpus_are_counted() {
    for (list, count) in [
        ("0", Some(1)),
        ("0-1\n", Some(2)),
        ("0-3,8,10-11", Some(7)),
        ("", None),
        ("3-1", None),
        ("x", None),
        ("0-9223372036854775807", None),
    ] {
        assert_eq!(parse_cpus(list), count, "{list}");
    }
}

#[test]
fn boot_09_swap_is_on_if_the_table_has_more_than_its_heading() {
    let (_dir, files) = fake_host();
    assert!(!swap_is_on(&files).unwrap(), "no table, no swap");
    let heading = "Filename\tType\tSize\tUsed\tPriority\n";
    fs::write(files.proc.join("swaps"), heading).unwrap();
    assert!(!swap_is_on(&files).unwrap());
    fs::write(files.proc.join("swaps"), format!("{heading}/dev/sda2 partition 1 0 -2\n")).unwrap();
    assert!(swap_is_on(&files).unwrap());
}

#[test]
fn kernel_versions() {
    for (release, version) in [
        ("6.18.44-fc-v445", Some((6, 18))),
        ("5.10.0-20-amd64", Some((5, 10))),
        ("6.4", Some((6, 4))),
        ("6", None),
        ("", None),
    ] {
        assert_eq!(kernel_version(release), version, "{release}");
    }
}

#[test]
fn rt_94_swap_is_limited_where_our_own_cgroup_has_the_file() {
    let (_dir, files) = fake_host();
    let own = files.sys.join("fs/cgroup/system.slice/kubelet.service");
    fs::create_dir_all(&own).unwrap();
    fs::create_dir_all(files.sys.join("fs/cgroup/memory")).unwrap();
    fs::write(files.sys.join("fs/cgroup/cgroup.controllers"), "cpu memory").unwrap();
    fs::write(files.proc.join("self/cgroup"), "0::/system.slice/kubelet.service\n").unwrap();
    assert!(!swap_can_be_limited(&files, CgroupVersion::V2), "a kernel without swap accounting");
    fs::write(own.join("memory.swap.max"), "max").unwrap();
    assert!(swap_can_be_limited(&files, CgroupVersion::V2));
    fs::write(files.proc.join("self/cgroup"), "0::/\n").unwrap();
    assert!(!swap_can_be_limited(&files, CgroupVersion::V2), "the root cgroup has no swap limit");
    assert!(!swap_can_be_limited(&files, CgroupVersion::V1));
    fs::write(files.sys.join("fs/cgroup/memory/memory.memsw.limit_in_bytes"), "0").unwrap();
    assert!(swap_can_be_limited(&files, CgroupVersion::V1));
}
