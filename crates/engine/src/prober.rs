//! Runs the startup, readiness and liveness probes of the node's containers (section 13).
//!
//! One task owns every probe and one queue of deadlines: a thousand probes are a thousand entries and one timer. Probes
//! that are due run beside the task, within limits. An answer comes back as an event, and `core::probe` decides the probe
//! result. When a pod's results change, the sync loop gets them and acts on them; the prober touches no container.
//!
//! The sync loop sends a pod's targets with each look at the pod, and the prober forgets pods that are gone (HK-04). In
//! both directions the newest message of a pod replaces one that was not received yet, so neither task waits for the other.

mod pod;
mod run;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::id::PodUid;
use rubelet_core::observe::PodObservation;
use rubelet_core::plan::{ProbeView, Verdict};
use rubelet_core::probe::{ProbeKind, probed};
use tokio::sync::{mpsc, oneshot};

use crate::metrics::ProbeCounts;

pub use task::Prober;

/// Capacity of the channel in each direction. Messages beyond it wait with their sender, one for each pod.
const CAPACITY: usize = 64;

/// What the prober needs to know about a pod.
#[derive(Clone, Debug)]
pub(crate) struct ProbeTargets {
    pub(crate) pod: Arc<Pod>,
    /// The last observation.
    pub(crate) seen: Option<Arc<PodObservation>>,
    /// The pod's status: its IP, and which containers had started before this agent did.
    pub(crate) status: Arc<PodStatus>,
    /// The pod is terminating.
    pub(crate) ending: bool,
}

/// The probe results of a pod, when they changed.
#[derive(Clone, Debug)]
pub(crate) struct ProbeNews {
    pub(crate) uid: PodUid,
    /// The results.
    pub(crate) view: Arc<ProbeView>,
    /// New lines for the timeline.
    pub(crate) happened: Vec<String>,
    /// Which probe has to pass before the pod is ready, as text for people.
    pub(crate) waits_for: Option<String>,
    /// The probes that do not pass now.
    pub(crate) troubles: Vec<ProbeTrouble>,
}

/// A probe that does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeTrouble {
    /// The container.
    pub container: Arc<str>,
    /// The probe.
    pub kind: ProbeKind,
    /// Its last output.
    pub said: String,
    /// How often in a row it failed; zero if it could not be run.
    pub times: u32,
}

#[derive(Debug)]
enum ProbeUpdate {
    Targets(ProbeTargets),
    Gone,
}

/// Reads the counts of the prober.
#[derive(Clone, Debug)]
pub struct ProberHandle {
    ask: mpsc::Sender<Question>,
}

/// What the prober is asked.
#[derive(Debug)]
pub(crate) enum Question {
    Counts(oneshot::Sender<Vec<ProbeCounts>>),
    History(PodUid, oneshot::Sender<Vec<ProbeHistory>>),
}

/// The last results of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeHistory {
    /// The container.
    pub container: Arc<str>,
    /// The probe.
    pub kind: ProbeKind,
    /// Its results, oldest first; equal ones in a row are one.
    pub runs: Vec<ProbeRun>,
}

/// Equal results in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRun {
    /// The result; `None` if the probe could not be run.
    pub result: Option<Verdict>,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
    /// How many they are.
    pub times: u32,
}

impl ProberHandle {
    /// The counts of every probe of every container on the node; `None` if the prober has ended.
    pub async fn counts(&self) -> Option<Vec<ProbeCounts>> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Question::Counts(reply)).await.ok()?;
        answer.await.ok()
    }

    /// The last results of the probes of one pod; none if the prober has ended.
    pub async fn history(&self, uid: PodUid) -> Vec<ProbeHistory> {
        let (reply, answer) = oneshot::channel();
        let sent = self.ask.send(Question::History(uid, reply)).await;
        if sent.is_err() { Vec::new() } else { answer.await.unwrap_or_default() }
    }
}

/// The sync loop's end: sends targets, and receives results.
#[derive(Debug)]
pub struct ProberLine {
    /// To the prober.
    pub(crate) sender: ProbeSender,
    /// From the prober.
    pub(crate) news: mpsc::Receiver<ProbeNews>,
}

/// Sends targets to the prober without ever waiting for it.
#[derive(Debug)]
pub(crate) struct ProbeSender {
    updates: mpsc::Sender<(PodUid, ProbeUpdate)>,
    unsent: BTreeMap<PodUid, ProbeUpdate>,
    /// Pods that the prober knows.
    known: BTreeSet<PodUid>,
}

impl ProbeSender {
    /// Sends the pod's targets, if it has probes.
    pub(crate) fn targets(&mut self, uid: &PodUid, targets: ProbeTargets) {
        if probed(&targets.pod).next().is_some() {
            self.known.insert(uid.clone());
            self.unsent.insert(uid.clone(), ProbeUpdate::Targets(targets));
        }
    }

    /// The pod has no containers any more.
    pub(crate) fn gone(&mut self, uid: &PodUid) {
        if self.known.remove(uid) {
            self.unsent.insert(uid.clone(), ProbeUpdate::Gone);
        }
    }

    /// Sends one update once the channel has room; pends for ever if there is none. Cancel-safe: an update that is not
    /// sent stays.
    pub(crate) async fn flush(&mut self) {
        if self.unsent.is_empty() {
            return std::future::pending().await;
        }
        match self.updates.reserve().await {
            Ok(room) => {
                if let Some(update) = self.unsent.pop_first() {
                    room.send(update);
                }
            }
            // The prober has ended: the agent is shutting down.
            Err(_) => self.unsent.clear(),
        }
    }
}
