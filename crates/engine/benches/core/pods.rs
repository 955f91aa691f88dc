//! Pods as they are found on nodes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod, Volume};
use rubelet_testkit::PodBuilder;

/// Two containers, requests and limits, a few variables, a volume, labels.
pub(crate) fn typical(pod: PodBuilder, name: &str) -> Arc<Pod> {
    let container = |pod: PodBuilder, name: &str| {
        pod.container(name)
            .command(["/bin/server", "--listen", ":8080", "--config", "/etc/server/config.yaml"])
            .env("LOG_LEVEL", "info")
            .env("GOMAXPROCS", "2")
            .request("cpu", "1m")
            .request("memory", "1Mi")
            .limit("memory", "128Mi")
            .mount("scratch", "/tmp")
    };
    let pod = pod
        .uid(&format!("0f6a9c1e-7d53-4c1b-9a8e-{name:0>12}"))
        .label("app.kubernetes.io/name", "web")
        .label("app.kubernetes.io/part-of", "shop")
        .label("pod-template-hash", "6d4cf56db6")
        .volume(Volume {
            name: "scratch".into(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        });
    container(container(pod, "app"), "log-shipper").build()
}
