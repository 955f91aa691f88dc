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
use crate::api::lines::{Lines, TooLong};
use crate::api::link::Body;

/// A watch that the server does not end in time is ended here.
const OVERTIME: Duration = Duration::from_secs(30);
/// A watch that the server ends earlier than it was asked to, by more than this, ends for others in the same moment.
const EARLY: Duration = Duration::from_secs(5);
/// Largest event. The API server takes no object above 3 MiB.
const MAX_EVENT: usize = 10 << 20;
/// What worked for so long was no failure.
const HEALTHY: Duration = Duration::from_secs(10);

/// The end of a watch that nobody is to blame for.
pub(super) struct Ended {
    /// How long it was.
    pub(super) after: Duration,
    /// It was shorter than it was asked to be.
    pub(super) early: bool,
}

impl<T> Reflector<T>
where
    T: DeserializeOwned + Metadata<Ty = ObjectMeta> + Send + Sync + 'static,
{
    /// From the list, if one is needed, to the end of the watch.
    pub(super) async fn session(&mut self, sink: &mut impl Sink<T>) -> Result<Ended, ApiError> {
        if self.version.is_none() && self.listing != Listing::Streamed {
            self.list().await?;
            self.tell(sink);
            if self.listing == Listing::PagedOnce {
                self.listing = Listing::Streamed;
            }
        }
        let shortest = self.watched.extent.shortest();
        let length = shortest.saturating_add(shortest.mul_f64(self.chance.fraction()));
        let path = self.watch_path(length);
        let since = self.client.clock().mono();
        let body = self.client.stream(&path).await?;
        let watch = self.follow(body, sink);
        let ended = tokio::time::timeout(length.saturating_add(OVERTIME), watch).await;
        let after = self.client.clock().mono().since(since);
        if after >= HEALTHY {
            self.pace.worked();
        }
        // One that the server should have ended, and did not, is over all the same.
        ended.unwrap_or(Ok(()))?;
        if self.version.is_none() {
            return Err(failed("the watch ended before it had shown everything"));
        }
        Ok(Ended { after, early: after.saturating_add(EARLY) < length })
    }

    fn watch_path(&self, length: Duration) -> String {
        let seconds = length.as_secs().to_string();
        let listing = self.version.is_none().then_some(());
        let version = self.version.as_deref().or(self.floor.as_deref().filter(|floor| *floor != "0"));
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
        // While everything is being told anew, what was known before stays.
        let mut anew = self.version.is_none().then(Set::default);
        loop {
            // A list must come on: a server that falls silent in the middle of it is not waited for until the watch ends.
            let silence = self.client.deadline();
            let piece = tokio::select! {
                biased;
                // Safe to drop: a piece is either taken or still in the stream.
                piece = body.piece() => piece,
                () = tokio::time::sleep(silence), if anew.is_some() => {
                    let detail = format!("the list that came as a watch stopped for {silence:?}");
                    return Err(ApiError { kind: ApiErrorKind::Timeout, detail });
                }
                // Nothing more has arrived.
                () = ready(()), if self.dirty => {
                    self.tell(sink);
                    continue;
                }
            };
            let Some(piece) = piece else { return Ok(()) };
            lines.add(&piece.map_err(|error| error.to_api())?);
            while let Some(line) = lines.next().map_err(|error| too_long(&error))? {
                let event = event::read(line)?;
                self.apply(event, &mut anew);
                self.check_size(anew.as_ref().unwrap_or(&self.set))?;
            }
        }
    }

    fn apply(&mut self, event: Option<Event<T>>, anew: &mut Option<Set<T>>) {
        let Some(event) = event else { return };
        let (changed, version) = match event {
            Event::Put(item) => {
                let version = item.version.clone();
                if anew.is_none() && self.is_late(&item) {
                    return;
                }
                let item = self.prepared_item(item);
                let set = anew.as_mut().unwrap_or(&mut self.set);
                (set.put(item), version)
            }
            Event::Gone(key, version) => {
                let set = anew.as_mut().unwrap_or(&mut self.set);
                (set.remove(&key, &version), version)
            }
            Event::Bookmark { version, listed } => {
                let changed = match anew.take() {
                    Some(all) if listed => self.all(all),
                    unfinished => {
                        *anew = unfinished;
                        Changed::No
                    }
                };
                (changed, version)
            }
        };
        if anew.is_none() {
            self.dirty |= changed == Changed::Yes;
            self.went_on(version);
        }
    }

    /// Tells of an object as it was before something that we know: it may be gone since.
    fn is_late(&self, item: &Item<T>) -> bool {
        let position = self.version.as_deref().unwrap_or_default();
        set::older(&item.version, position) && self.set.of(&item.key).is_none()
    }
}

fn too_long(error: &TooLong) -> ApiError {
    ApiError { kind: ApiErrorKind::Garbage, detail: error.to_string() }
}
