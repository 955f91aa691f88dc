//! The state of one pod between its status writes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::pod::PodExt;
use rubelet_core::status::{Write, WriteInputs, next_write};
use rubelet_core::time::Instant;
use tracing::{debug, info, warn};

use super::pace::pod_pause;
use crate::ports::{ApiError, ApiErrorKind, StatusReport};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// The pod turns ready or unready, or ends: controllers and endpoints wait for it.
    High,
    Low,
}

/// The state of one pod's status writes.
pub(super) struct Entry {
    pub(super) report: StatusReport,
    /// The pod's object as last seen in the API, from the watch or from an answer, whichever is newer. For a static pod
    /// this is its mirror pod; `None` while there is none.
    pub(super) shown: Option<Arc<Pod>>,
    pub(super) at: At,
    /// See [`WriteInputs::refused`].
    refused: Option<String>,
    pub(super) failures: u32,
    /// `shown` may be out of date: GET the pod before the next write.
    pub(super) ask_first: bool,
    /// Since when a write is due.
    pub(super) due_since: Option<Instant>,
    /// The next write, cached until one of its inputs changes: the status of a thousand containers takes long to compare.
    pub(super) next: Option<Write>,
}

/// Where a pod is between its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// The API shows the newest status.
    Rest,
    /// The write is not urgent; changes are gathered until this time.
    Gathers(Instant),
    /// It waits in the queue.
    Queued(Urgency, u64),
    /// A request is in flight; `news` if a report came since it was sent.
    InFlight { news: bool },
    /// Its last request failed.
    Later(Instant),
    /// The object is gone from the API.
    Gone,
}

/// A request to the API server.
pub(super) enum Request {
    Get,
    Patch(String),
    Delete,
}
impl Entry {
    pub(super) fn new(report: StatusReport, shown: Option<Arc<Pod>>) -> Self {
        Self { report, shown, at: At::Rest, refused: None, failures: 0, ask_first: false, due_since: None, next: None }
    }

    /// The pod is pending and not deleted: nothing waits for its status until it runs.
    pub(super) fn is_starting(&self) -> bool {
        self.report.status.phase.as_deref() == Some("Pending") && !self.report.pod.is_deleted()
    }

    /// The next write; `None` while there is no object to write to.
    pub(super) fn next(&mut self, now: jiff::Timestamp) -> Option<&Write> {
        if self.next.is_none() {
            let api = self.shown.as_deref()?;
            let end = self.report.progress;
            let refused = self.refused.as_deref();
            self.next = Some(next_write(&WriteInputs { api, status: &self.report.status, end, refused, now }));
        }
        self.next.as_ref()
    }

    /// Takes over the pod's object from the API, unless a newer version is known.
    pub(super) fn show(&mut self, pod: Option<Arc<Pod>>) {
        let same = |a: &Option<Arc<Pod>>, b: &Option<Arc<Pod>>| {
            a.as_ref().map(|pod| &pod.metadata.uid) == b.as_ref().map(|pod| &pod.metadata.uid)
        };
        if !same(&self.shown, &pod) {
            // Another object, so nothing learnt from the old one holds. Only mirror pods get here: a pod from the API has
            // one UID for life.
            self.refused = None;
            self.next = None;
            if self.at == At::Gone {
                self.at = At::Rest;
            }
            self.shown = pod;
            return;
        }
        let version = |pod: &Option<Arc<Pod>>| pod.as_deref().and_then(resource_version);
        match (version(&self.shown), version(&pod)) {
            (Some(held), Some(new)) if new < held => {}
            _ => {
                self.shown = pod;
                self.next = None;
            }
        }
    }

    /// The request succeeded.
    pub(super) fn taken(&mut self, request: &Request, answer: Option<Pod>, news: bool, now: jiff::Timestamp) {
        if let Some(pod) = answer {
            let ours = self.shown.as_ref().is_some_and(|shown| shown.metadata.uid == pod.metadata.uid);
            if !ours {
                debug!(pod = %PodRef::of(&pod), "Pod was deleted and recreated");
                self.at = At::Gone;
                return;
            }
            // The watch may have delivered this version already; keeping that object shares its memory.
            let version = resource_version(&pod);
            if version.is_none() || self.shown.as_deref().and_then(resource_version) != version {
                self.show(Some(Arc::new(pod)));
            }
        }
        match request {
            Request::Delete => {
                info!(pod = %PodRef::of(&self.report.pod), "Pod fully terminated and removed from the API");
                self.at = At::Gone;
            }
            // A difference that the same patch leaves was not accepted, and would not be accepted the next time either. Another
            // difference may come from a patch against an object that had changed meanwhile: it is written, once.
            Request::Patch(sent) if !news => {
                self.refused = None;
                self.next = None;
                if let Some(Write::Patch { patch, .. }) = self.next(now)
                    && patch == sent
                {
                    let patch = patch.clone();
                    debug!(pod = %PodRef::of(&self.report.pod), patch, "The API server does not keep this part of the status");
                    self.refused = Some(patch);
                    self.next = None;
                }
            }
            Request::Patch(_) | Request::Get => {}
        }
    }

    pub(super) fn failed(&mut self, uid: &PodUid, err: &ApiError, everybodys: bool, now: Instant) {
        let pod = PodRef::of(&self.report.pod);
        match err.kind {
            ApiErrorKind::NotFound => {
                debug!(%pod, "Pod does not exist in the API any more");
                self.at = At::Gone;
                return;
            }
            _ if everybodys => {
                debug!(%pod, %err, "The API server is not available; the status is written later");
                return;
            }
            _ => {}
        }
        // Also after a conflict on delete: the name may belong to another pod now, and the GET will show it.
        self.ask_first = true;
        self.pause(now);
        if self.failures.is_power_of_two() {
            warn!(%pod, %uid, %err, attempt = self.failures, "Failed to update status for pod");
        }
    }

    pub(super) fn pause(&mut self, now: Instant) -> Instant {
        self.failures = self.failures.saturating_add(1);
        let due = now + pod_pause(self.failures);
        self.at = At::Later(due);
        due
    }
}
/// Versions are opaque by contract, but those of one object have always been growing numbers, and since v1.35 the API
/// says so. Without one, the newest to arrive counts.
fn resource_version(pod: &Pod) -> Option<u64> {
    pod.metadata.resource_version.as_deref()?.parse().ok()
}
