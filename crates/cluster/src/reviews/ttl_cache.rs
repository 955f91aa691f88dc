//! A cache whose entries expire.

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_core::time::Instant;

/// A bounded cache. When it is full, the entry that expires first is removed.
pub(super) struct TtlCache<K, V> {
    most: usize,
    answers: BTreeMap<K, (Instant, V)>,
    /// Keys by expiry; the number distinguishes entries that expire at the same time.
    order: BTreeMap<(Instant, u64), K>,
    count: u64,
}

impl<K: Ord + Clone, V: Clone> TtlCache<K, V> {
    pub(super) const fn new(most: usize) -> Self {
        Self { most, answers: BTreeMap::new(), order: BTreeMap::new(), count: 0 }
    }

    pub(super) fn get(&mut self, key: &K, now: Instant) -> Option<V> {
        self.answers.get(key).filter(|(until, _)| now < *until).map(|(_, value)| value.clone())
    }

    /// Caches `value` for `keep`. The order entry of a replaced value is removed when it expires.
    pub(super) fn put(&mut self, key: K, value: V, keep: Duration, now: Instant) {
        if keep.is_zero() {
            return;
        }
        while let Some(first) =
            self.order.first_entry().filter(|entry| entry.key().0 <= now || self.answers.len() >= self.most)
        {
            let ((until, _), key) = first.remove_entry();
            if self.answers.get(&key).is_some_and(|(of, _)| *of == until) {
                self.answers.remove(&key);
            }
        }
        let until = now + keep;
        self.count += 1;
        self.order.insert((until, self.count), key.clone());
        self.answers.insert(key, (until, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire_and_are_bounded() {
        let mut cache = TtlCache::new(2);
        let at = Instant::from_secs;
        cache.put("a", 1, Duration::from_secs(10), at(0));
        cache.put("b", 2, Duration::from_secs(5), at(0));
        assert_eq!((cache.get(&"a", at(4)), cache.get(&"b", at(5))), (Some(1), None));
        cache.put("c", 3, Duration::from_secs(60), at(1));
        assert_eq!((cache.get(&"a", at(1)), cache.get(&"b", at(1))), (Some(1), None), "the first to expire is removed");
        cache.put("c", 4, Duration::from_secs(60), at(2));
        assert_eq!(cache.get(&"c", at(2)), Some(4));
        cache.put("d", 5, Duration::ZERO, at(3));
        assert_eq!(cache.get(&"d", at(3)), None);
    }
}
