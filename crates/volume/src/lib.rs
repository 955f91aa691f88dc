//! Volume plugins: what each kind of volume means, in terms of directories, mounts and files.
//!
//! A plugin decides. It touches the disk only through the ports `VolumeDirs` and `PayloadWriter`, which follow no link that
//! a container made. Only hostPath reads paths of the host.

mod content;
mod downward_api;
mod empty_dir;
mod host_path;
mod object;
mod projected;
#[cfg(test)]
mod testing;

pub use content::Content;
pub use downward_api::DownwardApi;
pub use empty_dir::EmptyDir;
pub use host_path::HostPath;
pub use object::ObjectVolumes;
pub use projected::Projected;

use std::sync::Arc;

use rubelet_core::resources::Amounts;
use rubelet_engine::ports::{ClusterPorts, VolumePlugin};

/// All plugins of a node. `allocatable` is what the node offers to pods. Without an API server there are no plugins for
/// config maps, secrets and tokens.
#[doc(alias = "ProbeVolumePlugins")]
pub fn plugins(content: &Content, allocatable: &Amounts, cluster: Option<&ClusterPorts>) -> Vec<Arc<dyn VolumePlugin>> {
    let mut plugins: Vec<Arc<dyn VolumePlugin>> = vec![
        Arc::new(content.empty_dir()),
        Arc::new(HostPath),
        Arc::new(DownwardApi::new(content.clone(), allocatable.clone())),
    ];
    if let Some(cluster) = cluster {
        let (objects, tokens) = (Arc::clone(&cluster.objects), Arc::clone(&cluster.tokens));
        plugins.push(Arc::new(ObjectVolumes::config_maps(content.clone(), Arc::clone(&objects))));
        plugins.push(Arc::new(ObjectVolumes::secrets(content.clone(), Arc::clone(&objects))));
        plugins.push(Arc::new(Projected::new(content.clone(), objects, tokens, allocatable.clone())));
    }
    plugins
}
