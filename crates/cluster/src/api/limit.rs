//! The client-side rate limit (`kubeAPIQPS`, `kubeAPIBurst`): a token bucket.
//!
//! The bucket may go into debt: a request reserves its token at once and waits until the token is earned. The debt is
//! bounded: a request that would wait longer than its own deadline, or than [`LONGEST_WAIT`], is rejected and takes no
//! token. A request that is dropped while it waits returns its token, so cancelled requests do not delay later ones.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rubelet_core::time::Instant;

/// Longest wait for a token, whatever the request's deadline. It bounds the debt of the bucket.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A request rate.
///
/// upstream: client-go flowcontrol, set by kubeAPIQPS and kubeAPIBurst (v1.36).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Average number of requests per second.
    pub per_second: f64,
    /// Number of requests that may be sent at once.
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

/// A reserved token. Dropped before [`spend`](Self::spend), it returns to the bucket.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    limiter: &'a Limiter,
    /// How long to wait until the token is earned.
    pub(super) wait: Duration,
    spent: bool,
}

/// The wait would exceed the request's deadline.
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

    /// Reserves a token for a request that may wait for `patience`. Requests are served in order.
    pub(super) fn take(&self, now: Instant, patience: Duration) -> Result<Reservation<'_>, TooMany> {
        if self.rate.per_second <= 0.0 {
            return Ok(Reservation { limiter: self, wait: Duration::ZERO, spent: true });
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
        Ok(Reservation { limiter: self, wait, spent: false })
    }

    /// With a capacity below one token no request could ever be sent.
    fn full(&self) -> f64 {
        f64::from(self.rate.burst.max(1))
    }
}

impl Reservation<'_> {
    /// The request is sent: its token is used up.
    pub(super) fn spend(mut self) {
        self.spent = true;
    }
}

impl Drop for Reservation<'_> {
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

    /// The wait, in milliseconds, of a request that is then sent.
    fn wait(limiter: &Limiter, now: Instant) -> u128 {
        let reservation = limiter.take(now, PATIENCE).expect("not refused");
        let wait = reservation.wait.as_millis();
        reservation.spend();
        wait
    }

    #[test]
    fn a_burst_is_sent_at_once_and_the_rest_at_the_configured_rate() {
        let limiter = Limiter::new(Rate { per_second: 10.0, burst: 2 });
        let waits: Vec<_> = (0..4).map(|_| wait(&limiter, Instant::from_secs(5))).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        // The debt is paid off, and a pause earns one full burst, not more.
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
    fn a_wait_longer_than_the_deadline_is_rejected_and_takes_no_token() {
        let limiter = Limiter::new(Rate { per_second: 10.0, burst: 1 });
        let now = Instant::from_secs(5);
        let mut reservations = Vec::new();
        let refused = loop {
            match limiter.take(now, PATIENCE) {
                Ok(reservation) if reservations.len() < 1_000 => reservations.push(reservation),
                Ok(_) => panic!("no request was rejected"),
                Err(refused) => break refused,
            }
        };
        assert_eq!((reservations.len(), refused.wait), (101, Duration::from_millis(10_100)));
        reservations.into_iter().for_each(Reservation::spend);
        // Rejected requests do not increase the debt.
        for _ in 0..10_000 {
            assert_eq!(limiter.take(now, PATIENCE).map(|_| ()), Err(refused));
        }
        assert_eq!(wait(&limiter, Instant::from_secs(15)), 100);
        // A deadline of an hour does not increase the debt beyond the bound.
        let long = Duration::from_secs(3_600);
        (0..1_000).map_while(|_| limiter.take(Instant::from_secs(20), long).ok()).for_each(Reservation::spend);
        assert_eq!(wait(&limiter, Instant::from_secs(20) + LONGEST_WAIT), 100);
    }

    #[test]
    fn a_request_dropped_while_it_waits_returns_its_token() {
        let limiter = Limiter::new(Rate { per_second: 10.0, burst: 2 });
        let now = Instant::from_secs(5);
        for _ in 0..10_000 {
            let reservations: Vec<_> = (0..50).map(|_| limiter.take(now, PATIENCE).expect("not refused")).collect();
            assert_eq!(reservations[49].wait, Duration::from_millis(4_800));
        }
        assert_eq!([wait(&limiter, now), wait(&limiter, now), wait(&limiter, now)], [0, 0, 100]);
        // Returned tokens never exceed the burst.
        let reservation = limiter.take(now, PATIENCE).expect("not refused");
        assert_eq!(wait(&limiter, Instant::from_secs(60)), 0);
        drop(reservation);
        assert_eq!([wait(&limiter, Instant::from_secs(60)), wait(&limiter, Instant::from_secs(60))], [0, 0]);
        assert_eq!(wait(&limiter, Instant::from_secs(60)), 100);
    }
}
