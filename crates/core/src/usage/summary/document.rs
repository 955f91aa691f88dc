//! The document of `/stats/summary`: names, order and omissions of its fields.
//! upstream: k8s.io/kubelet/pkg/apis/stats/v1alpha1/types.go (v0.36)

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// A time in whole seconds; `null` if it is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Time(pub(super) Option<Timestamp>);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.and_then(|at| Timestamp::from_second(at.as_second()).ok()) {
            Some(at) => serializer.collect_str(&at),
            None => serializer.serialize_none(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) node: NodeStats,
    pub(super) pods: Vec<PodStats>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeStats {
    pub(super) node_name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system_containers: Vec<ContainerStats>,
    pub(super) start_time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<CpuStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<MemoryStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) io: Option<IoStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<NetworkStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runtime: Option<RuntimeStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rlimit: Option<RlimitStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swap: Option<SwapStats>,
}

#[derive(Debug, Serialize)]
pub(super) struct RlimitStats {
    pub(super) time: Time,
    pub(super) maxpid: u64,
    pub(super) curproc: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuntimeStats {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image_fs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container_fs: Option<FsStats>,
}

#[derive(Debug, Serialize)]
pub(super) struct ProcessStats {
    pub(super) process_count: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStats {
    pub(super) pod_ref: PodReference,
    pub(super) start_time: Time,
    pub(super) containers: Vec<ContainerStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<CpuStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<MemoryStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) io: Option<IoStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<NetworkStats>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) volume: Vec<VolumeStats>,
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub(super) ephemeral_storage: Option<FsStats>,
    #[serde(rename = "process_stats", skip_serializing_if = "Option::is_none")]
    pub(super) process_stats: Option<ProcessStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swap: Option<SwapStats>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStats {
    pub(super) name: String,
    pub(super) start_time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<CpuStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<MemoryStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) io: Option<IoStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rootfs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swap: Option<SwapStats>,
}

#[derive(Debug, Serialize)]
pub(super) struct PodReference {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InterfaceStats {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rx_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rx_errors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tx_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tx_errors: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct NetworkStats {
    pub(super) time: Time,
    #[serde(flatten)]
    pub(super) default: InterfaceStats,
    pub(super) interfaces: Vec<InterfaceStats>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CpuStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage_nano_cores: Option<u64>,
    pub(super) usage_core_nano_seconds: u64,
    pub(super) psi: PsiStats,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemoryStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) available_bytes: Option<u64>,
    pub(super) usage_bytes: u64,
    pub(super) working_set_bytes: u64,
    pub(super) rss_bytes: u64,
    pub(super) page_faults: u64,
    pub(super) major_page_faults: u64,
    pub(super) psi: PsiStats,
}

#[derive(Debug, Serialize)]
pub(super) struct IoStats {
    pub(super) time: Time,
    pub(super) psi: PsiStats,
}

#[derive(Debug, Serialize)]
pub(super) struct PsiStats {
    pub(super) full: PsiData,
    pub(super) some: PsiData,
}

#[derive(Debug, Serialize)]
pub(super) struct PsiData {
    pub(super) total: u64,
    pub(super) avg10: f64,
    pub(super) avg60: f64,
    pub(super) avg300: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SwapStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swap_available_bytes: Option<u64>,
    pub(super) swap_usage_bytes: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeStats {
    #[serde(flatten)]
    pub(super) fs: FsStats,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pvc_ref: Option<PvcReference>,
}

#[derive(Debug, Serialize)]
pub(super) struct PvcReference {
    pub(super) name: String,
    pub(super) namespace: String,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FsStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) available_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) capacity_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inodes_free: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inodes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inodes_used: Option<u64>,
}
