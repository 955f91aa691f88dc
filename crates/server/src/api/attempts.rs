//! Limits on token reviews for clients that are not authenticated.
//!
//! A review costs the API server a request, and any client that reaches the port can cause one with a random token. Each
//! address therefore has a budget of rejected tokens, and few reviews are in flight at a time. A valid token costs nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::table::Origin;

/// Rejected tokens of one address at once; then one more …
pub(super) const BURST: u32 = 10;
/// … per this time.
const PACE: Duration = Duration::from_secs(1);
/// Reviews in flight for one address, and for all. Further ones wait.
const AT_ONCE_OF_ONE: usize = 4;
const AT_ONCE: usize = 16;
/// Addresses with a budget. Beyond this number, reviews are limited only by the number in flight.
const MOST_ORIGINS: usize = 4096;

/// The budgets of all addresses.
pub(super) struct Attempts {
    clock: Clock,
    budgets: Mutex<BTreeMap<Origin, Budget>>,
    turns: Arc<Semaphore>,
}

#[derive(Clone)]
struct Budget {
    turns: Arc<Semaphore>,
    /// When all rejected tokens so far are paid for, at one per [`PACE`].
    paid: Instant,
}

impl Attempts {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, budgets: Mutex::default(), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Waits until a token may be reviewed; `None` if too many tokens of this address were rejected.
    pub(super) async fn begin(&self, origin: Origin) -> Option<Attempt<'_>> {
        let own = self.turns_of(origin);
        let own = match own {
            Some(turns) => turns.acquire_owned().await.ok(),
            None => None,
        };
        let all = Arc::clone(&self.turns).acquire_owned().await.ok()?;
        let now = self.clock.mono();
        let owed = self.budgets().get(&origin).map_or(Duration::ZERO, |budget| budget.paid.since(now));
        // Created only if allowed: a dropped attempt is charged.
        (owed <= PACE * (BURST - 1)).then(|| Attempt { attempts: self, origin, good: false, _turns: (own, all) })
    }

    fn turns_of(&self, origin: Origin) -> Option<Arc<Semaphore>> {
        let now = self.clock.mono();
        let mut budgets = self.budgets();
        if let Some(budget) = budgets.get(&origin) {
            return Some(Arc::clone(&budget.turns));
        }
        if budgets.len() >= MOST_ORIGINS {
            budgets.retain(|_, budget| budget.paid > now || Arc::strong_count(&budget.turns) > 1);
        }
        if budgets.len() >= MOST_ORIGINS {
            return None;
        }
        let turns = Arc::new(Semaphore::new(AT_ONCE_OF_ONE));
        budgets.insert(origin, Budget { turns: Arc::clone(&turns), paid: now });
        Some(turns)
    }

    fn budgets(&self) -> MutexGuard<'_, BTreeMap<Origin, Budget>> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token review. Unless the token is valid, it is charged when this is dropped.
pub(super) struct Attempt<'a> {
    attempts: &'a Attempts,
    origin: Origin,
    good: bool,
    _turns: (Option<OwnedSemaphorePermit>, OwnedSemaphorePermit),
}

impl Attempt<'_> {
    /// The token is valid.
    pub(super) fn succeeded(mut self) {
        self.good = true;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.good {
            return;
        }
        let now = self.attempts.clock.mono();
        if let Some(budget) = self.attempts.budgets().get_mut(&self.origin) {
            budget.paid = budget.paid.max(now) + PACE;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::testing::ago;

    fn origin(n: u8) -> Origin {
        Origin::of([10, 0, 0, n].into())
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_tokens_of_one_address_use_up_its_own_budget_only() {
        let attempts = Attempts::new(Clock::virtual_from(ago(0)));
        for n in 0..BURST {
            assert!(attempts.begin(origin(1)).await.is_some(), "{n}");
        }
        assert!(attempts.begin(origin(1)).await.is_none());
        for _ in 0..1000 {
            attempts
                .begin(origin(2))
                .await
                .expect("another address has its own budget, and valid tokens cost nothing")
                .succeeded();
        }
        tokio::time::advance(PACE).await;
        assert!(attempts.begin(origin(1)).await.is_some(), "one more after a while");
        assert!(attempts.begin(origin(1)).await.is_none());
        tokio::time::advance(PACE * 1000).await;
        for _ in 0..BURST {
            assert!(attempts.begin(origin(1)).await.is_some(), "at most a burst at once");
        }
        assert!(attempts.begin(origin(1)).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn few_reviews_are_in_flight_for_one_address_and_for_all() {
        let attempts = Attempts::new(Clock::virtual_from(ago(0)));
        let mut held = Vec::new();
        for n in 0..10 {
            for _ in 0..AT_ONCE_OF_ONE + 1 {
                held.extend(attempts.begin(origin(n)).now_or_never().flatten());
            }
        }
        assert_eq!(held.len(), AT_ONCE);
        held.truncate(AT_ONCE - 1);
        assert!(attempts.begin(origin(0)).now_or_never().is_none(), "this address has its share");
        assert!(attempts.begin(origin(99)).now_or_never().flatten().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_budgets_is_bounded() {
        let attempts = Attempts::new(Clock::virtual_from(ago(0)));
        for n in 0..10_000_u32 {
            drop(attempts.begin(Origin::of(std::net::Ipv4Addr::from_bits(n).into())).await);
        }
        assert!(attempts.budgets().len() <= MOST_ORIGINS);
        tokio::time::advance(PACE * 2).await;
        drop(attempts.begin(origin(7)).await);
        assert!(attempts.budgets().contains_key(&origin(7)), "paid budgets make room");
    }
}
