//! From a manifest's JSON to a pod.

use std::error::Error;

use k8s_openapi::api::core::v1::Pod;
pub use rubelet_core::manifest::Origin;
use serde_json::Value;

/// A pod that this node can run, and what its author should know.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Valid, with defaults filled in, bound to this node.
    pub pod: Pod,
    /// Things that are hardly meant but stop nothing.
    pub warnings: Vec<String>,
}

/// Turns the JSON of one pod into a pod of this node, or says what is wrong with it.
pub trait Decode: Send + Sync {
    /// Turns `raw` into a pod.
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

/// An error with all its causes, for people.
pub(crate) fn explain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
