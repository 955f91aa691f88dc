//! The calls that are made and not answered yet, for `rubelet explain`: which call a pod waits for, since when, until when.
//!
//! Their number is bounded by that of the jobs, each of which makes a few calls at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rubelet_core::time::Instant;
use rubelet_engine::ports::{UnansweredCall, UnansweredCalls};

use crate::metrics::Operation;

/// The calls in flight.
#[derive(Clone, Debug, Default)]
pub struct CallsInFlight {
    calls: Arc<Mutex<Calls>>,
}

#[derive(Debug, Default)]
struct Calls {
    next: u64,
    open: BTreeMap<u64, UnansweredCall>,
}

/// One of them, until it is dropped.
pub(crate) struct OpenCall {
    all: CallsInFlight,
    number: u64,
}

impl CallsInFlight {
    /// Notes a call that begins now and is given up after `deadline`.
    pub(crate) fn begin(&self, operation: Operation, subject: &str, (now, deadline): (Instant, Duration)) -> OpenCall {
        let call = UnansweredCall {
            operation: operation.as_str(),
            subject: subject.to_owned(),
            since: now,
            until: now + deadline,
        };
        let mut calls = self.lock();
        let number = calls.next;
        calls.next += 1;
        calls.open.insert(number, call);
        drop(calls);
        OpenCall { all: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnansweredCalls for CallsInFlight {
    fn unanswered(&self) -> Vec<UnansweredCall> {
        self.lock().open.values().cloned().collect()
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.all.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_open_until_it_is_answered_or_given_up() {
        let calls = CallsInFlight::default();
        let now = Instant::from_secs(5);
        let stop = calls.begin(Operation::StopContainer, "c1", (now, Duration::from_secs(60)));
        let run = calls.begin(Operation::RunPodSandbox, "web-uid", (now, Duration::from_secs(240)));
        let seen: Vec<_> = calls.unanswered().into_iter().map(|c| (c.operation, c.subject, c.until)).collect();
        let expected = [
            ("stop_container", "c1".to_owned(), Instant::from_secs(65)),
            ("run_podsandbox", "web-uid".to_owned(), Instant::from_secs(245)),
        ];
        assert_eq!(seen, expected);
        drop(stop);
        assert_eq!(calls.unanswered().len(), 1);
        drop(run);
        assert!(calls.unanswered().is_empty());
    }
}
