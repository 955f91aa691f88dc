//! The task that owns all probes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::pod::field_path;
use rubelet_core::probe::{Answer, ProbeKind};
use rubelet_core::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use super::pod::{Key, ProbedContainer, ProbedPod};
use super::run::{Answered, Slots, run};
use super::{CAPACITY, ProbeNews, ProbeSender, ProbeTargets, ProbeUpdate, ProberHandle, ProberLine, Question};
use crate::metrics::ProbeCounts;
use crate::node::Node;
use crate::ports::{EventKind, PodEvent};
use crate::task::timed;

/// Runs that are due within this time of each other start together: hundreds of probes with a period of a
/// second then wake the task a few times a second, not hundreds of times.
const GRAIN: Duration = Duration::from_millis(50);
/// How many timeline lines of a pod are kept while the sync loop receives none.
const LINES: usize = 8;
/// How many requests for the counts may wait at once.
const ASKERS: usize = 4;

/// Owns every probe of the node.
#[doc(alias = "probeManager")]
pub struct Prober {
    node: Arc<Node>,
    updates: mpsc::Receiver<(PodUid, ProbeUpdate)>,
    news: mpsc::Sender<ProbeNews>,
    askers: mpsc::Receiver<Question>,
    pods: BTreeMap<PodUid, ProbedPod>,
    due: BTreeSet<(Instant, Key)>,
    runs: JoinSet<Answered>,
    slots: Slots,
    /// Pods whose results the sync loop has not received yet, with their new timeline lines.
    unreported: BTreeMap<PodUid, Vec<String>>,
}

enum Event {
    Shutdown,
    Update(PodUid, ProbeUpdate),
    Answered(Box<Answered>),
    Asked(Question),
    Lost(tokio::task::JoinError),
    Reported,
    Due,
}

impl Prober {
    /// A prober without pods, the sync loop's line to it, and a handle to read its counts.
    pub fn new(node: Arc<Node>) -> (Self, ProberLine, ProberHandle) {
        let (sender, updates) = mpsc::channel(CAPACITY);
        let (news, receiver) = mpsc::channel(CAPACITY);
        let (ask, askers) = mpsc::channel(ASKERS);
        let slots = Slots::new(node.facts.cpu_millis);
        let this = Self {
            node,
            updates,
            news,
            askers,
            pods: BTreeMap::new(),
            due: BTreeSet::new(),
            runs: JoinSet::new(),
            slots,
            unreported: BTreeMap::new(),
        };
        let sender = ProbeSender { updates: sender, unsent: BTreeMap::new(), known: BTreeSet::new() };
        (this, ProberLine { sender, news: receiver }, ProberHandle { ask })
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            match self.next_event(&cancel).await {
                Event::Shutdown => return,
                Event::Update(uid, ProbeUpdate::Targets(targets)) => self.see(&uid, &targets),
                Event::Update(uid, ProbeUpdate::Gone) => self.forget(&uid),
                Event::Answered(answered) => self.answered(&answered),
                // The receiver may be gone.
                Event::Asked(Question::Counts(reply)) => drop(reply.send(self.counts())),
                Event::Asked(Question::History(uid, reply)) => {
                    drop(reply.send(self.pods.get(&uid).map(ProbedPod::history).unwrap_or_default()));
                }
                Event::Lost(err) => error!(%err, "A probe task panicked"),
                Event::Reported => {}
                Event::Due => self.run_due(),
            }
        }
    }

    /// Every arm is cancel-safe: `recv`, `reserve`, `join_next`, a clock.
    async fn next_event(&mut self, cancel: &CancellationToken) -> Event {
        let due = self.due.first().map(|(at, _)| *at);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Event::Shutdown,
            Some((uid, update)) = self.updates.recv() => Event::Update(uid, update),
            Some(run) = self.runs.join_next() => match run {
                Ok(answered) => Event::Answered(Box::new(answered)),
                Err(err) => Event::Lost(err),
            },
            Some(question) = self.askers.recv() => Event::Asked(question),
            room = self.news.reserve(), if !self.unreported.is_empty() => {
                // Without a sync loop there is no receiver, and this task is about to be cancelled too.
                let next = self.unreported.pop_first();
                if let (Ok(room), Some((uid, happened))) = (room, next)
                    && let Some(pod) = self.pods.get(&uid)
                {
                    let (view, waits_for, troubles) = (Arc::clone(&pod.shown), pod.waits_for(), pod.troubles());
                    room.send(ProbeNews { uid, view, happened, waits_for, troubles });
                }
                Event::Reported
            }
            () = self.node.clock.sleep_until(due) => Event::Due,
        }
    }

    fn see(&mut self, uid: &PodUid, targets: &ProbeTargets) {
        let now = self.node.clock.now();
        let pod = self.pods.entry(uid.clone()).or_insert_with(|| ProbedPod::new(&targets.pod));
        // The deadlines of a container that the spec no longer probes have to go.
        let before: Vec<Arc<str>> = pod.containers.keys().cloned().collect();
        for name in &before {
            if let Some(container) = pod.containers.get_mut(name) {
                unqueue(&mut self.due, uid, name, container);
            }
        }
        pod.update(targets, now, || self.node.ports.rng.fraction());
        for (name, container) in &mut pod.containers {
            queue(&mut self.due, uid, name, container, now.mono);
        }
        self.show(uid);
    }

    fn forget(&mut self, uid: &PodUid) {
        self.unreported.remove(uid);
        let Some(mut pod) = self.pods.remove(uid) else { return };
        for (name, container) in &mut pod.containers {
            unqueue(&mut self.due, uid, name, container);
        }
    }

    fn run_due(&mut self) {
        let now = self.node.clock.mono();
        while let Some((at, key)) = self.due.first().cloned()
            && at <= now
        {
            self.due.pop_first();
            let Some(pod) = self.pods.get_mut(&key.uid) else { continue };
            if let Some(container) = pod.containers.get_mut(&key.container) {
                container.queued.remove(&key.kind);
            }
            if let Some(question) = pod.ask(&key, now) {
                let work = run(Arc::clone(&self.node), self.slots.clone(), question);
                self.runs.spawn(timed("probe", work));
            }
        }
    }

    fn answered(&mut self, answered: &Answered) {
        let Answered { key, instance, answer, took } = answered;
        let now = self.node.clock.now();
        let Some(pod) = self.pods.get_mut(&key.uid) else { return };
        let Some(current) = pod.containers.get(&key.container).and_then(|c| c.probes.instance()) else { return };
        if current != instance {
            return;
        }
        if pod.answered(key, instance, answer, now) {
            self.unreported.entry(key.uid.clone()).or_default();
        }
        if let Some(container) = pod.containers.get_mut(&key.container) {
            container.count(key.kind, answer, *took);
            container.remember(key.kind, answer.result(), now.wall);
            queue(&mut self.due, &key.uid, &key.container, container, now.mono);
        }
        self.emit(key, answer);
        self.show(&key.uid);
    }

    fn counts(&self) -> Vec<ProbeCounts> {
        let mut all = Vec::new();
        for pod in self.pods.values() {
            let reference = PodRef::of(&pod.pod);
            for (name, container) in &pod.containers {
                all.extend(container.tallies.iter().map(|(kind, tally)| ProbeCounts {
                    pod: reference.clone(),
                    container: Arc::clone(name),
                    kind: *kind,
                    tally: *tally,
                }));
            }
        }
        all
    }

    /// Emits an event, and adds a line to the pod's timeline (PRB-06, PRB-07).
    fn emit(&mut self, key: &Key, answer: &Answer) {
        let Some(pod) = self.pods.get(&key.uid) else { return };
        debug!(pod = ?key.uid, container = %key.container, kind = key.kind.as_str(), ?answer, "Probed");
        let Some((reason, message)) = answer.event(key.kind) else { return };
        let lines = self.unreported.entry(key.uid.clone()).or_default();
        if lines.len() < LINES {
            lines.push(format!("{reason}: container {}: {message}", key.container));
        }
        self.node.ports.events.record(PodEvent {
            pod: Arc::clone(&pod.pod),
            field_path: field_path(&pod.pod, &key.container),
            kind: EventKind::Warning,
            reason: reason.into(),
            message,
            annotations: BTreeMap::new(),
        });
    }

    /// Reports the pod's results to the sync loop, if they changed.
    fn show(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let view = pod.view();
        if *pod.shown != view {
            pod.shown = Arc::new(view);
            self.unreported.entry(uid.clone()).or_default();
        }
    }
}

fn queue(
    due: &mut BTreeSet<(Instant, Key)>,
    uid: &PodUid,
    name: &Arc<str>,
    container: &mut ProbedContainer,
    now: Instant,
) {
    for kind in ProbeKind::ALL {
        let wanted = container.probes.due(kind).map(|at| aligned(at, now));
        if container.queued.get(&kind).copied() == wanted {
            continue;
        }
        let key = Key { uid: uid.clone(), container: Arc::clone(name), kind };
        if let Some(old) = container.queued.remove(&kind) {
            due.remove(&(old, key.clone()));
        }
        if let Some(at) = wanted {
            container.queued.insert(kind, at);
            due.insert((at, key));
        }
    }
}

fn unqueue(due: &mut BTreeSet<(Instant, Key)>, uid: &PodUid, name: &Arc<str>, container: &mut ProbedContainer) {
    for (kind, at) in std::mem::take(&mut container.queued) {
        due.remove(&(at, Key { uid: uid.clone(), container: Arc::clone(name), kind }));
    }
}

/// `at`, rounded up to a multiple of [`GRAIN`], so that other probes are due then too. A probe that is due now is not
/// delayed.
fn aligned(at: Instant, now: Instant) -> Instant {
    if at <= now {
        return at;
    }
    let grain = GRAIN.as_nanos();
    let grains = at.since_start().as_nanos().div_ceil(grain);
    let millis = u64::try_from(grains.saturating_mul(GRAIN.as_millis())).unwrap_or(u64::MAX);
    Instant::from_millis(millis)
}
