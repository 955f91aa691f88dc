//! What a reflector watches.

use std::time::Duration;

/// A collection of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// The path of the list: `/api/v1/services`, `/api/v1/namespaces/NAME/secrets`.
    pub path: String,
    /// `spec.nodeName=NAME`, `metadata.name=NAME`.
    pub field_selector: Option<String>,
    /// Selects by labels.
    pub label_selector: Option<String>,
    /// Whether it is one object or many.
    pub extent: Extent,
}

/// The size of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All objects of a kind, or those in a namespace: a node has a handful of such watches.
    #[default]
    Many,
    /// A single object: a node has hundreds of such watches.
    One,
}

impl Extent {
    /// Shortest time after which the server ends a watch. Up to twice of it is requested, at random, which spreads watches
    /// over servers.
    ///
    /// upstream: client-go reflector.go minWatchTimeout; kubelet watch_based_manager.go newReflector for one (v1.36)
    pub(super) const fn shortest(self) -> Duration {
        match self {
            Self::Many => Duration::from_secs(5 * 60),
            Self::One => Duration::from_secs(30 * 60),
        }
    }

    /// Time over which watches that ended together are restarted.
    pub(super) const fn spread(self) -> Duration {
        match self {
            Self::Many => Duration::from_millis(700),
            Self::One => Duration::from_secs(3),
        }
    }

    /// Largest total size of the objects, in bytes of JSON.
    pub(super) const fn most_bytes(self) -> usize {
        match self {
            Self::Many => 256 << 20,
            Self::One => 16 << 20,
        }
    }
}
