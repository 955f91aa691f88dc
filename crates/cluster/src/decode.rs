//! Decodes a manifest's JSON into a pod.

use std::error::Error;

use k8s_openapi::api::core::v1::Pod;
pub use rubelet_core::manifest::Origin;
use serde_json::Value;

/// A pod for this node, and warnings for its author.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Valid, defaulted, and bound to this node.
    pub pod: Pod,
    /// Likely mistakes that do not make the pod invalid.
    pub warnings: Vec<String>,
}

/// Decodes the JSON of one pod.
pub trait Decode: Send + Sync {
    /// Decodes `raw`, or returns why it is not a valid pod.
    fn decode(&self, raw: &Value, origin: &Origin) -> Result<Decoded, Box<dyn Error + Send + Sync>>;
}

impl<F> Decode for F
where
    F: Fn(&Value, &Origin) -> Result<Decoded, Box<dyn Error + Send + Sync>> + Send + Sync,
{
    fn decode(&self, raw: &Value, origin: &Origin) -> Result<Decoded, Box<dyn Error + Send + Sync>> {
        self(raw, origin)
    }
}

/// The text of an error and all its sources.
pub(crate) fn explain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
