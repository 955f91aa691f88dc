//! Handles to the task that owns the connection.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rubelet_engine::task::TaskGroup;
use tokio::sync::{mpsc, oneshot};

use super::address::Endpoint;
use super::error::BusError;
use super::task::{Request, Task};
use super::value::Value;

/// Requests that wait for the task. Callers wait for a place, within their deadline.
const QUEUE: usize = 64;
/// A healthy service answers in milliseconds; systemd in the midst of a reload in some seconds.
const WITHIN: Duration = Duration::from_secs(25);

/// A cloneable handle to a D-Bus connection.
#[derive(Clone, Debug)]
pub struct Bus {
    requests: mpsc::Sender<Request>,
}

/// A method call.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) destination: String,
    pub(super) path: String,
    pub(super) interface: String,
    pub(super) member: String,
    pub(super) body: Vec<Value>,
    within: Duration,
}

impl Call {
    /// A call without arguments.
    pub fn new(destination: &str, path: &str, interface: &str, member: &str) -> Self {
        Self {
            destination: destination.to_owned(),
            path: path.to_owned(),
            interface: interface.to_owned(),
            member: member.to_owned(),
            body: Vec::new(),
            within: WITHIN,
        }
    }

    /// With these arguments.
    #[must_use]
    pub fn with(mut self, body: impl IntoIterator<Item = Value>) -> Self {
        self.body = body.into_iter().collect();
        self
    }

    /// With this deadline.
    #[must_use]
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }
}

/// The reply to a call.
#[derive(Debug)]
pub struct Reply {
    /// The values.
    pub body: Vec<Value>,
    /// The descriptors to which values of type `h` point.
    pub fds: Vec<OwnedFd>,
}

impl Reply {
    /// The descriptor that is the first value.
    pub fn into_fd(self) -> Option<OwnedFd> {
        let index = self.body.first().and_then(Value::as_fd).and_then(|index| usize::try_from(index).ok())?;
        self.fds.into_iter().nth(index)
    }
}

/// Which signals a subscriber wants.
#[derive(Clone, Debug)]
pub struct SignalRule {
    /// The name of the service that sends them, such as `org.freedesktop.systemd1`.
    pub sender: String,
    /// Whether the signals of other senders count.
    pub others: Others,
    /// The object.
    pub path: String,
    /// The interface.
    pub interface: String,
    /// The signal.
    pub member: String,
    /// An argument, by its position, that must be this string.
    pub arg: Option<(u8, String)>,
}

/// Whether signals of others than the service count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// They don't: any user of the machine may send one.
    Ignored,
    /// They do, because the bus delivers those of trusted users only.
    Trusted,
}

/// A signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Whether the service sent it, and not another sender.
    pub is_of_service: bool,
    /// Its values.
    pub body: Vec<Value>,
}

/// Signals of one subscription. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Signals {
    events: mpsc::Receiver<Signal>,
    requests: mpsc::Sender<Request>,
}

impl Signals {
    /// The next signal. `None` says that signals may have been missed from here on: the connection was lost, the sender
    /// was replaced, or the subscriber was too slow. Subscribe again and look. Cancel-safe.
    pub async fn next(&mut self) -> Option<Signal> {
        self.events.recv().await
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.events.close();
        // If the queue is full, the task notices at the next signal or subscription.
        drop(self.requests.try_send(Request::Prune));
    }
}

impl Bus {
    /// Starts the task of a connection to the first of `endpoints` that answers. It connects at the first call.
    pub fn start(endpoints: Vec<Endpoint>, tasks: &mut TaskGroup) -> Self {
        let (requests, inbox) = mpsc::channel(QUEUE);
        let cancel = tasks.cancel_token();
        tasks.start("dbus", async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = Task::new(endpoints, inbox).run() => {}
            }
        });
        Self { requests }
    }

    /// Calls a method and waits for its reply.
    pub async fn call(&self, call: Call) -> Result<Reply, BusError> {
        let (member, within) = (call.member.clone(), call.within);
        self.ask(&member, within, |answer| Request::Call { call, answer }).await
    }

    /// Subscribes to signals. Those sent from the return of this function on are received.
    pub async fn subscribe(&self, rule: SignalRule) -> Result<Signals, BusError> {
        let member = rule.member.clone();
        let events = self.ask(&member, WITHIN, |answer| Request::Subscribe { rule, answer }).await?;
        Ok(Signals { events, requests: self.requests.clone() })
    }

    async fn ask<T>(
        &self,
        member: &str,
        within: Duration,
        request: impl FnOnce(oneshot::Sender<Result<T, BusError>>) -> Request,
    ) -> Result<T, BusError> {
        let (answer, answered) = oneshot::channel();
        let lost = || BusError::Lost { member: member.to_owned() };
        let asked = async {
            self.requests.send(request(answer)).await.map_err(|_| lost())?;
            answered.await.map_err(|_| lost())?
        };
        match tokio::time::timeout(within, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(BusError::Timeout { member: member.to_owned(), within }),
        }
    }
}
