//! Trees that a test made, of both versions, and those of this machine's kernel.

use std::path::Path;
use std::time::Duration;

use rubelet_core::id::{ContainerId, PodUid};
use rubelet_core::qos::CgroupDriver;
use rubelet_core::usage::{CgroupKind, Sample, Throttling};

use super::*;
use crate::cgroups::Hierarchy;
use crate::testing::{TempDir, temp_dir};

mod node;

const ID: &str = "0f3ac1d5e2b70f3ac1d5e2b70f3ac1d5e2b70f3ac1d5e2b70f3ac1d5e2b70f3a";

fn write(dir: &Path, file: &str, content: &str) {
    let path = dir.join(file);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    std::fs::write(path, content).expect("written");
}

/// Files of a v1 cgroup that has used so much of everything.
fn cgroup_v1(root: &Path, path: &str, number: u64) {
    let put = |tree: &str, file: &str, content: String| write(&root.join(tree).join(path), file, &content);
    put("cpu,cpuacct", "cpuacct.usage", format!("{number}000000000\n"));
    put("cpu,cpuacct", "cpuacct.stat", "user 100\nsystem 50\n".into());
    put("cpu,cpuacct", "cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_time 5000000\n".into());
    put("cpu,cpuacct", "cpu.shares", "512\n".into());
    put("cpu,cpuacct", "cpu.cfs_quota_us", "50000\n".into());
    put("cpu,cpuacct", "cpu.cfs_period_us", "100000\n".into());
    put("memory", "memory.usage_in_bytes", format!("{}\n", number * 1000));
    put("memory", "memory.max_usage_in_bytes", "999999\n".into());
    put("memory", "memory.failcnt", "3\n".into());
    put("memory", "memory.kmem.usage_in_bytes", "77\n".into());
    put("memory", "memory.limit_in_bytes", "1048576\n".into());
    put("memory", "memory.memsw.limit_in_bytes", "9223372036854771712\n".into());
    put("memory", "memory.soft_limit_in_bytes", "9223372036854771712\n".into());
    put("memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n".into());
    let stat = "cache 1\nrss 2\npgfault 5\npgmajfault 6\ntotal_cache 300\ntotal_rss 200\ntotal_mapped_file 20\n\
                total_active_file 30\ntotal_inactive_file 100\ntotal_pgfault 50\ntotal_pgmajfault 60\ntotal_swap 4096\n";
    put("memory", "memory.stat", stat.into());
    put("pids", "pids.current", "7\n".into());
    put("pids", "pids.max", "100\n".into());
    put("blkio", "blkio.throttle.io_service_bytes_recursive", "8:0 Read 4096\n8:0 Write 8192\nTotal 12288\n".into());
    put("blkio", "blkio.throttle.io_serviced_recursive", "8:0 Read 1\n8:0 Write 2\nTotal 3\n".into());
    put("memory", "cgroup.procs", String::new());
}

/// The same of cgroup v2.
fn cgroup_v2(root: &Path, path: &str, number: u64) {
    let put = |file: &str, content: String| write(&root.join(path), file, &content);
    let stat = format!(
        "usage_usec {number}000000\nuser_usec 1000000\nsystem_usec 500000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 5000\n"
    );
    put("cpu.stat", stat);
    put("cpu.weight", "20\n".into());
    put("cpu.max", "50000 100000\n".into());
    put("memory.current", format!("{}\n", number * 1000));
    put("memory.peak", "999999\n".into());
    put("memory.max", "1048576\n".into());
    put("memory.swap.max", "max\n".into());
    put("memory.swap.current", "4096\n".into());
    put("memory.min", "0\n".into());
    put("memory.events", "low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\n".into());
    let stat =
        "anon 200\nfile 300\nkernel 77\nfile_mapped 20\nactive_file 30\ninactive_file 100\npgfault 50\npgmajfault 60\n";
    put("memory.stat", stat.into());
    put("pids.current", "7\n".into());
    put("pids.max", "100\n".into());
    put("io.stat", "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n".into());
    put("cgroup.procs", String::new());
    for resource in ["cpu", "memory", "io"] {
        let line = "avg10=1.00 avg60=0.50 avg300=0.25 total=1000\n";
        put(&format!("{resource}.pressure"), format!("some {line}full {line}"));
    }
}

/// `/proc` and `/sys` of a machine with 4 GiB and some swap.
fn machine_files(root: &Path) -> KernelFiles {
    let files = KernelFiles { proc: root.join("proc"), sys: root.join("sys") };
    write(&files.proc, "meminfo", "MemTotal: 4194304 kB\nSwapTotal: 1048576 kB\nSwapFree: 1048572 kB\n");
    write(&files.proc, "stat", "cpu 1 2 3\nbtime 1700000000\n");
    write(&files.proc, "loadavg", "0.20 0.18 0.12 1/234 5678\n");
    write(&files.proc, "sys/kernel/pid_max", "4194304\n");
    write(&files.proc, "sys/kernel/threads-max", "63000\n");
    write(&files.sys, "dev/block/8:0/uevent", "MAJOR=8\nMINOR=0\nDEVNAME=vda\n");
    files
}

/// Nodes with one pod of each class, and a container in each, on both versions and under both drivers.
fn nodes(driver: CgroupDriver) -> Vec<(TempDir, KernelStats, [String; 6])> {
    let tree = CgroupTree::new("", driver, true);
    let uid = PodUid::from("1234-ab");
    let name = match driver {
        CgroupDriver::Cgroupfs => ID.to_owned(),
        CgroupDriver::Systemd => format!("cri-containerd-{ID}.scope"),
    };
    let pods = |class| tree.literal(&tree.pod(class, &uid));
    use rubelet_core::qos::QosClass::{Burstable, Guaranteed};
    let (pod, level) = (pods(Burstable), tree.literal(&tree.level(Burstable)));
    let paths = [
        String::new(),
        tree.literal(&tree.root()),
        level,
        pod.clone(),
        format!("{pod}/{name}"),
        format!("{}/{name}", tree.literal(&tree.pod(Guaranteed, &PodUid::from("99")))),
    ];
    let make = |fill: fn(&Path, &str, u64), layout: fn(&Path) -> Layout| {
        let dir = temp_dir();
        for (path, number) in paths.iter().zip(1..) {
            fill(&dir.path().join("cgroup"), path.trim_start_matches('/'), number);
        }
        fill(&dir.path().join("cgroup"), "system.slice/kubelet.service", 40);
        fill(&dir.path().join("cgroup"), "system.slice/other.service", 41);
        fill(&dir.path().join("cgroup"), &format!("{}/made", paths[4].trim_start_matches('/')), 42);
        fill(&dir.path().join("cgroup"), &format!("{}/crio-conmon-77.scope", pod.trim_start_matches('/')), 43);
        let guaranteed = tree.literal(&tree.pod(Guaranteed, &PodUid::from("99")));
        fill(&dir.path().join("cgroup"), guaranteed.trim_start_matches('/'), 44);
        let system = vec![
            (SystemContainer::Kubelet, "/system.slice/kubelet.service".to_owned()),
            (SystemContainer::Runtime, "/system.slice/gone.service".to_owned()),
        ];
        let shown = Shown { tree: tree.clone(), system };
        let files = machine_files(dir.path());
        let layout = layout(&dir.path().join("cgroup"));
        (dir, KernelStats::new(layout, shown, files, Clock::real()), paths.clone())
    };
    vec![make(cgroup_v1, layout_v1), make(cgroup_v2, |root| Layout::v2(root.to_path_buf()))]
}

fn layout_v1(root: &Path) -> Layout {
    let tree =
        |name: &str| Hierarchy { root: root.join(name), controllers: name.split(',').map(str::to_owned).collect() };
    std::fs::create_dir_all(root.join("memory")).expect("made");
    write(&root.join("memory"), "memory.memsw.usage_in_bytes", "1\n");
    Layout::v1(["cpu,cpuacct", "memory", "pids", "blkio"].map(tree).to_vec())
}

fn container(sample: &Sample) -> &rubelet_core::usage::CgroupSample {
    let kind = CgroupKind::Container { pod: PodUid::from("1234-ab"), id: ContainerId::from(ID) };
    sample.find(&kind).expect("the container is shown")
}

#[tokio::test]
async fn sts_01_each_cgroup_of_pods_is_found_on_both_versions_and_under_both_drivers() {
    for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
        for (_dir, stats, paths) in nodes(driver) {
            let sample = stats.sample(Detail::Usage).await.expect("a sample");
            let kinds: Vec<_> = sample.cgroups.iter().map(|(path, cgroup)| (path.as_str(), &cgroup.kind)).collect();
            assert_eq!(sample.cgroups["/"].kind, CgroupKind::Root);
            assert_eq!(sample.cgroups[&paths[1]].kind, CgroupKind::AllPods);
            assert_eq!(sample.cgroups[&paths[2]].kind, CgroupKind::PodsOfClass);
            assert_eq!(sample.cgroups[&paths[3]].kind, CgroupKind::Pod(PodUid::from("1234-ab")));
            assert!(
                matches!(&sample.cgroups[&paths[5]].kind, CgroupKind::Container { pod, .. } if pod.as_str() == "99")
            );
            let kubelet = &sample.cgroups["/system.slice/kubelet.service"];
            assert_eq!(kubelet.kind, CgroupKind::System(SystemContainer::Kubelet));
            assert_eq!(kinds.len(), 8, "neither the cgroups of others nor what containers made: {kinds:?}");
            let all = stats.sample(Detail::Everything).await.expect("a sample");
            let others = all.cgroups.values().filter(|cgroup| cgroup.kind == CgroupKind::Other).count();
            assert_eq!((others, all.cgroups.len()), (2, 10), "with what a container made, and CRI-O's monitor");
        }
    }
}

#[tokio::test]
async fn sts_02_both_versions_show_the_same_usage() {
    for (_dir, stats, _) in nodes(CgroupDriver::Cgroupfs) {
        let sample = stats.sample(Detail::Everything).await.expect("a sample");
        let seen = container(&sample);
        let cpu = seen.usage.cpu.expect("CPU");
        assert_eq!(
            (cpu.total, cpu.user, cpu.system),
            (Duration::from_secs(5), Duration::from_secs(1), Duration::from_millis(500))
        );
        let throttled = Throttling { periods: 10, throttled_periods: 4, throttled: Duration::from_millis(5) };
        assert_eq!(cpu.throttling, Some(throttled));
        let memory = seen.usage.memory.expect("memory");
        assert_eq!((memory.usage, memory.working_set(), memory.rss, memory.cache), (5000, 4900, 200, 300));
        assert_eq!((memory.mapped_file, memory.active_file, memory.kernel), (20, 30, Some(77)));
        assert_eq!((memory.max_usage, memory.fail_count), (Some(999_999), Some(3)));
        assert_eq!((memory.page_faults, memory.major_page_faults), (50, 60));
        assert_eq!((seen.usage.swap_bytes, seen.usage.oom_kills), (Some(4096), Some(2)));
        let tasks = seen.usage.tasks.expect("tasks");
        assert_eq!((tasks.threads, tasks.threads_max, tasks.processes), (7, Some(100), Some(0)));
        let io = &seen.usage.io[0];
        assert_eq!(
            (io.device.as_str(), io.read_bytes, io.write_bytes, io.reads, io.writes),
            ("/dev/vda", 4096, 8192, 1, 2)
        );
        let limits = seen.limits;
        assert_eq!((limits.memory, limits.memory_reservation, limits.swap), (Some(1 << 20), None, None));
        assert_eq!((limits.cpu_quota, limits.cpu_period), (Some(50_000), Some(100_000)));
        assert!(limits.cpu_shares.is_some_and(|shares| (500..=512).contains(&shares)), "{limits:?}");
        assert!(seen.created_at.is_some());
    }
}

#[tokio::test]
async fn sts_02_pressure_is_shown_on_cgroup_v2_alone() {
    let shown: Vec<_> = nodes(CgroupDriver::Cgroupfs);
    for ((_dir, stats, _), expected) in shown.into_iter().zip([None, Some(100)]) {
        let sample = stats.sample(Detail::Usage).await.expect("a sample");
        assert_eq!(container(&sample).usage.pressure.map(|pressure| pressure.memory.full.avg10), expected);
    }
}

#[tokio::test]
async fn sts_02_the_root_shows_the_machine() {
    for (dir, stats, _) in nodes(CgroupDriver::Cgroupfs) {
        // The root of cgroup v2 has none of these.
        for file in ["memory.current", "memory.swap.current", "memory.max"] {
            let _absent_on_v1 = std::fs::remove_file(dir.path().join("cgroup").join(file));
        }
        let root = stats.sample(Detail::Usage).await.expect("a sample").cgroups["/"].clone();
        assert_eq!((root.limits.memory, root.limits.swap), (Some(4 << 30), Some(1 << 30)));
        assert_eq!(root.usage.swap_bytes, Some(4096));
        assert_eq!(root.created_at.map(|at| at.as_second()), Some(1_700_000_000));
        let memory = root.usage.memory.expect("memory");
        assert!([1000, 500].contains(&memory.usage), "counted, or the sum of both kinds of pages: {memory:?}");
    }
}

/// A controller that is missing costs its own part.
#[tokio::test]
async fn sts_02_what_cannot_be_read_is_left_out_and_never_zero() {
    for (dir, stats, paths) in nodes(CgroupDriver::Cgroupfs) {
        let below = dir.path().join("cgroup");
        let of = paths[4].trim_start_matches('/');
        for file in ["pids.current", "memory.swap.current", "cpuacct.usage", "cpu.stat"] {
            for tree in ["", "pids", "cpu,cpuacct", "memory"] {
                let _absent = std::fs::remove_file(below.join(tree).join(of).join(file));
            }
        }
        let sample = stats.sample(Detail::Usage).await.expect("a sample");
        let usage = &container(&sample).usage;
        assert_eq!((usage.cpu, usage.tasks, usage.memory.is_some()), (None, None, true));
        // A cgroup that goes away while the others are read.
        for tree in ["", "memory"] {
            let _absent = std::fs::remove_dir_all(below.join(tree).join(paths[3].trim_start_matches('/')));
        }
        let sample = stats.sample(Detail::Usage).await.expect("a sample");
        assert!(!sample.cgroups.contains_key(&paths[4]) && sample.cgroups.contains_key(&paths[5]));
    }
}

#[tokio::test]
async fn hostile_cgroups_that_a_container_made_are_bounded_in_number_and_depth() {
    for (dir, stats, paths) in nodes(CgroupDriver::Cgroupfs) {
        let root = dir.path().join("cgroup");
        for made in 0..200 {
            cgroup_v1(&root, &format!("{}/many{made}", paths[4].trim_start_matches('/')), 1);
            cgroup_v2(&root, &format!("{}/many{made}", paths[4].trim_start_matches('/')), 1);
        }
        let deep = "/deep".repeat(40);
        cgroup_v1(&root, &format!("{}{deep}", paths[5].trim_start_matches('/')), 1);
        cgroup_v2(&root, &format!("{}{deep}", paths[5].trim_start_matches('/')), 1);
        let sample = stats.sample(Detail::Everything).await.expect("a sample");
        let below = |path: &str| sample.cgroups.keys().filter(|key| key.starts_with(&format!("{path}/"))).count();
        assert!(below(&paths[4]) <= 64, "{}", below(&paths[4]));
        assert!(below(&paths[5]) <= 10, "{}", below(&paths[5]));
        assert_eq!(stats.sample(Detail::Usage).await.expect("a sample").cgroups.len(), 8, "and cost nothing otherwise");
    }
}

#[tokio::test]
async fn the_adapter_obeys_the_laws_of_the_port() {
    for (_dir, stats, _) in nodes(CgroupDriver::Cgroupfs) {
        rubelet_testkit::contract::check_stats(&stats).await;
    }
}

#[tokio::test]
async fn ev_01_processes_of_the_machine() {
    let (_dir, stats, _) = nodes(CgroupDriver::Cgroupfs).remove(0);
    assert_eq!(stats.processes().await.expect("processes"), ProcessCount { max: 63_000, current: 234 });
}

#[tokio::test]
async fn the_machine_is_read_once() {
    let (dir, stats, _) = nodes(CgroupDriver::Cgroupfs).remove(0);
    let sys = dir.path().join("sys");
    write(&sys, "devices/system/cpu/online", "0-3\n");
    for cpu in 0..4 {
        let at = sys.join(format!("devices/system/cpu/cpu{cpu}"));
        write(&at, "topology/core_id", &format!("{}\n", cpu / 2));
        write(&at, "topology/physical_package_id", "0\n");
        write(&at, "cache/index0/level", "1\n");
        write(&at, "cache/index0/type", "Data\n");
        write(&at, "cache/index0/size", "32K\n");
        std::fs::create_dir_all(at.join("node0")).expect("made");
    }
    write(&sys, "devices/system/node/online", "0\n");
    write(&sys, "devices/system/node/node0/meminfo", "Node 0 MemTotal:       2097152 kB\n");
    write(&sys, "devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "3\n");
    write(dir.path(), "etc/machine-id", "web-1\n");
    let machine = stats.machine().await;
    assert_eq!((machine.cpus, machine.physical_cores, machine.sockets), (4, 2, 1));
    assert_eq!((machine.memory_bytes, machine.swap_bytes, machine.machine_id.as_str()), (4 << 30, 1 << 30, "web-1"));
    let node = &machine.numa_nodes[0];
    assert_eq!((node.memory_bytes, node.hugepages.as_slice(), node.cores.len()), (2 << 30, &[(2048, 3)][..], 2));
    assert_eq!(
        (node.cores[1].threads.as_slice(), &node.cores[1].caches[0]),
        (&[2, 3][..], &(1, "Data".to_owned(), 32 << 10))
    );
    write(dir.path(), "etc/machine-id", "web-2\n");
    assert_eq!(stats.machine().await, machine);
}

#[tokio::test]
async fn sts_02_the_cgroup_of_the_kubelet_is_found() {
    let dir = temp_dir();
    let own = |text: &str| {
        write(dir.path(), "self/cgroup", text);
        own_cgroup(dir.path())
    };
    assert_eq!(own("0::/system.slice/kubelet.service\n").as_deref(), Some("/system.slice/kubelet.service"));
    assert_eq!(own("0::/\n"), None);
    let v1 = "3:name=systemd:/system.slice/kubelet.service\n2:cpu,cpuacct:/\n1:memory:/\n0::/\n";
    assert_eq!(own(v1).as_deref(), Some("/system.slice/kubelet.service"));
    assert_eq!(own("2:cpu:/a\n1:memory:/b\n"), None, "upstream: cpu and memory cgroup hierarchy not unified");
}
