//! The volume plugins of this node.

use std::sync::Arc;

use rubelet_engine::node::Settings;
use rubelet_engine::ports::{NodeFacts, VolumePlugin};
use rubelet_linux::volume_dirs::{Payloads, RootVolumes};
use rubelet_volume::{ConfigMaps, Content, DownwardApi, EmptyDir, HostPath, Projected, Secrets};

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
    let content = Content::new(Arc::new(dirs.clone()), Arc::new(payloads), memory);
    let allocatable = &settings.admission.allocatable;
    let mut plugins: Vec<Arc<dyn VolumePlugin>> = vec![
        Arc::new(EmptyDir::new(Arc::new(dirs), memory)),
        Arc::new(HostPath),
        Arc::new(DownwardApi::new(content.clone(), allocatable.clone())),
    ];
    if let Some(Cluster { ports, .. }) = cluster {
        let (objects, tokens) = (Arc::clone(&ports.objects), Arc::clone(&ports.tokens));
        plugins.push(Arc::new(ConfigMaps::new(content.clone(), Arc::clone(&objects))));
        plugins.push(Arc::new(Secrets::new(content.clone(), Arc::clone(&objects))));
        plugins.push(Arc::new(Projected::new(content, objects, tokens, allocatable.clone())));
    }
    plugins
}
