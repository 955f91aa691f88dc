//! Hashes that outlive the process or that upstream's kubelet compares.
//!
//! Every container is annotated with its hash; a node that changes from one kubelet to the other keeps its containers
//! only if both compute the same hash (TRAP-02). The fold is FNV, and the text that is folded is part of the contract.

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, ResourceRequirements};

use crate::id::PodRef;

/// FNV-1a over `bytes`, 32 bits.
pub fn fnv32a(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// FNV-1a over `bytes`, 64 bits.
pub fn fnv64a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The hashed fields of a container: only another name or image restarts a running container (RT-71).
pub trait Hashed {
    /// Name in the spec.
    fn name(&self) -> &str;
    /// Image in the spec; empty if absent.
    fn image(&self) -> &str;
}

impl Hashed for Container {
    fn name(&self) -> &str {
        &self.name
    }

    fn image(&self) -> &str {
        self.image.as_deref().unwrap_or_default()
    }
}

impl Hashed for EphemeralContainer {
    fn name(&self) -> &str {
        &self.name
    }

    fn image(&self) -> &str {
        self.image.as_deref().unwrap_or_default()
    }
}

/// The hash of a container's definition, as `io.kubernetes.container.hash` holds it.
///
/// It folds the JSON object of image and name, printed as Go prints a typed byte slice: `([]uint8)[123 34 …]`.
/// upstream: container/helpers.go `HashContainer`, util/hash `DeepHashObject` (v1.36)
#[doc(alias = "HashContainer")]
pub fn container_hash(container: &impl Hashed) -> u64 {
    let json = format!("{{\"image\":{},\"name\":{}}}", go_json(container.image()), go_json(container.name()));
    let mut text = String::with_capacity(json.len() * 4 + 12);
    text.push_str("([]uint8)[");
    for (place, byte) in json.bytes().enumerate() {
        if place > 0 {
            text.push(' ');
        }
        text.push_str(&byte.to_string());
    }
    text.push(']');
    u64::from(fnv32a(text.bytes()))
}

/// A JSON string as Go's encoder writes it: it also escapes HTML's special characters.
fn go_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let mut out = String::with_capacity(quoted.len());
    for c in quoted.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

/// The key under which a container's crashes are counted (RT-60).
///
/// Image and resources are part of it, so that a change of either starts the count anew. Upstream prints the resources
/// in a form of its own; the key never leaves the process, so ours prints them as JSON.
/// upstream: kuberuntime/helpers.go `GetBackoffKey` (v1.36)
#[doc(alias = "GetBackoffKey")]
pub fn backoff_key(pod: &PodRef, name: &str, image: &str, resources: Option<&ResourceRequirements>) -> String {
    let resources = resources.and_then(|r| serde_json::to_string(r).ok()).unwrap_or_default();
    let text = format!("{}/{}/{}/{name}/{image}/{resources}", pod.name, pod.namespace, pod.uid);
    format!("{:x}", fnv64a(text.bytes()))
}

#[cfg(test)]
mod tests;
