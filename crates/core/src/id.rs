//! Names of things, each its own type, so that a sandbox's id can't be passed where a container's is meant.
//!
//! All are cheap to clone: a pod's UID travels with every event about it.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// No id at all: the object has not been given one.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// A pod's UID: the one name of a pod that is never used twice by the API server. A static pod whose manifest names
    /// a UID may come back under the same one (WORK-06).
    PodUid
}
text_id! {
    /// The runtime's id of a container.
    ContainerId
}
text_id! {
    /// The runtime's id of a pod sandbox.
    SandboxId
}

/// A pod as people name it, with its UID: what logs, events and errors say.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PodRef {
    /// Namespace of the pod.
    pub namespace: Arc<str>,
    /// Name of the pod.
    pub name: Arc<str>,
    /// UID of the pod.
    pub uid: PodUid,
}

impl PodRef {
    /// The reference of `pod`; parts that the object lacks are empty.
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        Self {
            namespace: meta.namespace.as_deref().unwrap_or_default().into(),
            name: meta.name.as_deref().unwrap_or_default().into(),
            uid: meta.uid.as_deref().unwrap_or_default().into(),
        }
    }

    /// `name_namespace`: what two incarnations of one static pod have in common (WORK-08).
    #[doc(alias = "GetPodFullName")]
    pub fn full_name(&self) -> FullName {
        FullName(format!("{}_{}", self.name, self.namespace).into())
    }
}

/// Written as upstream's logs and messages write it: `name_namespace(uid)`.
impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}({})", self.name, self.namespace, self.uid)
    }
}

text_id! {
    /// A pod's `name_namespace`.
    FullName
}
