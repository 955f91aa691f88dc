//! Static pods: from the decoded text of a manifest to a pod that this node can run.
//!
//! Owns everything between "this is JSON" and "this is a valid pod of this node": the shape of a pod, the defaults the
//! API server would have filled in, the pod's UID and name, and validation. It reads no file and no clock; YAML and HTTP
//! are read by the caller.
//!
//! ```text
//! raw JSON ─ shape ─► v1 JSON ─ defaults, convert ─► pod ─ dump ─► UID
//!                                                     └─ canonical ─ place ─ validate ─ references ─► Manifest
//! ```
//!
//! Invariant: the same manifest, origin and node always give the same pod, and its UID is upstream's to the byte.
//! upstream: kubelet/config/common.go tryDecodeSinglePod, tryDecodePodList, applyDefaults (v1.36), rows SRC-03, SRC-05, SRC-06

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

mod defaults;
mod dump;
mod field;
mod gates;
mod place;
pub mod quantity;
mod references;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod uid;
mod validation;

pub use field::{FieldError, FieldReason, Warning};
pub use gates::{Gate, Gates};
use schema::Schema;
pub(crate) use validation::is_dns_subdomain;

/// Where a manifest came from. It is part of the pod's identity: the same text in two files is two pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The path as the source found it: the configured directory joined with the file's name.
    File(String),
    /// The configured URL.
    Url(String),
}

/// A pod ready to run, and what its author should know.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Defaulted, named, bound to this node and valid.
    pub pod: Pod,
    /// Fields that mean nothing. Upstream ignores them in silence.
    pub warnings: Vec<Warning>,
}

/// Why a manifest is no pod for this node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The text holds a list, a string or nothing where a mapping should be.
    #[error("the manifest is {found}, not a mapping with apiVersion, kind, metadata and spec")]
    NotAnObject {
        /// What it holds instead.
        found: &'static str,
    },
    /// A mapping, but of something else.
    #[error("expected {expected}, found {found}")]
    WrongKind {
        /// What was asked for: `apiVersion: v1, kind: Pod`.
        expected: &'static str,
        /// What the manifest says it is.
        found: String,
    },
    /// Fields of the wrong type: nothing further was checked.
    #[error("malformed pod: {}", List(.0))]
    Malformed(Vec<FieldError>),
    /// A pod that the API server would refuse.
    #[error("invalid pod: {}", List(.0))]
    Invalid(Vec<FieldError>),
    /// The pod cannot run without the API server.
    #[error("static pods may not reference {resource}")]
    Reference {
        /// The kind of object, in upstream's words.
        resource: &'static str,
    },
    /// What a static pod can never have, even where it may refer to objects of the API.
    #[error("static pods may not use {what}")]
    Refused {
        /// What the pod uses, in upstream's words.
        what: &'static str,
    },
    /// A source of a projected volume says nothing of what it projects.
    #[error("unknown source for projected volume {volume:?}")]
    UnknownSource {
        /// The name of the volume.
        volume: String,
    },
}

impl ManifestError {
    /// The faults by field, for those who want to point at them.
    #[must_use]
    pub fn fields(&self) -> &[FieldError] {
        match self {
            Self::Malformed(errors) | Self::Invalid(errors) => errors,
            Self::NotAnObject { .. }
            | Self::WrongKind { .. }
            | Self::Reference { .. }
            | Self::Refused { .. }
            | Self::UnknownSource { .. } => &[],
        }
    }
}

/// Turns one decoded manifest into a pod of this node.
///
/// # Errors
/// Says which fields are wrong and why; nothing of the pod is used then.
#[doc(alias = "tryDecodeSinglePod")]
pub fn static_pod(raw: &Value, origin: &Origin, node: &str, gates: &Gates) -> Result<Manifest, ManifestError> {
    expect_pod(raw)?;
    let schema = Schema::get();
    let (shaped, found) = shape::shape(schema, raw);
    if !found.errors.is_empty() {
        return Err(ManifestError::Malformed(found.errors));
    }
    let mut pod = typed(shaped.clone())?;
    if pod.metadata.name.is_none() {
        let nameless = field::Path::new("metadata.name").error(FieldReason::Required, "");
        return Err(ManifestError::Invalid(vec![nameless]));
    }
    let derived = defaults::apply(&mut pod, gates);
    defaults::convert(&mut pod);

    let mut defaulted = untyped(&pod)?;
    shape::drop_lists_not_written(&mut defaulted, &shaped);
    let uid = match pod.metadata.uid.take() {
        Some(uid) => uid,
        None => uid::uid(schema, &defaulted, &derived, origin, node),
    };
    let mut pod = typed(shape::canonical(schema, &defaulted))?;
    place::place(&mut pod, uid, origin, node);

    let faults = validation::validate(&pod, gates);
    if !faults.is_empty() {
        return Err(ManifestError::Invalid(faults));
    }
    let reference = if gates.on(Gate::PreventStaticPodApiReferences) {
        references::api_reference(&pod)
    } else {
        references::always_refused(&pod)
    };
    match reference {
        Some(refusal) => Err(refusal),
        None => Ok(Manifest { pod, warnings: found.warnings }),
    }
}

fn expect_pod(raw: &Value) -> Result<(), ManifestError> {
    let Value::Object(object) = raw else {
        return Err(ManifestError::NotAnObject { found: shape::kind(raw) });
    };
    let text = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let show = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    match (text("apiVersion"), text("kind")) {
        ("v1", "Pod") => Ok(()),
        (version, kind) => {
            let found = format!("apiVersion: {}, kind: {}", show(version), show(kind));
            Err(ManifestError::WrongKind { expected: "apiVersion: v1, kind: Pod", found })
        }
    }
}

fn typed(mut pod: Value) -> Result<Pod, ManifestError> {
    if let Value::Object(object) = &mut pod {
        object.insert("apiVersion".to_owned(), "v1".into());
        object.insert("kind".to_owned(), "Pod".into());
    }
    serde_json::from_value(pod).map_err(|fault| unreadable(&fault))
}

fn untyped(pod: &Pod) -> Result<Value, ManifestError> {
    serde_json::to_value(pod).map_err(|fault| unreadable(&fault))
}

/// The shape was checked before, so this is a field that the API types know less of than the schema does.
fn unreadable(fault: &serde_json::Error) -> ManifestError {
    ManifestError::Malformed(vec![
        field::Path::new("pod").error(FieldReason::Invalid(String::new()), fault.to_string()),
    ])
}

/// Faults one after another, as the API server prints them.
struct List<'a>(&'a [FieldError]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}
