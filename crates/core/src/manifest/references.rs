//! Static pods stand on their own: they may not need an API object to run.
//!
//! upstream: api/pod/util.go HasAPIObjectReference (v1.36), row SRC-06

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume, VolumeProjection};

use super::ManifestError;

/// Why the pod cannot stand on its own: the first kind of API object that it needs, in upstream's words.
pub(super) fn api_reference(pod: &Pod) -> Option<ManifestError> {
    let spec = pod.spec.as_ref()?;
    match named_object(spec) {
        Some(resource) => Some(ManifestError::Reference { resource }),
        None => spec.volumes.iter().flatten().find_map(refused_volume),
    }
}

fn named_object(spec: &PodSpec) -> Option<&'static str> {
    if is_named(spec.service_account_name.as_deref()) {
        return Some("serviceaccounts");
    }
    if names_secret(spec) {
        return Some("secrets");
    }
    if names_config_map(spec) {
        return Some("configmaps");
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        return Some("resourceclaims");
    }
    None
}

/// What is refused even where references are allowed.
/// upstream: kubelet/config/common.go tryDecodeSinglePod, gate off (v1.36)
pub(super) fn always_refused(pod: &Pod) -> Option<ManifestError> {
    refused_use(pod).map(|what| ManifestError::Refused { what })
}

fn refused_use(pod: &Pod) -> Option<&'static str> {
    let spec = pod.spec.as_ref()?;
    let sources = spec.volumes.iter().flatten().filter_map(|volume| volume.projected.as_ref());
    let mut sources = sources.flat_map(|projected| projected.sources.iter().flatten());
    if sources.any(|source| source.cluster_trust_bundle.is_some()) {
        return Some("ClusterTrustBundle projected volume sources");
    }
    spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()).then_some("ResourceClaims")
}

fn is_named(name: Option<&str>) -> bool {
    name.is_some_and(|name| !name.is_empty())
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

fn names_secret(spec: &PodSpec) -> bool {
    let pull = spec.image_pull_secrets.iter().flatten().any(|secret| !secret.name.is_empty());
    let env = containers(spec).any(|container| {
        let whole = container.env_from.iter().flatten().filter_map(|from| from.secret_ref.as_ref());
        let one = container.env.iter().flatten().filter_map(|env| env.value_from.as_ref()?.secret_key_ref.as_ref());
        whole.map(|secret| &secret.name).chain(one.map(|secret| &secret.name)).any(|name| !name.is_empty())
    });
    pull || env || spec.volumes.iter().flatten().any(volume_names_secret)
}

fn volume_names_secret(volume: &Volume) -> bool {
    let local = [
        volume.cephfs.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.cinder.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.flex_volume.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.rbd.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.scale_io.as_ref().map(|source| &source.secret_ref),
        volume.iscsi.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.storageos.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.csi.as_ref().and_then(|source| source.node_publish_secret_ref.as_ref()),
    ];
    let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    let mut projected = projected.filter_map(|source| source.secret.as_ref());
    volume.azure_file.as_ref().is_some_and(|source| !source.secret_name.is_empty())
        || is_named(volume.secret.as_ref().and_then(|source| source.secret_name.as_deref()))
        || local.into_iter().flatten().any(|reference| !reference.name.is_empty())
        || projected.any(|secret| !secret.name.is_empty())
}

fn names_config_map(spec: &PodSpec) -> bool {
    let env = containers(spec).any(|container| {
        let whole = container.env_from.iter().flatten().filter_map(|from| from.config_map_ref.as_ref());
        let one = container.env.iter().flatten().filter_map(|env| env.value_from.as_ref()?.config_map_key_ref.as_ref());
        whole.map(|map| &map.name).chain(one.map(|map| &map.name)).any(|name| !name.is_empty())
    });
    env || spec.volumes.iter().flatten().any(|volume| {
        let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        let mut projected = projected.filter_map(|source| source.config_map.as_ref());
        volume.config_map.as_ref().is_some_and(|source| !source.name.is_empty())
            || projected.any(|map| !map.name.is_empty())
    })
}

fn refused_volume(volume: &Volume) -> Option<ManifestError> {
    let needs = [
        (volume.config_map.is_some(), "configmaps (via configmap volumes)"),
        (volume.secret.is_some(), "secrets (via secret volumes)"),
        (volume.csi.is_some(), "csidrivers (via CSI volumes)"),
        (volume.glusterfs.is_some(), "endpoints (via glusterFS volumes)"),
        (volume.persistent_volume_claim.is_some(), "persistentvolumeclaims"),
        (volume.ephemeral.is_some(), "persistentvolumeclaims (via ephemeral volumes)"),
        (volume.azure_file.is_some(), "secrets (via azureFile volumes)"),
    ];
    if let Some(resource) = needs.into_iter().find_map(|(is_set, resource)| is_set.then_some(resource)) {
        return Some(ManifestError::Reference { resource });
    }
    let mut sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    sources.find_map(|source| match (needed_by_projection(source), &source.downward_api) {
        (Some(resource), _) => Some(ManifestError::Reference { resource }),
        (None, Some(_)) => None,
        (None, None) => Some(ManifestError::UnknownSource { volume: volume.name.clone() }),
    })
}

fn needed_by_projection(source: &VolumeProjection) -> Option<&'static str> {
    let needs = [
        (source.config_map.is_some(), "configmaps (via projected volumes)"),
        (source.secret.is_some(), "secrets (via projected volumes)"),
        (source.service_account_token.is_some(), "serviceaccounts (via projected volumes)"),
        (source.cluster_trust_bundle.is_some(), "clustertrustbundles"),
        (source.pod_certificate.is_some(), "podcertificates"),
    ];
    needs.into_iter().find_map(|(is_set, resource)| is_set.then_some(resource))
}
