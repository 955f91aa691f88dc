//! What of a look the pages show: which pods, and which network interfaces.

use super::{Interface, NetworkUsage, NodeUsage, PodUsage};

/// The pods that pages show: those with a container that runs. While a pod ends, another may have its name already; clients
/// know a pod by its name alone, so only the one with the newest sandbox is shown.
/// upstream: stats/cri_stats_provider.go listPodStatsPartiallyFromCRI, removeTerminatedPods (v1.36)
#[doc(alias = "removeTerminatedPods")]
pub fn shown_pods(usage: &NodeUsage) -> impl Iterator<Item = &PodUsage> {
    let newest = |pod: &PodUsage| pod.sandbox.as_ref().map(|sandbox| sandbox.created_at);
    let same = |a: &PodUsage, b: &PodUsage| a.pod.namespace == b.pod.namespace && a.pod.name == b.pod.name;
    usage
        .pods
        .chunk_by(same)
        .filter_map(move |pods| pods.iter().filter(|pod| !pod.containers.is_empty()).max_by_key(|pod| newest(pod)))
}

/// The interfaces that pages show. Those of pods on the node's side are left out: there are as many as pods, and each pod
/// shows its own.
/// upstream: cadvisor container/libcontainer/handler.go isIgnoredDevice (v0.56)
#[doc(alias = "isIgnoredDevice")]
pub fn shown_interfaces(network: &NetworkUsage) -> impl Iterator<Item = &Interface> {
    const LEFT_OUT: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];
    let shown = |interface: &&Interface| {
        let name = interface.name.to_lowercase();
        !LEFT_OUT.iter().any(|prefix| name.starts_with(prefix))
    };
    network.interfaces.iter().filter(shown)
}
