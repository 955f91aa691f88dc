//! What differs between two lists of all pods (PLEG-02, PLEG-03). Sandboxes are treated like containers.

use std::collections::{BTreeMap, BTreeSet};

use rubelet_core::observe::{ContainerStateKind, Hint, PodSummary, SandboxState};

use super::Listing;

/// One hint per pod of which a sandbox or a container came, went or changed its state.
#[doc(alias = "computeEvents")]
pub(super) fn hints_between(old: Option<&Listing>, new: &Listing) -> Vec<Hint> {
    let before = |uid| old.and_then(|listing| listing.get(uid));
    let uids: BTreeSet<_> = old.into_iter().flatten().map(|(uid, _)| uid).chain(new.keys()).collect();
    let changed = uids.into_iter().filter(|uid| states(before(uid)) != states(new.get(uid)));
    changed.map(|uid| Hint { uid: uid.clone() }).collect()
}

fn states(pod: Option<&PodSummary>) -> BTreeMap<&str, ContainerStateKind> {
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
