//! Sandbox and container configs, row by row.

mod container;
mod resources;
mod sandbox;
mod security;

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use super::*;
use crate::pod::PodExt;
use crate::qos::{CgroupDriver, CgroupTree, CgroupVersion, CpuPolicy};
pub(crate) use crate::resources::tests::pod;

/// A node with 10 GiB of memory, cgroup v2 and everything at its default.
pub(crate) fn node() -> LaunchContext {
    LaunchContext {
        tree: CgroupTree::new("", CgroupDriver::Cgroupfs, true),
        cgroups: CgroupVersion::V2,
        memory_bytes: 10 << 30,
        hugepage_sizes: Vec::new(),
        swap: SwapPolicy::default(),
        cpu: CpuPolicy::default(),
        single_process_oom_kill: None,
        pod_pids_limit: -1,
        pod_logs_dir: "/var/log/pods".into(),
        seccomp_dir: "/var/lib/kubelet/seccomp".into(),
        seccomp_default: false,
        selinux: false,
        masked_paths: Vec::new(),
        cluster_domain: "cluster.local".into(),
        gates: LaunchGates::default(),
    }
}

/// Owns what `ContainerInputs` borrows.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) image_user: ImageUser,
    pub(crate) envs: Vec<(String, String)>,
    pub(crate) volumes: BTreeMap<String, PathBuf>,
    pub(crate) subpaths: BTreeMap<usize, PathBuf>,
    pub(crate) image_volumes: BTreeMap<String, ImageSpec>,
    pub(crate) block_devices: BTreeMap<String, BlockDevice>,
    pub(crate) extra: ExtraOptions,
}

impl Given {
    pub(crate) fn inputs<'a>(&'a self, container: &'a Container) -> ContainerInputs<'a> {
        ContainerInputs {
            container,
            restart_count: 0,
            hash: 0x8e45_cbd0,
            image_ref: "sha256:1234",
            image_user: &self.image_user,
            envs: &self.envs,
            pod_ips: &[],
            volumes: &self.volumes,
            subpaths: &self.subpaths,
            image_volumes: &self.image_volumes,
            block_devices: &self.block_devices,
            hosts_file: None,
            termination_file: None,
            target: None,
            extra: &self.extra,
            runtime_handler: "",
            features: HandlerFeatures::default(),
            user_namespace: None,
            volume_groups: &[],
            exclusive_cpus: false,
        }
    }
}

/// The pod's first regular container, configured.
fn configured(ctx: &LaunchContext, pod: &Pod, given: &Given) -> Result<ContainerConfig, LaunchError> {
    container_config(ctx, pod, &given.inputs(&pod.regular()[0]))
}

/// A pod whose one container is `container`, and whose spec is merged with `spec`.
fn one(container: Value, spec: Value) -> Pod {
    let mut whole = json!({"containers": [{"name": "app", "image": "foo/image:v1"}]});
    merge(&mut whole["containers"][0], container);
    merge(&mut whole, spec);
    pod(whole)
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
