//! Bounds on the size of a pod's spec, checked before any other work on the pod.
//!
//! The API server bounds a pod by its size alone, 1.5 MiB, and a manifest by nothing: 5,000 containers or 20,000
//! references fit in. Each of them costs the node more than its bytes: a watch at the API server, a mount, a cgroup, a
//! comparison with all others. The limits are several times the numbers of the largest known pods. A pod above a limit is
//! rejected alone, with the number and the limit in its message.

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::Rejection;
use crate::pod::PodExt;
use crate::references::{MAX_OBJECTS, all_objects_of};

/// Each container is a cgroup, a log directory, up to three probes and an entry in every status write.
const MAX_CONTAINERS: usize = 256;
/// Each volume is a directory, and most are a file system of their own.
const MAX_VOLUMES: usize = 512;
/// Every mount of a volume is compared with the others of its container, to find those that lie inside it.
const MAX_MOUNTS: usize = 2048;
/// Host ports are compared with those of all other pods.
const MAX_PORTS: usize = 4096;
/// Each file is written again whenever its volume changes.
const MAX_FILES: usize = 8192;

/// Rejects a pod that is above one of the limits.
pub(super) fn check(pod: &Pod) -> Result<(), Rejection> {
    let spec = pod.pod_spec();
    let containers = pod.init().len() + pod.regular().len() + pod.ephemeral().len();
    let plain = || pod.init().iter().chain(pod.regular());
    let of_plain = plain().map(|c| c.volume_mounts.as_deref());
    let of_ephemeral = pod.ephemeral().iter().map(|c| c.volume_mounts.as_deref());
    let mounts = of_plain.chain(of_ephemeral).flatten().map(<[_]>::len).sum();
    let ports = plain().flat_map(|c| c.ports.as_deref()).map(<[_]>::len).sum();
    let volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let objects = all_objects_of(pod);
    for (what, count, limit) in [
        ("containers", containers, MAX_CONTAINERS),
        ("volumes", volumes.len(), MAX_VOLUMES),
        ("volume mounts", mounts, MAX_MOUNTS),
        ("ports", ports, MAX_PORTS),
        ("files in its volumes", volumes.iter().map(files).sum(), MAX_FILES),
        ("config maps", objects.config_maps.len(), MAX_OBJECTS),
        ("secrets", objects.secrets.len(), MAX_OBJECTS),
    ] {
        if count > limit {
            let message = format!("Pod asks for {count} {what}, and this node runs pods with at most {limit}");
            return Err(Rejection::new("PodTooLarge", message));
        }
    }
    Ok(())
}

/// The files that the spec itself lists in a volume.
pub(super) fn files(volume: &Volume) -> usize {
    fn len<T>(items: Option<&Vec<T>>) -> usize {
        items.map_or(0, Vec::len)
    }
    let sources = volume.projected.iter().flat_map(|p| p.sources.iter().flatten());
    let projected = sources.map(|source| {
        let map = len(source.config_map.as_ref().and_then(|s| s.items.as_ref()));
        let secret = len(source.secret.as_ref().and_then(|s| s.items.as_ref()));
        let downward = len(source.downward_api.as_ref().and_then(|s| s.items.as_ref()));
        // A source without a list has at least one file.
        (map + secret + downward).max(1)
    });
    len(volume.config_map.as_ref().and_then(|s| s.items.as_ref()))
        + len(volume.secret.as_ref().and_then(|s| s.items.as_ref()))
        + len(volume.downward_api.as_ref().and_then(|s| s.items.as_ref()))
        + projected.sum::<usize>()
}
