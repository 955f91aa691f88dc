//! Pulls images: one after another or several at once, within the configured rate (IMG-05).
//!
//! One task owns the queue and the rate; a job sends it a request and waits. A job that is dropped leaves the queue.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::keyring::{Login, LoginOrigin};
use rubelet_core::launch::{ImageSpec, SandboxConfig};
use rubelet_core::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::clock::Clock;
use crate::ports::{Images, RpcError};
use crate::task::timed;
use crate::trace::{self, SpanContext};

/// How many requests may wait for the task itself to take them; it takes them at once.
const INBOX: usize = 64;

/// How many pulls run at once, and how often one may begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PullLimits {
    /// `maxParallelImagePulls`, or 1 where pulls are serialised; `None` is no limit.
    pub parallel: Option<usize>,
    /// `registryPullQPS`; zero is no limit.
    pub per_second: f64,
    /// `registryBurst`.
    pub burst: f64,
}

/// An image that was pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The runtime's reference.
    pub image_ref: String,
    /// Where the login comes from that the registry accepted; `None` for an anonymous pull.
    pub login: Option<LoginOrigin>,
    /// How long the pull itself took.
    pub took: Duration,
    /// How long it took with waiting.
    pub with_waiting: Duration,
}

/// An image could not be pulled.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PullError {
    /// Too many pulls in too short a time.
    #[error("pull QPS exceeded")]
    RateExceeded,
    /// The runtime could not pull it.
    #[error(transparent)]
    Runtime(#[from] RpcError),
    /// The puller has ended: the agent is stopping.
    #[error("shutting down")]
    Gone,
}

/// The handle of the puller.
#[derive(Clone, Debug)]
pub struct PullerHandle {
    ask: mpsc::Sender<Message>,
}

/// A pull that runs or waits, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullView {
    /// The image.
    pub image: String,
    /// UID of the pod that needs it.
    pub pod: String,
    /// When it was asked for.
    pub asked: Instant,
    /// When the runtime was asked to pull it; `None` while it waits for others.
    pub began: Option<Instant>,
}

#[derive(Debug)]
enum Message {
    Pull(Box<Request>),
    Queue(oneshot::Sender<Vec<PullView>>),
}

#[derive(Debug)]
struct Request {
    image: ImageSpec,
    logins: Vec<Login>,
    sandbox: SandboxConfig,
    asked: Instant,
    /// The span of the job that asks.
    span: Option<SpanContext>,
    reply: oneshot::Sender<Result<Pulled, PullError>>,
}

impl PullerHandle {
    /// Pulls `image` and waits for it, with one of `logins` after another until one is good; with none, anonymously.
    /// Dropping the future gives up.
    pub async fn pull(
        &self,
        image: ImageSpec,
        logins: Vec<Login>,
        sandbox: SandboxConfig,
        asked: Instant,
    ) -> Result<Pulled, PullError> {
        let (reply, answer) = oneshot::channel();
        let request = Request { image, logins, sandbox, asked, span: trace::current(), reply };
        self.ask.send(Message::Pull(Box::new(request))).await.map_err(|_| PullError::Gone)?;
        answer.await.map_err(|_| PullError::Gone)?
    }

    /// The pulls that run, then those that wait, in their order.
    pub async fn queue(&self) -> Vec<PullView> {
        let (reply, answer) = oneshot::channel();
        let sent = self.ask.send(Message::Queue(reply)).await;
        if sent.is_err() { Vec::new() } else { answer.await.unwrap_or_default() }
    }
}

/// The task. It owns the queue and the rate.
#[doc(alias = "imageManager")]
pub struct Puller {
    images: Arc<dyn Images>,
    clock: Clock,
    limits: PullLimits,
    inbox: mpsc::Receiver<Message>,
    queue: VecDeque<Request>,
    pulls: JoinSet<()>,
    /// The pulls that run.
    running: BTreeMap<Id, PullView>,
    tokens: f64,
    refilled: Instant,
}

enum Event {
    Shutdown,
    Asked(Message),
    PullEnded(Id),
}

impl Puller {
    /// A puller and its handle.
    pub fn new(images: Arc<dyn Images>, clock: Clock, limits: PullLimits) -> (Self, PullerHandle) {
        let (ask, inbox) = mpsc::channel(INBOX);
        let refilled = clock.mono();
        let puller = Self {
            images,
            clock,
            limits,
            inbox,
            queue: VecDeque::new(),
            pulls: JoinSet::new(),
            running: BTreeMap::new(),
            tokens: limits.burst,
            refilled,
        };
        (puller, PullerHandle { ask })
    }

    /// Runs until cancelled or nobody can ask any more.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => Event::Shutdown,
                Some(ended) = self.pulls.join_next_with_id() => {
                    Event::PullEnded(ended.map_or_else(|lost| lost.id(), |(id, ())| id))
                }
                message = self.inbox.recv() => message.map_or(Event::Shutdown, Event::Asked),
            };
            match event {
                Event::Shutdown => return,
                Event::Asked(Message::Pull(request)) => self.queue.push_back(*request),
                // The asker may be gone.
                Event::Asked(Message::Queue(reply)) => drop(reply.send(self.views())),
                Event::PullEnded(id) => drop(self.running.remove(&id)),
            }
            self.start_what_may_start();
        }
    }

    fn start_what_may_start(&mut self) {
        while self.limits.parallel.is_none_or(|most| self.pulls.len() < most) {
            let Some(request) = self.queue.pop_front() else { return };
            if request.reply.is_closed() {
                continue;
            }
            if !self.take_token() {
                // The request is refused at once, and its job waits for the back-off; later requests do not wait behind it.
                let _gone = request.reply.send(Err(PullError::RateExceeded));
                continue;
            }
            let view = view(&request, Some(self.clock.mono()));
            let span = request.span;
            let work = pull(Arc::clone(&self.images), self.clock.clone(), request);
            let pulling = match span {
                Some(_) => self.pulls.spawn(timed("image-pull", trace::within(span, Box::pin(work)))),
                None => self.pulls.spawn(timed("image-pull", work)),
            };
            self.running.insert(pulling.id(), view);
        }
    }

    fn views(&self) -> Vec<PullView> {
        let mut running: Vec<PullView> = self.running.values().cloned().collect();
        running.sort_by_key(|view| view.began);
        let waiting = self.queue.iter().filter(|request| !request.reply.is_closed());
        running.into_iter().chain(waiting.map(|request| view(request, None))).collect()
    }

    fn take_token(&mut self) -> bool {
        if self.limits.per_second <= 0.0 {
            return true;
        }
        let now = self.clock.mono();
        let gained = now.since(self.refilled).as_secs_f64() * self.limits.per_second;
        self.refilled = now;
        self.tokens = (self.tokens + gained).min(self.limits.burst);
        let there = self.tokens >= 1.0;
        if there {
            self.tokens -= 1.0;
        }
        there
    }
}

fn view(request: &Request, began: Option<Instant>) -> PullView {
    PullView { image: request.image.image.clone(), pod: request.sandbox.uid.clone(), asked: request.asked, began }
}

async fn pull(images: Arc<dyn Images>, clock: Clock, mut request: Request) {
    let began = clock.mono();
    let result = tokio::select! {
        biased;
        () = request.reply.closed() => return,
        // Dropping the call cancels the pull in the runtime; layers that it has are used by the next pull.
        result = try_all(images.as_ref(), &request.image, &request.logins, &request.sandbox) => result,
    };
    let ended = clock.mono();
    let pulled = result.map_err(PullError::from).map(|(image_ref, login)| Pulled {
        image_ref,
        login,
        took: ended.since(began),
        with_waiting: ended.since(request.asked),
    });
    let _gone = request.reply.send(pulled);
}

async fn try_all(
    images: &dyn Images,
    image: &ImageSpec,
    logins: &[Login],
    sandbox: &SandboxConfig,
) -> Result<(String, Option<LoginOrigin>), RpcError> {
    if logins.is_empty() {
        let image_ref = images.pull_image(image, None, Some(sandbox)).await?;
        debug!(image = image.image, "Pulled the image without a login");
        return Ok((image_ref, None));
    }
    let mut failures = Vec::new();
    for login in logins {
        match images.pull_image(image, Some(login), Some(sandbox)).await {
            Ok(image_ref) => {
                debug!(image = image.image, login = %login.origin, "Pulled the image with this login");
                return Ok((image_ref, Some(login.origin.clone())));
            }
            Err(err) => {
                debug!(image = image.image, login = %login.origin, %err, "Could not pull the image with this login");
                failures.push(err);
            }
        }
    }
    Err(all_of(failures))
}

/// One failure that says what all of them say, each thing once: `[a, b]`, as upstream writes several.
#[doc(alias = "NewAggregate")]
fn all_of(mut failures: Vec<RpcError>) -> RpcError {
    let mut details: Vec<String> = Vec::new();
    for failure in &failures {
        if !details.contains(&failure.detail) {
            details.push(failure.detail.clone());
        }
    }
    let mut last = failures.pop().expect("there was one login, so there is one failure");
    if details.len() > 1 {
        last.detail = format!("[{}]", details.join(", "));
    }
    last
}
