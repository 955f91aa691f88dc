//! A map that drops the least recently used entry.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Values by key; beyond `most` entries, the least recently used is dropped.
///
/// Only a hash of 128 bits is kept of each key: keys are long, and there are thousands. Two keys with one hash would share
/// a value, which is too unlikely to matter and of no use to an attacker.
#[derive(Debug)]
pub(super) struct Lru<V> {
    most: usize,
    /// Counts uses.
    uses: u64,
    values: BTreeMap<Digest, (u64, V)>,
    /// Keys by last use.
    order: BTreeMap<u64, Digest>,
}

type Digest = [u64; 2];

fn digest(key: &str) -> Digest {
    [0_u8, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        (salt, key).hash(&mut hasher);
        hasher.finish()
    })
}

impl<V> Lru<V> {
    pub(super) const fn new(most: usize) -> Self {
        Self { most, uses: 0, values: BTreeMap::new(), order: BTreeMap::new() }
    }

    /// The value, used now.
    pub(super) fn get(&mut self, key: &str) -> Option<&mut V> {
        self.find(&digest(key))
    }

    fn find(&mut self, key: &Digest) -> Option<&mut V> {
        let (used, value) = self.values.get_mut(key)?;
        if let Some(name) = self.order.remove(used) {
            self.uses += 1;
            *used = self.uses;
            self.order.insert(self.uses, name);
        }
        Some(value)
    }

    /// The value, made if it is not there, used now.
    pub(super) fn get_or_insert(&mut self, key: &str, make: impl FnOnce() -> V) -> &mut V {
        let key = digest(key);
        if self.find(&key).is_none() {
            self.uses += 1;
            self.order.insert(self.uses, key);
            self.values.insert(key, (self.uses, make()));
            if self.values.len() > self.most
                && let Some((_, oldest)) = self.order.pop_first()
            {
                self.values.remove(&oldest);
            }
        }
        let (_, value) = self.values.get_mut(&key).expect("it was there or was put there, and is the newest");
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_is_forgotten() {
        let mut lru = Lru::new(2);
        *lru.get_or_insert("a", || 1) += 10;
        lru.get_or_insert("b", || 2);
        assert_eq!(lru.get("a"), Some(&mut 11), "used again");
        lru.get_or_insert("c", || 3);
        assert_eq!(lru.get("b"), None);
        assert_eq!((lru.get("a").copied(), lru.get("c").copied()), (Some(11), Some(3)));
        assert_eq!((lru.values.len(), lru.order.len()), (2, 2));
    }
}
