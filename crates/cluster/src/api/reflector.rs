//! All objects of a kind, held up to date by list and watch.
//!
//! The list comes as a watch that begins with all there is, so that no more than one object is in memory twice; a server
//! that cannot do that is asked for a list in pages, and then for a watch. Whatever goes wrong, the set stays as it was
//! and is brought up to date when the server is back: at the version where it was, or anew if that is too old.
//!
//! upstream: client-go tools/cache/reflector.go (v1.36).

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_engine::ports::{ApiError, ApiErrorKind, Rng};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::client::Client;
use super::lines::Lines;
use super::link::Body;
use super::pace::Pace;
use super::query;

mod event;
mod set;

use event::{Event, Item, Page};
use set::Changed;
pub use set::{Key, Set};

/// A watch that the server does not end in time is ended here.
const OVERTIME: Duration = Duration::from_secs(30);
/// Objects in one page of a list …
const PAGE: u32 = 500;
/// … which is divided by this where the page turns out to be larger than [`MAX_PAGE`].
const SMALLER: u32 = 8;
/// Largest page, in bytes.
const MAX_PAGE: usize = 16 << 20;
/// Most pages of a list: a server that always has another one is not believed.
const MOST_PAGES: u32 = 10_000;
/// A watch that the server ends earlier than it was asked to, by more than this, ends for others in the same moment.
const EARLY: Duration = Duration::from_secs(5);
/// Largest event. The API server takes no object above 3 MiB.
const MAX_EVENT: usize = 10 << 20;
/// What worked for so long was no failure.
const HEALTHY: Duration = Duration::from_secs(10);
/// Shortest pause between two attempts once it is known that something is wrong.
const LEAST: Duration = Duration::from_secs(1);

/// What is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// The path of the list: `/api/v1/services`, `/api/v1/namespaces/NAME/secrets`.
    pub path: String,
    /// `spec.nodeName=NAME`, `metadata.name=NAME`.
    pub field_selector: Option<String>,
    /// By labels.
    pub label_selector: Option<String>,
    /// How much that is.
    pub extent: Extent,
}

/// How much a watch shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All objects of a kind, or a part of them: a node has a handful of such watches.
    #[default]
    Many,
    /// One object: a node has hundreds of such watches.
    One,
}

impl Extent {
    /// The server ends a watch after this time or up to twice of it, at random, so that watches spread over servers.
    ///
    /// upstream: client-go reflector.go minWatchTimeout; kubelet watch_based_manager.go newReflector for one (v1.36)
    const fn shortest(self) -> Duration {
        match self {
            Self::Many => Duration::from_secs(5 * 60),
            Self::One => Duration::from_secs(30 * 60),
        }
    }

    /// How far apart watches begin again that ended in the same moment.
    const fn spread(self) -> Duration {
        match self {
            Self::Many => Duration::from_millis(700),
            Self::One => Duration::from_secs(3),
        }
    }

    /// Most that is held, in bytes of the objects' texts.
    const fn most_bytes(self) -> usize {
        match self {
            Self::Many => 256 << 20,
            Self::One => 16 << 20,
        }
    }
}

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
    rng: Arc<dyn Rng>,
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

/// The end of a watch that nobody is to blame for.
struct Ended {
    /// How long it was.
    after: Duration,
    /// It was shorter than it was asked to be.
    early: bool,
}

impl<T> Reflector<T>
where
    T: DeserializeOwned + Metadata<Ty = ObjectMeta> + Send + Sync + 'static,
{
    /// Watches `watched` once [`run`](Self::run).
    pub fn new(client: Client, watched: Watched, rng: Arc<dyn Rng>) -> Self {
        let pace = Pace::new(watched.extent.spread());
        Self {
            client,
            watched,
            rng,
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
        let wait = self.pace.failed(&error, self.rng.fraction(), self.client.clock().mono());
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
            () = self.client.reconnected() => tokio::time::sleep(self.pace.spread(self.rng.fraction())).await,
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

    /// From the list, if one is needed, to the end of the watch.
    async fn session(&mut self, sink: &mut impl Sink<T>) -> Result<Ended, ApiError> {
        if self.version.is_none() && self.listing != Listing::Streamed {
            self.list().await?;
            self.tell(sink);
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

    /// A server that shows more than a node can hold is not believed: what was seen before stays.
    fn check_size(&self, set: &Set<T>) -> Result<(), ApiError> {
        let most = self.watched.extent.most_bytes();
        if set.bytes() <= most {
            return Ok(());
        }
        let detail = format!("{} shows more than {most} bytes of objects", self.watched.path);
        Err(ApiError { kind: ApiErrorKind::Garbage, detail })
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

    /// Reads everything, page by page.
    async fn list(&mut self) -> Result<(), ApiError> {
        let mut all = Set::default();
        let mut next: Option<String> = None;
        let mut limit = PAGE;
        for _ in 0..MOST_PAGES {
            let path = self.page_path(limit, next.as_deref());
            let Some(body) = self.client.page(&path, MAX_PAGE).await? else {
                if limit == 1 {
                    let detail = format!("{} has an object of more than {MAX_PAGE} bytes", self.watched.path);
                    return Err(ApiError { kind: ApiErrorKind::Garbage, detail });
                }
                limit = (limit / SMALLER).max(1);
                continue;
            };
            let page: Page<'_> = serde_json::from_slice(&body).map_err(|error| ApiError {
                kind: ApiErrorKind::Garbage,
                detail: format!("the list cannot be read: {error}"),
            })?;
            for text in page.items.unwrap_or_default() {
                all.put(self.prepared_item(event::item(text.get())?));
            }
            self.check_size(&all)?;
            match page.metadata.next.filter(|next| !next.is_empty()) {
                Some(more) => next = Some(more),
                None => {
                    self.dirty |= self.all(all) == Changed::Yes;
                    self.version = None;
                    self.went_on(page.metadata.resource_version);
                    return Ok(());
                }
            }
        }
        let detail = format!("the list of {} does not end: {MOST_PAGES} pages were read", self.watched.path);
        Err(ApiError { kind: ApiErrorKind::Garbage, detail })
    }

    fn page_path(&self, limit: u32, next: Option<&str>) -> String {
        let floor = self.floor.as_deref().filter(|_| next.is_none());
        query::with(
            &self.watched.path,
            &[
                ("limit", Some(&limit.to_string())),
                ("resourceVersion", floor),
                ("resourceVersionMatch", floor.map(|_| "NotOlderThan")),
                ("continue", next),
                ("fieldSelector", self.watched.field_selector.as_deref()),
                ("labelSelector", self.watched.label_selector.as_deref()),
            ],
        )
    }
}

fn failed(detail: &str) -> ApiError {
    ApiError { kind: ApiErrorKind::Failed, detail: detail.to_owned() }
}

fn too_long(error: &super::lines::TooLong) -> ApiError {
    ApiError { kind: ApiErrorKind::Garbage, detail: error.to_string() }
}
