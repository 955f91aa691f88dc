//! A connection and the question on it, in one future.

use std::pin::pin;

use futures_util::future::{Either, select};

/// Drives `connection` for as long as `work` needs it. Its own end is no news: `work` learns of it.
pub(crate) async fn drive<C: Future, W: Future>(connection: C, work: W) -> W::Output {
    match select(pin!(work), pin!(connection)).await {
        Either::Left((done, _)) => done,
        Either::Right((_, work)) => work.await,
    }
}
