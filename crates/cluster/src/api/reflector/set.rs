//! The objects of a reflector, as last seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::event::Item;

/// Identifies an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

/// The objects of a reflector. An object that did not change keeps its `Arc`.
#[derive(Debug)]
pub struct Set<T> {
    items: BTreeMap<Key, Held<T>>,
    /// Objects that cannot be decoded, with the decoder's error. The last good version of the object stays in `items`.
    bad: BTreeMap<Key, String>,
    /// Total size of the objects, in bytes of JSON.
    bytes: usize,
}

#[derive(Debug)]
struct Held<T> {
    object: Arc<T>,
    size: usize,
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self { object: Arc::clone(&self.object), size: self.size }
    }
}

/// Whether an operation changed the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Yes,
    No,
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), bad: BTreeMap::new(), bytes: 0 }
    }
}

impl<T> Set<T> {
    /// Every object, ordered by namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.values().map(|held| &held.object)
    }

    /// The objects that cannot be decoded, with the decoder's error.
    pub fn bad(&self) -> &BTreeMap<Key, String> {
        &self.bad
    }

    /// The object with this name; the namespace is empty for cluster-scoped objects.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.of(&Key { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    pub(super) fn of(&self, key: &Key) -> Option<&Arc<T>> {
        self.items.get(key).map(|held| &held.object)
    }

    /// Total size of the objects, in bytes of JSON: an estimate of the memory that the set takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<T: Metadata<Ty = ObjectMeta>> Set<T> {
    /// Stores an object, unless a newer version is held: events may be delivered late.
    pub(super) fn put(&mut self, item: Item<T>) -> Changed {
        if self.of(&item.key).is_some_and(|held| older(&item.version, version(&**held))) {
            return Changed::No;
        }
        match item.object {
            Ok(object) => {
                self.forget_bad(&item.key);
                self.bytes = self.bytes.saturating_add(item.size);
                let held = Held { object: Arc::new(object), size: item.size };
                if let Some(before) = self.items.insert(item.key, held) {
                    self.bytes = self.bytes.saturating_sub(before.size);
                }
            }
            Err(problem) => {
                self.forget_bad(&item.key);
                self.bytes = self.bytes.saturating_add(problem.len());
                self.bad.insert(item.key, problem);
            }
        }
        Changed::Yes
    }

    /// Removes an object that was deleted at `at`, unless a newer version is held.
    pub(super) fn remove(&mut self, key: &Key, at: &str) -> Changed {
        if self.of(key).is_some_and(|held| older(at, version(&**held))) {
            return Changed::No;
        }
        let bad = self.forget_bad(key);
        let Some(held) = self.items.remove(key) else { return bad };
        self.bytes = self.bytes.saturating_sub(held.size);
        Changed::Yes
    }

    fn forget_bad(&mut self, key: &Key) -> Changed {
        let Some(problem) = self.bad.remove(key) else { return Changed::No };
        self.bytes = self.bytes.saturating_sub(problem.len());
        Changed::Yes
    }

    /// Replaces the content by that of `new`; objects of the same version keep their `Arc`.
    pub(super) fn replace(&mut self, mut new: Self) -> Changed {
        let mut changed =
            if self.bad == new.bad && self.items.len() == new.items.len() { Changed::No } else { Changed::Yes };
        for (key, fresh) in &mut new.items {
            match self.items.get(key) {
                Some(held) if same(&*held.object, &*fresh.object) => fresh.object = Arc::clone(&held.object),
                _ => changed = Changed::Yes,
            }
        }
        // An object that can no longer be decoded stays as it was.
        for key in new.bad.keys() {
            if let Some(held) = self.items.get(key)
                && !new.items.contains_key(key)
            {
                new.bytes = new.bytes.saturating_add(held.size);
                new.items.insert(key.clone(), held.clone());
            }
        }
        *self = new;
        changed
    }
}

fn version<T: Metadata<Ty = ObjectMeta>>(object: &T) -> &str {
    object.metadata().resource_version.as_deref().unwrap_or_default()
}

fn same<T: Metadata<Ty = ObjectMeta>>(a: &T, b: &T) -> bool {
    let (x, y) = (version(a), version(b));
    !x.is_empty() && x == y && a.metadata().uid == b.metadata().uid
}

/// Whether version `a` is older than `b`. Versions that are not numbers are never older.
pub(super) fn older(a: &str, b: &str) -> bool {
    matches!((a.parse::<u64>(), b.parse::<u64>()), (Ok(a), Ok(b)) if a < b)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;

    fn item(name: u8, version: u64, size: usize, readable: bool) -> Item<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.resource_version = Some(version.to_string());
        let key = Key { namespace: "d".into(), name: name.to_string() };
        let object = if readable { Ok(object) } else { Err("x".repeat(size)) };
        Item { key, version: version.to_string(), size, object }
    }

    fn counted(set: &Set<ConfigMap>) -> usize {
        set.items.values().map(|held| held.size).sum::<usize>() + set.bad.values().map(String::len).sum::<usize>()
    }

    proptest! {
        #[test]
        fn the_size_of_a_set_is_counted_through_every_change(
            steps in proptest::collection::vec((0_u8..4, 0_u8..5, 0_u64..9, 0_usize..99), 0..60)
        ) {
            let (mut set, mut other) = (Set::default(), Set::default());
            for (step, name, at, size) in steps {
                match step {
                    0 => {
                        set.remove(&item(name, at, size, true).key, &at.to_string());
                    }
                    1 => {
                        set.put(item(name, at, size, false));
                    }
                    2 => {
                        set.put(item(name, at, size, true));
                    }
                    _ => {
                        other.put(item(name, at, size, size % 2 == 0));
                        if size > 80 {
                            set.replace(std::mem::take(&mut other));
                        }
                    }
                }
                prop_assert_eq!(set.bytes(), counted(&set));
            }
        }
    }
}
