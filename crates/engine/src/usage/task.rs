//! The task that owns the newest look.

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::time::Instant;
use rubelet_core::usage::{CpuTimes, NodeUsage, Sample, WINDOW};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::directories::{Directories, Done, When};
use super::handle::{Ask, UsageHandle};
use super::look::{Listed, Need, Seen, look};
use super::{UsageParts, World};
use crate::clock::Clock;
use crate::node::Ports;
use crate::ports::{Detail, Unmeasured};
use crate::sync_loop::SyncLoopHandle;
use crate::task::timed;

/// How many questions may be on their way.
const ASKS: usize = 64;
/// Most callers that wait at the same time; others are refused.
const WAITING: usize = 256;
/// How long a first answer waits for directories that have never been measured.
const FILL: Duration = Duration::from_secs(2);
/// How long an answer waits for directories and layers that are measured anew: a pod is to end because a disk is full.
const FILL_ANEW: Duration = Duration::from_secs(5);
/// When nobody has asked for so long, everything is forgotten but for what directories take.
const IDLE: Duration = Duration::from_secs(300);

/// Owns what was measured.
#[doc(alias = "cadvisor.Manager")]
pub struct UsageTask {
    world: Arc<World>,
    asks: mpsc::Receiver<Ask>,
    waiting: Vec<(Ask, Instant)>,
    looks: JoinSet<LookEnd>,
    /// What the look in flight brings.
    looking: bool,
    /// A look that lacks directories which are being measured for the first time, and how long it waits for them.
    filling: Option<(Seen, Instant)>,
    newest: Option<Answered>,
    listed: Option<Listed>,
    times: CpuTimes,
    /// When a second sample is taken, so that the next caller finds rates.
    second: Option<Instant>,
    asked: Option<Instant>,
    directories: Directories,
    measuring: JoinSet<Done>,
}

/// The newest answer.
struct Answered {
    need: Need,
    began: Instant,
    usage: Arc<NodeUsage>,
}

enum LookEnd {
    Look(Result<Box<Seen>, Unmeasured>),
    Second(Result<Sample, Unmeasured>),
}

enum Event {
    Shutdown,
    Ask(Ask),
    Looked(LookEnd),
    Measured(Done),
    Lost(JoinError),
    Due,
}

impl UsageTask {
    /// The task and its handle.
    pub fn new(parts: UsageParts, ports: &Ports, sync_loop: SyncLoopHandle, clock: Clock) -> (Self, UsageHandle) {
        let (sender, asks) = mpsc::channel(ASKS);
        let (runtime, images) = (Arc::clone(&ports.runtime), Arc::clone(&ports.images));
        let world = Arc::new(World { parts, runtime, images, sync_loop, clock });
        let handle = UsageHandle::new(sender, Arc::clone(&world));
        let task = Self {
            world,
            asks,
            waiting: Vec::new(),
            looks: JoinSet::new(),
            looking: false,
            filling: None,
            newest: None,
            listed: None,
            times: CpuTimes::default(),
            second: None,
            asked: None,
            directories: Directories::default(),
            measuring: JoinSet::new(),
        };
        (task, handle)
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            match self.next_event(&cancel).await {
                Event::Shutdown => return,
                Event::Ask(ask) => self.ask(ask),
                Event::Looked(LookEnd::Look(Ok(seen))) => self.looked(*seen),
                Event::Looked(LookEnd::Look(Err(err))) => self.failed(&err),
                Event::Looked(LookEnd::Second(sample)) => {
                    if let Ok(sample) = sample {
                        self.times.add(&sample);
                    }
                }
                Event::Measured(done) => {
                    self.directories.done(done, &self.world, &mut self.measuring);
                    self.fill();
                }
                Event::Lost(err) => self.lost(&err),
                Event::Due => self.due(),
            }
        }
    }

    /// Every arm is cancel-safe: `recv`, `join_next`, a clock.
    async fn next_event(&mut self, cancel: &CancellationToken) -> Event {
        let forget = self.newest.is_some().then_some(self.asked).flatten().map(|asked| asked + IDLE);
        let filled = self.filling.as_ref().map(|(_, until)| *until);
        let due = [filled, self.second, forget].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Event::Shutdown,
            Some(look) = self.looks.join_next() => look.map_or_else(Event::Lost, Event::Looked),
            Some(done) = self.measuring.join_next() => done.map_or_else(Event::Lost, Event::Measured),
            Some(ask) = self.asks.recv() => Event::Ask(ask),
            () = self.world.clock.sleep_until(due) => Event::Due,
        }
    }

    fn ask(&mut self, ask: Ask) {
        let now = self.world.clock.mono();
        self.asked = Some(now);
        if self.waiting.len() >= WAITING {
            let refused = Unmeasured(format!("{WAITING} others wait for the same"));
            let _gone = ask.reply.send(Err(refused));
            return;
        }
        self.waiting.push((ask, now));
        self.serve();
    }

    /// Answers each caller whom the newest look serves, and starts another look for the rest.
    fn serve(&mut self) {
        self.waiting.retain(|(ask, _)| !ask.reply.is_closed());
        if let Some(newest) = &self.newest {
            for (ask, asked) in std::mem::take(&mut self.waiting) {
                if newest.need.covers(need(&ask)) && newest.began + ask.wanted.max_age >= asked {
                    let _gone = ask.reply.send(Ok(Arc::clone(&newest.usage)));
                } else {
                    self.waiting.push((ask, asked));
                }
            }
        }
        let wanted = self.waiting.iter().map(|(ask, _)| need(ask)).reduce(Need::and);
        if let Some(wanted) = wanted.filter(|_| !self.looking) {
            self.looking = true;
            let (world, listed) = (Arc::clone(&self.world), self.listed.clone());
            let work = async move { LookEnd::Look(look(world, wanted, listed).await.map(Box::new)) };
            self.looks.spawn(timed("usage-look", work));
        }
    }

    fn looked(&mut self, seen: Seen) {
        self.listed.clone_from(&seen.listed);
        if seen.need.disks {
            let places = &self.world.parts.places;
            let all = seen.pods.iter().flat_map(|pod| places.of(pod, seen.known.get(&pod.pod.uid))).collect();
            let when = if seen.need.anew { When::Now } else { When::Due };
            self.directories.want(all, when, &self.world, &mut self.measuring);
        }
        let until = self.world.clock.mono() + if seen.need.anew { FILL_ANEW } else { FILL };
        self.filling = Some((seen, until));
        self.fill();
    }

    /// Answers with the look that waits, if it lacks nothing any more or has waited long enough.
    fn fill(&mut self) {
        let now = self.world.clock.mono();
        let incomplete = self.directories.is_incomplete();
        let waits = |(seen, until): &(Seen, Instant)| seen.need.disks && incomplete && now < *until;
        if self.filling.as_ref().is_none_or(waits) {
            return;
        }
        let Some((seen, _)) = self.filling.take() else { return };
        self.looking = false;
        let newest = self.answer(seen);
        self.newest = Some(newest);
        self.serve();
    }

    fn answer(&mut self, seen: Seen) -> Answered {
        let Seen { need, began, sample, known, mut pods, network, disks, processes, .. } = seen;
        if need.disks {
            for pod in &mut pods {
                let known = known.get(&pod.pod.uid);
                let rest = (disks.nodefs, self.directories.layers.as_ref());
                self.world.parts.places.fill(pod, known, &self.directories.measured, rest);
            }
        }
        let cpu_rates = self.times.add(&sample);
        self.second = cpu_rates.is_empty().then(|| began + WINDOW);
        let usage = NodeUsage { sample, cpu_rates, pods, network, disks, processes };
        Answered { need, began, usage: Arc::new(usage) }
    }

    /// There is no look without cgroups.
    fn failed(&mut self, err: &Unmeasured) {
        self.looking = false;
        for (ask, _) in std::mem::take(&mut self.waiting) {
            let _gone = ask.reply.send(Err(err.clone()));
        }
    }

    fn lost(&mut self, err: &JoinError) {
        error!(%err, "A look at the usage of the node panicked");
        // Whatever it was: what was measured is measured anew.
        self.directories = Directories::default();
        self.measuring = JoinSet::new();
        self.looks = JoinSet::new();
        self.filling = None;
        self.failed(&Unmeasured("internal error: a look panicked".to_owned()));
    }

    fn due(&mut self) {
        let now = self.world.clock.mono();
        self.fill();
        if self.second.is_some_and(|second| second <= now) {
            self.second = None;
            let world = Arc::clone(&self.world);
            let work = async move { LookEnd::Second(world.parts.stats.sample(Detail::CpuAndMemory).await) };
            self.looks.spawn(timed("usage-look", work));
        }
        if self.asked.is_some_and(|asked| now.since(asked) >= IDLE) {
            (self.newest, self.listed, self.times) = (None, None, CpuTimes::default());
            self.world.parts.stats.rest();
        }
    }
}

fn need(ask: &Ask) -> Need {
    let wanted = ask.wanted;
    let anew = wanted.disks && wanted.max_age.is_zero();
    Need { detail: wanted.detail, networks: wanted.networks, disks: wanted.disks, anew }
}
