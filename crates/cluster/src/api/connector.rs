//! The task that makes connections and drives them.
//!
//! One connection carries all requests, and watches up to a bound: the API server allows a hundred streams per connection
//! (`--http2-max-streams-per-connection`), and a request must not wait for a watch to end. More watches get more
//! connections. A connection is retired when it is closed, when a request on it failed, and when the credentials changed; it
//! closes with its last stream. A connection that does not answer pings gets no new streams and a second one is made at
//! once, but the first is used again if it recovers. Only one connection is being made at a time.

use std::sync::Arc;

use rubelet_engine::clock::Clock;
use rubelet_engine::task::timed;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::credentials::Credentials;
use super::dial::{Dialled, dial};
use super::endpoint::Endpoint;
use super::error::WireError;
use super::heartbeat::{Heartbeat, Liveness, LivenessChange};
use super::link::{Driver, Link, Purpose, Slot};
use super::resolver::Resolver;
use crate::decode::explain;

/// Capacity of the queue of requests for a connection. When it is full, callers wait in `send`.
const ASKING: usize = 64;
/// Capacity of the queue of liveness changes.
const SIGNALS: usize = 16;

/// Handle for getting slots on connections.
#[derive(Clone)]
pub(super) struct Connector {
    shared: Arc<Shared>,
    asks: mpsc::Sender<SlotRequest>,
    links: watch::Receiver<Vec<Arc<Link>>>,
}

pub(super) struct Shared {
    pub(super) endpoint: Endpoint,
    pub(super) credentials: Credentials,
    pub(super) resolver: Resolver,
    pub(super) beat: Heartbeat,
    pub(super) clock: Clock,
}

impl Shared {
    /// A new connection on which no HTTP has been spoken.
    pub(super) async fn dial(&self) -> Result<Dialled, WireError> {
        dial(&self.endpoint, &self.credentials, &self.resolver, self.clock.now()).await
    }
}

/// A caller that waits for a slot.
struct SlotRequest {
    purpose: Purpose,
    reply: oneshot::Sender<Result<Slot, Arc<WireError>>>,
}

impl Connector {
    /// A handle, and the task that serves it.
    pub(super) fn new(shared: Shared, cancel: CancellationToken) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::new(shared);
        let (asks, wants) = mpsc::channel(ASKING);
        let (publish, links) = watch::channel(Vec::new());
        let (signal, signals) = mpsc::channel(SIGNALS);
        let task = Task {
            shared: Arc::clone(&shared),
            wants,
            signal,
            signals,
            publish,
            waiting: Vec::new(),
            dialling: JoinSet::new(),
            driving: JoinSet::new(),
            made: 0,
            health: Health::New,
            cancel,
        };
        (Self { shared, asks, links }, task.run())
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A slot on a connection, which is made if none has room.
    pub(super) async fn slot(&self, purpose: Purpose) -> Result<Slot, Arc<WireError>> {
        if let Some(slot) = slot(&self.links.borrow(), &self.shared.credentials, purpose) {
            return Ok(slot);
        }
        let stopped = || Arc::new(WireError::Stopped);
        let (reply, answer) = oneshot::channel();
        self.asks.send(SlotRequest { purpose, reply }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Waits until a new connection has been made.
    pub(super) async fn reconnected(&self) {
        let mut links = self.links.clone();
        let known = newest(&links.borrow());
        // An error means that the task has ended, and no connection will follow.
        if links.wait_for(|links| newest(links) > known).await.is_err() {
            std::future::pending().await
        }
    }
}

fn newest(links: &[Arc<Link>]) -> Option<u64> {
    links.iter().map(|link| link.id).max()
}

fn slot(links: &[Arc<Link>], credentials: &Credentials, purpose: Purpose) -> Option<Slot> {
    let version = credentials.version();
    links.iter().filter(|link| link.is_good(version)).find_map(|link| link.slot(purpose))
}

/// The connection state that was logged last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    New,
    Connected,
    Lost,
}

struct Task {
    shared: Arc<Shared>,
    wants: mpsc::Receiver<SlotRequest>,
    /// Where connections report their liveness. Never closed: this task holds a sender.
    signal: mpsc::Sender<(u64, LivenessChange)>,
    signals: mpsc::Receiver<(u64, LivenessChange)>,
    publish: watch::Sender<Vec<Arc<Link>>>,
    waiting: Vec<SlotRequest>,
    dialling: JoinSet<Result<(Link, Option<Driver>), WireError>>,
    driving: JoinSet<u64>,
    made: u64,
    health: Health,
    cancel: CancellationToken,
}

enum Event {
    Stop,
    SlotRequest(SlotRequest),
    Dialled(Result<(Link, Option<Driver>), WireError>),
    Over(u64),
    Signal(u64, LivenessChange),
}

impl Task {
    async fn run(mut self) {
        loop {
            let event = tokio::select! {
                biased;
                () = self.cancel.cancelled() => Event::Stop,
                Some(Ok(id)) = self.driving.join_next() => Event::Over(id),
                Some(Ok(result)) = self.dialling.join_next() => Event::Dialled(result),
                Some((id, change)) = self.signals.recv() => Event::Signal(id, change),
                want = self.wants.recv() => want.map_or(Event::Stop, Event::SlotRequest),
            };
            match event {
                Event::Stop => return,
                Event::SlotRequest(want) => self.want(want),
                Event::Dialled(Ok((link, driver))) => self.connected(link, driver),
                Event::Dialled(Err(error)) => self.failed(error),
                Event::Over(id) => self.over(id),
                Event::Signal(id, LivenessChange::Suspect) => self.suspect(id),
                Event::Signal(id, LivenessChange::Recovered) => self.recovered(id),
            }
        }
    }

    fn want(&mut self, want: SlotRequest) {
        self.waiting.push(want);
        self.serve();
    }

    /// Answers every caller for whom there is a slot, and starts a connection for the others.
    fn serve(&mut self) {
        let version = self.shared.credentials.version();
        let links = self.publish.borrow().clone();
        for want in std::mem::take(&mut self.waiting) {
            match slot(&links, &self.shared.credentials, want.purpose) {
                // The caller may have stopped waiting.
                Some(slot) => drop(want.reply.send(Ok(slot))),
                None => self.waiting.push(want),
            }
        }
        if !self.waiting.is_empty() && self.dialling.is_empty() {
            // Unused connections are dropped from the list; they close when the last slot is dropped.
            self.publish.send_if_modified(|links| {
                let before = links.len();
                links.retain(|link| link.is_kept(version));
                links.len() != before
            });
            self.dial();
        }
    }

    fn dial(&mut self) {
        self.made = self.made.saturating_add(1);
        let (id, shared, signal) = (self.made, Arc::clone(&self.shared), self.signal.clone());
        let dial = async move {
            // Read before the certificate: if the certificate changes meanwhile, the connection counts as old.
            let version = shared.credentials.version();
            let now = shared.clock.mono();
            // Without TLS there is no ALPN: HTTP/1 is spoken, over one connection per exchange.
            let dialled = if shared.endpoint.tls { Some(shared.dial().await?) } else { None };
            Link::make(id, dialled, shared, version, now, signal).await
        };
        self.dialling.spawn(timed("api-dial", dial));
    }

    fn connected(&mut self, link: Link, driver: Option<Driver>) {
        let link = Arc::new(link);
        if let Some(driver) = driver {
            // Only the id: holding the link would keep the connection open.
            let id = link.id;
            let drive = async move {
                driver.await;
                id
            };
            self.driving.spawn(timed("api-connection", drive));
        }
        if self.health == Health::Connected {
            debug!(server = link.server(), "Reconnected to the API server");
        } else {
            info!(server = link.server(), "Connected to the API server");
        }
        self.health = Health::Connected;
        for suspect in self.publish.borrow().iter().filter_map(|link| link.liveness()) {
            suspect.replace();
        }
        self.publish.send_modify(|links| links.push(link));
        self.serve();
    }

    /// A connection does not answer pings: new streams go elsewhere, and its streams stay until it is given up.
    fn suspect(&mut self, id: u64) {
        let links = self.publish.borrow().clone();
        let Some(link) = links.iter().find(|link| link.id == id) else { return };
        info!(server = link.server(), "A connection to the API server does not answer pings; using another one");
        let version = self.shared.credentials.version();
        if links.iter().any(|link| link.is_good(version)) {
            // Another connection answers already.
            link.liveness().into_iter().for_each(Liveness::replace);
        } else if self.dialling.is_empty() {
            self.dial();
        }
    }

    /// The connection answers again. Replacements that carry no watch are retired.
    fn recovered(&mut self, id: u64) {
        debug!(server = self.shared.endpoint.url(), "The connection to the API server answers again");
        self.publish.send_if_modified(|links| {
            let before = links.len();
            links.retain(|link| link.id <= id || link.has_watches());
            links.len() != before
        });
    }

    fn failed(&mut self, error: WireError) {
        if self.health != Health::Lost {
            warn!(err = explain(&error), "Cannot connect to the API server");
            self.health = Health::Lost;
        }
        let error = Arc::new(error);
        for want in std::mem::take(&mut self.waiting) {
            let _ = want.reply.send(Err(Arc::clone(&error)));
        }
    }

    fn over(&mut self, id: u64) {
        let found = self.publish.borrow().iter().find(|link| link.id == id).cloned();
        if let Some(link) = found {
            let why = link.over().map(ToString::to_string).unwrap_or_default();
            info!(server = link.server(), why, "The connection to the API server was closed");
            self.publish.send_modify(|links| links.retain(|link| link.id != id));
        }
    }
}
