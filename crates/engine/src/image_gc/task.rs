//! The task: leases, and when a pass runs.

use std::sync::{Arc, Weak};
use std::time::Duration;

use rubelet_core::image_gc::{ImageGcPolicy, ImageRecords, UnusedImage};
use rubelet_core::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::pass::{Goal, Pass, World};
use super::{INBOX, ImageGcError, ImageGcHandle, ImageLease, Request};
use crate::chain::Chain;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::node::Ports;
use crate::ports::{EventKind, NodeEvent};
use crate::task::timed;
use crate::trace::Tracer;

/// How often images are collected. upstream: kubelet.go ImageGCPeriod (v1.36)
const PERIOD: Duration = Duration::from_secs(300);
/// How long after the first look at the images the first collection is: by then the pods of the node that were not running,
/// after a reboot say, have begun to use theirs.
const FIRST: Duration = Duration::from_secs(30);

/// The task. It owns the leases and, between passes, the records of images.
#[doc(alias = "ImageGCManager")]
pub struct ImageGc {
    world: World,
    inbox: mpsc::Receiver<Request>,
    ask: mpsc::Sender<Request>,
    records: ImageRecords,
    leases: Vec<Lease>,
    /// When the first pass began.
    began: Instant,
    due: Instant,
    /// The first look at the images was made.
    looked: bool,
    /// The pass in progress.
    pass: JoinSet<(ImageRecords, Result<u64, ImageGcError>)>,
    goal: Goal,
    /// The image that the pass removes at this moment.
    removing: Option<UnusedImage>,
    /// Leases on that image.
    waiting: Vec<(String, oneshot::Sender<ImageLease>)>,
    /// Who waits for all unused images to be removed: by the pass in progress, and by the next.
    asked: Vec<oneshot::Sender<Result<u64, ImageGcError>>>,
    asked_next: Vec<oneshot::Sender<Result<u64, ImageGcError>>>,
    /// The last collection failed.
    failed: bool,
}

/// Counts while its guard exists, and until the pass in progress has ended.
struct Lease {
    image: String,
    held: Weak<()>,
}

enum Event {
    Shutdown,
    Request(Request),
    PassEnded(Box<Option<(ImageRecords, Result<u64, ImageGcError>)>>),
    Due,
}

impl ImageGc {
    /// A collector and its handle.
    pub(crate) fn of(
        ports: &Ports,
        policy: ImageGcPolicy,
        metrics: Arc<Metrics>,
        (clock, tracer): (Clock, Tracer),
    ) -> (Self, ImageGcHandle) {
        let world = World {
            runtime: Arc::clone(&ports.runtime),
            images: Arc::clone(&ports.images),
            disks: Arc::clone(&ports.image_disks),
            events: Arc::clone(&ports.events),
            metrics,
            clock,
            tracer,
            policy,
        };
        let (ask, inbox) = mpsc::channel(INBOX);
        let now = world.clock.mono();
        let gc = Self {
            world,
            inbox,
            ask: ask.clone(),
            records: ImageRecords::default(),
            leases: Vec::new(),
            began: now,
            due: now,
            looked: false,
            pass: JoinSet::new(),
            goal: Goal::Look,
            removing: None,
            waiting: Vec::new(),
            asked: Vec::new(),
            asked_next: Vec::new(),
            failed: false,
        };
        (gc, ImageGcHandle { ask })
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            match self.next_event(&cancel).await {
                Event::Shutdown => return,
                Event::Request(request) => self.answer(request),
                Event::PassEnded(outcome) => self.pass_ended(*outcome),
                Event::Due => self.begin_due(),
            }
        }
    }

    /// Every arm is cancel-safe: `recv`, `join_next`, a clock. The inbox never closes: this task has a sender itself.
    async fn next_event(&mut self, cancel: &CancellationToken) -> Event {
        let due = self.pass.is_empty().then_some(self.due);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Event::Shutdown,
            Some(request) = self.inbox.recv() => Event::Request(request),
            Some(ended) = self.pass.join_next() => Event::PassEnded(Box::new(ended.map_err(|err| {
                error!(%err, "A collection of images was lost");
            }).ok())),
            () = self.world.clock.sleep_until(due) => Event::Due,
        }
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Lease(image, reply) => {
                if self.removing.as_ref().is_some_and(|removing| removing.may_be(&image)) {
                    self.waiting.push((image, reply));
                } else {
                    self.grant(image, reply);
                }
            }
            Request::FreeUnused(reply) => {
                self.asked_next.push(reply);
                if self.pass.is_empty() {
                    self.begin_due();
                }
            }
            Request::MayRemove(image, reply) => {
                let free = !self.leases.iter().any(|lease| image.may_be(&lease.image));
                if free && reply.send(true).is_ok() {
                    self.removing = Some(*image);
                }
                // A refusal needs no answer: the sender is dropped.
            }
            Request::RemovalOver => self.removal_over(),
        }
    }

    fn grant(&mut self, image: String, reply: oneshot::Sender<ImageLease>) {
        if self.pass.is_empty() {
            self.leases.retain(|lease| lease.held.strong_count() > 0);
        }
        let held = Arc::new(());
        self.leases.push(Lease { image, held: Arc::downgrade(&held) });
        let _gone = reply.send(ImageLease { _held: Some(held) });
    }

    fn removal_over(&mut self) {
        self.removing = None;
        for (image, reply) in std::mem::take(&mut self.waiting) {
            self.grant(image, reply);
        }
    }

    /// Begins the pass that is due or asked for.
    fn begin_due(&mut self) {
        self.asked = std::mem::take(&mut self.asked_next);
        self.goal = if !self.asked.is_empty() {
            Goal::Everything
        } else if self.world.policy.is_off() || !self.looked {
            Goal::Look
        } else {
            Goal::Collect
        };
        if self.goal != Goal::Everything {
            let pause = if self.looked { PERIOD } else { FIRST };
            self.looked = true;
            self.due = self.world.clock.mono() + pause;
        }
        // Before the pass lists containers: those whose leases have ended are created, and in the list.
        self.leases.retain(|lease| lease.held.strong_count() > 0);
        let pass = Pass {
            world: self.world.clone(),
            goal: self.goal,
            began: self.began,
            records: std::mem::take(&mut self.records),
            ask: self.ask.clone(),
            sandboxes: None,
        };
        self.pass.spawn(timed("image-gc", pass.run()));
    }

    fn pass_ended(&mut self, outcome: Option<(ImageRecords, Result<u64, ImageGcError>)>) {
        self.removal_over();
        let (records, outcome) = outcome.unwrap_or_else(|| (ImageRecords::default(), Err(ImageGcError::Gone)));
        self.records = records;
        match (self.goal, outcome) {
            (Goal::Look, Err(err)) => debug!(err = %Chain(&err), "Could not look at images"),
            (Goal::Look, Ok(_)) => {}
            (Goal::Collect, outcome) => self.collected(outcome),
            (Goal::Everything, outcome) => self.freed(outcome),
        }
        if !self.asked_next.is_empty() {
            self.begin_due();
        }
    }

    /// The event comes with the second failure in a row: the first may be that of a runtime which is starting.
    fn collected(&mut self, outcome: Result<u64, ImageGcError>) {
        match outcome {
            Ok(freed) => {
                if std::mem::take(&mut self.failed) {
                    info!(freed, "Collecting images works again");
                }
            }
            Err(err) if self.failed => {
                let message = Chain(&err).to_string();
                error!(err = message, "Collecting images failed several times in a row");
                let reason = "ImageGCFailed".into();
                self.world.events.record_node(NodeEvent { kind: EventKind::Warning, reason, message });
            }
            Err(err) => {
                warn!(err = %Chain(&err), "Collecting images failed once; it is tried again in {PERIOD:?}");
                self.failed = true;
            }
        }
    }

    fn freed(&mut self, outcome: Result<u64, ImageGcError>) {
        let mut asked = std::mem::take(&mut self.asked);
        let Some(first) = asked.pop() else { return };
        for other in asked {
            // An error goes to one of them; the others see that nothing more was freed.
            let _gone = other.send(Ok(outcome.as_ref().copied().unwrap_or_default()));
        }
        let _gone = first.send(outcome);
    }
}
