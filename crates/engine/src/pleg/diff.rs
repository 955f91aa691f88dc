//! What differs between two lists of all pods (PLEG-02, PLEG-03). Sandboxes are treated like containers.

use std::collections::BTreeMap;

use rubelet_core::id::PodUid;
use rubelet_core::observe::{ContainerStateKind, Hint, HintKind, PodSummary, SandboxState};

use super::Listing;

/// One hint per pod and kind of change.
#[doc(alias = "computeEvents")]
pub(super) fn hints_between(old: Option<&Listing>, new: &Listing) -> Vec<Hint> {
    let mut hints = Vec::new();
    for (uid, pod) in new {
        pod_hints(uid, old.and_then(|l| l.get(uid)), Some(pod), &mut hints);
    }
    for (uid, pod) in old.into_iter().flatten() {
        if !new.contains_key(uid) {
            pod_hints(uid, Some(pod), None, &mut hints);
        }
    }
    hints
}

fn pod_hints(uid: &PodUid, old: Option<&PodSummary>, new: Option<&PodSummary>, hints: &mut Vec<Hint>) {
    let (old, new) = (parts(old), parts(new));
    let gone = old.keys().filter(|id| !new.contains_key(*id)).map(|id| (old.get(id), None));
    let here = new.iter().map(|(id, state)| (old.get(id), Some(state)));
    let mut kinds: Vec<HintKind> =
        here.chain(gone).flat_map(|(before, after)| changes(before.copied(), after.copied())).collect();
    kinds.sort();
    kinds.dedup();
    hints.extend(kinds.into_iter().map(|kind| Hint { uid: uid.clone(), kind }));
}

fn changes(before: Option<ContainerStateKind>, after: Option<ContainerStateKind>) -> Vec<HintKind> {
    use ContainerStateKind::{Created, Exited, Running, Unknown};
    if before == after {
        return Vec::new();
    }
    match (before, after) {
        (_, Some(Running)) => vec![HintKind::ContainerStarted],
        (_, Some(Exited)) => vec![HintKind::ContainerDied],
        (_, Some(Created | Unknown)) => vec![HintKind::ContainerChanged],
        (Some(Exited), None) => vec![HintKind::ContainerRemoved],
        (Some(Running | Created | Unknown), None) => vec![HintKind::ContainerDied, HintKind::ContainerRemoved],
        (None, None) => Vec::new(),
    }
}

fn parts(pod: Option<&PodSummary>) -> BTreeMap<&str, ContainerStateKind> {
    let sandboxes = pod.into_iter().flat_map(|p| &p.sandboxes).map(|(id, sandbox)| {
        let state = match sandbox.state {
            SandboxState::Ready => ContainerStateKind::Running,
            SandboxState::NotReady => ContainerStateKind::Exited,
        };
        (id.as_str(), state)
    });
    let containers = pod.into_iter().flat_map(|p| &p.containers).map(|(id, c)| (id.as_str(), c.state));
    sandboxes.chain(containers).collect()
}

#[cfg(test)]
mod tests;
