//! Accessors of a pod: its containers and their roles, its source, its restart policy.

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec};

use crate::id::PodRef;

/// Annotation with the source of a pod.
pub const SOURCE_ANNOTATION: &str = "kubernetes.io/config.source";
/// Annotation with the time at which this node first saw the pod.
pub const SEEN_ANNOTATION: &str = "kubernetes.io/config.seen";
/// Annotation that holds a static pod's hash.
pub const HASH_ANNOTATION: &str = "kubernetes.io/config.hash";
/// Annotation that marks a mirror pod and holds the hash of its static pod.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Where a pod came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A manifest file or directory.
    File,
    /// A manifest URL.
    Http,
    /// The API server.
    Api,
}

impl Source {
    /// The value of the source annotation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Api => "api",
        }
    }
}

/// A pod that runs here and that no source wants: known only from the runtime.
#[doc(alias = "RunningPod")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanPod {
    /// The pod, as labelled.
    pub pod: PodRef,
}

/// The part that a container plays in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container with `restartPolicy: Always`: starts in the order of the init containers, then stays.
    #[doc(alias = "restartable init container")]
    Sidecar,
    /// The pod's purpose.
    Regular,
    /// Added to a running pod, for debugging.
    Ephemeral,
}

/// Restart policy of a pod or of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RestartPolicy {
    /// Whatever it exited with.
    Always,
    /// If it exited with something other than 0.
    OnFailure,
    /// Not at all.
    Never,
}

impl RestartPolicy {
    /// Parses the API's value; absent or unknown is `Always`, the API's default.
    pub fn parse(word: Option<&str>) -> Self {
        match word {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }
}

/// Reading a pod without repeating `spec.as_ref()`: what is absent reads as empty.
pub trait PodExt {
    /// Regular containers, in order of the spec.
    fn regular(&self) -> &[Container];
    /// Init containers, sidecars among them, in order of the spec.
    fn init(&self) -> &[Container];
    /// Ephemeral containers, in order of the spec.
    fn ephemeral(&self) -> &[EphemeralContainer];
    /// The pod's restart policy.
    fn restart_policy(&self) -> RestartPolicy;
    /// It shares the node's network.
    fn host_network(&self) -> bool;
    /// Where it came from; `None` if the annotation is absent or unknown.
    fn source(&self) -> Option<Source>;
    /// It came from a file or URL.
    fn is_static(&self) -> bool;
    /// It is the mirror pod of a static pod.
    fn is_mirror(&self) -> bool;
    /// It has a deletion timestamp.
    fn is_deleted(&self) -> bool;
    /// Its phase in the API is terminal.
    fn is_terminal(&self) -> bool;
    /// The annotation `key`.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// The spec, if there is one.
    fn pod_spec(&self) -> Option<&PodSpec>;
}

impl PodExt for Pod {
    fn regular(&self) -> &[Container] {
        self.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default()
    }

    fn init(&self) -> &[Container] {
        self.spec.as_ref().and_then(|s| s.init_containers.as_deref()).unwrap_or_default()
    }

    fn ephemeral(&self) -> &[EphemeralContainer] {
        self.spec.as_ref().and_then(|s| s.ephemeral_containers.as_deref()).unwrap_or_default()
    }

    fn restart_policy(&self) -> RestartPolicy {
        RestartPolicy::parse(self.spec.as_ref().and_then(|s| s.restart_policy.as_deref()))
    }

    fn host_network(&self) -> bool {
        self.spec.as_ref().and_then(|s| s.host_network).unwrap_or_default()
    }

    fn source(&self) -> Option<Source> {
        match self.annotation(SOURCE_ANNOTATION) {
            Some("file") => Some(Source::File),
            Some("http") => Some(Source::Http),
            Some("api") => Some(Source::Api),
            _ => None,
        }
    }

    fn is_static(&self) -> bool {
        matches!(self.source(), Some(Source::File | Source::Http))
    }

    fn is_mirror(&self) -> bool {
        self.annotation(MIRROR_ANNOTATION).is_some()
    }

    fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn is_terminal(&self) -> bool {
        let phase = self.status.as_ref().and_then(|s| s.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref().and_then(|a| a.get(key)).map(String::as_str)
    }

    fn pod_spec(&self) -> Option<&PodSpec> {
        self.spec.as_ref()
    }
}

/// An init container that stays (`restartPolicy: Always`).
#[doc(alias = "IsRestartableInitContainer")]
pub fn is_sidecar(init: &Container) -> bool {
    init.restart_policy.as_deref() == Some("Always")
}

/// The container called `name`, whatever its role.
pub fn container_named<'a>(pod: &'a Pod, name: &str) -> Option<std::borrow::Cow<'a, Container>> {
    use std::borrow::Cow;
    let listed = pod.regular().iter().chain(pod.init()).find(|c| c.name == name).map(Cow::Borrowed);
    listed.or_else(|| {
        let ephemeral = pod.ephemeral().iter().find(|e| e.name == name);
        ephemeral.map(|e| Cow::Owned(crate::launch::as_container(e)))
    })
}

/// Where the container called `name` stands in the pod's spec, as events refer to it (RT-51).
#[doc(alias = "GenerateContainerRef")]
pub fn field_path(pod: &Pod, name: &str) -> Option<String> {
    let list = if pod.regular().iter().any(|c| c.name == name) {
        "containers"
    } else if pod.init().iter().any(|c| c.name == name) {
        "initContainers"
    } else if pod.ephemeral().iter().any(|c| c.name == name) {
        "ephemeralContainers"
    } else {
        return None;
    };
    Some(format!("spec.{list}{{{name}}}"))
}

#[cfg(test)]
mod tests;
