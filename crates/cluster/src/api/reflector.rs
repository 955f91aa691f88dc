//! All objects of a kind, held up to date by list and watch.
//!
//! The list comes as a watch that begins with all there is, so that no more than one object is in memory twice; a server
//! that cannot do that is asked for a list in pages, and then for a watch. Whatever goes wrong, the set stays as it was
//! and is brought up to date when the server is back: at the version where it was, or anew if that is too old.
//!
//! upstream: client-go tools/cache/reflector.go (v1.36).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_engine::ports::{ApiError, ApiErrorKind, Chance};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::client::Client;
use super::pace::Pace;
use super::query;

mod event;
mod list;
mod set;
mod watch;
mod watched;

use event::Item;
use set::Changed;
pub use set::{Key, Set};
pub use watched::{Extent, Watched};

/// Shortest pause between two attempts once it is known that something is wrong.
const LEAST: Duration = Duration::from_secs(1);

/// Is told the whole set whenever it changed. Must not wait.
pub trait Sink<T>: Send {
    /// The set is this now. What has arrived together is told together.
    fn changed(&mut self, set: &Set<T>);
}

impl<T, F: FnMut(&Set<T>) + Send> Sink<T> for F {
    fn changed(&mut self, set: &Set<T>) {
        self(set);
    }
}

/// Holds a set of objects up to date.
#[doc(alias = "Informer")]
pub struct Reflector<T> {
    client: Client,
    watched: Watched,
    chance: Arc<dyn Chance>,
    prepare: Option<Prepare<T>>,
    set: Set<T>,
    /// Where the watch goes on; `None` if a list is needed.
    version: Option<String>,
    /// What a list must at least show: the world does not go back. `None` for the newest there is.
    floor: Option<String>,
    listing: Listing,
    pace: Pace,
    /// The sink has not been told yet.
    dirty: bool,
    /// The set has been complete once.
    complete: bool,
    /// Failures have been logged.
    trouble: bool,
}

/// Changes an object on its way in; it is given the one that it replaces.
type Prepare<T> = Box<dyn Fn(&mut T, Option<&T>) + Send + Sync>;

/// How a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    /// As a watch that begins with everything.
    #[doc(alias = "WatchList")]
    Streamed,
    /// In pages, this time: the server failed to send the list as a watch.
    PagedOnce,
    /// In pages: the server does not know how to send lists as watches.
    Paged,
}
impl<T> Reflector<T>
where
    T: DeserializeOwned + Metadata<Ty = ObjectMeta> + Send + Sync + 'static,
{
    /// Watches `watched` once [`run`](Self::run).
    pub fn new(client: Client, watched: Watched, chance: Arc<dyn Chance>) -> Self {
        let pace = Pace::new(watched.extent.spread());
        Self {
            client,
            watched,
            chance,
            prepare: None,
            set: Set::default(),
            version: None,
            floor: Some("0".to_owned()),
            listing: Listing::Streamed,
            pace,
            dirty: false,
            complete: false,
            trouble: false,
        }
    }

    /// Never asks for the list as a watch.
    #[must_use]
    pub fn paged(mut self) -> Self {
        self.listing = Listing::Paged;
        self
    }

    /// Changes each object before it is held, while nobody shares it yet; `prepare` is also given the one that it
    /// replaces.
    #[must_use]
    pub fn prepared(mut self, prepare: impl Fn(&mut T, Option<&T>) + Send + Sync + 'static) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Tells `sink` of every change until cancelled. The first time it is told, it is told everything.
    pub async fn run(mut self, mut sink: impl Sink<T>, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.work(&mut sink) => {}
        }
    }

    async fn work(&mut self, sink: &mut impl Sink<T>) {
        loop {
            let ended = self.session(sink).await;
            self.tell(sink);
            let error = match ended {
                Ok(ended) if ended.after >= LEAST => {
                    if ended.early {
                        tokio::time::sleep(self.pace.spread(self.chance.fraction())).await;
                    }
                    continue;
                }
                Ok(_) => failed("the watch ended as soon as it began"),
                Err(error) => error,
            };
            self.recover(error).await;
        }
    }

    /// Decides where to go on after a failure, and waits.
    async fn recover(&mut self, error: ApiError) {
        if self.take_pages_instead(&error) {
            return;
        }
        let path = &self.watched.path;
        match error.kind {
            // The version is too old, or the server is behind it or was set back: a list must show it, and if not even
            // that can be, what the server has now is the truth. Nothing else costs the version: a connection that does
            // not come about, or an answer that is late, says nothing of it.
            ApiErrorKind::Gone => {
                debug!(path, err = %error, "The version cannot be had any more; listing again");
                self.floor = self.version.take();
            }
            // Garbage twice in a row: perhaps the place is bad, not the line.
            ApiErrorKind::Garbage | ApiErrorKind::Invalid if self.pace.failures() > 0 => self.version = None,
            _ => {}
        }
        let wait = self.pace.failed(&error, self.chance.fraction(), self.client.clock().mono());
        if self.pace.failures() > 1 && !self.trouble {
            warn!(path, err = %error, "Watching fails; what was seen last stays, and it is tried again");
            self.trouble = true;
        }
        let asked = matches!(error.kind, ApiErrorKind::Busy { .. });
        if asked || wait <= LEAST {
            tokio::time::sleep(wait).await;
            return;
        }
        tokio::time::sleep(LEAST).await;
        tokio::select! {
            biased;
            // Somebody else got through: so do we, but not all of us at once.
            () = self.client.reconnected() => tokio::time::sleep(self.pace.spread(self.chance.fraction())).await,
            () = tokio::time::sleep(wait.saturating_sub(LEAST)) => {}
        }
    }

    /// Whether the list is to be asked for in pages, because it does not come as a watch. A server that cannot do the one
    /// may well do the other: with an old etcd, for example, each such watch ends with an error event of code 500.
    ///
    /// upstream: client-go reflector.go ListAndWatch falls back whatever the error is, but for what it waits out (v1.36)
    fn take_pages_instead(&mut self, error: &ApiError) -> bool {
        let newest = self.floor.as_ref().is_none_or(|floor| floor == "0");
        let next = match error.kind {
            // Of the server's load and of the way to it: pages would fare no better.
            ApiErrorKind::Busy { .. } | ApiErrorKind::Unavailable => return false,
            // The list is first asked for without a floor.
            ApiErrorKind::Gone if !newest => return false,
            ApiErrorKind::Invalid => Listing::Paged,
            _ => Listing::PagedOnce,
        };
        match self.listing {
            Listing::Streamed if self.version.is_none() => {
                debug!(path = self.watched.path, err = %error, "The list does not come as a watch; asking for pages");
                (self.listing, self.floor) = (next, self.floor.take().filter(|_| error.kind != ApiErrorKind::Gone));
                true
            }
            Listing::PagedOnce => {
                self.listing = Listing::Streamed;
                false
            }
            Listing::Streamed | Listing::Paged => false,
        }
    }

    /// A server that shows more than a node can hold is not believed: what was seen before stays.
    fn check_size(&self, set: &Set<T>) -> Result<(), ApiError> {
        let most = self.watched.extent.most_bytes();
        if set.bytes() <= most {
            return Ok(());
        }
        let detail = format!("{} shows more than {most} bytes of objects", self.watched.path);
        Err(ApiError { kind: ApiErrorKind::Garbage, detail })
    }

    fn prepared_item(&self, mut item: Item<T>) -> Item<T> {
        match &mut item.object {
            Ok(object) => {
                if let Some(prepare) = &self.prepare {
                    prepare(object, self.set.of(&item.key).map(|held| &**held));
                }
            }
            Err(problem) => {
                warn!(namespace = item.key.namespace, name = item.key.name, problem, "An object cannot be read");
            }
        }
        item
    }

    /// The set is complete.
    fn all(&mut self, all: Set<T>) -> Changed {
        let changed = self.set.become_all(all);
        // The first time, even nothing is news.
        let first = !std::mem::replace(&mut self.complete, true);
        if first { Changed::Yes } else { changed }
    }

    /// The watch is at `version`; it never goes back.
    fn went_on(&mut self, version: String) {
        if version.is_empty() || self.version.as_deref().is_some_and(|known| set::older(&version, known)) {
            return;
        }
        self.floor = Some(version.clone());
        self.version = Some(version);
        if self.trouble {
            info!(path = self.watched.path, "Watching again");
            self.trouble = false;
        }
    }

    fn tell(&mut self, sink: &mut impl Sink<T>) {
        if std::mem::take(&mut self.dirty) {
            sink.changed(&self.set);
        }
    }
}

fn failed(detail: &str) -> ApiError {
    ApiError { kind: ApiErrorKind::Failed, detail: detail.to_owned() }
}
