//! The task: which logs there are, when each is due, and the work in flight.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::id::{ContainerId, PodUid};
use rubelet_core::log_rotation::{Growth, LogLook, LogRotation};
use rubelet_core::observe::{ContainerStateKind, PodSummary};
use rubelet_core::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::rotate::{RotateError, World};
use super::{INBOX, LogRotatorHandle, StartedLog};
use crate::chain::Chain;
use crate::clock::Clock;
use crate::pleg::Listed;
use crate::ports::{FileError, LogFiles, LogId, LogSize, Runtime};
use crate::task::timed;

/// Logs that are due within this time of each other are looked at in one pass: so quiet ones, which are due after the same
/// pause, come together.
const TOGETHER: Duration = Duration::from_millis(50);
/// Rotations at the same time: each is a few renames and one call to the runtime.
const ROTATIONS: usize = 16;
/// Files that may wait to be compressed. What finds no room is found again by the next rotation of its log.
const QUEUE: usize = 1024;

/// The task. It owns what is known of each log.
#[doc(alias = "containerLogManager")]
pub struct LogRotator {
    world: World,
    rotation: LogRotation,
    /// How many dead instances of a container are kept; `None` for all.
    keep: Option<usize>,
    inbox: mpsc::Receiver<StartedLog>,
    listed: watch::Receiver<Listed>,
    logs: BTreeMap<ContainerId, Watched>,
    compressions: VecDeque<(LogId, String)>,
    work: JoinSet<Done>,
    looking: bool,
    rotating: usize,
    /// Files that are being compressed.
    compressing: BTreeSet<Rotated>,
}

/// A rotated file: pod, container, name.
type Rotated = (PodUid, String, String);

/// A live log.
struct Watched {
    log: LogId,
    /// Since when the log is known: an older list cannot show its container.
    since: Instant,
    last: Option<LogLook>,
    /// How fast it grew between the last two looks.
    growth: Option<Growth>,
    /// When its rotation began, and how long the last one took.
    rotation: (Instant, Duration),
    /// When to look next; `None` while it is looked at or rotated.
    due: Option<Instant>,
    /// Why it could not be rotated the last time.
    problem: Option<String>,
}

enum Event {
    Shutdown,
    Started(Box<StartedLog>),
    Listed,
    Due,
    Done(Done),
}

enum Done {
    Looked(Vec<(ContainerId, LogSize)>, Instant),
    Rotated(ContainerId, Result<Vec<String>, RotateError>),
    Tidied(LogId, Result<Vec<String>, FileError>),
    Compressed(LogId, String, Result<(), FileError>),
    /// The work panicked.
    Lost,
}

impl LogRotator {
    /// A rotator, and the handle by which it hears of containers that start.
    pub(crate) fn new(
        ports: (Arc<dyn Runtime>, Arc<dyn LogFiles>),
        clock: Clock,
        rotation: LogRotation,
        keep: Option<usize>,
        listed: watch::Receiver<Listed>,
    ) -> (Self, LogRotatorHandle) {
        let (ask, inbox) = mpsc::channel(INBOX);
        let (runtime, files) = ports;
        let rotator = Self {
            world: World { runtime, files, clock, policy: rotation.policy },
            rotation,
            keep,
            inbox,
            listed,
            logs: BTreeMap::new(),
            compressions: VecDeque::new(),
            work: JoinSet::new(),
            looking: false,
            rotating: 0,
            compressing: BTreeSet::new(),
        };
        (rotator, LogRotatorHandle { ask: Some(ask) })
    }

    /// Runs until cancelled. A rotation that is interrupted is finished by the next start: the log is missing then, and is
    /// opened anew.
    pub async fn run(mut self, cancel: CancellationToken) {
        self.follow_list();
        loop {
            match self.next_event(&cancel).await {
                Event::Shutdown => return,
                Event::Started(started) => self.watch_log(started.id, started.log),
                Event::Listed => self.follow_list(),
                Event::Due => self.look(),
                Event::Done(done) => self.done(done),
            }
            self.compress_next();
        }
    }

    /// Every arm is cancel-safe: `recv`, `changed`, `join_next`, a clock.
    async fn next_event(&mut self, cancel: &CancellationToken) -> Event {
        let due = self.logs.values().filter_map(|watched| watched.due).min().filter(|_| !self.looking);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Event::Shutdown,
            Some(ended) = self.work.join_next() => Event::Done(ended.unwrap_or_else(|err| {
                error!(%err, "A step of a log's rotation was lost");
                Done::Lost
            })),
            Some(started) = self.inbox.recv() => Event::Started(Box::new(started)),
            Ok(()) = self.listed.changed() => Event::Listed,
            () = self.world.clock.sleep_until(due) => Event::Due,
        }
    }

    /// Follows the containers that run, and no others.
    fn follow_list(&mut self) {
        let listed = self.listed.borrow_and_update().clone();
        let Some(began) = listed.began else { return };
        let running: BTreeMap<&ContainerId, LogId> = listed.pods.values().flat_map(running).collect();
        self.logs.retain(|id, watched| watched.since > began || running.contains_key(id));
        for (id, log) in running {
            if !self.logs.contains_key(id) {
                self.watch_log(id.clone(), log);
            }
        }
    }

    /// Watches a log from now on, and tidies its directory.
    fn watch_log(&mut self, id: ContainerId, log: LogId) {
        let now = self.world.clock.mono();
        let known = self.known_instances(&log);
        let busy = self.busy(&log);
        // Before the first list it is not known what the runtime has forgotten.
        let keep = self.keep.filter(|_| self.listed.borrow().began.is_some());
        let (world, tidied) = (self.world.clone(), log.clone());
        let watched = Watched {
            log,
            since: now,
            last: None,
            growth: None,
            rotation: (now, Duration::ZERO),
            due: Some(now),
            problem: None,
        };
        self.logs.insert(id, watched);
        self.work.spawn(timed("log-rotation", async move {
            let outcome = world.tidy(&tidied, &busy, &known, keep).await;
            Done::Tidied(tidied, outcome)
        }));
    }

    /// The files in the log's directory that are being compressed.
    fn busy(&self, log: &LogId) -> BTreeSet<String> {
        let of_log =
            self.compressing.iter().filter(|(uid, container, _)| *uid == log.pod.uid && *container == log.container);
        of_log.map(|(_, _, name)| name.clone()).collect()
    }

    /// The instances of the log's container that the runtime has.
    fn known_instances(&self, log: &LogId) -> BTreeSet<u32> {
        let listed = self.listed.borrow();
        let containers = listed.pods.get(&log.pod.uid).into_iter().flat_map(|pod| pod.containers.values());
        containers
            .filter(|container| container.name == log.container)
            .map(|container| container.restart_count)
            .collect()
    }

    /// Looks at every log that is due, in one pass.
    fn look(&mut self) {
        let now = self.world.clock.mono();
        let due = self.logs.iter_mut().filter(|(_, watched)| watched.due.is_some_and(|due| due <= now + TOGETHER));
        let (ids, logs): (Vec<ContainerId>, Vec<LogId>) = due
            .map(|(id, watched)| {
                watched.due = None;
                (id.clone(), watched.log.clone())
            })
            .unzip();
        if ids.is_empty() {
            return;
        }
        self.looking = true;
        let world = self.world.clone();
        self.work.spawn(timed("log-sizes", async move {
            let sizes = world.files.sizes(logs).await;
            Done::Looked(ids.into_iter().zip(sizes).collect(), world.clock.mono())
        }));
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Looked(sizes, at) => {
                self.looking = false;
                sizes.into_iter().for_each(|(id, size)| self.looked(id, size, at));
            }
            Done::Rotated(id, outcome) => {
                self.rotating = self.rotating.saturating_sub(1);
                self.rotated(&id, outcome);
            }
            Done::Tidied(log, Ok(compress)) => self.queue(&log, compress),
            Done::Tidied(log, Err(err)) => {
                debug!(pod = %log.pod, container = log.container, err = %Chain(&err), "Could not tidy the logs");
            }
            Done::Compressed(log, name, outcome) => {
                self.compressing.remove(&rotated_file(&log, &name));
                if let Err(err) = outcome {
                    let (pod, container) = (&log.pod, &log.container);
                    warn!(%pod, container, name, err = %Chain(&err), "Could not compress a rotated log");
                }
            }
            Done::Lost => self.recover(),
        }
    }

    /// Starts over after a panic of some work: whatever it held counts as due, and the work as ended.
    fn recover(&mut self) {
        let due = self.world.clock.mono() + self.rotation.interval;
        (self.looking, self.rotating) = (false, 0);
        self.compressing.clear();
        self.logs.values_mut().for_each(|watched| watched.due = Some(due));
    }

    fn looked(&mut self, id: ContainerId, size: LogSize, at: Instant) {
        let Some(watched) = self.logs.get_mut(&id) else { return };
        match size {
            LogSize::Bytes(size) => {
                let look = LogLook { size, at };
                let policy = &self.rotation.policy;
                watched.growth = watched.last.replace(look).map(|before| Growth::between(before, look));
                if policy.is_due(size, watched.growth, watched.rotation.1) {
                    watched.rotation.0 = at;
                    self.rotate(id);
                    return;
                }
                watched.due = Some(at + policy.pause(size, watched.growth, self.rotation.interval));
            }
            LogSize::Missing => self.reopen(id),
            LogSize::Unknown(err) => self.failed(&id, Chain(&err).to_string()),
        }
    }

    fn rotate(&mut self, id: ContainerId) {
        let Some(busy) = self.logs.get(&id).map(|watched| self.busy(&watched.log)) else { return };
        let world = self.world.clone();
        self.begin(id, |id, log| async move {
            let outcome = world.rotate(&id, &log, &busy).await;
            Done::Rotated(id, outcome)
        });
    }

    fn reopen(&mut self, id: ContainerId) {
        let world = self.world.clone();
        self.begin(id, |id, log| async move {
            let outcome = world.reopen(&id, &log).await.map(|()| Vec::new());
            Done::Rotated(id, outcome)
        });
    }

    /// Begins work on a log, unless there is enough of it: then the log is looked at again soon.
    fn begin<F>(&mut self, id: ContainerId, work: impl FnOnce(ContainerId, LogId) -> F)
    where
        F: Future<Output = Done> + Send + 'static,
    {
        let Some(watched) = self.logs.get_mut(&id) else { return };
        if self.rotating >= ROTATIONS {
            watched.due = Some(self.world.clock.mono() + 2 * TOGETHER);
            return;
        }
        self.rotating += 1;
        self.work.spawn(timed("log-rotation", work(id, watched.log.clone())));
    }

    fn rotated(&mut self, id: &ContainerId, outcome: Result<Vec<String>, RotateError>) {
        let compress = match outcome {
            Ok(compress) => compress,
            Err(RotateError::NotRunning) => {
                // The next list shows it if that was wrong.
                self.logs.remove(id);
                return;
            }
            Err(err) => return self.failed(id, Chain(&err).to_string()),
        };
        let now = self.world.clock.mono();
        let Some(watched) = self.logs.get_mut(id) else { return };
        if watched.problem.take().is_some() {
            info!(pod = %watched.log.pod, container = watched.log.container, "The log is rotated again");
        }
        watched.rotation.1 = now.since(watched.rotation.0);
        watched.due = Some(now + self.rotation.policy.pause(0, watched.growth, self.rotation.interval));
        watched.last = Some(LogLook { size: 0, at: now });
        let log = watched.log.clone();
        self.queue(&log, compress);
    }

    /// Logs a problem when it is another one than before, and tries again after the interval.
    fn failed(&mut self, id: &ContainerId, problem: String) {
        let due = self.world.clock.mono() + self.rotation.interval;
        let Some(watched) = self.logs.get_mut(id) else { return };
        watched.due = Some(due);
        if watched.problem.as_ref() != Some(&problem) {
            let LogId { pod, container, .. } = &watched.log;
            warn!(%pod, container, err = problem, "Could not rotate the log of a container; it grows until that works");
            watched.problem = Some(problem);
        }
    }

    fn queue(&mut self, log: &LogId, names: Vec<String>) {
        for name in names {
            let file = rotated_file(log, &name);
            let waits = self.compressions.iter().any(|(log, name)| rotated_file(log, name) == file);
            if !waits && self.compressions.len() < QUEUE {
                self.compressions.push_back((log.clone(), name));
            }
        }
    }

    fn compress_next(&mut self) {
        while self.compressing.len() < self.rotation.workers
            && let Some((log, name)) = self.compressions.pop_front()
        {
            if !self.compressing.insert(rotated_file(&log, &name)) {
                continue;
            }
            let files = Arc::clone(&self.world.files);
            self.work.spawn(timed("log-compression", async move {
                let outcome = files.compress(&log, &name).await;
                Done::Compressed(log, name, outcome)
            }));
        }
    }
}

fn rotated_file(log: &LogId, name: &str) -> Rotated {
    (log.pod.uid.clone(), log.container.clone(), name.to_owned())
}

/// The logs of a pod's running containers.
fn running(pod: &PodSummary) -> impl Iterator<Item = (&ContainerId, LogId)> {
    let running = pod.containers.iter().filter(|(_, container)| container.state == ContainerStateKind::Running);
    running.map(|(id, container)| {
        let log =
            LogId { pod: pod.pod.clone(), container: container.name.clone(), restart_count: container.restart_count };
        (id, log)
    })
}
