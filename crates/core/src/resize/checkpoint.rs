//! The format of `allocated_pods_state` and `actuated_pods_state`, which is upstream's (RSZ-02, CKP-02): a node can change
//! from one kubelet to the other and back.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use serde::{Deserialize, Serialize};

use super::PodAllocation;
use crate::id::PodUid;

/// A checkpoint that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The text is not a checkpoint.
    #[error("not a checkpoint of resources")]
    Format(#[source] serde_json::Error),
    /// The content does not match its checksum (CKP-01).
    #[error("the checksum is {found}, the content says {counted}: the checkpoint is corrupt")]
    Corrupt {
        /// The checksum in the file.
        found: u32,
        /// The checksum of the content.
        counted: u32,
    },
}

#[derive(Serialize, Deserialize)]
struct File {
    data: String,
    checksum: u32,
}

#[derive(Default, Serialize, Deserialize)]
struct Data {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    entries: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(rename = "ContainerResources", default)]
    containers: Option<BTreeMap<String, ResourceRequirements>>,
    #[serde(rename = "PodLevelResources", default)]
    pod: Option<ResourceRequirements>,
}

/// The text of a checkpoint.
pub fn encode<'a>(pods: impl IntoIterator<Item = (&'a PodUid, &'a PodAllocation)>) -> String {
    let entry = |of: &PodAllocation| Entry { containers: Some(of.containers.clone()), pod: of.pod.clone() };
    let entries = pods.into_iter().map(|(uid, of)| (uid.as_str().to_owned(), entry(of))).collect();
    // Maps with string keys always have a JSON form.
    let data = serde_json::to_string(&Data { entries }).unwrap_or_default();
    let checksum = checksum(&data);
    serde_json::to_string(&File { data, checksum }).unwrap_or_default()
}

/// The content of a checkpoint.
pub fn decode(text: &str) -> Result<BTreeMap<PodUid, PodAllocation>, CheckpointError> {
    let file: File = serde_json::from_str(text).map_err(CheckpointError::Format)?;
    let counted = checksum(&file.data);
    if counted != file.checksum {
        return Err(CheckpointError::Corrupt { found: file.checksum, counted });
    }
    let data: Data = serde_json::from_str(&file.data).map_err(CheckpointError::Format)?;
    let allocation = |e: Entry| PodAllocation { containers: e.containers.unwrap_or_default(), pod: e.pod };
    Ok(data.entries.into_iter().map(|(uid, entry)| (PodUid::from(uid.as_str()), allocation(entry))).collect())
}

/// FNV-1a with 32 bits over the data as Go's `%#v` prints it.
/// upstream: checkpointmanager/checksum/checksum.go New, util/hash/hash.go DeepHashObject (v1.36)
fn checksum(data: &str) -> u32 {
    let text = ["(string)", data];
    text.iter()
        .flat_map(|t| t.bytes())
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
