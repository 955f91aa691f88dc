//! Writes the kubeconfig of a bootstrapped node (TLS-04).
//!
//! It has the server of the bootstrap kubeconfig, and a user whose certificate and key are paths to
//! `kubelet-client-current.pem`, so that a rotation does not change it.
//! upstream: bootstrap.go writeKubeconfigFromBootstrapping (v1.36)

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::store::{self, StoreError};
use crate::text::{self, TextError};

/// The fields of the cluster that are copied. Upstream omits the last two, without which the server may be unreachable.
const TAKEN: [&str; 6] = [
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "proxy-url",
];

/// Why the kubeconfig cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("read {}", path.display())]
    Text { path: PathBuf, source: TextError },
    #[error("{} names no cluster in its current context", path.display())]
    NoCluster { path: PathBuf },
    #[error("encode it as YAML")]
    Yaml(#[source] serde_saphyr::ser::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes `kubeconfig` from `bootstrap`, with the certificate and key at `current`.
pub(super) fn write(kubeconfig: &Path, bootstrap: &Path, current: &Path) -> Result<(), WriteError> {
    let content = store::read(bootstrap)?.unwrap_or_default();
    let text = text::parse(&content).map_err(|source| WriteError::Text { path: bootstrap.into(), source })?;
    let directory = bootstrap.parent().unwrap_or(Path::new("."));
    let cluster = cluster(&text.value, directory).ok_or_else(|| WriteError::NoCluster { path: bootstrap.into() })?;
    let current = std::path::absolute(current).unwrap_or_else(|_| current.into());
    let current = current.display().to_string();
    let written = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "default-cluster", "cluster": cluster }],
        "users": [{ "name": "default-auth", "user": { "client-certificate": current, "client-key": current } }],
        "contexts": [{
            "name": "default-context",
            "context": { "cluster": "default-cluster", "user": "default-auth", "namespace": "default" },
        }],
        "current-context": "default-context",
    });
    // Long strings on one line, as other tools write them.
    let mut style = serde_saphyr::SerializerOptions::default();
    style.prefer_block_scalars = false;
    let yaml = serde_saphyr::to_string_with_options(&written, style).map_err(WriteError::Yaml)?;
    if let Some(dir) = kubeconfig.parent() {
        store::make_dir(dir)?;
    }
    Ok(store::write(kubeconfig, yaml.as_bytes(), 0o600)?)
}

/// The cluster of the current context, with absolute paths.
fn cluster(config: &Value, directory: &Path) -> Option<Map<String, Value>> {
    let context = named(config, "contexts", "context", config.get("current-context")?.as_str()?)?;
    let cluster = named(config, "clusters", "cluster", context.get("cluster")?.as_str()?)?;
    let mut taken = Map::new();
    for field in TAKEN {
        let Some(value) = cluster.get(field).filter(|value| !value.is_null() && value.as_str() != Some("")) else {
            continue;
        };
        let value = match (field, value.as_str()) {
            ("certificate-authority", Some(path)) => {
                let path = directory.join(path);
                Value::from(std::path::absolute(&path).unwrap_or(path).display().to_string())
            }
            _ => value.clone(),
        };
        taken.insert(field.to_owned(), value);
    }
    taken.contains_key("server").then_some(taken)
}

/// If several entries have the name, the last one counts.
fn named<'a>(config: &'a Value, list: &str, field: &str, name: &str) -> Option<&'a Value> {
    let entries = config.get(list)?.as_array()?;
    entries.iter().rfind(|entry| entry.get("name").and_then(Value::as_str) == Some(name))?.get(field)
}
