//! A node with usage, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::id::PodRef;
use crate::time::Instant;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 + second).unwrap()
}

/// A cgroup whose numbers all differ.
pub(super) fn cgroup(kind: CgroupKind, n: u64) -> CgroupSample {
    let cpu = CpuUsage {
        total: Duration::from_millis(1500 + n),
        user: Duration::from_millis(1000 + n),
        system: Duration::from_millis(500),
        throttling: Some(Throttling { periods: 10, throttled_periods: 2, throttled: Duration::from_millis(250) }),
    };
    let memory = MemoryUsage {
        usage: 10_000 + n,
        max_usage: Some(20_000),
        rss: 3_000,
        cache: 5_000,
        mapped_file: 700,
        active_file: 1_000,
        inactive_file: 4_000,
        kernel: Some(900),
        fail_count: Some(1),
        page_faults: 60,
        major_page_faults: 6,
        own_page_faults: 50,
        own_major_page_faults: 5,
    };
    let vda = DeviceIo {
        major: 254,
        minor: 0,
        device: "/dev/vda".into(),
        read_bytes: 4096,
        write_bytes: 8192,
        reads: 1,
        writes: 2,
    };
    CgroupSample {
        kind,
        created_at: Some(at(-100)),
        usage: Usage {
            cpu: Some(cpu),
            memory: Some(memory),
            swap_bytes: Some(64),
            io: vec![vda],
            tasks: Some(Tasks { threads: 7, threads_max: Some(100), processes: Some(3) }),
            files: Some(OpenFiles { descriptors: 12, sockets: 4, limit: Some(1024) }),
            pressure: None,
            oom_kills: Some(0),
        },
        limits: Limits {
            cpu_shares: Some(102),
            cpu_quota: Some(20_000),
            cpu_period: Some(100_000),
            memory: Some(50_000),
            memory_reservation: None,
            swap: Some(60_000),
        },
    }
}

fn interface(name: &str) -> Interface {
    Interface {
        name: name.into(),
        receive: Traffic { bytes: 100, packets: 10, errors: 1, dropped: 2 },
        transmit: Traffic { bytes: 200, packets: 20, errors: 3, dropped: 4 },
    }
}

pub(super) fn fs(device: u64, capacity: u64) -> FsStats {
    FsStats { device, capacity, available: capacity / 2, used: capacity / 4, inodes: 1000, inodes_free: 900 }
}

/// A pod with this many containers, all measured.
pub(super) fn pod(sample: &mut Sample, namespace: &str, name: &str, containers: usize) -> PodUsage {
    let uid = format!("uid-{namespace}-{name}");
    let path = format!("/kubepods/burstable/pod{uid}");
    let mut below = |id: &str, n: u64| {
        let kind = CgroupKind::Container { pod: uid.as_str().into(), id: id.into() };
        let path = format!("{path}/{id}");
        sample.cgroups.insert(path.clone(), cgroup(kind, n));
        Some(path)
    };
    let sandbox = SandboxUsage {
        id: format!("{uid}-s").into(),
        image: "pause:3.10".into(),
        created_at: at(-60),
        cgroup: below(&format!("{uid}-s"), 0),
    };
    let containers = (0..containers).map(|n| ContainerUsage {
        name: format!("c{n}"),
        id: format!("{uid}-c{n}").into(),
        image: "busybox:1".into(),
        started_at: at(-50),
        cgroup: below(&format!("{uid}-c{n}"), 1 + n as u64),
        layer: Some(LayerUsage { at: Some(at(-5)), bytes: Some(4096), inodes: Some(4) }),
        logs: Some(DiskUsage { bytes: 100, inodes: 1 }),
    });
    let containers = containers.collect();
    sample.cgroups.insert(path.clone(), cgroup(CgroupKind::Pod(uid.as_str().into()), 99));
    PodUsage {
        pod: PodRef { namespace: namespace.into(), name: name.into(), uid: uid.into() },
        started_at: Some(at(-61)),
        host_network: false,
        cgroup: Some(path),
        sandbox: Some(sandbox),
        containers,
        network: Some(NetworkUsage { interfaces: vec![interface("eth0")] }),
        volumes: Vec::new(),
        own_files: Some(DiskUsage { bytes: 200, inodes: 2 }),
    }
}

/// A node with the pods `default/web`, of two containers, and `kube-system/host`, of one on the node's network.
pub(super) fn node() -> NodeUsage {
    let mut sample = Sample { at: Now { mono: Instant::START, wall: at(0) }, cgroups: BTreeMap::new() };
    for (path, kind) in [
        ("/", CgroupKind::Root),
        ("/kubepods", CgroupKind::AllPods),
        ("/kubepods/burstable", CgroupKind::PodsOfClass),
        ("/system.slice/kubelet", CgroupKind::System(SystemContainer::Kubelet)),
    ] {
        let mut own = cgroup(kind, 1000);
        own.limits = Limits { cpu_shares: Some(1024), cpu_period: Some(100_000), ..Limits::default() };
        sample.cgroups.insert(path.into(), own);
    }
    let mut web = pod(&mut sample, "default", "web", 2);
    let volume = |name: &str, claim: Option<&str>, elsewhere| VolumeUsage {
        name: name.into(),
        claim: claim.map(str::to_owned),
        elsewhere,
        used: DiskUsage { bytes: 1000, inodes: 10 },
        on: Some(fs(0xfe00, 8000)),
        at: at(-20),
    };
    web.volumes = vec![volume("data", Some("web-data"), true), volume("tmp", None, false), volume("token", None, true)];
    let mut host = pod(&mut sample, "kube-system", "host", 1);
    host.host_network = true;
    NodeUsage {
        cpu_rates: BTreeMap::from([("/".to_owned(), 5_000), (web.cgroup.clone().unwrap(), 1_000)]),
        pods: vec![web, host],
        network: Some(NetworkUsage { interfaces: vec![interface("eth0"), interface("veth1"), interface("ens4")] }),
        disks: NodeDisks {
            nodefs: Some(fs(0xfe00, 100_000)),
            imagefs: Some(fs(0xfe00, 100_000)),
            containerfs: Some(fs(0xfe00, 100_000)),
            images: Some(DiskUsage { bytes: 30_000, inodes: 300 }),
            layers: Some(DiskUsage { bytes: 8192, inodes: 8 }),
        },
        processes: Some(ProcessCount { max: 32_768, current: 211 }),
        sample: Arc::new(sample),
    }
}

/// A node with this many pods of two containers each.
pub(super) fn full_node(pods: usize) -> NodeUsage {
    let empty = node();
    let mut sample = Sample { at: empty.sample.at, cgroups: empty.sample.cgroups.clone() };
    let pods = (0..pods).map(|n| pod(&mut sample, "default", &format!("web-{n:04}-{}", "x".repeat(24)), 2)).collect();
    NodeUsage { pods, sample: Arc::new(sample), ..empty }
}

pub(super) fn machine() -> MachineInfo {
    MachineInfo {
        cpus: 2,
        physical_cores: 1,
        sockets: 1,
        memory_bytes: 1_000_000,
        swap_bytes: 500_000,
        numa_nodes: vec![NumaNode {
            id: 0,
            memory_bytes: 1_000_000,
            hugepages: vec![(2048, 0)],
            cores: vec![Core { id: 0, socket: 0, threads: vec![0, 1], caches: vec![(1, "Data".into(), 32_768)] }],
        }],
        boot_time: Some(at(-5000)),
        machine_id: "machine".into(),
        system_uuid: "system".into(),
        boot_id: "boot".into(),
        kernel: "6.18.0".into(),
        os: "Debian GNU/Linux 12 (bookworm)".into(),
    }
}
