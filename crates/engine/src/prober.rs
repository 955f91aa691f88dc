//! Probes every container of the node that asks for it (section 13).
//!
//! One task owns every probe and one queue of deadlines: a thousand probes are a thousand entries and one timer. What is
//! due runs beside it, within limits; an answer comes back as an event, and `core::probe` says what it means. The
//! sync loop is told what stands of a pod when that changes, and decides; the prober touches no container.
//!
//! It is told of pods by the sync loop, with each look at them, and forgets them when they are gone (HK-04). Both ways
//! the newest word of each pod replaces an older one that was not taken yet, so neither task ever waits for the other.

mod pod;
mod run;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::id::PodUid;
use rubelet_core::observe::PodObservation;
use rubelet_core::plan::ProbeView;
use rubelet_core::probe::{ProbeKind, probed};
use tokio::sync::{mpsc, oneshot};

use crate::metrics::ProbeCounts;

pub use task::Prober;

/// How many words about pods may wait, either way. More only wait a little longer.
const WORDS: usize = 64;

/// What the prober needs to know of a pod.
#[derive(Clone, Debug)]
pub(crate) struct ProbeTargets {
    pub(crate) pod: Arc<Pod>,
    /// The last look at it.
    pub(crate) seen: Option<Arc<PodObservation>>,
    /// Its status: where it is, and which of its containers had started before us.
    pub(crate) status: Arc<PodStatus>,
    /// It is on its way out.
    pub(crate) ending: bool,
}

/// What the prober knows of a pod.
#[derive(Clone, Debug)]
pub(crate) struct ProbeNews {
    pub(crate) uid: PodUid,
    /// What stands.
    pub(crate) view: Arc<ProbeView>,
    /// What happened, for the timeline.
    pub(crate) happened: Vec<String>,
    /// What a probe still has to say before the pod is ready, in words for people.
    pub(crate) waits_for: Option<String>,
    /// Which probes do not pass now.
    pub(crate) troubles: Vec<ProbeTrouble>,
}

/// A probe that does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeTrouble {
    /// Of which container.
    pub container: Arc<str>,
    /// Which probe.
    pub kind: ProbeKind,
    /// What it said last.
    pub said: String,
    /// How often in a row it failed; none if it could not be asked.
    pub times: u32,
}

#[derive(Debug)]
enum Word {
    Targets(ProbeTargets),
    Gone,
}

/// Asks the prober what came of its probes.
#[derive(Clone, Debug)]
pub struct ProberHandle {
    ask: mpsc::Sender<oneshot::Sender<Vec<ProbeCounts>>>,
}

impl ProberHandle {
    /// What came of every probe of every container that is here; `None` if the prober has ended.
    pub async fn counts(&self) -> Option<Vec<ProbeCounts>> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(reply).await.ok()?;
        answer.await.ok()
    }
}

/// The sync loop's end: tells of pods, and hears what stands.
#[derive(Debug)]
pub struct ProberLine {
    /// To the prober.
    pub(crate) teller: Teller,
    /// From the prober.
    pub(crate) news: mpsc::Receiver<ProbeNews>,
}

/// Tells the prober of pods, without ever waiting for it.
#[derive(Debug)]
pub(crate) struct Teller {
    words: mpsc::Sender<(PodUid, Word)>,
    unsent: BTreeMap<PodUid, Word>,
    /// Pods that the prober knows.
    told: BTreeSet<PodUid>,
}

impl Teller {
    /// This is how the pod is now.
    pub(crate) fn targets(&mut self, uid: &PodUid, targets: ProbeTargets) {
        if probed(&targets.pod).next().is_some() {
            self.told.insert(uid.clone());
            self.unsent.insert(uid.clone(), Word::Targets(targets));
        }
    }

    /// The pod holds no container any more.
    pub(crate) fn gone(&mut self, uid: &PodUid) {
        if self.told.remove(uid) {
            self.unsent.insert(uid.clone(), Word::Gone);
        }
    }

    /// Sends one word, when there is one and room for it; waits for ever if there is none. Cancel-safe: what is not
    /// sent stays.
    pub(crate) async fn flush(&mut self) {
        if self.unsent.is_empty() {
            return std::future::pending().await;
        }
        match self.words.reserve().await {
            Ok(room) => {
                if let Some(word) = self.unsent.pop_first() {
                    room.send(word);
                }
            }
            // The prober has gone: we are shutting down.
            Err(_) => self.unsent.clear(),
        }
    }
}
