//! The task that writes pod statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::pod::PodExt;
use rubelet_core::status::Write;
use rubelet_core::time::Instant;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::entry::{At, Entry, Request, Urgency};
use super::mail::{Inbox, Mail, StatusMail};
use super::pace::Pace;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::mirror::Mirrors;
use crate::ports::{ApiError, ApiErrorKind, PodApi, StatusObserver};
use crate::task::timed;

/// Deadline of one request. The adapter's own deadline is shorter; this one guards against an adapter without any.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the status of a pending pod is held back, so that later changes go into the same write. Most pods start
/// within this time, and one write then covers the first status, the sandbox and the running containers. The writes that
/// are saved would cost the API server, its disk and, on a small machine, the cores that start the pod.
const GATHER: Duration = Duration::from_millis(500);

/// Sole writer of pod status.
#[doc(alias = "statusManager")]
pub struct StatusWriter {
    api: Arc<dyn PodApi>,
    clock: Clock,
    inbox: Inbox,
    news: watch::Receiver<Mail>,
    mirrors: watch::Receiver<Arc<Mirrors>>,
    pods: BTreeMap<PodUid, Entry>,
    /// Pods that wait for a request, by urgency and then in order of arrival.
    queue: BTreeSet<(Urgency, u64, PodUid)>,
    /// Pods whose failed request is due again, and pods whose changes have been gathered for long enough.
    later: BTreeSet<(Instant, PodUid)>,
    arrivals: u64,
    pace: Pace,
    metrics: Arc<Metrics>,
    in_flight: JoinSet<Done>,
    asked_for: BTreeMap<Id, PodUid>,
}

struct Done {
    uid: PodUid,
    request: Request,
    result: Result<Option<Pod>, ApiError>,
}

enum Event {
    Stop,
    Mail,
    Mirrors,
    Done(Box<Done>),
    Lost(JoinError),
    Due,
}

impl StatusWriter {
    /// A writer, and where statuses for it go. `observer` sees each of them.
    pub fn new(
        api: Arc<dyn PodApi>,
        clock: Clock,
        mirrors: watch::Receiver<Arc<Mirrors>>,
        observer: Option<Arc<dyn StatusObserver>>,
        metrics: Arc<Metrics>,
    ) -> (Self, StatusMail) {
        let (mail, inbox) = StatusMail::new(observer);
        let this = Self {
            api,
            clock,
            news: inbox.subscribe(),
            inbox,
            mirrors,
            pods: BTreeMap::new(),
            queue: BTreeSet::new(),
            later: BTreeSet::new(),
            arrivals: 0,
            pace: Pace::default(),
            metrics,
            in_flight: JoinSet::new(),
            asked_for: BTreeMap::new(),
        };
        (this, mail)
    }

    /// Runs until cancelled. Statuses that are not written by then are written after the next start, if they still hold.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            self.dispatch();
            self.inbox.set_unwritten(self.queue.len() + self.later.len() + self.in_flight.len());
            match self.next_event(&cancel).await {
                Event::Stop => return,
                Event::Mail => self.take_mail(),
                Event::Mirrors => self.mirrors_changed(),
                Event::Done(done) => self.done(*done),
                Event::Lost(err) => self.lost(&err),
                Event::Due => self.due(),
            }
        }
    }

    /// Every arm is cancel-safe: `cancelled`, `join_next`, `changed`, a clock.
    async fn next_event(&mut self, cancel: &CancellationToken) -> Event {
        let now = self.clock.mono();
        let resumes = self.pace.resumes(now).filter(|_| !self.queue.is_empty());
        let due = [self.later.first().map(|(at, _)| *at), resumes].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Event::Stop,
            Some(ended) = self.in_flight.join_next_with_id() => match ended {
                Ok((id, done)) => {
                    self.asked_for.remove(&id);
                    Event::Done(Box::new(done))
                }
                Err(err) => Event::Lost(err),
            },
            Ok(()) = self.news.changed() => Event::Mail,
            Ok(()) = self.mirrors.changed() => Event::Mirrors,
            () = self.clock.sleep_until(due) => Event::Due,
        }
    }

    fn take_mail(&mut self) {
        self.news.mark_unchanged();
        let Mail { forgotten, reports } = self.inbox.take();
        for uid in forgotten {
            self.forget(&uid);
        }
        for (uid, report) in reports {
            let shown =
                if report.pod.is_static() { self.mirror_of(&report.pod) } else { Some(Arc::clone(&report.pod)) };
            match self.pods.get_mut(&uid) {
                Some(entry) => {
                    entry.next = None;
                    entry.report = report;
                    entry.show(shown);
                }
                None => {
                    self.pods.insert(uid.clone(), Entry::new(report, shown));
                }
            }
            self.consider(&uid);
        }
    }

    fn mirror_of(&self, pod: &Pod) -> Option<Arc<Pod>> {
        self.mirrors.borrow().mirror_of(pod).cloned()
    }

    /// A mirror came, went or changed: its pod's status belongs there (STAT-05).
    fn mirrors_changed(&mut self) {
        // Reports from before the mirror came are in the mailbox already.
        self.take_mail();
        let mirrors = Arc::clone(&self.mirrors.borrow_and_update());
        let mut changed = Vec::new();
        for (uid, entry) in self.pods.iter_mut().filter(|(_, entry)| entry.report.pod.is_static()) {
            entry.show(mirrors.mirror_of(&entry.report.pod).cloned());
            changed.push(uid.clone());
        }
        for uid in changed {
            self.consider(&uid);
        }
    }

    fn forget(&mut self, uid: &PodUid) {
        if let Some(entry) = self.pods.remove(uid) {
            self.unplan(uid, entry.at);
        }
    }

    fn unplan(&mut self, uid: &PodUid, at: At) {
        match at {
            At::Queued(urgency, number) => {
                self.queue.remove(&(urgency, number, uid.clone()));
            }
            At::Later(due) | At::Gathers(due) => {
                self.later.remove(&(due, uid.clone()));
            }
            At::Rest | At::InFlight { .. } | At::Gone => {}
        }
    }

    /// Something changed for this pod: decides whether a write is due, and how urgent it is.
    fn consider(&mut self, uid: &PodUid) {
        let (now, wall) = (self.clock.mono(), self.clock.wall());
        let Some(entry) = self.pods.get_mut(uid) else { return };
        match entry.at {
            At::InFlight { .. } => {
                entry.at = At::InFlight { news: true };
                return;
            }
            // The pause is kept: changes that come meanwhile go into one write.
            At::Later(_) | At::Gone => return,
            At::Rest | At::Gathers(_) | At::Queued(..) => {}
        }
        let ask_first = entry.ask_first;
        let urgency = match entry.next(wall) {
            Some(Write::Nothing) if !ask_first => None,
            None => None,
            Some(Write::Patch { urgent: true, .. } | Write::Delete) => Some(Urgency::High),
            Some(Write::Patch { urgent: false, .. } | Write::Nothing) => Some(Urgency::Low),
        };
        entry.due_since = urgency.and(entry.due_since.or(Some(now)));
        let before = entry.at;
        // A pod that is queued already keeps its place.
        let number = match before {
            At::Queued(_, number) => number,
            At::Rest | At::Gathers(_) | At::InFlight { .. } | At::Later(_) | At::Gone => {
                self.arrivals += 1;
                self.arrivals
            }
        };
        let gathers = Some(Urgency::Low) == urgency && entry.is_starting();
        entry.at = match (urgency, before) {
            (None, _) => At::Rest,
            (Some(_), At::Rest) if gathers => At::Gathers(now + GATHER),
            (Some(_), At::Gathers(due)) if gathers && due > now => At::Gathers(due),
            (Some(urgency), _) => At::Queued(urgency, number),
        };
        let after = entry.at;
        self.unplan(uid, before);
        match after {
            At::Queued(urgency, number) => {
                self.queue.insert((urgency, number, uid.clone()));
            }
            At::Gathers(due) => {
                self.later.insert((due, uid.clone()));
            }
            At::Rest | At::InFlight { .. } | At::Later(_) | At::Gone => {}
        }
    }

    /// Starts requests from the head of the queue, within the limit.
    fn dispatch(&mut self) {
        let limit = self.pace.limit(self.clock.mono());
        while self.in_flight.len() < limit
            && let Some((.., uid)) = self.queue.pop_first()
        {
            self.ask(&uid);
        }
    }

    fn ask(&mut self, uid: &PodUid) {
        let wall = self.clock.wall();
        let Some(entry) = self.pods.get_mut(uid) else { return };
        entry.at = At::Rest;
        let Some(shown) = entry.shown.clone() else { return };
        let ask_first = entry.ask_first;
        let request = match entry.next(wall) {
            _ if ask_first => Request::Get,
            Some(Write::Patch { patch, .. }) => Request::Patch(patch.clone()),
            Some(Write::Delete) => Request::Delete,
            Some(Write::Nothing) | None => return,
        };
        // The next write is decided anew after the answer.
        entry.next = None;
        entry.at = At::InFlight { news: false };
        let (api, pod, owner) = (Arc::clone(&self.api), PodRef::of(&shown), uid.clone());
        let work = async move {
            let result = tokio::time::timeout(PATIENCE, carry_out(&*api, &pod, &request)).await;
            let late = ApiError { kind: ApiErrorKind::Timeout, detail: "no answer in time".to_owned() };
            Done { uid: owner, request, result: result.unwrap_or(Err(late)) }
        };
        let handle = self.in_flight.spawn(timed("status-write", work));
        self.asked_for.insert(handle.id(), uid.clone());
    }

    fn done(&mut self, done: Done) {
        let Done { uid, request, result } = done;
        let now = self.clock.mono();
        let wall = self.clock.wall();
        let everybodys = match &result {
            Ok(_) => {
                self.pace.answered();
                false
            }
            Err(err) => self.pace.failed(err, now),
        };
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        let news = entry.at == At::InFlight { news: true };
        entry.at = At::Rest;
        match result {
            Ok(answer) => {
                // A GET that succeeds does not mean that a PATCH will: the pauses go on growing.
                if !matches!(request, Request::Get) {
                    entry.failures = 0;
                    if let Some(since) = entry.due_since.take() {
                        self.metrics.status_written(now.since(since));
                    }
                }
                entry.ask_first = false;
                entry.taken(&request, answer, news, wall);
            }
            Err(err) => entry.failed(&uid, &err, everybodys, now),
        }
        match entry.at {
            At::Later(due) => {
                self.later.insert((due, uid));
            }
            At::Rest => self.consider(&uid),
            At::Gone | At::Gathers(_) | At::Queued(..) | At::InFlight { .. } => {}
        }
    }

    /// A request panicked: the pod's write is tried again.
    fn lost(&mut self, err: &JoinError) {
        error!(%err, "A request to the API server was lost");
        let Some(uid) = self.asked_for.remove(&err.id()) else { return };
        if let Some(entry) = self.pods.get_mut(&uid) {
            let due = entry.pause(self.clock.mono());
            self.later.insert((due, uid));
        }
    }

    fn due(&mut self) {
        let now = self.clock.mono();
        while let Some((at, uid)) = self.later.first().cloned()
            && at <= now
        {
            self.later.pop_first();
            if let Some(entry) = self.pods.get_mut(&uid).filter(|entry| matches!(entry.at, At::Later(_))) {
                entry.at = At::Rest;
            }
            self.consider(&uid);
        }
    }
}

async fn carry_out(api: &dyn PodApi, pod: &PodRef, request: &Request) -> Result<Option<Pod>, ApiError> {
    match request {
        Request::Get => api.get(pod).await.map(Some),
        Request::Patch(patch) => api.patch_status(pod, patch).await.map(Some),
        Request::Delete => api.delete(pod).await.map(|()| None),
    }
}
