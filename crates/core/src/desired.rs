//! The desired pods: those that the sources want this node to run, merged.
//!
//! Each source always delivers its whole set. `DesiredPods` keeps it and returns the difference to the set before, in an
//! order that is safe to act on: removals before additions. It owns no timer and starts nothing.
//!
//! What is always true:
//! - within a source each UID and each `name_namespace` is held once; later ones of a delivery are refused and reported;
//! - every pod held carries its source and the time it was first seen as annotations, and the time never changes;
//! - a pod that did not change keeps its `Arc`, so that holders can compare pointers;
//! - a mirror pod is never an ordinary pod: it is found only through the functions that name mirrors.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::id::{FullName, PodRef, PodUid};
use crate::pod::{MIRROR_ANNOTATION, PodExt, SEEN_ANNOTATION, SOURCE_ANNOTATION, Source};
use crate::time::Now;

mod compare;

use compare::{Difference, difference};

/// All pods that the sources want, and the index of mirror pods.
#[doc(alias = "PodConfig")]
#[doc(alias = "podStorage")]
#[doc(alias = "podManager")]
#[doc(alias = "sourcesReady")]
#[derive(Clone, Debug, Default)]
pub struct DesiredPods {
    configured: BTreeSet<Source>,
    /// A source is a key from its first delivery on, even if that was empty.
    sets: BTreeMap<Source, BTreeMap<PodUid, Arc<Pod>>>,
    /// Ordinary pods by name. Two sources may ask for one name; each source holds it at most once.
    names: BTreeMap<FullName, BTreeMap<Source, PodUid>>,
    /// Mirror pods by name. Only the API server has them.
    mirror_names: BTreeMap<FullName, PodUid>,
}

/// What one delivery changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The source that delivered.
    pub source: Source,
    /// In this order: all removals, additions, updates, deletions, reconciliations (SRC-09). Additions are sorted: the
    /// highest priority first, then the oldest.
    pub deltas: Vec<Delta>,
    /// The source had not delivered before: it is ready from now on, even if nothing came (upstream's empty ADD).
    pub first_delivery: bool,
    /// Pods of the delivery that were refused (SRC-07).
    pub duplicates: Vec<Duplicate>,
}

/// One pod that changed. For a removal it is the pod as it was last held, otherwise as it is held now.
#[doc(alias = "PodUpdate")]
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// What happened to it.
    pub op: DeltaOp,
    /// The pod, with its source and first-seen annotations.
    pub pod: Arc<Pod>,
}

/// What happened to a pod, in the order in which the deltas of a delivery are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeltaOp {
    /// The source no longer has it.
    Remove,
    /// The source has it anew.
    Add,
    /// Something changed that the node acts on.
    Update,
    /// The same, and it is to be deleted gracefully.
    Delete,
    /// Only its status changed: ours is the truth and must be written again.
    Reconcile,
}

/// A pod that was refused because an earlier one of the same delivery has its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Duplicate {
    /// The refused pod.
    pub pod: Arc<Pod>,
    /// What it has in common with the earlier one.
    pub clash: Clash,
    /// Which source it came from.
    pub source: Source,
}

/// What two pods of one delivery have in common that must be unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clash {
    /// Name and namespace.
    Name,
    /// The UID.
    Uid,
}

impl Duplicate {
    /// The event's sentence, as upstream words it (reason `FailedValidation`).
    pub fn message(&self) -> String {
        let pod = PodRef::of(&self.pod);
        let source = self.source.as_str();
        match self.clash {
            Clash::Name => {
                format!("Error validating pod {pod} from {source} due to duplicate pod name {:?}, ignoring", &*pod.name)
            }
            Clash::Uid => {
                format!(
                    "Error validating pod {pod} from {source} due to duplicate pod UID {:?}, ignoring",
                    pod.uid.as_str()
                )
            }
        }
    }
}

impl DesiredPods {
    /// Nothing yet, with these sources to wait for.
    #[must_use]
    pub fn sources(configured: impl IntoIterator<Item = Source>) -> Self {
        Self { configured: configured.into_iter().collect(), ..Self::default() }
    }

    /// Every configured source has delivered at least once, so that a pod that is not held is not wanted (SRC-10).
    #[doc(alias = "SeenAllSources")]
    #[doc(alias = "AllReady")]
    pub fn all_sources_seen(&self) -> bool {
        self.configured.iter().all(|source| self.sets.contains_key(source))
    }

    /// This source has delivered at least once.
    pub fn has_delivered(&self, source: Source) -> bool {
        self.sets.contains_key(&source)
    }

    /// Sources that have not delivered yet.
    pub fn sources_missing(&self) -> impl Iterator<Item = Source> {
        self.configured.iter().copied().filter(|source| !self.sets.contains_key(source))
    }

    /// Takes the whole set that `source` wants now and returns the changes (SRC-07 … SRC-09).
    ///
    /// Hand over the only reference to each pod where possible: annotating it is then free of copies.
    #[doc(alias = "Merge")]
    pub fn deliver(&mut self, source: Source, pods: Vec<Arc<Pod>>, now: Now) -> Changes {
        let first_delivery = !self.sets.contains_key(&source);
        let Sorted { mut held, mut old, pods } = self.sort_out(source, pods);
        let (pods, duplicates) = refuse_duplicates(source, pods);
        let mut deltas = Vec::new();
        let mut add = |op, pod: &Arc<Pod>| deltas.push(Delta { op, pod: Arc::clone(pod) });

        for (pod_ref, mut pod) in pods {
            let existing = match old.remove(&pod_ref.uid) {
                // The runtime knows a pod by its name too: under another name it is another pod, though its manifest
                // names the same UID. Upstream goes on under the old name, so that a rename is never seen.
                Some(existing) if !same_name(&existing, &pod) => {
                    add(DeltaOp::Remove, &existing);
                    self.forget_name(source, &existing);
                    None
                }
                found => found,
            };
            let Some(existing) = existing else {
                annotate_new(&mut pod, source, now);
                add(DeltaOp::Add, &pod);
                self.remember_name(source, &pod_ref, &pod);
                held.insert(pod_ref.uid, pod);
                continue;
            };
            let op = match difference(&existing, &pod) {
                Difference::None => {
                    held.insert(pod_ref.uid, existing);
                    continue;
                }
                Difference::Status => DeltaOp::Reconcile,
                Difference::Desire if pod.is_deleted() => DeltaOp::Delete,
                Difference::Desire => DeltaOp::Update,
            };
            carry_annotations(&existing, &mut pod, source);
            add(op, &pod);
            held.insert(pod_ref.uid, pod);
        }
        for pod in old.values() {
            add(DeltaOp::Remove, pod);
            self.forget_name(source, pod);
        }

        self.sets.insert(source, held);
        // Stable: within one operation the source's order stays, but for additions.
        deltas.sort_by_cached_key(|delta| (delta.op, start_order(delta)));
        Changes { source, deltas, first_delivery, duplicates }
    }

    /// Sets apart the pods that are the same object as before. Mostly these are all but one of thousands: no name is built
    /// for them and no index changed, so a delivery costs little more than a walk over its pods.
    fn sort_out(&mut self, source: Source, pods: Vec<Arc<Pod>>) -> Sorted {
        let mut held = self.sets.remove(&source).unwrap_or_default();
        let mut before: HashSet<*const Pod> = held.values().map(Arc::as_ptr).collect();
        let same: Vec<bool> = pods.iter().map(|pod| before.remove(&Arc::as_ptr(pod))).collect();
        let (gone, mut old) = (before, BTreeMap::new());
        if !gone.is_empty() {
            old = held.extract_if(.., |_, pod| gone.contains(&Arc::as_ptr(pod))).collect();
        }
        let others = || pods.iter().zip(&same).filter(|(_, same)| !**same).map(|(pod, _)| PodRef::of(pod));
        if others().any(|pod| held.contains_key(&pod.uid) || self.is_taken(source, &pod.full_name(), &held)) {
            // Which of two duplicates is kept depends on their order: compare all pods, in the order of the delivery.
            old.append(&mut held);
            return Sorted { held, old, pods };
        }
        let pods = pods.into_iter().zip(same).filter(|(_, same)| !same).map(|(pod, _)| pod).collect();
        Sorted { held, old, pods }
    }

    /// One of these pods has the name.
    fn is_taken(&self, source: Source, name: &FullName, held: &BTreeMap<PodUid, Arc<Pod>>) -> bool {
        let ordinary = self.names.get(name).and_then(|sources| sources.get(&source));
        let mirror = self.mirror_names.get(name).filter(|_| source == Source::Api);
        ordinary.into_iter().chain(mirror).any(|uid| held.contains_key(uid))
    }

    /// The ordinary pod with this UID.
    #[doc(alias = "GetPodByUID")]
    pub fn get(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.find(uid).filter(|pod| !pod.is_mirror())
    }

    /// Every ordinary pod, by source and UID.
    #[doc(alias = "GetPods")]
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.sets.values().flat_map(BTreeMap::values).filter(|pod| !pod.is_mirror())
    }

    /// Every mirror pod, by UID.
    pub fn mirrors(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.sets.get(&Source::Api).into_iter().flat_map(BTreeMap::values).filter(|pod| pod.is_mirror())
    }

    fn find(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.sets.values().find_map(|set| set.get(uid))
    }

    fn remember_name(&mut self, source: Source, pod_ref: &PodRef, pod: &Pod) {
        if pod.is_mirror() {
            self.mirror_names.insert(pod_ref.full_name(), pod_ref.uid.clone());
        } else {
            self.names.entry(pod_ref.full_name()).or_default().insert(source, pod_ref.uid.clone());
        }
    }

    /// Forgets the name, unless another pod of the source took it meanwhile.
    fn forget_name(&mut self, source: Source, pod: &Pod) {
        let PodRef { uid, .. } = PodRef::of(pod);
        let name = PodRef::of(pod).full_name();
        if pod.is_mirror() {
            if self.mirror_names.get(&name) == Some(&uid) {
                self.mirror_names.remove(&name);
            }
        } else if let Entry::Occupied(mut entry) = self.names.entry(name) {
            if entry.get().get(&source) == Some(&uid) {
                entry.get_mut().remove(&source);
            }
            if entry.get().is_empty() {
                entry.remove();
            }
        }
    }
}

/// A delivery, beside the set before it.
struct Sorted {
    /// The same objects as before.
    held: BTreeMap<PodUid, Arc<Pod>>,
    /// The rest of the set before.
    old: BTreeMap<PodUid, Arc<Pod>>,
    /// The rest of the delivery.
    pods: Vec<Arc<Pod>>,
}

/// Lets each name and each UID through once, in the order of the delivery.
///
/// upstream: config.go filterInvalidPods (v1.36) looks at names only; a UID that comes twice there is added twice.
#[doc(alias = "filterInvalidPods")]
fn refuse_duplicates(source: Source, pods: Vec<Arc<Pod>>) -> (Vec<(PodRef, Arc<Pod>)>, Vec<Duplicate>) {
    let mut names = BTreeSet::new();
    let mut uids = BTreeSet::new();
    let mut accepted = Vec::with_capacity(pods.len());
    let mut duplicates = Vec::new();
    for pod in pods {
        let pod_ref = PodRef::of(&pod);
        let name = pod_ref.full_name();
        let clash = if names.contains(&name) {
            Clash::Name
        } else if uids.contains(&pod_ref.uid) {
            Clash::Uid
        } else {
            names.insert(name);
            uids.insert(pod_ref.uid.clone());
            accepted.push((pod_ref, pod));
            continue;
        };
        duplicates.push(Duplicate { pod, clash, source });
    }
    (accepted, duplicates)
}

/// Where an addition stands among the additions of its delivery; equal for every other operation.
///
/// upstream: kubelet.go HandlePodAdditions (v1.36) sorts by creation alone, so that after a reboot the pods that others
/// need may start last.
fn start_order(delta: &Delta) -> (std::cmp::Reverse<i32>, Option<jiff::Timestamp>) {
    if delta.op != DeltaOp::Add {
        return (std::cmp::Reverse(0), None);
    }
    let priority = delta.pod.pod_spec().and_then(|spec| spec.priority).unwrap_or_default();
    let created = delta.pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (std::cmp::Reverse(priority), created)
}

fn same_name(a: &Pod, b: &Pod) -> bool {
    a.metadata.name == b.metadata.name && a.metadata.namespace == b.metadata.namespace
}

fn annotate_new(pod: &mut Arc<Pod>, source: Source, now: Now) {
    // The API's source keeps what it delivers, and marks it before: a copy of each pod would be held for nothing.
    if source == Source::Api && pod.source() == Some(source) && pod.annotation(SEEN_ANNOTATION).is_some() {
        return;
    }
    let annotations = Arc::make_mut(pod).metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCE_ANNOTATION.into(), source.as_str().into());
    annotations.insert(SEEN_ANNOTATION.into(), now.wall.to_string());
    refuse_mirror_mark(annotations, source);
}

/// upstream: config.go updateAnnotations (v1.36): the local annotations of the pod as held win over the delivered ones.
fn carry_annotations(existing: &Pod, pod: &mut Arc<Pod>, source: Source) {
    let local = [SOURCE_ANNOTATION, SEEN_ANNOTATION, MIRROR_ANNOTATION];
    if source == Source::Api && local.iter().all(|key| existing.annotation(key) == pod.annotation(key)) {
        return;
    }
    let annotations = Arc::make_mut(pod).metadata.annotations.get_or_insert_default();
    for key in local {
        match existing.annotation(key) {
            Some(value) => annotations.insert(key.into(), value.into()),
            // What was an ordinary pod stays one: its UID is known to the runtime.
            None => annotations.remove(key),
        };
    }
    refuse_mirror_mark(annotations, source);
}

/// Only the API server has mirror pods: a manifest that carries the mark would be neither run nor mirrored.
fn refuse_mirror_mark(annotations: &mut BTreeMap<String, String>, source: Source) {
    if source != Source::Api {
        annotations.remove(MIRROR_ANNOTATION);
    }
}
