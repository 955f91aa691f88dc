//! The task that makes connections and does their work.
//!
//! One connection is current; new requests go over it. It is replaced when it is over, when it proved bad, and when the
//! credentials changed; the old one then ends by itself with the last stream on it. However many ask at once, one
//! connection is made.

use std::sync::Arc;

use rubelet_engine::clock::Clock;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::credentials::Credentials;
use super::dial::{Dialled, dial};
use super::endpoint::Endpoint;
use super::error::WireError;
use super::link::{Driver, Link};
use super::pulse::Heartbeat;
use crate::decode::explain;

/// How many may wait for a connection to be asked for; whoever is behind them waits in `send`.
const ASKING: usize = 64;

/// Asks for connections.
#[derive(Clone)]
pub(super) struct Connector {
    shared: Arc<Shared>,
    asks: mpsc::Sender<Want>,
    current: watch::Receiver<Option<Arc<Link>>>,
}

pub(super) struct Shared {
    pub(super) endpoint: Endpoint,
    pub(super) credentials: Credentials,
    pub(super) beat: Heartbeat,
    pub(super) clock: Clock,
}

impl Shared {
    /// A connection on which nothing has been said yet.
    pub(super) async fn dial(&self) -> Result<Dialled, WireError> {
        dial(&self.endpoint, &self.credentials, self.clock.now()).await
    }
}

/// Somebody wants a connection other than this one.
struct Want {
    not: Option<u64>,
    reply: oneshot::Sender<Result<Arc<Link>, Arc<WireError>>>,
}

impl Connector {
    /// A handle, and the task that must run for it.
    pub(super) fn new(shared: Shared, cancel: CancellationToken) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::new(shared);
        let (asks, wants) = mpsc::channel(ASKING);
        let (publish, current) = watch::channel(None);
        let task = Task {
            shared: Arc::clone(&shared),
            wants,
            publish,
            waiting: Vec::new(),
            dialling: JoinSet::new(),
            driving: JoinSet::new(),
            made: 0,
            health: Health::New,
            cancel,
        };
        (Self { shared, asks, current }, task.run())
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The connection for a new request; not the one with the id `not`, which proved bad.
    pub(super) async fn link(&self, not: Option<u64>) -> Result<Arc<Link>, Arc<WireError>> {
        if let Some(link) = &*self.current.borrow()
            && good(link, &self.shared.credentials, not)
        {
            return Ok(Arc::clone(link));
        }
        let stopped = || Arc::new(WireError::Stopped);
        let (reply, answer) = oneshot::channel();
        self.asks.send(Want { not, reply }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Waits until there is a connection that was not there before.
    pub(super) async fn reconnected(&self) {
        let mut current = self.current.clone();
        current.mark_unchanged();
        loop {
            if current.changed().await.is_err() {
                return std::future::pending().await;
            }
            if current.borrow().is_some() {
                return;
            }
        }
    }
}

fn good(link: &Link, credentials: &Credentials, not: Option<u64>) -> bool {
    !link.is_over() && link.version == credentials.version() && not.is_none_or(|not| link.id > not)
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
    publish: watch::Sender<Option<Arc<Link>>>,
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
}

impl Task {
    async fn run(mut self) {
        loop {
            let event = tokio::select! {
                biased;
                () = self.cancel.cancelled() => Event::Stop,
                Some(Ok(id)) = self.driving.join_next() => Event::Over(id),
                Some(Ok(result)) = self.dialling.join_next() => Event::Dialled(result),
                want = self.wants.recv() => want.map_or(Event::Stop, Event::Want),
            };
            match event {
                Event::Stop => return,
                Event::Want(want) => self.want(want),
                Event::Dialled(Ok((link, driver))) => self.connected(link, driver),
                Event::Dialled(Err(error)) => self.failed(error),
                Event::Over(id) => self.over(id),
            }
        }
    }

    fn want(&mut self, want: Want) {
        let current = self.publish.borrow().clone();
        if let Some(link) = current.filter(|link| good(link, &self.shared.credentials, want.not)) {
            // Whoever asked may be gone.
            let _ = want.reply.send(Ok(link));
            return;
        }
        self.waiting.push(want);
        if self.dialling.is_empty() {
            self.dial();
        }
    }

    fn dial(&mut self) {
        // The old connection ends by itself once nobody uses it.
        self.publish.send_replace(None);
        self.made = self.made.saturating_add(1);
        let (id, shared) = (self.made, Arc::clone(&self.shared));
        self.dialling.spawn(async move {
            // Read before the certificate is: should it change meanwhile, the connection counts as old.
            let version = shared.credentials.version();
            let now = shared.clock.mono();
            // Without TLS there is nothing to learn: it is HTTP/1, on a connection for each exchange.
            let dialled = if shared.endpoint.tls { Some(shared.dial().await?) } else { None };
            Link::make(id, dialled, shared, version, now).await
        });
    }

    fn connected(&mut self, link: Link, driver: Option<Driver>) {
        let link = Arc::new(link);
        if let Some(driver) = driver {
            // Not the link itself: a connection ends when nobody holds it.
            let id = link.id;
            self.driving.spawn(async move {
                driver.await;
                id
            });
        }
        if self.health == Health::Connected {
            debug!(server = link.server(), "Connected to the API server anew");
        } else {
            info!(server = link.server(), "Connected to the API server");
        }
        self.health = Health::Connected;
        self.publish.send_replace(Some(Arc::clone(&link)));
        for want in std::mem::take(&mut self.waiting) {
            let _ = want.reply.send(Ok(Arc::clone(&link)));
        }
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
        let current = self.publish.borrow().clone();
        if let Some(link) = current.filter(|link| link.id == id) {
            let why = link.over().map(ToString::to_string).unwrap_or_default();
            info!(server = link.server(), why, "The connection to the API server is over");
            self.publish.send_replace(None);
        }
    }
}
