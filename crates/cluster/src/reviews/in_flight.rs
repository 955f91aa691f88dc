//! Reviews in flight: equal ones are sent once, and their number is bounded.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Reviews in flight, by key.
pub(super) struct InFlight<K: Ord + Clone, V> {
    most: usize,
    open: Mutex<BTreeMap<K, watch::Receiver<Option<V>>>>,
}

/// The number of reviews in flight has reached its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl<K: Ord + Clone, V: Clone> InFlight<K, V> {
    /// At most `most` different reviews at a time.
    pub(super) const fn new(most: usize) -> Self {
        Self { most, open: Mutex::new(BTreeMap::new()) }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<K, watch::Receiver<Option<V>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result for `key`: that of a review in flight, or that of `ask`. If the caller whose `ask` runs is dropped, one of
    /// the waiting callers runs its own.
    pub(super) async fn join<F: Future<Output = V>>(&self, key: K, ask: impl Fn() -> F) -> Result<V, Full> {
        loop {
            let answer = match self.role(&key)? {
                Role::Leader(flight) => return Ok(flight.finish(ask().await)),
                Role::Follower(mut answer) => {
                    answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone())
                }
            };
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }

    fn role(&self, key: &K) -> Result<Role<'_, K, V>, Full> {
        let mut open = self.open();
        if let Some(answer) = open.get(key) {
            return Ok(Role::Follower(answer.clone()));
        }
        if open.len() >= self.most {
            return Err(Full);
        }
        let (sender, answer) = watch::channel(None);
        open.insert(key.clone(), answer);
        Ok(Role::Leader(Leader { in_flight: self, key: key.clone(), sender }))
    }
}

enum Role<'a, K: Ord + Clone, V: Clone> {
    Leader(Leader<'a, K, V>),
    Follower(watch::Receiver<Option<V>>),
}

/// The review that this caller sends. It is removed when this is dropped.
struct Leader<'a, K: Ord + Clone, V: Clone> {
    in_flight: &'a InFlight<K, V>,
    key: K,
    sender: watch::Sender<Option<V>>,
}

impl<K: Ord + Clone, V: Clone> Leader<'_, K, V> {
    fn finish(self, answer: V) -> V {
        self.sender.send_replace(Some(answer.clone()));
        answer
    }
}

impl<K: Ord + Clone, V: Clone> Drop for Leader<'_, K, V> {
    fn drop(&mut self) {
        self.in_flight.open().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn equal_reviews_are_sent_once_and_different_ones_up_to_a_bound() {
        let (in_flight, asked, go) = (InFlight::new(2), AtomicUsize::new(0), Notify::new());
        let ask = |key: &'static str| {
            let (asked, go) = (&asked, &go);
            in_flight.join(key, move || async move {
                asked.fetch_add(1, Ordering::Relaxed);
                go.notified().await;
                key
            })
        };
        let release = async {
            assert_eq!(ask("c").await, Err(Full));
            go.notify_waiters();
        };
        let (a, b, again, ()) = tokio::join!(ask("a"), ask("b"), ask("a"), release);
        assert_eq!((a, b, again), (Ok("a"), Ok("b"), Ok("a")));
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        assert!(in_flight.open().is_empty());
    }

    #[tokio::test]
    async fn a_waiting_caller_takes_over_when_the_first_one_is_dropped() {
        let in_flight = InFlight::new(1);
        let mut first = Box::pin(in_flight.join("a", std::future::pending::<u32>));
        assert!(futures_pending(&mut first));
        let mut second = Box::pin(in_flight.join("a", || std::future::ready(7)));
        assert!(futures_pending(&mut second));
        drop(first);
        assert_eq!(second.await, Ok(7));
    }

    /// Polls the future once.
    fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::Pin::new(future).poll(&mut context).is_pending()
    }
}
