//! Questions that are being asked: equal ones are asked once, and only so many at a time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Questions in flight, by what they ask.
pub(super) struct Flights<K: Ord + Clone, V> {
    most: usize,
    open: Mutex<BTreeMap<K, watch::Receiver<Option<V>>>>,
}

/// As many questions as may be are asked already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl<K: Ord + Clone, V: Clone> Flights<K, V> {
    /// At most `most` different questions at a time.
    pub(super) const fn new(most: usize) -> Self {
        Self { most, open: Mutex::new(BTreeMap::new()) }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<K, watch::Receiver<Option<V>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to `key`: that of a question which is being asked already, or what `ask` comes to. If the caller who
    /// asks is dropped, one of those who wait for the answer asks instead.
    pub(super) async fn join<F: Future<Output = V>>(&self, key: K, ask: impl Fn() -> F) -> Result<V, Full> {
        loop {
            let answer = match self.board(&key)? {
                Seat::First(flight) => return Ok(flight.land(ask().await)),
                Seat::Joined(mut answer) => {
                    answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone())
                }
            };
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }

    fn board(&self, key: &K) -> Result<Seat<'_, K, V>, Full> {
        let mut open = self.open();
        if let Some(answer) = open.get(key) {
            return Ok(Seat::Joined(answer.clone()));
        }
        if open.len() >= self.most {
            return Err(Full);
        }
        let (tell, answer) = watch::channel(None);
        open.insert(key.clone(), answer);
        Ok(Seat::First(Flight { flights: self, key: key.clone(), tell }))
    }
}

enum Seat<'a, K: Ord + Clone, V: Clone> {
    First(Flight<'a, K, V>),
    Joined(watch::Receiver<Option<V>>),
}

/// A question that this caller asks. It is no longer open when this is dropped.
struct Flight<'a, K: Ord + Clone, V: Clone> {
    flights: &'a Flights<K, V>,
    key: K,
    tell: watch::Sender<Option<V>>,
}

impl<K: Ord + Clone, V: Clone> Flight<'_, K, V> {
    fn land(self, answer: V) -> V {
        self.tell.send_replace(Some(answer.clone()));
        answer
    }
}

impl<K: Ord + Clone, V: Clone> Drop for Flight<'_, K, V> {
    fn drop(&mut self) {
        self.flights.open().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn equal_questions_are_asked_once_and_different_ones_up_to_a_bound() {
        let (flights, asked, go) = (Flights::new(2), AtomicUsize::new(0), Notify::new());
        let ask = |key: &'static str| {
            let (asked, go) = (&asked, &go);
            flights.join(key, move || async move {
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
        assert!(flights.open().is_empty());
    }

    #[tokio::test]
    async fn whoever_waits_asks_when_the_one_who_asked_is_dropped() {
        let flights = Flights::new(1);
        let mut first = Box::pin(flights.join("a", std::future::pending::<u32>));
        assert!(futures_pending(&mut first));
        let mut second = Box::pin(flights.join("a", || std::future::ready(7)));
        assert!(futures_pending(&mut second));
        drop(first);
        assert_eq!(second.await, Ok(7));
    }

    /// Polls once.
    fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::Pin::new(future).poll(&mut context).is_pending()
    }
}
