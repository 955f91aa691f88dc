use std::sync::Arc;

use expect_test::expect;
use serde_json::Value;

use super::super::samples;
use super::*;

fn parsed(usage: &NodeUsage, parts: Parts) -> Value {
    let machine = samples::machine();
    let of = SummaryOf { node: "node-1", machine: &machine, kubelet_started: samples::at(-3600) };
    serde_json::from_str(&summary(usage, &of, parts)).unwrap()
}

/// Without pressure, which has 18 lines each time.
fn shown(value: &Value) -> String {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("psi");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut value = value.clone();
    strip(&mut value);
    serde_json::to_string_pretty(&value).unwrap()
}

/// upstream: kubelet/stats/helper.go cadvisorPSIToStatsPSI (v1.36)
#[test]
fn sts_02_pressure_is_in_per_cent_and_nanoseconds_and_zero_where_it_is_not_measured() {
    let mut node = samples::node();
    let mut sample = (*node.sample).clone();
    let some = Stall { avg10: 1250, avg60: 5, avg300: 100, total: std::time::Duration::from_micros(7) };
    let cpu = Stalls { some, full: Stall::default() };
    sample.cgroups.get_mut("/").unwrap().usage.pressure = Some(crate::usage::Pressure { cpu, ..Default::default() });
    node.sample = Arc::new(sample);
    let summary = parsed(&node, Parts::All);
    let zero = serde_json::json!({"total": 0, "avg10": 0.0, "avg60": 0.0, "avg300": 0.0});
    let some = serde_json::json!({"total": 7000, "avg10": 12.5, "avg60": 0.05, "avg300": 1.0});
    assert_eq!(summary["node"]["cpu"]["psi"], serde_json::json!({"full": zero, "some": some}));
    assert_eq!(summary["pods"][0]["cpu"]["psi"], serde_json::json!({"full": zero, "some": zero}));
}

/// upstream: k8s.io/kubelet/pkg/apis/stats/v1alpha1/types.go (v0.36), kubelet/server/stats/summary_test.go (v1.36)
#[test]
fn sts_02_the_node_and_its_system_containers() {
    expect![[r#"
        {
          "cpu": {
            "time": "2026-05-28T20:26:40Z",
            "usageCoreNanoSeconds": 2500000000,
            "usageNanoCores": 5000
          },
          "fs": {
            "availableBytes": 50000,
            "capacityBytes": 100000,
            "inodes": 1000,
            "inodesFree": 900,
            "inodesUsed": 100,
            "time": "2026-05-28T20:26:40Z",
            "usedBytes": 25000
          },
          "io": {
            "time": "2026-05-28T20:26:40Z"
          },
          "memory": {
            "availableBytes": 993000,
            "majorPageFaults": 5,
            "pageFaults": 50,
            "rssBytes": 3000,
            "time": "2026-05-28T20:26:40Z",
            "usageBytes": 11000,
            "workingSetBytes": 7000
          },
          "network": {
            "interfaces": [
              {
                "name": "eth0",
                "rxBytes": 100,
                "rxErrors": 1,
                "txBytes": 200,
                "txErrors": 3
              },
              {
                "name": "ens4",
                "rxBytes": 100,
                "rxErrors": 1,
                "txBytes": 200,
                "txErrors": 3
              }
            ],
            "name": "eth0",
            "rxBytes": 100,
            "rxErrors": 1,
            "time": "2026-05-28T20:26:40Z",
            "txBytes": 200,
            "txErrors": 3
          },
          "nodeName": "node-1",
          "rlimit": {
            "curproc": 211,
            "maxpid": 32768,
            "time": "2026-05-28T20:26:40Z"
          },
          "runtime": {
            "containerFs": {
              "availableBytes": 50000,
              "capacityBytes": 100000,
              "inodes": 1000,
              "inodesFree": 900,
              "inodesUsed": 300,
              "time": "2026-05-28T20:26:40Z",
              "usedBytes": 30000
            },
            "imageFs": {
              "availableBytes": 50000,
              "capacityBytes": 100000,
              "inodes": 1000,
              "inodesFree": 900,
              "inodesUsed": 300,
              "time": "2026-05-28T20:26:40Z",
              "usedBytes": 30000
            }
          },
          "startTime": "2026-05-28T19:03:20Z",
          "swap": {
            "swapAvailableBytes": 499936,
            "swapUsageBytes": 64,
            "time": "2026-05-28T20:26:40Z"
          },
          "systemContainers": [
            {
              "cpu": {
                "time": "2026-05-28T20:26:40Z",
                "usageCoreNanoSeconds": 2500000000
              },
              "io": {
                "time": "2026-05-28T20:26:40Z"
              },
              "memory": {
                "majorPageFaults": 5,
                "pageFaults": 50,
                "rssBytes": 3000,
                "time": "2026-05-28T20:26:40Z",
                "usageBytes": 11000,
                "workingSetBytes": 7000
              },
              "name": "kubelet",
              "startTime": "2026-05-28T19:26:40Z",
              "swap": {
                "swapUsageBytes": 64,
                "time": "2026-05-28T20:26:40Z"
              }
            },
            {
              "cpu": {
                "time": "2026-05-28T20:26:40Z",
                "usageCoreNanoSeconds": 2500000000
              },
              "io": {
                "time": "2026-05-28T20:26:40Z"
              },
              "memory": {
                "majorPageFaults": 5,
                "pageFaults": 50,
                "rssBytes": 3000,
                "time": "2026-05-28T20:26:40Z",
                "usageBytes": 11000,
                "workingSetBytes": 7000
              },
              "name": "pods",
              "startTime": "2026-05-28T20:25:00Z",
              "swap": {
                "swapUsageBytes": 64,
                "time": "2026-05-28T20:26:40Z"
              }
            }
          ]
        }"#]]
    .assert_eq(&shown(&parsed(&samples::node(), Parts::All)["node"]));
}

/// upstream: kubelet/stats/cri_stats_provider_test.go TestCRIListPodStats (v1.36)
#[test]
fn sts_02_pods_containers_volumes_and_ephemeral_storage() {
    expect![[r#"
        {
          "containers": [
            {
              "cpu": {
                "time": "2026-05-28T20:26:40Z",
                "usageCoreNanoSeconds": 1501000000
              },
              "io": {
                "time": "2026-05-28T20:26:40Z"
              },
              "logs": {
                "availableBytes": 50000,
                "capacityBytes": 100000,
                "inodes": 1000,
                "inodesFree": 900,
                "inodesUsed": 1,
                "time": "2026-05-28T20:26:40Z",
                "usedBytes": 100
              },
              "memory": {
                "availableBytes": 43999,
                "majorPageFaults": 5,
                "pageFaults": 50,
                "rssBytes": 3000,
                "time": "2026-05-28T20:26:40Z",
                "usageBytes": 10001,
                "workingSetBytes": 6001
              },
              "name": "c0",
              "rootfs": {
                "availableBytes": 50000,
                "capacityBytes": 100000,
                "inodes": 1000,
                "inodesFree": 900,
                "inodesUsed": 4,
                "time": "2026-05-28T20:26:35Z",
                "usedBytes": 4096
              },
              "startTime": "2026-05-28T20:25:50Z",
              "swap": {
                "swapAvailableBytes": 59936,
                "swapUsageBytes": 64,
                "time": "2026-05-28T20:26:40Z"
              }
            },
            {
              "cpu": {
                "time": "2026-05-28T20:26:40Z",
                "usageCoreNanoSeconds": 1502000000
              },
              "io": {
                "time": "2026-05-28T20:26:40Z"
              },
              "logs": {
                "availableBytes": 50000,
                "capacityBytes": 100000,
                "inodes": 1000,
                "inodesFree": 900,
                "inodesUsed": 1,
                "time": "2026-05-28T20:26:40Z",
                "usedBytes": 100
              },
              "memory": {
                "availableBytes": 43998,
                "majorPageFaults": 5,
                "pageFaults": 50,
                "rssBytes": 3000,
                "time": "2026-05-28T20:26:40Z",
                "usageBytes": 10002,
                "workingSetBytes": 6002
              },
              "name": "c1",
              "rootfs": {
                "availableBytes": 50000,
                "capacityBytes": 100000,
                "inodes": 1000,
                "inodesFree": 900,
                "inodesUsed": 4,
                "time": "2026-05-28T20:26:35Z",
                "usedBytes": 4096
              },
              "startTime": "2026-05-28T20:25:50Z",
              "swap": {
                "swapAvailableBytes": 59936,
                "swapUsageBytes": 64,
                "time": "2026-05-28T20:26:40Z"
              }
            }
          ],
          "cpu": {
            "time": "2026-05-28T20:26:40Z",
            "usageCoreNanoSeconds": 1599000000,
            "usageNanoCores": 1000
          },
          "ephemeral-storage": {
            "availableBytes": 50000,
            "capacityBytes": 100000,
            "inodes": 1000,
            "inodesFree": 900,
            "inodesUsed": 22,
            "time": "2026-05-28T20:26:40Z",
            "usedBytes": 9592
          },
          "io": {
            "time": "2026-05-28T20:26:40Z"
          },
          "memory": {
            "availableBytes": 43901,
            "majorPageFaults": 5,
            "pageFaults": 50,
            "rssBytes": 3000,
            "time": "2026-05-28T20:26:40Z",
            "usageBytes": 10099,
            "workingSetBytes": 6099
          },
          "network": {
            "interfaces": [
              {
                "name": "eth0",
                "rxBytes": 100,
                "rxErrors": 1,
                "txBytes": 200,
                "txErrors": 3
              }
            ],
            "name": "eth0",
            "rxBytes": 100,
            "rxErrors": 1,
            "time": "2026-05-28T20:26:40Z",
            "txBytes": 200,
            "txErrors": 3
          },
          "podRef": {
            "name": "web",
            "namespace": "default",
            "uid": "uid-default-web"
          },
          "process_stats": {
            "process_count": 6
          },
          "startTime": "2026-05-28T20:25:40Z",
          "swap": {
            "swapAvailableBytes": 59936,
            "swapUsageBytes": 64,
            "time": "2026-05-28T20:26:40Z"
          },
          "volume": [
            {
              "availableBytes": 4000,
              "capacityBytes": 8000,
              "inodes": 1000,
              "inodesFree": 900,
              "inodesUsed": 10,
              "name": "tmp",
              "time": "2026-05-28T20:26:20Z",
              "usedBytes": 1000
            },
            {
              "availableBytes": 4000,
              "capacityBytes": 8000,
              "inodes": 1000,
              "inodesFree": 900,
              "inodesUsed": 10,
              "name": "data",
              "pvcRef": {
                "name": "web-data",
                "namespace": "default"
              },
              "time": "2026-05-28T20:26:20Z",
              "usedBytes": 1000
            },
            {
              "availableBytes": 4000,
              "capacityBytes": 8000,
              "inodes": 1000,
              "inodesFree": 900,
              "inodesUsed": 10,
              "name": "token",
              "time": "2026-05-28T20:26:20Z",
              "usedBytes": 1000
            }
          ]
        }"#]]
    .assert_eq(&shown(&parsed(&samples::node(), Parts::All)["pods"][0]));
}

/// upstream: kubelet/server/stats/summary.go GetCPUAndMemoryStats (v1.36)
#[test]
fn sts_02_only_cpu_and_memory() {
    let mut node = samples::node();
    node.pods.remove(0);
    expect![[r#"
        {
          "node": {
            "cpu": {
              "time": "2026-05-28T20:26:40Z",
              "usageCoreNanoSeconds": 2500000000,
              "usageNanoCores": 5000
            },
            "memory": {
              "availableBytes": 993000,
              "majorPageFaults": 5,
              "pageFaults": 50,
              "rssBytes": 3000,
              "time": "2026-05-28T20:26:40Z",
              "usageBytes": 11000,
              "workingSetBytes": 7000
            },
            "nodeName": "node-1",
            "startTime": "2026-05-28T20:25:00Z",
            "swap": {
              "swapAvailableBytes": 499936,
              "swapUsageBytes": 64,
              "time": "2026-05-28T20:26:40Z"
            },
            "systemContainers": [
              {
                "cpu": {
                  "time": "2026-05-28T20:26:40Z",
                  "usageCoreNanoSeconds": 2500000000
                },
                "memory": {
                  "majorPageFaults": 5,
                  "pageFaults": 50,
                  "rssBytes": 3000,
                  "time": "2026-05-28T20:26:40Z",
                  "usageBytes": 11000,
                  "workingSetBytes": 7000
                },
                "name": "kubelet",
                "startTime": "2026-05-28T19:26:40Z",
                "swap": {
                  "swapUsageBytes": 64,
                  "time": "2026-05-28T20:26:40Z"
                }
              },
              {
                "cpu": {
                  "time": "2026-05-28T20:26:40Z",
                  "usageCoreNanoSeconds": 2500000000
                },
                "memory": {
                  "majorPageFaults": 5,
                  "pageFaults": 50,
                  "rssBytes": 3000,
                  "time": "2026-05-28T20:26:40Z",
                  "usageBytes": 11000,
                  "workingSetBytes": 7000
                },
                "name": "pods",
                "startTime": "2026-05-28T20:25:00Z",
                "swap": {
                  "swapUsageBytes": 64,
                  "time": "2026-05-28T20:26:40Z"
                }
              }
            ]
          },
          "pods": [
            {
              "containers": [
                {
                  "cpu": {
                    "time": "2026-05-28T20:26:40Z",
                    "usageCoreNanoSeconds": 1501000000
                  },
                  "memory": {
                    "availableBytes": 43999,
                    "majorPageFaults": 5,
                    "pageFaults": 50,
                    "rssBytes": 3000,
                    "time": "2026-05-28T20:26:40Z",
                    "usageBytes": 10001,
                    "workingSetBytes": 6001
                  },
                  "name": "c0",
                  "startTime": "2026-05-28T20:25:50Z",
                  "swap": {
                    "swapAvailableBytes": 59936,
                    "swapUsageBytes": 64,
                    "time": "2026-05-28T20:26:40Z"
                  }
                }
              ],
              "cpu": {
                "time": "2026-05-28T20:26:40Z",
                "usageCoreNanoSeconds": 1599000000
              },
              "memory": {
                "availableBytes": 43901,
                "majorPageFaults": 5,
                "pageFaults": 50,
                "rssBytes": 3000,
                "time": "2026-05-28T20:26:40Z",
                "usageBytes": 10099,
                "workingSetBytes": 6099
              },
              "podRef": {
                "name": "host",
                "namespace": "kube-system",
                "uid": "uid-kube-system-host"
              },
              "startTime": "2026-05-28T20:25:40Z",
              "swap": {
                "swapAvailableBytes": 59936,
                "swapUsageBytes": 64,
                "time": "2026-05-28T20:26:40Z"
              }
            }
          ]
        }"#]]
    .assert_eq(&shown(&parsed(&node, Parts::CpuAndMemory)));
}

#[test]
fn sts_04_a_pod_on_the_nodes_network_has_no_network() {
    let summary = parsed(&samples::node(), Parts::All);
    assert_eq!(summary["pods"][1]["podRef"]["name"], "host");
    assert!(summary["pods"][1].get("network").is_none());
}

#[test]
fn sts_03_without_a_second_sample_there_is_no_rate() {
    let mut node = samples::node();
    node.cpu_rates.clear();
    let summary = parsed(&node, Parts::All);
    assert!(summary["node"]["cpu"].get("usageNanoCores").is_none());
    assert_eq!(summary["node"]["cpu"]["usageCoreNanoSeconds"], 2_500_000_000_u64);
}

#[test]
fn sts_03_a_pod_without_a_running_container_is_left_out() {
    let mut node = samples::node();
    node.pods[0].containers.clear();
    assert_eq!(parsed(&node, Parts::All)["pods"].as_array().unwrap().len(), 1);
}

#[test]
fn a_summary_of_nothing_has_what_upstream_always_has() {
    let mut node = samples::node();
    node.sample = Arc::new(crate::usage::Sample { at: node.sample.at, cgroups: Default::default() });
    let node = NodeUsage { pods: Vec::new(), network: None, disks: NodeDisks::default(), processes: None, ..node };
    expect![[r#"
        {
          "node": {
            "nodeName": "node-1",
            "runtime": {},
            "startTime": "2026-05-28T19:03:20Z"
          },
          "pods": []
        }"#]]
    .assert_eq(&shown(&parsed(&node, Parts::All)));
}

/// upstream: kubelet/stats/cri_stats_provider.go ImageFsStats (v1.36)
#[test]
fn writable_layers_on_a_file_system_of_their_own_are_shown() {
    let mut node = samples::node();
    node.disks.containerfs = Some(samples::fs(7, 40_000));
    let summary = parsed(&node, Parts::All);
    assert_eq!(summary["node"]["runtime"]["containerFs"]["usedBytes"], 8192);
    assert_eq!(summary["node"]["runtime"]["containerFs"]["capacityBytes"], 40_000);
    assert_eq!(summary["node"]["runtime"]["imageFs"]["usedBytes"], 30_000);
}
