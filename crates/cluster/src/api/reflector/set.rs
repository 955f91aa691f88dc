//! All objects of a kind, as the API server has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::event::Item;

/// Which object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Empty for what has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// All objects that are watched. One that did not change keeps its `Arc`.
#[derive(Debug)]
pub struct Set<T> {
    items: BTreeMap<Key, Arc<T>>,
    /// What cannot be decoded, and why. The object stays as it was before, if it was.
    bad: BTreeMap<Key, String>,
}

/// Whether anything is different now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Yes,
    No,
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), bad: BTreeMap::new() }
    }
}

impl<T> Set<T> {
    /// Every object, by namespace and name.
    pub fn items(&self) -> &BTreeMap<Key, Arc<T>> {
        &self.items
    }

    /// What cannot be decoded, and why.
    pub fn bad(&self) -> &BTreeMap<Key, String> {
        &self.bad
    }

    /// The object of this name; the namespace is empty for what has none.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.items.get(&Key { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl<T: Metadata<Ty = ObjectMeta>> Set<T> {
    /// Takes an object, unless a newer one is held: events may come late.
    pub(super) fn put(&mut self, item: Item<T>) -> Changed {
        let held = self.items.get(&item.key);
        if held.is_some_and(|held| older(&item.version, version(&**held))) {
            return Changed::No;
        }
        match item.object {
            Ok(object) => {
                self.bad.remove(&item.key);
                self.items.insert(item.key, Arc::new(object));
            }
            Err(problem) => {
                self.bad.insert(item.key, problem);
            }
        }
        Changed::Yes
    }

    /// Forgets an object that ended at `at`, unless a newer one is held.
    pub(super) fn remove(&mut self, key: &Key, at: &str) -> Changed {
        if self.items.get(key).is_some_and(|held| older(at, version(&**held))) {
            return Changed::No;
        }
        let bad = self.bad.remove(key).is_some();
        if self.items.remove(key).is_some() || bad { Changed::Yes } else { Changed::No }
    }

    /// Is from now on what `new` holds; what is the same in both stays as it is.
    pub(super) fn become_all(&mut self, mut new: Self) -> Changed {
        let mut changed =
            if self.bad == new.bad && self.items.len() == new.items.len() { Changed::No } else { Changed::Yes };
        for (key, object) in &mut new.items {
            match self.items.get(key) {
                Some(held) if same(&**held, &**object) => *object = Arc::clone(held),
                _ => changed = Changed::Yes,
            }
        }
        // What cannot be read now but could before stays as it was.
        for key in new.bad.keys() {
            if let Some(held) = self.items.get(key) {
                new.items.entry(key.clone()).or_insert_with(|| Arc::clone(held));
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

/// Whether version `a` is older than `b`, where that can be told: versions are numbers that grow.
pub(super) fn older(a: &str, b: &str) -> bool {
    matches!((a.parse::<u64>(), b.parse::<u64>()), (Ok(a), Ok(b)) if a < b)
}
