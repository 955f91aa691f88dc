//! The configured pod sources (section 2).

use std::sync::Arc;

use anyhow::Context;
use rubelet_cluster::{Decode, Decoded, FileSource, HttpSource, Origin};
use rubelet_core::config::Gate;
use rubelet_core::manifest::{Gates, static_pod};
use rubelet_engine::ports::PodSource;
use serde_json::Value;

use crate::config_load::Loaded;

/// The configured sources. There may be none: such a node runs no pods, and ends those that it finds.
pub(crate) fn sources(loaded: &Loaded, node: &str) -> anyhow::Result<Vec<Arc<dyn PodSource>>> {
    let config = &loaded.config;
    let decode = decoder(loaded, node);
    let mut sources: Vec<Arc<dyn PodSource>> = Vec::new();
    if !config.static_pod_path.is_empty() {
        let every = config.file_check_frequency.to_std();
        sources.push(Arc::new(FileSource::new(&config.static_pod_path, every, Arc::clone(&decode))));
    }
    if !config.static_pod_url.is_empty() {
        let every = config.http_check_frequency.to_std();
        let source = HttpSource::new(&config.static_pod_url, &config.static_pod_url_header, every, decode);
        sources.push(Arc::new(source.context("staticPodURL")?));
    }
    Ok(sources)
}

/// Turns a manifest into a pod of this node.
fn decoder(loaded: &Loaded, node: &str) -> Arc<dyn Decode> {
    let gates = Gates::new(|gate| Gate::from_name(gate.name()).is_none_or(|known| loaded.gates.enabled(known)));
    let node = node.to_owned();
    let decode = move |raw: &Value, origin: &Origin| {
        let manifest = static_pod(raw, origin, &node, &gates)?;
        let warnings = manifest.warnings.iter().map(ToString::to_string).collect();
        Ok(Decoded { pod: manifest.pod, warnings })
    };
    Arc::new(decode)
}
