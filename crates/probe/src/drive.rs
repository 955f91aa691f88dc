//! Drives a connection and the request on it in one future.

use std::pin::pin;

use futures_util::future::{Either, select};

/// Drives `connection` while `work` needs it. If the connection ends first, `work` gets the error.
pub(crate) async fn drive<C: Future, W: Future>(connection: C, work: W) -> W::Output {
    match select(pin!(work), pin!(connection)).await {
        Either::Left((done, _)) => done,
        Either::Right((_, work)) => work.await,
    }
}
