//! The rules that the API server holds every pod to, for pods that it never sees.
//!
//! One file per area; each rule adds to [`Faults`] and goes on, so that a person sees everything wrong at once. The kinds
//! of fault and what is at fault are upstream's; the paths are those of the manifest also where upstream leaves out an
//! index, and the words are ours.
//! upstream: core/validation/validation.go ValidatePodCreate (v1.36), row SRC-06
//!
//! Deliberately absent: rules for Windows, claim templates and trust bundles. A node of ours runs no Windows pods, and a
//! static pod may not use the others.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume};

use super::field::{FieldError, Path};
use super::gates::{Gate, Gates};

mod annotations;
mod containers;
mod disks;
mod env;
mod faults;
mod handlers;
mod meta;
mod mounts;
mod names;
mod projected;
mod resources;
mod restart;
mod scheduling;
mod security;
mod spec;
#[cfg(test)]
mod tests;
mod volumes;

use faults::Faults;

/// It may be the name of an object.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    names::dns_subdomain(text).is_ok()
}

/// Everything that is wrong with a defaulted pod of this node; empty means valid.
#[doc(alias = "ValidatePodCreate")]
pub(super) fn validate(pod: &Pod, gates: &Gates) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let at = Path::new("spec");
    meta::validate(&pod.metadata, &Path::new("metadata"), &mut faults);
    annotations::validate(pod, spec, gates, &mut faults);
    let volumes = volumes::validate(spec, &pod.metadata, &at.child("volumes"), &mut faults);
    let context = Context { gates, spec, volumes };
    containers::validate(&context, &at, &mut faults);
    spec::validate(&context, &at, &mut faults);
    faults.into_list()
}

/// What a rule may need to know besides the value it looks at.
struct Context<'a> {
    gates: &'a Gates,
    spec: &'a PodSpec,
    /// The volumes that are valid: a mount of a faulty one is reported as not found, as upstream does.
    volumes: BTreeMap<&'a str, &'a Volume>,
}

impl Context<'_> {
    fn on(&self, gate: Gate) -> bool {
        self.gates.on(gate)
    }

    fn host_network(&self) -> bool {
        self.spec.host_network == Some(true)
    }

    /// Whether the pod has no user namespace of its own.
    fn host_users(&self) -> bool {
        self.spec.host_users != Some(false)
    }
}

/// Init containers, then containers, each with its place.
fn all_containers<'a>(spec: &'a PodSpec, at: &Path) -> Vec<(&'a Container, Path)> {
    let (init, regular) = (at.child("initContainers"), at.child("containers"));
    let init = spec.init_containers.iter().flatten().enumerate().map(move |(i, c)| (c, init.index(i)));
    init.chain(spec.containers.iter().enumerate().map(move |(i, c)| (c, regular.index(i)))).collect()
}

/// The text of a field that Go would hold as an empty string when it is not set.
fn text(value: Option<&String>) -> &str {
    value.map(String::as_str).unwrap_or_default()
}
