//! The body of a response.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use bytes::Bytes;
use h2::RecvStream;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::error::WireError;
use super::heartbeat::OpenStream;
use super::link::{Driver, Over, Slot, lost};

/// The body of a response.
pub(super) struct Body {
    pub(super) inner: Inner,
    /// Set by the holder of the slot: the slot lives as long as the body.
    pub(super) slot: Option<Slot>,
    pub(super) over: Arc<OnceLock<Over>>,
    pub(super) server: String,
}

pub(super) enum Inner {
    Http2 { stream: RecvStream, _open: OpenStream },
    Http1 { body: Box<Incoming>, driver: Option<Driver> },
}

impl Body {
    /// The next chunk; `None` at the end.
    pub(super) async fn piece(&mut self) -> Option<Result<Bytes, WireError>> {
        match &mut self.inner {
            Inner::Http2 { stream, .. } => match stream.data().await? {
                Ok(piece) => {
                    // Opens the flow-control window again. Fails only if the stream is closed.
                    let _ = stream.flow_control().release_capacity(piece.len());
                    Some(Ok(piece))
                }
                Err(source) => Some(Err(lost(&self.over, self.server.clone(), source))),
            },
            Inner::Http1 { body, driver } => {
                let frame = driven(body, driver).await?;
                let frame = frame.map_err(|source| WireError::Http1 { server: self.server.clone(), source });
                Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
            }
        }
    }

    /// The whole body, if it is not longer than `limit`.
    pub(super) async fn whole(mut self, limit: usize) -> Result<Vec<u8>, WireError> {
        let mut all = Vec::new();
        while let Some(piece) = self.piece().await {
            let piece = piece?;
            if all.len().saturating_add(piece.len()) > limit {
                return Err(WireError::TooLarge { limit });
            }
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}

/// The next frame of `body`; its connection is driven meanwhile.
async fn driven(
    body: &mut Incoming,
    driver: &mut Option<Driver>,
) -> Option<Result<hyper::body::Frame<Bytes>, hyper::Error>> {
    std::future::poll_fn(|context| {
        if let Some(work) = driver
            && work.as_mut().poll(context).is_ready()
        {
            *driver = None;
        }
        match Pin::new(&mut body.frame()).poll(context) {
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
