//! What the usage of the node is measured with.

use std::path::PathBuf;
use std::sync::Arc;

use rubelet_core::usage::{PodPlaces, SystemContainer};
use rubelet_engine::node::Settings;
use rubelet_engine::ports::Disks;
use rubelet_engine::usage::UsageParts;
use rubelet_linux::cgroups::Layout;
use rubelet_linux::disks::KernelDisks;
use rubelet_linux::layers::OverlayLayers;
use rubelet_linux::stats::{KernelStats, Shown, own_cgroup};

use super::Base;
use super::host::Host;
use crate::runtime::RuntimePorts;

/// The kernel's counters, the disks and the runtime. Nothing is read yet.
pub(super) fn parts(
    base: &Base<'_>,
    host: &Host,
    settings: &Settings,
    layout: Layout,
    runtime: &RuntimePorts,
) -> UsageParts {
    let shown = Shown { tree: settings.launch.tree.clone(), system: system_containers(base, host) };
    let stats = KernelStats::new(layout, shown, host.files.clone(), base.clock.clone());
    let places = PodPlaces { root: base.root.clone(), logs: PathBuf::from(&base.loaded.config.pod_logs_dir) };
    let disks: Arc<dyn Disks> = Arc::new(KernelDisks::new(base.clock.clone()));
    let layers = OverlayLayers::new(Arc::clone(&runtime.stats), Arc::clone(&disks), &host.files.proc);
    UsageParts { stats: Arc::new(stats), disks, runtime: Arc::new(layers), places }
}

/// The cgroups of daemons that are configured. That of the kubelet is looked for if it is not.
/// upstream: cm/container_manager_linux.go setupNode (v1.36)
fn system_containers(base: &Base<'_>, host: &Host) -> Vec<(SystemContainer, String)> {
    let (config, flags) = (&base.loaded.config, &base.loaded.flags);
    let own = Some(config.kubelet_cgroups.clone()).filter(|path| !path.is_empty());
    let all = [
        (SystemContainer::Kubelet, own.or_else(|| own_cgroup(&host.files.proc))),
        (SystemContainer::Runtime, Some(flags.runtime_cgroups.clone())),
        (SystemContainer::Misc, Some(config.system_cgroups.clone())),
    ];
    all.into_iter()
        .filter_map(|(name, path)| Some((name, path.filter(|path| !path.trim_matches('/').is_empty())?)))
        .collect()
}
