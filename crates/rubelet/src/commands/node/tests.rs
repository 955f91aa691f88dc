use expect_test::expect;
use rubelet_server::documents::{
    DiskDocument, DiskUseDocument, NodeStory, PodDiskDocument, ResourceDocument, ThresholdDocument, ThresholdState,
    Unit,
};

use super::render;
use crate::commands::style::Style;

const MIB: i64 = 1 << 20;

fn story() -> NodeStory {
    let resource = |name: &str, unit, numbers: [i64; 4], used| {
        let [capacity, reserved, allocatable, requested] = numbers;
        ResourceDocument { name: name.into(), unit, capacity, reserved, allocatable, requested, used }
    };
    let threshold = |signal: &str, configured: &str, numbers: [Option<u64>; 3], state| {
        let [threshold, available, capacity] = numbers;
        ThresholdDocument {
            signal: signal.into(),
            hard: true,
            grace: None,
            configured: configured.into(),
            unit: Unit::Bytes,
            threshold,
            available,
            capacity,
            state,
            taken_per_minute: None,
        }
    };
    let memory = [Some(100 << 20), Some(2 << 30), Some(8 << 30)];
    NodeStory {
        node: "node-1".into(),
        kubelet_version: "v1.36.4".into(),
        resources: vec![
            resource("cpu", Unit::Millicores, [2000, 100, 1900, 950], Some(312)),
            resource("memory", Unit::Bytes, [8192 * MIB, 100 * MIB, 8092 * MIB, 1024 * MIB], Some(6144 * MIB)),
            resource("pods", Unit::Count, [110, 0, 110, 7], Some(7)),
            resource("vendor.example/gpu", Unit::Count, [0, 0, 0, 0], None),
        ],
        thresholds: vec![
            ThresholdDocument {
                taken_per_minute: Some(64 << 20),
                ..threshold("memory.available", "100Mi", memory, ThresholdState::Far)
            },
            ThresholdDocument {
                taken_per_minute: Some(-(1 << 30)),
                ..threshold(
                    "nodefs.available",
                    "10%",
                    [Some(10 << 30), Some(9 << 30), Some(100 << 30)],
                    ThresholdState::Crossed,
                )
            },
            threshold("imagefs.available", "15%", [None; 3], ThresholdState::Unknown),
            ThresholdDocument {
                hard: false,
                grace: Some("1m30s".into()),
                taken_per_minute: Some(5 << 20),
                ..threshold("memory.available", "2Gi", [Some(2 << 30), memory[1], memory[2]], ThresholdState::Near)
            },
        ],
        disks: vec![DiskDocument {
            name: "nodefs, imagefs".into(),
            capacity: 100 << 30,
            used: 91 << 30,
            available: 9 << 30,
            inodes: 1000,
            inodes_free: 700,
        }],
        disk_use: Some(DiskUseDocument {
            images: Some(5 << 30),
            layers: None,
            logs: 10 << 20,
            volumes: 80 << 20,
            own_files: 4096,
            pods: vec![PodDiskDocument {
                namespace: "default".into(),
                name: "db".into(),
                total: 90 << 20,
                layers: 0,
                logs: 10 << 20,
                volumes: 80 << 20,
            }],
        }),
        usage_problem: None,
    }
}

#[test]
fn the_node_is_explained() {
    expect![[r#"
        Node node-1, v1.36.4

        Resources
          RESOURCE            CAPACITY  RESERVED  ALLOCATABLE   REQUESTED        USED
          cpu                  2 cores      100m        1900m  950m (50%)  312m (16%)
          memory                   8Gi     100Mi        7.9Gi   1Gi (13%)   6Gi (75%)
          pods                     110         0          110      7 (6%)      7 (6%)
          vendor.example/gpu         0         0            0           0           -

        Eviction thresholds
          SIGNAL              EVICTS BELOW  AVAILABLE   LEFT      TREND         STATE
          memory.available           100Mi        2Gi  1.9Gi  -64Mi/min           far
          nodefs.available      10Gi (10%)        9Gi      0   +1Gi/min       crossed
          imagefs.available            15%          -      -          -  not measured
          memory.available   2Gi for 1m30s        2Gi      0     steady          near

        File systems
          DISK              SIZE  USED  AVAILABLE  FREE INODES
          nodefs, imagefs  100Gi  91Gi        9Gi          70%

        What holds the disk
          WHAT                 SIZE
          images                5Gi
          writable layers         -
          volumes              80Mi
          logs                 10Mi
          other files of pods   4Ki

        Pods that hold most
          POD          ALL  LAYERS  VOLUMES  LOGS
          default/db  90Mi       0     80Mi  10Mi
    "#]]
    .assert_eq(&render(&story(), Style::Plain));
}

#[test]
fn a_node_that_measures_nothing_shows_what_it_knows() {
    let mut story = story();
    story.usage_problem = Some("this node does not measure usage".into());
    (story.disks, story.disk_use) = (Vec::new(), None);
    let text = render(&story, Style::Plain);
    assert!(text.contains("\nthis node does not measure usage\n") && text.contains("Eviction thresholds"), "{text}");
    assert!(!text.contains("What holds the disk"), "{text}");
}
