//! The task that makes connections and does their work.
//!
//! One connection serves all requests, and watches up to a bound: the API server allows a hundred streams on one
//! (`--http2-max-streams-per-connection`), and a request must not wait for a watch to end. Where more is watched, more
//! connections are made. A connection is no longer used when it is over, when it proved bad, and when the credentials
//! changed; it then ends by itself with the last stream on it. One that does not answer pings gets nothing new, and another
//! one is made at once, but it is used again if it comes back. However many ask at once, one connection is made at a time.

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
use super::link::{Driver, Link, Purpose, Seat};
use super::names::Names;
use super::pulse::{Heartbeat, Pulse, Standing};
use crate::decode::explain;

/// How many may wait for a connection to be asked for; whoever is behind them waits in `send`.
const ASKING: usize = 64;
/// How many signals of connections may wait to be looked at.
const SIGNALS: usize = 16;

/// Asks for connections.
#[derive(Clone)]
pub(super) struct Connector {
    shared: Arc<Shared>,
    asks: mpsc::Sender<Want>,
    links: watch::Receiver<Vec<Arc<Link>>>,
}

pub(super) struct Shared {
    pub(super) endpoint: Endpoint,
    pub(super) credentials: Credentials,
    pub(super) names: Names,
    pub(super) beat: Heartbeat,
    pub(super) clock: Clock,
}

impl Shared {
    /// A connection on which nothing has been said yet.
    pub(super) async fn dial(&self) -> Result<Dialled, WireError> {
        dial(&self.endpoint, &self.credentials, &self.names, self.clock.now()).await
    }
}

/// Somebody wants a place on a connection.
struct Want {
    purpose: Purpose,
    reply: oneshot::Sender<Result<Seat, Arc<WireError>>>,
}

impl Connector {
    /// A handle, and the task that must run for it.
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

    /// A place on a connection.
    pub(super) async fn seat(&self, purpose: Purpose) -> Result<Seat, Arc<WireError>> {
        if let Some(seat) = seat(&self.links.borrow(), &self.shared.credentials, purpose) {
            return Ok(seat);
        }
        let stopped = || Arc::new(WireError::Stopped);
        let (reply, answer) = oneshot::channel();
        self.asks.send(Want { purpose, reply }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Waits until there is a connection that was not there before.
    pub(super) async fn reconnected(&self) {
        let mut links = self.links.clone();
        let known = newest(&links.borrow());
        // It fails only if the task is gone, and then nothing comes any more.
        if links.wait_for(|links| newest(links) > known).await.is_err() {
            std::future::pending().await
        }
    }
}

fn newest(links: &[Arc<Link>]) -> Option<u64> {
    links.iter().map(|link| link.id).max()
}

fn seat(links: &[Arc<Link>], credentials: &Credentials, purpose: Purpose) -> Option<Seat> {
    let version = credentials.version();
    links.iter().filter(|link| link.is_good(version)).find_map(|link| link.seat(purpose))
}

/// What was last logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    New,
    Connected,
    Lost,
}

struct Task {
    shared: Arc<Shared>,
    wants: mpsc::Receiver<Want>,
    /// For connections to tell what became of them; never closed, for this task has a sender itself.
    signal: mpsc::Sender<(u64, Standing)>,
    signals: mpsc::Receiver<(u64, Standing)>,
    publish: watch::Sender<Vec<Arc<Link>>>,
    waiting: Vec<Want>,
    dialling: JoinSet<Result<(Link, Option<Driver>), WireError>>,
    driving: JoinSet<u64>,
    made: u64,
    health: Health,
    cancel: CancellationToken,
}

enum Event {
    Stop,
    Want(Want),
    Dialled(Result<(Link, Option<Driver>), WireError>),
    Over(u64),
    Signal(u64, Standing),
}

impl Task {
    async fn run(mut self) {
        loop {
            let event = tokio::select! {
                biased;
                () = self.cancel.cancelled() => Event::Stop,
                Some(Ok(id)) = self.driving.join_next() => Event::Over(id),
                Some(Ok(result)) = self.dialling.join_next() => Event::Dialled(result),
                Some((id, standing)) = self.signals.recv() => Event::Signal(id, standing),
                want = self.wants.recv() => want.map_or(Event::Stop, Event::Want),
            };
            match event {
                Event::Stop => return,
                Event::Want(want) => self.want(want),
                Event::Dialled(Ok((link, driver))) => self.connected(link, driver),
                Event::Dialled(Err(error)) => self.failed(error),
                Event::Over(id) => self.over(id),
                Event::Signal(id, Standing::Suspect) => self.suspect(id),
                Event::Signal(id, Standing::Recovered) => self.recovered(id),
            }
        }
    }

    fn want(&mut self, want: Want) {
        self.waiting.push(want);
        self.serve();
    }

    /// Gives a place to everybody for whom there is one, and sees to it that the others get one.
    fn serve(&mut self) {
        let version = self.shared.credentials.version();
        let links = self.publish.borrow().clone();
        for want in std::mem::take(&mut self.waiting) {
            match seat(&links, &self.shared.credentials, want.purpose) {
                // Whoever asked may be gone.
                Some(seat) => drop(want.reply.send(Ok(seat))),
                None => self.waiting.push(want),
            }
        }
        if !self.waiting.is_empty() && self.dialling.is_empty() {
            // Those that are not used any more are let go: they end once nobody holds them.
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
            // Read before the certificate is: should it change meanwhile, the connection counts as old.
            let version = shared.credentials.version();
            let now = shared.clock.mono();
            // Without TLS there is nothing to learn: it is HTTP/1, on a connection for each exchange.
            let dialled = if shared.endpoint.tls { Some(shared.dial().await?) } else { None };
            Link::make(id, dialled, shared, version, now, signal).await
        };
        self.dialling.spawn(timed("api-dial", dial));
    }

    fn connected(&mut self, link: Link, driver: Option<Driver>) {
        let link = Arc::new(link);
        if let Some(driver) = driver {
            // Not the link itself: a connection ends when nobody holds it.
            let id = link.id;
            let drive = async move {
                driver.await;
                id
            };
            self.driving.spawn(timed("api-connection", drive));
        }
        if self.health == Health::Connected {
            debug!(server = link.server(), "Connected to the API server anew");
        } else {
            info!(server = link.server(), "Connected to the API server");
        }
        self.health = Health::Connected;
        for suspect in self.publish.borrow().iter().filter_map(|link| link.pulse()) {
            suspect.replace();
        }
        self.publish.send_modify(|links| links.push(link));
        self.serve();
    }

    /// A connection does not answer: what is new goes elsewhere, and what is on it stays until it is clear that it is dead.
    fn suspect(&mut self, id: u64) {
        let links = self.publish.borrow().clone();
        let Some(link) = links.iter().find(|link| link.id == id) else { return };
        info!(server = link.server(), "A connection to the API server does not answer; using another one");
        let version = self.shared.credentials.version();
        if links.iter().any(|link| link.is_good(version)) {
            // There is another one that answers.
            link.pulse().into_iter().for_each(Pulse::replace);
        } else if self.dialling.is_empty() {
            self.dial();
        }
    }

    /// It answers again. Those that were made in its place and carry no watch are let go.
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
            info!(server = link.server(), why, "The connection to the API server is over");
            self.publish.send_modify(|links| links.retain(|link| link.id != id));
        }
    }
}
