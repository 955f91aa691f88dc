//! Graceful node shutdown: ends the pods in good order before the machine goes down (section 25).
//!
//! The task delays every shutdown of the machine. When one is announced, it publishes that first: the node is not ready, and
//! new pods are rejected. Then it asks the sync loop to end the pods, group by group, waits a moment for their statuses to
//! be written, and lets the machine go. `core::shutdown` decides all of that; this task never touches a container.
//!
//! What it knows of the machine is its state, not a list of signals. So a connection that was lost, a login manager that
//! was restarted and a rubelet that was restarted in the middle of a shutdown all lead to the same question: is the
//! machine going down now? Only a shutdown that a process of root announced in the login manager's place is not known there.

mod connect;
mod record;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::Ending;
use rubelet_core::shutdown::{Announcer, Shutdown, ShutdownCommand, ShutdownEvent, ShutdownPlan};
use rubelet_core::time::Instant;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::node_now::NodeNow;
use crate::ports::{
    Checkpoints, EventKind, Events, MachineShutdown, MachineState, MachineStates, NodeEvent, ShutdownDelay,
    ShutdownError,
};
use crate::status::StatusMail;
use crate::sync_loop::SyncLoopHandle;
use crate::task::timed;
use connect::connect;
use record::Record;

/// Pause before the machine is followed again after the connection was lost (SHUT-04).
/// upstream: nodeshutdown_manager_linux.go dbusReconnectPeriod (v1.36)
const RECONNECT: Duration = Duration::from_secs(1);
/// Pause on a machine where nobody announces shutdowns: it may be installed, or come up late.
const ABSENT: Duration = Duration::from_secs(60);

/// How long the list of active pods waits for pod sources that have not been read.
const SOURCES_PATIENCE: Duration = Duration::from_secs(3);
/// How often they are looked for.
const SOURCES_PAUSE: Duration = Duration::from_millis(100);

/// What the machine's shutdown needs besides the engine; `None` in `Parts` on a node without a graceful shutdown.
#[derive(Clone)]
pub struct ShutdownParts {
    /// The groups of pods and their time.
    pub plan: ShutdownPlan,
    /// The machine.
    pub machine: Arc<dyn MachineShutdown>,
    /// Whether times are recorded on disk and in metrics: gate `GracefulNodeShutdownBasedOnPodPriority`.
    pub recorded: bool,
}

/// The rest of the node, as this task sees it.
pub(crate) struct World {
    pub(crate) sync_loop: SyncLoopHandle,
    pub(crate) status: StatusMail,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) now: watch::Receiver<Arc<NodeNow>>,
    pub(crate) clock: Clock,
}

/// The task.
#[doc(alias = "nodeShutdownManager")]
pub(crate) struct NodeShutdown {
    machine: Arc<dyn MachineShutdown>,
    state: Shutdown,
    period: Duration,
    world: World,
    record: Option<Record>,
    /// Publishes whether the machine is going down.
    publish: watch::Sender<bool>,
    /// Follows the machine; `None` while there is no connection.
    states: Option<Box<dyn MachineStates>>,
    /// Keeps the machine up.
    delay: Option<Box<dyn ShutdownDelay>>,
    reconnect_at: Option<Instant>,
    work: JoinSet<Work>,
    /// Counts announcements and cancellations: work that an earlier one began no longer counts.
    round: u64,
    problem: Option<String>,
}

/// What work led to.
enum Work {
    Connected(Result<Connection, ShutdownError>),
    Delayed(Result<Box<dyn ShutdownDelay>, ShutdownError>),
    Step(u64, ShutdownEvent),
    Done,
}

/// A connection to the machine's login manager.
pub(super) struct Connection {
    states: Box<dyn MachineStates>,
    delay: Option<Box<dyn ShutdownDelay>>,
}

enum Event {
    Stop,
    Machine(Option<MachineState>),
    Worked(Work),
    Due,
}

impl NodeShutdown {
    pub(crate) fn new(parts: ShutdownParts, publish: watch::Sender<bool>, world: World) -> Self {
        let ShutdownParts { plan, machine, recorded } = parts;
        Self {
            machine,
            period: plan.period(),
            state: Shutdown::new(plan),
            record: recorded.then(|| Record::new(Arc::clone(&world.checkpoints), Arc::clone(&world.metrics))),
            world,
            publish,
            states: None,
            delay: None,
            reconnect_at: Some(Instant::START),
            work: JoinSet::new(),
            round: 0,
            problem: None,
        }
    }

    /// Runs until cancelled. The delay ends with the task: a machine that goes down while rubelet is stopped does not wait.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        if let Some(record) = &mut self.record {
            record.load().await;
        }
        loop {
            match self.next_event(&cancel).await {
                Event::Stop => return,
                Event::Machine(Some(state)) => self.step(match state {
                    MachineState::GoingDown => ShutdownEvent::Announced(Announcer::LoginManager),
                    MachineState::Announced => ShutdownEvent::Announced(Announcer::Root),
                    MachineState::Cancelled => ShutdownEvent::Cancelled,
                    MachineState::Up => ShutdownEvent::Unknown,
                }),
                Event::Machine(None) => {
                    warn!("Lost the connection that announces shutdowns of the machine");
                    self.states = None;
                    self.reconnect_at = Some(self.world.clock.mono() + RECONNECT);
                }
                Event::Worked(work) => self.worked(work),
                Event::Due => self.due(),
            }
        }
    }

    /// Every arm is cancel-safe: `cancelled`, `next` of the port, `join_next`, a clock.
    async fn next_event(&mut self, cancel: &CancellationToken) -> Event {
        let due = [self.state.next_deadline(), self.reconnect_at].into_iter().flatten().min();
        let states = &mut self.states;
        let machine = async {
            match states {
                Some(states) => states.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Event::Stop,
            state = machine => Event::Machine(state),
            Some(ended) = self.work.join_next() => Event::Worked(ended.unwrap_or(Work::Done)),
            () = self.world.clock.sleep_until(due) => Event::Due,
        }
    }

    fn due(&mut self) {
        let now = self.world.clock.mono();
        if self.reconnect_at.is_some_and(|at| at <= now) {
            self.reconnect_at = None;
            let (machine, period) = (Arc::clone(&self.machine), self.period);
            self.work
                .spawn(timed("shutdown-connect", async move { Work::Connected(connect(&*machine, period).await) }));
        }
        self.step(ShutdownEvent::Deadline);
    }

    fn worked(&mut self, work: Work) {
        match work {
            Work::Connected(Ok(Connection { states, delay })) => {
                info!(delayed = delay.is_some(), "Following shutdowns of the machine");
                self.problem = None;
                self.states = Some(states);
                // The new delay is taken before the old one ends; without a new one the old one stays.
                self.delay = delay.or(self.delay.take());
            }
            Work::Connected(Err(err)) => self.failed(&err),
            Work::Delayed(Ok(delay)) => self.delay = Some(delay),
            Work::Delayed(Err(err)) => {
                self.states = None;
                self.failed(&err);
            }
            Work::Step(round, event) if round == self.round => self.step(event),
            Work::Step(..) | Work::Done => {}
        }
    }

    /// Logs why shutdowns can't be followed or delayed, once for each reason, and tries again later.
    fn failed(&mut self, err: &ShutdownError) {
        let text = err.to_string();
        if self.problem.as_ref() != Some(&text) {
            warn!(err = text, "Shutdowns of the machine are not delayed: its pods would be killed; trying again");
            self.problem = Some(text);
        }
        let pause = if matches!(err, ShutdownError::Absent(_)) { ABSENT } else { RECONNECT };
        self.reconnect_at = Some(self.world.clock.mono() + pause);
    }

    fn step(&mut self, event: ShutdownEvent) {
        for command in self.state.step(event, self.world.clock.mono()) {
            match command {
                ShutdownCommand::Begin => self.begin(),
                ShutdownCommand::List => self.list(),
                ShutdownCommand::End { pod, grace } => self.end(&pod, grace),
                ShutdownCommand::Flush => {
                    let (status, round) = (self.world.status.clone(), self.round);
                    self.start(async move {
                        status.flushed().await;
                        Work::Step(round, ShutdownEvent::Flushed)
                    });
                }
                ShutdownCommand::Release => self.release(),
                ShutdownCommand::Resume => self.resume(),
            }
        }
    }

    fn begin(&mut self) {
        self.round += 1;
        info!("The machine is going down: ending its pods");
        self.publish.send_replace(true);
        self.record("Shutdown manager detected shutdown event");
        if let Some(record) = &mut self.record {
            let work = record.began(self.world.clock.wall());
            self.start(work);
        }
    }

    /// Lists the active pods, once admission rejects new ones: no pod is admitted after the list was made.
    fn list(&mut self) {
        let World { sync_loop, now, clock, .. } = &self.world;
        let (sync_loop, mut now, clock, round) = (sync_loop.clone(), now.clone(), clock.clone(), self.round);
        self.start(async move {
            drop(now.wait_for(|now| now.shutting_down).await);
            let pods = active_pods(&sync_loop, &clock).await;
            Work::Step(round, ShutdownEvent::Active(pods))
        });
    }

    fn end(&mut self, pod: &Arc<Pod>, grace: Duration) {
        let pod = PodRef::of(pod);
        debug!(%pod, ?grace, "Ending a pod because the machine goes down");
        let (sync_loop, round, uid): (_, _, PodUid) = (self.world.sync_loop.clone(), self.round, pod.uid);
        self.start(async move {
            // `None` if the loop has ended: then nobody is left to wait for.
            let _ended = sync_loop.terminate_and_unmount(uid.clone(), Ending::node_shutdown(), Some(grace)).await;
            Work::Step(round, ShutdownEvent::Ended(uid))
        });
    }

    fn release(&mut self) {
        info!("The pods have ended or had their time: the machine may go down");
        let work = self.record.as_mut().map(|record| record.ended(self.world.clock.wall()));
        let delay = self.delay.take();
        self.start(async move {
            // The record is on disk before the power goes.
            if let Some(work) = work {
                work.await;
            }
            drop(delay);
            Work::Done
        });
    }

    /// The shutdown was cancelled. Pods that have ended stay so, and their controllers replace them; static pods run again.
    fn resume(&mut self) {
        self.round += 1;
        info!("The machine stays up: the shutdown was cancelled");
        self.publish.send_replace(false);
        self.record("Shutdown manager detected shutdown cancellation");
        let (sync_loop, mut now) = (self.world.sync_loop.clone(), self.world.now.clone());
        self.start(async move {
            drop(now.wait_for(|now| !now.shutting_down).await);
            let _ended = sync_loop.resume_static_pods().await;
            Work::Done
        });
        if self.delay.is_none() {
            let machine = Arc::clone(&self.machine);
            self.start(async move { Work::Delayed(machine.delay().await) });
        }
    }

    fn record(&self, message: &str) {
        let reason = "Shutdown".into();
        self.world.events.record_node(NodeEvent { kind: EventKind::Normal, reason, message: message.to_owned() });
    }

    fn start(&mut self, work: impl Future<Output = Work> + Send + 'static) {
        self.work.spawn(timed("node-shutdown-work", work));
    }
}

/// The active pods. A process that was just started waits a moment for its sources: the pods that run are theirs.
async fn active_pods(sync_loop: &SyncLoopHandle, clock: &Clock) -> Vec<Arc<Pod>> {
    let until = clock.mono() + SOURCES_PATIENCE;
    while let Some(active) = sync_loop.active().await {
        if active.all_sources_seen || clock.mono() >= until {
            return active.pods;
        }
        tokio::time::sleep(SOURCES_PAUSE).await;
    }
    Vec::new()
}
