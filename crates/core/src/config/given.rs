//! Which fields were set explicitly, in a file or by a flag.

use std::collections::BTreeSet;

/// The fields that were set explicitly, as dotted paths (`authentication.webhook.enabled`), gates as
/// `featureGates.<Gate>`. Everything else holds a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// Records a field.
    pub fn insert(&mut self, path: impl Into<String>) {
        self.0.insert(path.into());
    }

    /// Adds the fields that another source set.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Whether the field itself, or anything inside it, was set.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        let inside =
            |given: &str| given.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.0.range(path.to_owned()..).take_while(|given| given.starts_with(path)).any(|given| inside(given))
    }

    /// Every path, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<S: Into<String>> FromIterator<S> for Given {
    fn from_iter<I: IntoIterator<Item = S>>(paths: I) -> Self {
        Self(paths.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_given_if_it_or_a_part_of_it_was_set() {
        let mut given = Given::default();
        given.insert("authentication.webhook.enabled");
        given.extend(&Given::from_iter(["maxPods"]));
        for (path, expected) in [
            ("authentication", true),
            ("authentication.webhook", true),
            ("authentication.webhook.enabled", true),
            ("authentication.web", false),
            ("maxPods", true),
            ("maxPod", false),
            ("port", false),
        ] {
            assert_eq!(given.has(path), expected, "{path}");
        }
        assert_eq!(given.iter().collect::<Vec<_>>(), ["authentication.webhook.enabled", "maxPods"]);
    }
}
