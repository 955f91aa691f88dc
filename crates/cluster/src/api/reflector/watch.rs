//! One watch, from its request to its end.

use std::future::ready;
use std::time::Duration;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use serde::de::DeserializeOwned;

use super::event::{self, Event, Item};
use super::set::{self, Changed, Set};
use super::{Listing, Reflector, Sink, failed, query};
use crate::api::body::Body;
use crate::api::lines::{Lines, TooLong};

/// A watch that the server does not end within this time after its timeout is ended by the client.
const OVERTIME: Duration = Duration::from_secs(30);
/// A watch that ends earlier than its timeout by more than this was probably ended together with other watches.
const EARLY: Duration = Duration::from_secs(5);
/// Largest event. The API server rejects objects above 3 MiB.
const MAX_EVENT: usize = 10 << 20;
/// A watch that lasted this long resets the backoff.
const HEALTHY: Duration = Duration::from_secs(10);

/// A watch that ended without an error.
pub(super) struct Ended {
    /// How long the watch lasted.
    pub(super) after: Duration,
    /// Whether the server ended it before its timeout.
    pub(super) early: bool,
}

impl<T> Reflector<T>
where
    T: DeserializeOwned + Metadata<Ty = ObjectMeta> + Send + Sync + 'static,
{
    /// Lists if necessary, then watches until the watch ends.
    pub(super) async fn session(&mut self, sink: &mut impl Sink<T>) -> Result<Ended, ApiError> {
        if self.version.is_none() && self.listing != Listing::Streamed {
            self.list().await?;
            self.notify(sink);
            if self.listing == Listing::PagedOnce {
                self.listing = Listing::Streamed;
            }
        }
        let shortest = self.watched.extent.shortest();
        let length = shortest.saturating_add(shortest.mul_f64(self.rng.fraction()));
        let path = self.watch_path(length);
        let since = self.client.clock().mono();
        let body = self.client.stream(&path).await?;
        let watch = self.follow(body, sink);
        let ended = tokio::time::timeout(length.saturating_add(OVERTIME), watch).await;
        let after = self.client.clock().mono().since(since);
        if after >= HEALTHY {
            self.pace.worked();
        }
        // A watch that exceeded its timeout has ended without an error, too.
        ended.unwrap_or(Ok(()))?;
        if self.version.is_none() {
            return Err(failed("the watch ended before all objects were sent"));
        }
        Ok(Ended { after, early: after.saturating_add(EARLY) < length })
    }

    fn watch_path(&self, length: Duration) -> String {
        let seconds = length.as_secs().to_string();
        let listing = self.version.is_none().then_some(());
        let version = self.version.as_deref().or(self.min_version.as_deref().filter(|min_version| *min_version != "0"));
        query::with(
            &self.watched.path,
            &[
                ("watch", Some("true")),
                ("allowWatchBookmarks", Some("true")),
                ("timeoutSeconds", Some(&seconds)),
                ("resourceVersion", version),
                ("sendInitialEvents", listing.map(|()| "true")),
                ("resourceVersionMatch", listing.map(|()| "NotOlderThan")),
                ("fieldSelector", self.watched.field_selector.as_deref()),
                ("labelSelector", self.watched.label_selector.as_deref()),
            ],
        )
    }

    /// Reads a watch to its end.
    async fn follow(&mut self, mut body: Body, sink: &mut impl Sink<T>) -> Result<(), ApiError> {
        let mut lines = Lines::new(MAX_EVENT);
        // During a relist the old set stays in use until the new one is complete.
        let mut relist = self.version.is_none().then(Set::default);
        loop {
            // A list must make progress: a server that falls silent in the middle of it is a failure before the watch's timeout.
            let silence = self.client.deadline();
            let piece = tokio::select! {
                biased;
                // Cancel-safe: a piece is either returned or still in the stream.
                piece = body.piece() => piece,
                () = tokio::time::sleep(silence), if relist.is_some() => {
                    let detail = format!("the list sent as a watch made no progress for {silence:?}");
                    return Err(ApiError { kind: ApiErrorKind::Timeout, detail });
                }
                // Everything that has arrived is applied.
                () = ready(()), if self.dirty => {
                    self.notify(sink);
                    continue;
                }
            };
            let Some(piece) = piece else { return Ok(()) };
            lines.add(&piece.map_err(|error| error.to_api())?);
            while let Some(line) = lines.next().map_err(|error| too_long(&error))? {
                let event = event::read(line)?;
                self.apply(event, &mut relist);
                self.check_size(relist.as_ref().unwrap_or(&self.set))?;
            }
        }
    }

    fn apply(&mut self, event: Option<Event<T>>, relist: &mut Option<Set<T>>) {
        let Some(event) = event else { return };
        let (changed, version) = match event {
            Event::Put(item) => {
                let version = item.version.clone();
                if relist.is_none() && self.is_stale(&item) {
                    return;
                }
                let item = self.prepared_item(item);
                let set = relist.as_mut().unwrap_or(&mut self.set);
                (set.put(item), version)
            }
            Event::Gone(key, version) => {
                let set = relist.as_mut().unwrap_or(&mut self.set);
                (set.remove(&key, &version), version)
            }
            Event::Bookmark { version, listed } => {
                let changed = match relist.take() {
                    Some(all) if listed => self.replace_all(all),
                    unfinished => {
                        *relist = unfinished;
                        Changed::No
                    }
                };
                (changed, version)
            }
        };
        if relist.is_none() {
            self.dirty |= changed == Changed::Yes;
            self.advance_to(version);
        }
    }

    /// Whether an event is older than the watch's position and its object is not held: the object may have been deleted since.
    fn is_stale(&self, item: &Item<T>) -> bool {
        let position = self.version.as_deref().unwrap_or_default();
        set::older(&item.version, position) && self.set.of(&item.key).is_none()
    }
}

fn too_long(error: &TooLong) -> ApiError {
    ApiError { kind: ApiErrorKind::Garbage, detail: error.to_string() }
}
