//! What an agent asks the runtime for, of a pod of the benchmark: decided by what decides it in the agent, so that the floor
//! is asked for nothing less.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::hash::container_hash;
use rubelet_core::launch::{
    ContainerConfig, ContainerInputs, DnsConfig, ExtraOptions, HandlerFeatures, ImageUser, LaunchContext, LaunchGates,
    SandboxConfig, SandboxInputs, SwapPolicy, container_config, sandbox_config,
};
use rubelet_core::qos::{CgroupDriver, CgroupTree, CgroupVersion, CpuPolicy};
use serde_json::json;

use crate::place::Place;
use crate::pods::PAUSE;

/// Makes the files of the pod number `n`, and what to ask for.
pub(crate) fn asked(place: &Place, n: u32) -> anyhow::Result<(SandboxConfig, ContainerConfig)> {
    let (name, uid) = (format!("floor-{n}"), format!("00000000-0000-0000-0000-{n:012}"));
    let dir = place.at("kubelet/floor").join(&name);
    fs::create_dir_all(dir.join("token")).context("make a pod's directory")?;
    let (hosts, termination) = (dir.join("hosts"), dir.join("termination"));
    fs::write(&hosts, "127.0.0.1 localhost\n").context("write a hosts file")?;
    fs::write(&termination, "").context("write a termination log")?;
    let context = context(place);
    fs::create_dir_all(context.pod_logs_dir.join(format!("floor_{name}_{uid}/app"))).context("make a log directory")?;
    let pod = pod(&name, &uid)?;
    let dns = DnsConfig {
        servers: vec!["10.96.0.10".to_owned()],
        searches: ["floor.svc.cluster.local", "svc.cluster.local", "cluster.local"].map(str::to_owned).to_vec(),
        options: vec!["ndots:5".to_owned()],
    };
    let sandbox = sandbox_config(&context, &pod, &SandboxInputs { dns: Some(dns), ..SandboxInputs::default() })?;
    let container = pod.spec.iter().flat_map(|spec| &spec.containers).next().context("a container")?;
    let environment = |(name, value): (&str, &str)| (format!("KUBERNETES_{name}"), value.to_owned());
    let inputs = ContainerInputs {
        container,
        restart_count: 0,
        hash: container_hash(container),
        image_ref: PAUSE,
        image_user: &ImageUser::default(),
        envs: &ENVIRONMENT.map(environment),
        pod_ips: &[],
        volumes: &BTreeMap::from([("token".to_owned(), dir.join("token"))]),
        subpaths: &BTreeMap::new(),
        image_volumes: &BTreeMap::new(),
        block_devices: &BTreeMap::new(),
        hosts_file: Some(&hosts),
        termination_file: Some(&termination),
        target: None,
        extra: &ExtraOptions::default(),
        runtime_handler: "",
        features: HandlerFeatures::default(),
        user_namespace: None,
        volume_groups: &[],
        exclusive_cpus: false,
    };
    let container = container_config(&context, &pod, &inputs)?;
    Ok((sandbox, container))
}

/// The variables with the address of the API server, which every container gets.
const ENVIRONMENT: [(&str, &str); 7] = [
    ("SERVICE_HOST", "10.96.0.1"),
    ("SERVICE_PORT", "443"),
    ("SERVICE_PORT_HTTPS", "443"),
    ("PORT", "tcp://10.96.0.1:443"),
    ("PORT_443_TCP", "tcp://10.96.0.1:443"),
    ("PORT_443_TCP_PROTO", "tcp"),
    ("PORT_443_TCP_ADDR", "10.96.0.1"),
];

/// The pod as an API server fills it in.
fn pod(name: &str, uid: &str) -> anyhow::Result<Pod> {
    let pod = json!({
        "metadata": {"name": name, "namespace": "floor", "uid": uid, "labels": {"app": "bench"}},
        "spec": {
            "containers": [{
                "name": "app", "image": PAUSE, "imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "volumeMounts": [{
                    "name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true,
                }],
            }],
            "volumes": [{"name": "token", "emptyDir": {}}],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
    });
    serde_json::from_value(pod).context("a pod")
}

/// The node as the benchmark configures it.
fn context(place: &Place) -> LaunchContext {
    LaunchContext {
        tree: CgroupTree::new(&format!("/{}", place.cgroup()), CgroupDriver::Cgroupfs, true),
        cgroups: CgroupVersion::V1,
        memory_bytes: 16 << 30,
        hugepage_sizes: Vec::new(),
        swap: SwapPolicy::default(),
        cpu: CpuPolicy::default(),
        single_process_oom_kill: None,
        pod_pids_limit: -1,
        pod_logs_dir: place.at("pod-logs"),
        seccomp_dir: place.at("kubelet/seccomp"),
        seccomp_default: false,
        selinux: false,
        masked_paths: Vec::new(),
        cluster_domain: "cluster.local".to_owned(),
        gates: LaunchGates::default(),
    }
}
