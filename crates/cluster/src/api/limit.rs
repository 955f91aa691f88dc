//! Requests per second (`kubeAPIQPS`, `kubeAPIBurst`): a bucket of tokens.
//!
//! The bucket may be in debt: a request takes its token at once and waits until it has been earned. The debt is bounded:
//! a request whose wait would be longer than its own deadline, or than [`LONGEST_WAIT`], is refused and takes nothing. A
//! request that is dropped while it waits gives its token back, so that callers who leave delay nobody behind them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rubelet_core::time::Instant;

/// No request waits longer than this for its turn, whatever its deadline: this is the floor of the bucket.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How many requests may be sent.
///
/// upstream: client-go flowcontrol, set by kubeAPIQPS and kubeAPIBurst (v1.36).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// On average each second.
    pub per_second: f64,
    /// At once.
    pub burst: u32,
}

#[derive(Debug)]
pub(super) struct Limiter {
    rate: Rate,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tokens: f64,
    at: Instant,
}

/// A token that was taken. Dropped before [`spend`](Self::spend), it goes back into the bucket.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    limiter: &'a Limiter,
    /// How long to wait until the token is earned.
    pub(super) wait: Duration,
    spent: bool,
}

/// The wait would be longer than the request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany {
    /// How long the wait would be.
    pub(super) wait: Duration,
}

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        let state = State { tokens: f64::from(rate.burst), at: Instant::START };
        Self { rate, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a token for a request that may wait for `patience`. Requests wait in the order of asking.
    pub(super) fn take(&self, now: Instant, patience: Duration) -> Result<Turn<'_>, TooMany> {
        if self.rate.per_second <= 0.0 {
            return Ok(Turn { limiter: self, wait: Duration::ZERO, spent: true });
        }
        let mut state = self.state();
        let earned = now.since(state.at).as_secs_f64() * self.rate.per_second;
        let tokens = (state.tokens + earned).min(self.full());
        state.at = now;
        state.tokens = tokens;
        let wait = Duration::try_from_secs_f64((1.0 - tokens) / self.rate.per_second).unwrap_or_default();
        if wait > patience.min(LONGEST_WAIT) {
            return Err(TooMany { wait });
        }
        state.tokens = tokens - 1.0;
        Ok(Turn { limiter: self, wait, spent: false })
    }

    /// A bucket that holds less than one token could never be taken from.
    fn full(&self) -> f64 {
        f64::from(self.rate.burst.max(1))
    }
}

impl Turn<'_> {
    /// The request goes out: its token is gone.
    pub(super) fn spend(mut self) {
        self.spent = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.spent {
            let mut state = self.limiter.state();
            state.tokens = (state.tokens + 1.0).min(self.limiter.full());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// How long a request waits that goes out.
    fn wait(limiter: &Limiter, now: Instant) -> u128 {
        let turn = limiter.take(now, PATIENCE).expect("not refused");
        let wait = turn.wait.as_millis();
        turn.spend();
        wait
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_an_even_pace() {
        let limiter = Limiter::new(Rate { per_second: 10.0, burst: 2 });
        let waits: Vec<_> = (0..4).map(|_| wait(&limiter, Instant::from_secs(5))).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        // What was waited for is paid off, and a pause earns a burst again but no more.
        assert_eq!(wait(&limiter, Instant::from_millis(5_300)), 0);
        let waits: Vec<_> = (0..3).map(|_| wait(&limiter, Instant::from_secs(60))).collect();
        assert_eq!(waits, [0, 0, 100]);
    }

    #[test]
    fn no_rate_is_no_limit() {
        let limiter = Limiter::new(Rate { per_second: 0.0, burst: 1 });
        assert!((0..100).all(|_| wait(&limiter, Instant::START) == 0));
    }

    #[test]
    fn a_wait_longer_than_the_deadline_is_refused_at_once_and_takes_nothing() {
        let limiter = Limiter::new(Rate { per_second: 10.0, burst: 1 });
        let now = Instant::from_secs(5);
        let mut turns = Vec::new();
        let refused = loop {
            match limiter.take(now, PATIENCE) {
                Ok(turn) if turns.len() < 1_000 => turns.push(turn),
                Ok(_) => panic!("none is refused"),
                Err(refused) => break refused,
            }
        };
        assert_eq!((turns.len(), refused.wait), (101, Duration::from_millis(10_100)));
        turns.into_iter().for_each(Turn::spend);
        // However many more are refused, the debt does not grow.
        for _ in 0..10_000 {
            assert_eq!(limiter.take(now, PATIENCE).map(|_| ()), Err(refused));
        }
        assert_eq!(wait(&limiter, Instant::from_secs(15)), 100);
        // Nor does a deadline of an hour take it below the floor.
        let long = Duration::from_secs(3_600);
        (0..1_000).map_while(|_| limiter.take(Instant::from_secs(20), long).ok()).for_each(Turn::spend);
        assert_eq!(wait(&limiter, Instant::from_secs(20) + LONGEST_WAIT), 100);
    }

    #[test]
    fn a_request_that_is_dropped_while_it_waits_gives_its_token_back() {
        let limiter = Limiter::new(Rate { per_second: 10.0, burst: 2 });
        let now = Instant::from_secs(5);
        for _ in 0..10_000 {
            let turns: Vec<_> = (0..50).map(|_| limiter.take(now, PATIENCE).expect("not refused")).collect();
            assert_eq!(turns[49].wait, Duration::from_millis(4_800));
        }
        assert_eq!([wait(&limiter, now), wait(&limiter, now), wait(&limiter, now)], [0, 0, 100]);
        // What comes back never makes more than a burst.
        let turn = limiter.take(now, PATIENCE).expect("not refused");
        assert_eq!(wait(&limiter, Instant::from_secs(60)), 0);
        drop(turn);
        assert_eq!([wait(&limiter, Instant::from_secs(60)), wait(&limiter, Instant::from_secs(60))], [0, 0]);
        assert_eq!(wait(&limiter, Instant::from_secs(60)), 100);
    }
}
