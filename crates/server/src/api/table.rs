//! The open connections of a port, and their limits, in total and per address.
//!
//! A connection is waiting until one of its requests is authorized, and admitted from then on. The number of waiting
//! connections is small; when it is exceeded, the oldest one of the address with the most is closed, so that many silent
//! connections from one address do not lock out other addresses. One address may have most of the admitted connections but
//! not all: the API server connects from one address, and other clients must still reach the node.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Waiting connections, in total …
pub(super) const MOST_WAITING: usize = 256;
/// … and from one address.
pub(super) const MOST_WAITING_OF_ONE: usize = 64;
/// Admitted connections, in total …
const MOST_ADMITTED: usize = 4096;
/// … and from one address: a quarter is left for others.
const MOST_ADMITTED_OF_ONE: usize = MOST_ADMITTED / 4 * 3;

/// The origin of a connection, for limits: an IPv4 address, or the /64 network of an IPv6 address, because one machine can
/// have any number of addresses in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin(IpAddr);

impl Origin {
    pub(super) fn of(address: IpAddr) -> Self {
        /// The upper half of an IPv6 address is the network.
        const NETWORK: u128 = u128::MAX << 64;
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
        })
    }
}

/// All connections of a port.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    /// The number of the next connection: smaller numbers are older.
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Of every address with a connection.
    counts: BTreeMap<Origin, Counts>,
    admitted: usize,
}

#[derive(Debug)]
struct Waiting {
    origin: Origin,
    evicted: CancellationToken,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    waiting: usize,
    admitted: usize,
}

impl Table {
    /// A place for a new connection. If there is none, the oldest waiting connection is closed.
    pub(super) fn enter(self: &Arc<Self>, origin: Origin) -> Place {
        let mut rows = self.rows();
        if rows.counts.get(&origin).is_some_and(|counts| counts.waiting >= MOST_WAITING_OF_ONE) {
            rows.close_oldest_of(origin);
        } else if rows.waiting.len() >= MOST_WAITING
            && let Some((most, _)) = rows.counts.iter().max_by_key(|(_, counts)| counts.waiting)
        {
            let most = *most;
            rows.close_oldest_of(most);
        }
        let number = rows.next;
        rows.next += 1;
        let evicted = CancellationToken::new();
        rows.waiting.insert(number, Waiting { origin, evicted: evicted.clone() });
        rows.counts.entry(origin).or_default().waiting += 1;
        Place { table: Arc::clone(self), number, origin, evicted, admitted: Mutex::new(false) }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn close_oldest_of(&mut self, origin: Origin) {
        let oldest = self.waiting.iter().find(|(_, waiting)| waiting.origin == origin).map(|(number, _)| *number);
        if let Some(waiting) = oldest.and_then(|number| self.stop_waiting(number)) {
            waiting.evicted.cancel();
        }
    }

    fn stop_waiting(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        self.count(waiting.origin, |counts| counts.waiting = counts.waiting.saturating_sub(1));
        Some(waiting)
    }

    fn count(&mut self, origin: Origin, change: impl FnOnce(&mut Counts)) {
        let counts = self.counts.entry(origin).or_default();
        change(counts);
        if counts.waiting == 0 && counts.admitted == 0 {
            self.counts.remove(&origin);
        }
    }
}

/// A connection's place, until dropped.
#[derive(Debug)]
pub(super) struct Place {
    table: Arc<Table>,
    number: u64,
    pub(super) origin: Origin,
    evicted: CancellationToken,
    admitted: Mutex<bool>,
}

impl Place {
    /// Cancelled when the connection is to be closed in favour of another. Never, once it is admitted.
    pub(super) fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }

    /// Admits the connection after an authorized request. `false` if there is no room.
    pub(super) fn admit(&self) -> bool {
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        if *admitted {
            return true;
        }
        let mut rows = self.table.rows();
        let of_one = rows.counts.get(&self.origin).map_or(0, |counts| counts.admitted);
        if rows.admitted >= MOST_ADMITTED || of_one >= MOST_ADMITTED_OF_ONE || rows.stop_waiting(self.number).is_none()
        {
            return false;
        }
        rows.admitted += 1;
        rows.count(self.origin, |counts| counts.admitted += 1);
        *admitted = true;
        true
    }

    pub(super) fn is_admitted(&self) -> bool {
        *self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let admitted = self.is_admitted();
        let mut rows = self.table.rows();
        if admitted {
            rows.admitted = rows.admitted.saturating_sub(1);
            rows.count(self.origin, |counts| counts.admitted = counts.admitted.saturating_sub(1));
        } else {
            rows.stop_waiting(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::of(text.parse().expect("an address"))
    }

    fn open(places: &[Place]) -> usize {
        places.iter().filter(|place| !place.evicted().is_cancelled()).count()
    }

    #[test]
    fn excess_connections_of_one_address_close_only_its_own() {
        let table = Arc::new(Table::default());
        let other = table.enter(origin("10.0.0.9"));
        let many: Vec<Place> = (0..1000).map(|_| table.enter(origin("10.0.0.1"))).collect();
        assert_eq!(open(&many), MOST_WAITING_OF_ONE);
        assert_eq!(open(&many[1000 - MOST_WAITING_OF_ONE..]), MOST_WAITING_OF_ONE, "the newest stay");
        assert!(!other.evicted().is_cancelled() && other.admit());
    }

    #[test]
    fn the_oldest_connection_of_the_busiest_address_is_closed_first() {
        let table = Arc::new(Table::default());
        let quiet = table.enter(origin("192.168.0.1"));
        let many: Vec<Place> = (0..4000_u32).map(|n| table.enter(origin(&format!("10.0.0.{}", n % 40)))).collect();
        assert!(open(&many) < MOST_WAITING, "{} are open", open(&many));
        assert!(!quiet.evicted().is_cancelled(), "an address with one connection keeps it");
        drop(many);
        assert_eq!(table.rows().counts.len(), 1, "closed connections are forgotten");
    }

    #[test]
    fn one_address_cannot_take_every_admitted_place() {
        let table = Arc::new(Table::default());
        let admit = |address: &str| {
            let place = table.enter(origin(address));
            place.admit().then_some(place)
        };
        let mut held: Vec<Place> = std::iter::from_fn(|| admit("10.0.0.1")).collect();
        assert_eq!(held.len(), MOST_ADMITTED_OF_ONE);
        held.extend(std::iter::from_fn(|| admit("10.0.0.2")));
        assert_eq!(held.len(), MOST_ADMITTED);
        assert!(admit("10.0.0.3").is_none());
        drop(held);
        assert!(admit("10.0.0.1").is_some());
        assert!(table.rows().counts.is_empty() && table.rows().admitted == 0);
    }

    #[test]
    fn a_closed_connection_is_not_admitted() {
        let table = Arc::new(Table::default());
        let many: Vec<Place> = (0..=MOST_WAITING_OF_ONE).map(|_| table.enter(origin("10.0.0.1"))).collect();
        assert!(many[0].evicted().is_cancelled() && !many[0].admit());
        assert!(many[1].admit() && many[1].admit() && many[1].is_admitted());
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_ne!(origin("10.0.0.1"), origin("10.0.0.2"));
    }
}
