//! The task that owns the connection.

mod session;

use std::io;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use self::session::Session;
use super::address::Endpoint;
use super::error::BusError;
use super::handle::{Call, Reply, Signal, SignalRule};
use super::link::Link;

/// Deadline for connecting, authenticating and the first call. Callers wait for it in a row.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

type Answer<T> = oneshot::Sender<Result<T, BusError>>;

/// What handles ask for.
#[derive(Debug)]
pub(super) enum Request {
    Call {
        call: Call,
        answer: Answer<Reply>,
    },
    Subscribe {
        rule: SignalRule,
        answer: Answer<mpsc::Receiver<Signal>>,
    },
    /// A subscriber is gone.
    Prune,
}

/// Opens the connection when it is needed, and replaces it when it has died.
#[derive(Debug)]
pub(super) struct Task {
    endpoints: Vec<Endpoint>,
    requests: mpsc::Receiver<Request>,
    /// Dropping it fails its calls and ends its subscriptions.
    session: Option<Session>,
}

enum Event {
    Request(Request),
    Progress(io::Result<()>),
    /// Every handle is gone.
    End,
}

impl Task {
    pub(super) fn new(endpoints: Vec<Endpoint>, requests: mpsc::Receiver<Request>) -> Self {
        Self { endpoints, requests, session: None }
    }

    pub(super) async fn run(mut self) {
        loop {
            let event = match &mut self.session {
                None => self.requests.recv().await.map_or(Event::End, Event::Request),
                Some(session) => tokio::select! {
                    biased;
                    request = self.requests.recv() => request.map_or(Event::End, Event::Request),
                    // Cancel-safe, as `Link::progress` says.
                    done = session.link.progress() => Event::Progress(done),
                },
            };
            let done = match event {
                Event::End => return,
                Event::Request(request) => {
                    self.request(request).await;
                    Ok(())
                }
                Event::Progress(done) => done.and_then(|()| self.session.as_mut().map_or(Ok(()), Session::dispatch)),
            };
            if let Err(err) = done {
                tracing::debug!(%err, "The D-Bus connection is lost");
                self.session = None;
            }
        }
    }

    async fn request(&mut self, request: Request) {
        match request {
            // Its caller gave up while the request was in the queue.
            Request::Call { answer, .. } if answer.is_closed() => {}
            Request::Subscribe { answer, .. } if answer.is_closed() => {}
            Request::Call { call, answer } => match self.session().await {
                Ok(session) => session.call(call, answer),
                Err(err) => drop(answer.send(Err(err))),
            },
            Request::Subscribe { rule, answer } => match self.session().await {
                Ok(session) => session.subscribe(rule, answer),
                Err(err) => drop(answer.send(Err(err))),
            },
            Request::Prune => {
                if let Some(session) = &mut self.session {
                    session.prune();
                }
            }
        }
    }

    /// The session, opened if there is none.
    async fn session(&mut self) -> Result<&mut Session, BusError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.open().await?,
        };
        Ok(self.session.insert(session))
    }

    /// The first endpoint that answers. The error is that of the first endpoint, which is the one that people set up.
    async fn open(&self) -> Result<Session, BusError> {
        let mut first = None;
        for endpoint in &self.endpoints {
            let opened = async {
                let link = Link::open(endpoint).await?;
                Ok(Session::new(link, matches!(endpoint, Endpoint::Bus(_))))
            };
            let timed = tokio::time::timeout(CONNECT_WITHIN, opened).await;
            match timed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(session) => return Ok(session),
                Err(source) => {
                    first.get_or_insert(BusError::Connect { address: endpoint.to_string(), source });
                }
            }
        }
        let none =
            || BusError::Connect { address: "no Unix socket".to_owned(), source: io::ErrorKind::NotFound.into() };
        Err(first.unwrap_or_else(none))
    }
}
