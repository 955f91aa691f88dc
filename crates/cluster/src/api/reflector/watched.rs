//! What a reflector watches, and how much that is.

use std::time::Duration;

/// What is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// The path of the list: `/api/v1/services`, `/api/v1/namespaces/NAME/secrets`.
    pub path: String,
    /// `spec.nodeName=NAME`, `metadata.name=NAME`.
    pub field_selector: Option<String>,
    /// By labels.
    pub label_selector: Option<String>,
    /// How much that is.
    pub extent: Extent,
}

/// How much a watch shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All objects of a kind, or a part of them: a node has a handful of such watches.
    #[default]
    Many,
    /// One object: a node has hundreds of such watches.
    One,
}

impl Extent {
    /// The server ends a watch after this time or up to twice of it, at random, so that watches spread over servers.
    ///
    /// upstream: client-go reflector.go minWatchTimeout; kubelet watch_based_manager.go newReflector for one (v1.36)
    pub(super) const fn shortest(self) -> Duration {
        match self {
            Self::Many => Duration::from_secs(5 * 60),
            Self::One => Duration::from_secs(30 * 60),
        }
    }

    /// How far apart watches begin again that ended in the same moment.
    pub(super) const fn spread(self) -> Duration {
        match self {
            Self::Many => Duration::from_millis(700),
            Self::One => Duration::from_secs(3),
        }
    }

    /// Most that is held, in bytes of the objects' texts.
    pub(super) const fn most_bytes(self) -> usize {
        match self {
            Self::Many => 256 << 20,
            Self::One => 16 << 20,
        }
    }
}
