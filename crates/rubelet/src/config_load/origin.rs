//! Where the fields of a configuration were set.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::tree::Node;
use crate::flags::RunOptions;

/// Where a field was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In a line of this file: that of `--config`, or a drop-in.
    File(PathBuf, u64),
    /// By this flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// Where each field was set that was set explicitly, by dotted path.
#[derive(Clone, Debug, Default)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// The fields of a file. It takes precedence over what was set before.
    pub(super) fn set_by_file(&mut self, path: &Path, tree: &Node) {
        for (field, place) in tree.places() {
            self.0.insert(field, Origin::File(path.to_owned(), place.line));
        }
    }

    /// The flags that are fields. They take precedence over files.
    pub(super) fn set_by_flags(&mut self, options: &RunOptions) {
        for (field, flag) in options.fields() {
            // A flag sets all of a map, but a single gate.
            let inside = format!("{field}.");
            self.0.retain(|path, _| !path.starts_with(&inside));
            self.0.insert(field, Origin::Flag(flag));
        }
    }

    /// Where the field was set, or the nearest one that contains it; for an object, the first of its fields.
    #[must_use]
    pub fn of(&self, field: &str) -> Option<&Origin> {
        let mut outer = Some(field);
        while let Some(path) = outer {
            if let Some(origin) = self.0.get(path) {
                return Some(origin);
            }
            outer = path.rsplit_once('.').map(|(outer, _)| outer);
        }
        let inside = format!("{field}.");
        self.0
            .range(inside.clone()..)
            .take_while(|(path, _)| path.starts_with(&inside))
            .map(|(_, origin)| origin)
            .next()
    }
}
