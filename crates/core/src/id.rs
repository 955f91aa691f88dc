//! Ids, each its own type, so that the id of a sandbox cannot be passed for that of a container.
//!
//! All are cheap to clone: every event about a pod carries its UID.

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

            /// The object has no id.
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
    /// The UID of a pod, which the API server never uses twice. A static pod whose manifest has a UID may come back under
    /// the same one (WORK-06).
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

/// Namespace, name and UID of a pod, for logs, events and errors.
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
    /// The reference of `pod`; missing parts are empty.
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        Self {
            namespace: meta.namespace.as_deref().unwrap_or_default().into(),
            name: meta.name.as_deref().unwrap_or_default().into(),
            uid: meta.uid.as_deref().unwrap_or_default().into(),
        }
    }

    /// `name_namespace`, which two versions of one static pod have in common (WORK-08).
    #[doc(alias = "GetPodFullName")]
    pub fn full_name(&self) -> FullName {
        FullName(format!("{}_{}", self.name, self.namespace).into())
    }
}

/// In the format of upstream's logs and messages: `name_namespace(uid)`.
impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}({})", self.name, self.namespace, self.uid)
    }
}

text_id! {
    /// A pod's `name_namespace`.
    FullName
}
