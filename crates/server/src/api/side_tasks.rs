//! Work beside a connection: HTTP/2 streams, and sessions that outlive the request that started them.
//!
//! All of it runs in the connection's task, so that it ends with the connection.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

/// Collects the work to run beside a connection.
#[derive(Clone, Default)]
pub(super) struct SideTasks {
    new: Arc<Mutex<Vec<BoxFuture<'static, ()>>>>,
}

impl SideTasks {
    pub(super) fn push(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.new.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(work));
    }

    fn take(&self) -> Vec<BoxFuture<'static, ()>> {
        std::mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `connection` to its end together with the collected work, and returns the work that is left. When `over`
    /// completes, the connection is shut down gracefully.
    pub(super) async fn drive<C: Future>(
        &self,
        connection: C,
        over: impl Future<Output = ()>,
        end: impl Fn(Pin<&mut C>),
    ) -> (C::Output, FuturesUnordered<BoxFuture<'static, ()>>) {
        let mut connection = pin!(connection);
        let mut over = pin!(over);
        let mut asked_to_end = false;
        let mut work = FuturesUnordered::new();
        let output = poll_fn(|context| {
            loop {
                if !asked_to_end && over.as_mut().poll(context).is_ready() {
                    asked_to_end = true;
                    end(connection.as_mut());
                }
                if let Poll::Ready(output) = connection.as_mut().poll(context) {
                    return Poll::Ready(output);
                }
                work.extend(self.take());
                match work.poll_next_unpin(context) {
                    Poll::Ready(Some(())) => {}
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        work.extend(self.take());
        (output, work)
    }
}

impl<F> hyper::rt::Executor<F> for SideTasks
where
    F: Future + Send + 'static,
{
    fn execute(&self, work: F) {
        self.push(async move {
            work.await;
        });
    }
}
