//! Drop-ins: the `*.conf` files below `--config-dir`, merged one after the other (CFG-01).

use std::path::{Path, PathBuf};

use rubelet_core::config::{Given, KubeletConfiguration};
use serde_json::Value;

use super::tree::Node;
use super::{LoadError, Sources, at, decode, read_tree};

/// Directories deeper than this are a loop or a mistake.
pub(super) const MAX_DEPTH: usize = 32;

/// Merges every drop-in over a configuration.
///
/// Like upstream, the merge starts from the complete configuration: a map in a drop-in (`evictionHard`) adds to the map
/// below it, a list replaces the list, and null brings a default back.
// upstream: cmd/kubelet/app/server.go mergeKubeletConfigurations (v1.36).
#[doc(alias = "mergeKubeletConfigurations")]
pub(super) fn merge(
    config: KubeletConfiguration,
    directory: &Path,
    sources: &mut Sources,
) -> Result<KubeletConfiguration, LoadError> {
    let mut files = Vec::new();
    walk(directory, MAX_DEPTH, &mut files)?;
    let mut merged = serde_json::to_value(&config).unwrap_or_default();
    for file in files {
        if file.extension().is_none_or(|extension| extension != "conf") {
            sources.skipped.push(file);
            continue;
        }
        let (tree, mut tolerated) = read_tree(&file)?;
        sources.given.extend(&tree.given());
        sources.origins.set_by_file(&file, &tree);
        merge_patch(&mut merged, &tree.to_json());
        // Decoded alone first: the places of its problems are known only before the merge.
        decode::decode::<KubeletConfiguration>(&tree, &mut tolerated).map_err(|problem| at(&file, vec![problem]))?;
        sources.tolerated.extend(tolerated.lines(&file));
    }
    let keys: Given = merged.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
    // Unknown fields are still in it; they were reported with their file.
    let reported = &mut decode::Tolerated::default();
    let decoded = decode::decode::<KubeletConfiguration>(&Node::from_json(without_nulls(merged)), reported);
    let mut config = decoded.map_err(|problem| at(directory, vec![problem]))?;
    config.set_defaults(&keys);
    Ok(config)
}

/// Every file below a directory, in lexical order, directories in their place among the files.
pub(super) fn walk(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    let unreadable = |source| LoadError::Read { path: directory.to_owned(), source };
    if depth == 0 {
        return Err(unreadable(std::io::Error::other("directories are nested too deep")));
    }
    let entries = std::fs::read_dir(directory).map_err(unreadable)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type().map_err(unreadable)?.is_dir() {
            walk(&entry.path(), depth - 1, files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// RFC 7386: objects are merged, everything else replaces, null removes.
fn merge_patch(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(target) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge_patch(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Null inside a list's objects means "not set" too.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(
            object
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
