//! Requests per second (`kubeAPIQPS`, `kubeAPIBurst`): a bucket of tokens.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rubelet_core::time::Instant;

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

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        let state = State { tokens: f64::from(rate.burst), at: Instant::START };
        Self { rate, state: Mutex::new(state) }
    }

    /// Takes a token, and tells how long to wait until it is there. Who waits does so in the order of asking.
    pub(super) fn take(&self, now: Instant) -> Duration {
        if self.rate.per_second <= 0.0 {
            return Duration::ZERO;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = now.since(state.at).as_secs_f64() * self.rate.per_second;
        state.tokens = (state.tokens + earned).min(f64::from(self.rate.burst.max(1))) - 1.0;
        state.at = now;
        Duration::try_from_secs_f64(-state.tokens / self.rate.per_second).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_an_even_pace() {
        let limiter = Limiter::new(Rate { per_second: 10.0, burst: 2 });
        let waits: Vec<_> = (0..4).map(|_| limiter.take(Instant::from_secs(5)).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        // What was waited for is paid off, and a pause earns a burst again but no more.
        assert_eq!(limiter.take(Instant::from_millis(5_300)).as_millis(), 0);
        let waits: Vec<_> = (0..3).map(|_| limiter.take(Instant::from_secs(60)).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100]);
    }

    #[test]
    fn no_rate_is_no_limit() {
        let limiter = Limiter::new(Rate { per_second: 0.0, burst: 1 });
        assert!((0..100).all(|_| limiter.take(Instant::START).is_zero()));
    }
}
