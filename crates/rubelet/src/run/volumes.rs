//! The volume plugins of this node.

use std::sync::Arc;

use rubelet_engine::node::Settings;
use rubelet_engine::ports::{NodeFacts, VolumePlugin};
use rubelet_linux::volume_dirs::{Payloads, RootVolumes};
use rubelet_volume::Content;

use super::Base;
use crate::cluster::Cluster;

/// The plugins; those whose content comes from the API server only with one.
pub(super) fn plugins(
    base: &Base<'_>,
    facts: &NodeFacts,
    settings: &Settings,
    cluster: Option<&Cluster>,
) -> Vec<Arc<dyn VolumePlugin>> {
    let dirs = RootVolumes::new(base.root.clone());
    let memory = u64::try_from(facts.memory_bytes).unwrap_or_default();
    let payloads = Payloads::new(dirs.clone(), base.clock.clone());
    let content = Content::new(Arc::new(dirs), Arc::new(payloads), memory);
    let allocatable = &settings.admission.allocatable;
    rubelet_volume::plugins(&content, allocatable, cluster.map(|cluster| &cluster.ports))
}
