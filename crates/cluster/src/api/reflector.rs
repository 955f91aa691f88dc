//! All objects of a kind, kept up to date by list and watch.
//!
//! The list comes as a watch that begins with all objects (WatchList), so that at most one object is in memory twice. A
//! server that does not support it is asked for a paged list and then for a watch. On failure the set stays as it was; it
//! is brought up to date when the server is back, from the last resource version or, if that is too old, by a relist.
//!
//! upstream: client-go tools/cache/reflector.go (v1.36).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_engine::ports::{ApiError, ApiErrorKind, Rng};
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

/// Shortest pause between two attempts after the first failure.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// Receives the whole set after every change. Must not block.
pub trait Sink<T>: Send {
    /// The set has changed. Changes that arrived together are reported together.
    fn changed(&mut self, set: &Set<T>);
}

impl<T, F: FnMut(&Set<T>) + Send> Sink<T> for F {
    fn changed(&mut self, set: &Set<T>) {
        self(set);
    }
}

/// Keeps a set of objects up to date.
#[doc(alias = "Informer")]
pub struct Reflector<T> {
    client: Client,
    watched: Watched,
    rng: Arc<dyn Rng>,
    prepare: Option<Prepare<T>>,
    set: Set<T>,
    /// Resource version at which the watch resumes; `None` if a list is needed.
    version: Option<String>,
    /// Lowest resource version that a list may have, so that the set never goes back in time. `None` for the newest.
    min_version: Option<String>,
    listing: Listing,
    pace: Pace,
    /// The sink has not been notified of the last change.
    dirty: bool,
    /// The set has been complete once.
    complete: bool,
    /// A failure has been logged since the watch last worked.
    failing: bool,
}

/// Changes an object before it is stored; the second argument is the object that it replaces.
type Prepare<T> = Box<dyn Fn(&mut T, Option<&T>) + Send + Sync>;

/// How the list is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    /// As a watch that begins with all objects.
    #[doc(alias = "WatchList")]
    Streamed,
    /// In pages, once: the server failed to send the list as a watch.
    PagedOnce,
    /// In pages: the server does not support lists as watches.
    Paged,
}
impl<T> Reflector<T>
where
    T: DeserializeOwned + Metadata<Ty = ObjectMeta> + Send + Sync + 'static,
{
    /// A reflector for `watched`; it does nothing until [`run`](Self::run).
    pub fn new(client: Client, watched: Watched, rng: Arc<dyn Rng>) -> Self {
        let pace = Pace::new(watched.extent.spread());
        Self {
            client,
            watched,
            rng,
            prepare: None,
            set: Set::default(),
            version: None,
            min_version: Some("0".to_owned()),
            listing: Listing::Streamed,
            pace,
            dirty: false,
            complete: false,
            failing: false,
        }
    }

    /// Always requests the list in pages.
    #[must_use]
    pub fn paged(mut self) -> Self {
        self.listing = Listing::Paged;
        self
    }

    /// Changes each object before it is stored and shared; `prepare` also gets the object that it replaces.
    #[must_use]
    pub fn prepared(mut self, prepare: impl Fn(&mut T, Option<&T>) + Send + Sync + 'static) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Notifies `sink` of every change until cancelled. The first notification comes when the set is complete.
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
            self.notify(sink);
            let error = match ended {
                Ok(ended) if ended.after >= MIN_PAUSE => {
                    if ended.early {
                        tokio::time::sleep(self.pace.spread(self.rng.fraction())).await;
                    }
                    continue;
                }
                Ok(_) => failed("the watch ended as soon as it began"),
                Err(error) => error,
            };
            self.recover(error).await;
        }
    }

    /// Decides how to resume after a failure, and waits.
    async fn recover(&mut self, error: ApiError) {
        if self.fall_back_to_pages(&error) {
            return;
        }
        let path = &self.watched.path;
        match error.kind {
            // The resource version is too old, or the server is behind it or was restored from a backup. The list must
            // be at least as new; if the server cannot serve that either, its current state counts. No other failure
            // invalidates the version: a failed connection or a timeout does not concern it.
            ApiErrorKind::Gone => {
                debug!(path, err = %error, "The resource version is no longer available; relisting");
                self.min_version = self.version.take();
            }
            // Undecodable twice in a row: the data at this version may be bad, not the transfer.
            ApiErrorKind::Garbage | ApiErrorKind::Invalid if self.pace.failures() > 0 => self.version = None,
            _ => {}
        }
        let wait = self.pace.failed(&error, self.rng.fraction(), self.client.clock().mono());
        if self.pace.failures() > 1 && !self.failing {
            warn!(path, err = %error, "Failed to watch; keeping the objects seen last and retrying");
            self.failing = true;
        }
        let asked = matches!(error.kind, ApiErrorKind::Busy { .. });
        if asked || wait <= MIN_PAUSE {
            tokio::time::sleep(wait).await;
            return;
        }
        tokio::time::sleep(MIN_PAUSE).await;
        tokio::select! {
            biased;
            // Another request has reconnected. The spread keeps the reflectors from resuming all at once.
            () = self.client.reconnected() => tokio::time::sleep(self.pace.spread(self.rng.fraction())).await,
            () = tokio::time::sleep(wait.saturating_sub(MIN_PAUSE)) => {}
        }
    }

    /// Whether to request the list in pages because WatchList failed. A server that fails at one may manage the other: with
    /// an old etcd, for example, every such watch ends with an error event of code 500.
    ///
    /// upstream: client-go reflector.go ListAndWatch falls back on every error that it does not retry (v1.36)
    fn fall_back_to_pages(&mut self, error: &ApiError) -> bool {
        let newest = self.min_version.as_ref().is_none_or(|min_version| min_version == "0");
        let next = match error.kind {
            // The server is overloaded or unreachable: pages would fail as well.
            ApiErrorKind::Busy { .. } | ApiErrorKind::Unavailable => return false,
            // The next list is requested without a minimum version first.
            ApiErrorKind::Gone if !newest => return false,
            ApiErrorKind::Invalid => Listing::Paged,
            _ => Listing::PagedOnce,
        };
        match self.listing {
            Listing::Streamed if self.version.is_none() => {
                debug!(path = self.watched.path, err = %error, "WatchList failed; falling back to a paged list");
                (self.listing, self.min_version) =
                    (next, self.min_version.take().filter(|_| error.kind != ApiErrorKind::Gone));
                true
            }
            Listing::PagedOnce => {
                self.listing = Listing::Streamed;
                false
            }
            Listing::Streamed | Listing::Paged => false,
        }
    }

    /// Bounds the memory of a set: a server that sends more than the bound is treated as faulty.
    fn check_size(&self, set: &Set<T>) -> Result<(), ApiError> {
        let most = self.watched.extent.most_bytes();
        if set.bytes() <= most {
            return Ok(());
        }
        let detail = format!("{} has more than {most} bytes of objects", self.watched.path);
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
                warn!(namespace = item.key.namespace, name = item.key.name, problem, "An object cannot be decoded");
            }
        }
        item
    }

    /// Replaces the set by a complete list.
    fn replace_all(&mut self, all: Set<T>) -> Changed {
        let changed = self.set.replace(all);
        // The first list is reported even if it is empty.
        let first = !std::mem::replace(&mut self.complete, true);
        if first { Changed::Yes } else { changed }
    }

    /// Records that the watch has reached `version`; it never goes back.
    fn advance_to(&mut self, version: String) {
        if version.is_empty() || self.version.as_deref().is_some_and(|known| set::older(&version, known)) {
            return;
        }
        self.min_version = Some(version.clone());
        self.version = Some(version);
        if self.failing {
            info!(path = self.watched.path, "Watching again");
            self.failing = false;
        }
    }

    fn notify(&mut self, sink: &mut impl Sink<T>) {
        if std::mem::take(&mut self.dirty) {
            sink.changed(&self.set);
        }
    }
}

fn failed(detail: &str) -> ApiError {
    ApiError { kind: ApiErrorKind::Failed, detail: detail.to_owned() }
}
