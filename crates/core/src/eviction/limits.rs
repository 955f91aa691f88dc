//! Limits on local storage: a pod above one of its own limits ends, however much is free (EV-15).

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::DiskLayout;
use super::message::bytes;
use super::stats::PodStats;
use crate::manifest::quantity::{Format, Quantity};
use crate::pod::PodExt;
use crate::resources::{Amount, EPHEMERAL_STORAGE, pod_limits};

/// A limit that a pod exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalLimit {
    /// How `kubelet_evictions` names it.
    pub signal: &'static str,
    /// The message.
    pub message: String,
}

/// The first limit on local storage that `pod` exceeds.
/// upstream: eviction/eviction_manager.go localStorageEviction (v1.36)
#[doc(alias = "localStorageEviction")]
pub fn over_limit(pod: &Pod, stats: &PodStats, layout: DiskLayout) -> Option<LocalLimit> {
    empty_dir(pod, stats).or_else(|| whole_pod(pod, stats)).or_else(|| container(pod, stats, layout))
}

/// Whether any limit on local storage is set: without one nothing has to be measured.
pub fn has_local_limit(pod: &Pod) -> bool {
    let sized = |volume: &Volume| volume.empty_dir.as_ref().is_some_and(|dir| dir.size_limit.is_some());
    let volumes = pod.pod_spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().any(sized) || pod_limits(pod).contains_key(EPHEMERAL_STORAGE)
}

fn empty_dir(pod: &Pod, stats: &PodStats) -> Option<LocalLimit> {
    let volumes = pod.pod_spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().find_map(|volume| {
        let limit: Quantity = volume.empty_dir.as_ref()?.size_limit.as_ref()?.0.trim().parse().ok()?;
        // Of two statistics of one name the last counts, as upstream collects them in a map.
        let (_, used) = stats.volumes.iter().rfind(|(name, _)| *name == volume.name)?;
        let exceeded = limit.sign() > 0 && bytes(used.bytes?).cmp_value(&limit) == Ordering::Greater;
        exceeded.then(|| LocalLimit {
            signal: "emptydirfs.limit",
            message: format!("Usage of EmptyDir volume {:?} exceeds the limit {:?}. ", volume.name, limit.to_string()),
        })
    })
}

fn whole_pod(pod: &Pod, stats: &PodStats) -> Option<LocalLimit> {
    let limit = *pod_limits(pod).get(EPHEMERAL_STORAGE)?;
    let used = super::rank::amount(stats.ephemeral.unwrap_or_default());
    (used > limit).then(|| LocalLimit {
        signal: "ephemeralpodfs.limit",
        message: format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {}. ",
            in_notation_of(pod, limit)
        ),
    })
}

/// A sum is written as its first part is.
fn in_notation_of(pod: &Pod, sum: Amount) -> Quantity {
    let limits = pod.regular().iter().chain(pod.init()).filter_map(|container| limit_of(container.resources.as_ref()?));
    let format = limits.filter(|limit| limit.sign() != 0).map(|limit| limit.format()).next();
    let text: Option<Quantity> = sum.to_string().parse().ok();
    let sum = text.unwrap_or_else(|| Quantity::units(sum.value(), Format::BinarySi));
    sum.with_format(format.unwrap_or(Format::DecimalSi))
}

fn limit_of(resources: &k8s_openapi::api::core::v1::ResourceRequirements) -> Option<Quantity> {
    resources.limits.as_ref()?.get(EPHEMERAL_STORAGE)?.0.trim().parse().ok()
}

fn container(pod: &Pod, stats: &PodStats, layout: DiskLayout) -> Option<LocalLimit> {
    stats.containers.iter().find_map(|container| {
        let spec = pod.regular().iter().rfind(|spec| spec.name == container.name)?;
        let limit = limit_of(spec.resources.as_ref()?).filter(|limit| limit.value() != 0)?;
        let of = |used: Option<super::FsUse>| used.and_then(|used| used.bytes).unwrap_or_default();
        // Logs are on the file system of the node; layers only count where they are there as well.
        let layer = if layout == DiskLayout::One { of(container.layer) } else { 0 };
        let used = bytes(of(container.logs).saturating_add(layer));
        (limit.cmp_value(&used) == Ordering::Less).then(|| LocalLimit {
            signal: "ephemeralcontainerfs.limit",
            message: format!(
                "Container {} exceeded its local ephemeral storage limit {:?}. ",
                container.name,
                limit.to_string()
            ),
        })
    })
}
