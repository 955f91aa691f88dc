//! The probes of one pod.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus, Probe};
use rubelet_core::id::{ContainerId, PodUid};
use rubelet_core::observe::ContainerState;
use rubelet_core::plan::{ProbeView, Verdict};
use rubelet_core::probe::{Answer, ContainerProbes, ProbeKind, Sight, Timing, probed, resolve};
use rubelet_core::time::{Instant, Now};

use super::run::Question;
use super::{ProbeHistory, ProbeRun, ProbeTargets, ProbeTrouble};
use crate::metrics::Tally;

/// Which probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) uid: PodUid,
    pub(super) container: Arc<str>,
    pub(super) kind: ProbeKind,
}

pub(super) struct ProbedPod {
    pub(super) pod: Arc<Pod>,
    ip: Option<String>,
    pub(super) containers: BTreeMap<Arc<str>, ProbedContainer>,
    /// The results that the sync loop last got.
    pub(super) shown: Arc<ProbeView>,
}

pub(super) struct ProbedContainer {
    spec: Specs,
    pub(super) probes: ContainerProbes,
    /// The deadline in the queue for each kind.
    pub(super) queued: BTreeMap<ProbeKind, Instant>,
    /// The last answer that was not a pass; removed by a pass.
    trouble: BTreeMap<ProbeKind, String>,
    /// The counts of each kind, over all instances.
    pub(super) tallies: Vec<(ProbeKind, Tally)>,
    /// The last results of each kind, over all instances.
    history: BTreeMap<ProbeKind, VecDeque<ProbeRun>>,
}

/// How many changes of a probe's result are remembered.
const CHANGES: usize = 6;

impl ProbedContainer {
    /// Remembers a result; equal ones in a row are one.
    pub(super) fn remember(&mut self, kind: ProbeKind, result: Option<Verdict>, at: Timestamp) {
        let runs = self.history.entry(kind).or_default();
        match runs.back_mut().filter(|run| run.result == result) {
            Some(run) => (run.last, run.times) = (at, run.times.saturating_add(1)),
            None => {
                if runs.len() >= CHANGES {
                    runs.pop_front();
                }
                runs.push_back(ProbeRun { result, first: at, last: at, times: 1 });
            }
        }
    }

    /// Counts an answer.
    pub(super) fn count(&mut self, kind: ProbeKind, answer: &Answer, took: Duration) {
        match self.tallies.iter_mut().find(|(of, _)| *of == kind) {
            Some((_, tally)) => tally.count(answer, took),
            None => {
                let mut tally = Tally::default();
                tally.count(answer, took);
                self.tallies.push((kind, tally));
            }
        }
    }
}

/// The probes as the spec has them; they can change while the container runs.
#[derive(PartialEq)]
struct Specs([Option<Probe>; 3]);

impl Specs {
    fn of(container: &Container) -> Self {
        Self(ProbeKind::ALL.map(|kind| kind.of(container).cloned()))
    }
}

impl ProbedPod {
    pub(super) fn new(pod: &Arc<Pod>) -> Self {
        Self { pod: Arc::clone(pod), ip: None, containers: BTreeMap::new(), shown: Arc::default() }
    }

    /// Takes over the newest spec and observation. `jitter` is called once for each container.
    pub(super) fn update(&mut self, targets: &ProbeTargets, now: Now, mut jitter: impl FnMut() -> f64) {
        self.ip = targets.status.pod_ip.clone();
        let same = Arc::ptr_eq(&self.pod, &targets.pod) && !self.containers.is_empty();
        if !same {
            self.pod = Arc::clone(&targets.pod);
            self.respec();
        }
        let Some(seen) = &targets.seen else { return };
        for (name, container) in &mut self.containers {
            let Some(current) = seen.current(name) else { continue };
            let running_since = match &current.state {
                ContainerState::Running { started_at } => Some(*started_at),
                ContainerState::Created | ContainerState::Exited(_) | ContainerState::Unknown => None,
            };
            let sight = Sight {
                id: &current.id,
                running_since,
                started_before: has_started(&targets.status, name, &current.id),
                ending: targets.ending,
            };
            if container.probes.instance() != Some(&current.id) {
                container.trouble.clear();
            }
            container.probes.see(&sight, now, jitter());
        }
    }

    /// Follows the spec: a container whose probes changed starts over with them.
    fn respec(&mut self) {
        let mut old = std::mem::take(&mut self.containers);
        for container in probed(&self.pod) {
            let spec = Specs::of(container);
            let name: Arc<str> = container.name.as_str().into();
            let mut before = old.remove(&name);
            let tallies = before.as_mut().map(|old| std::mem::take(&mut old.tallies)).unwrap_or_default();
            let kept = before.filter(|old| old.spec == spec).unwrap_or_else(|| ProbedContainer {
                spec,
                probes: ContainerProbes::new(container),
                queued: BTreeMap::new(),
                trouble: BTreeMap::new(),
                tallies: Vec::new(),
                history: BTreeMap::new(),
            });
            self.containers.insert(name, ProbedContainer { tallies, ..kept });
        }
    }

    /// The run that is due, if it still is.
    pub(super) fn ask(&mut self, key: &Key, now: Instant) -> Option<Question> {
        let container = self.containers.get_mut(&key.container)?;
        let instance = container.probes.begin(key.kind, now)?;
        let spec = probed(&self.pod).find(|c| *c.name == *key.container)?;
        let probe = key.kind.of(spec)?;
        Some(Question {
            key: key.clone(),
            instance,
            action: resolve(probe, spec, self.ip.as_deref()),
            timeout: Timing::of(probe).timeout,
        })
    }

    /// Records an answer. Returns whether the text of the failure changed.
    pub(super) fn answered(&mut self, key: &Key, instance: &ContainerId, answer: &Answer, now: Now) -> bool {
        let Some(container) = self.containers.get_mut(&key.container) else { return false };
        if container.probes.instance() != Some(instance) {
            return false;
        }
        let changed = match answer {
            Answer::Pass | Answer::Warn(_) => container.trouble.remove(&key.kind).is_some(),
            Answer::Fail(text) | Answer::Error { detail: text, .. } => {
                container.trouble.insert(key.kind, text.clone()).as_ref() != Some(text)
            }
        };
        container.probes.answered(key.kind, instance, answer, now);
        changed
    }

    /// The probes that do not pass, with their last output.
    pub(super) fn troubles(&self) -> Vec<ProbeTrouble> {
        let of = |(name, container): (&Arc<str>, &ProbedContainer)| -> Vec<ProbeTrouble> {
            let trouble = |(kind, said): (&ProbeKind, &String)| {
                let streak = container.probes.probe(*kind).and_then(|probe| probe.streak());
                let times = streak.filter(|(verdict, _)| *verdict != Verdict::Success).map_or(0, |(_, times)| times);
                ProbeTrouble { container: Arc::clone(name), kind: *kind, said: said.clone(), times }
            };
            container.trouble.iter().map(trouble).collect()
        };
        self.containers.iter().flat_map(of).collect()
    }

    /// The last results of every probe.
    pub(super) fn history(&self) -> Vec<ProbeHistory> {
        let of = |(name, container): (&Arc<str>, &ProbedContainer)| -> Vec<ProbeHistory> {
            let history = |(kind, runs): (&ProbeKind, &VecDeque<ProbeRun>)| ProbeHistory {
                container: Arc::clone(name),
                kind: *kind,
                runs: runs.iter().cloned().collect(),
            };
            container.history.iter().map(history).collect()
        };
        self.containers.iter().flat_map(of).collect()
    }

    /// The current results.
    pub(super) fn view(&self) -> ProbeView {
        let mut view = ProbeView::default();
        for container in self.containers.values() {
            container.probes.show(&mut view);
        }
        view
    }

    /// Which probe has to pass before the pod is ready, as text for people.
    pub(super) fn waits_for(&self) -> Option<String> {
        let open = |kind: ProbeKind| {
            self.containers.iter().find_map(|(name, container)| {
                let probe = container.probes.probe(kind)?;
                // A container that does not run yet waits for its start, not for a probe.
                if probe.verdict() == Some(Verdict::Success) || !container.probes.is_running() {
                    return None;
                }
                let probe = kind.as_str().to_lowercase();
                Some(match container.trouble.get(&kind) {
                    Some(said) => format!("the {probe} probe of container {name} to pass; its last output: {said}"),
                    None => format!("the {probe} probe of container {name} to pass for the first time"),
                })
            })
        };
        open(ProbeKind::Startup).or_else(|| open(ProbeKind::Readiness))
    }
}

/// Whether the status shows this very instance as started.
fn has_started(status: &PodStatus, name: &str, id: &ContainerId) -> bool {
    let is_it = |at: &&ContainerStatus| {
        let instance = at.container_id.as_deref().and_then(|text| text.split_once("://"));
        at.name == name && instance.is_some_and(|(_, text)| text == id.as_str())
    };
    let mut all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.find(is_it).is_some_and(|at| at.started == Some(true))
}

#[cfg(test)]
mod tests;
