//! Laws of the fake world that are checked at every start of a container.
//!
//! The name of an init container or sidecar, `init-2` or `side-0`, gives its place in the order of starts; all others
//! are regular.

use rubelet_core::id::{ContainerId, PodUid};
use rubelet_core::observe::SandboxState;
use rubelet_core::pod::{SOURCE_ANNOTATION, Source};

use super::world::{FakeContainer, FakeSandbox, Life, World};

/// A container's place in the order of starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u32);

impl Place {
    const REGULAR: Self = Self(u32::MAX);

    fn of(name: &str) -> Self {
        let number = name.strip_prefix("init-").or_else(|| name.strip_prefix("side-"));
        number.and_then(|n| n.parse().ok()).map_or(Self::REGULAR, Self)
    }
}

fn has_started(container: &FakeContainer) -> bool {
    match &container.life {
        Life::Created => false,
        Life::Running { .. } => true,
        // A container whose start failed has a finish time but no start time.
        Life::Exited(exit) => exit.started_at != jiff::Timestamp::UNIX_EPOCH,
    }
}

impl World {
    /// Records the laws that the start of `id` breaks.
    pub(super) fn check_start(&mut self, uid: &PodUid, id: &ContainerId) {
        let broken: Vec<String> =
            [self.two_of_a_name(uid, id), self.out_of_order(uid, id)].into_iter().flatten().collect();
        self.violations.extend(broken);
    }

    /// Static pods of equal names never overlap (WORK-08). A force-deleted pod may still be terminating when the next
    /// of its name starts.
    fn two_of_a_name(&self, uid: &PodUid, id: &ContainerId) -> Option<String> {
        let (_, starting) = self.container(id)?;
        let mine = &self.pods.get(uid)?.sandboxes.get(&starting.sandbox)?.config;
        if mine.annotations.get(SOURCE_ANNOTATION).is_some_and(|source| source == Source::Api.as_str()) {
            return None;
        }
        let twin = self.pods.iter().find(|(other, pod)| {
            let named = |s: &FakeSandbox| s.config.name == mine.name && s.config.namespace == mine.namespace;
            let runs = |c: &FakeContainer| {
                matches!(c.life, Life::Running { .. }) && pod.sandboxes.get(&c.sandbox).is_some_and(named)
            };
            *other != uid && pod.containers.values().any(runs)
        });
        twin.map(|(other, _)| format!("{uid}: starts while {other} of the same name runs"))
    }

    /// Init containers finish before later containers start, sidecars start before later containers (RT-30 … RT-32).
    fn out_of_order(&self, uid: &PodUid, id: &ContainerId) -> Option<String> {
        let pod = self.pods.get(uid)?;
        let starting = pod.containers.get(id)?;
        let name = &starting.config.name;
        let place = Place::of(name);
        let mut here = pod.containers.values().filter(|c| c.sandbox == starting.sandbox && has_started(c));
        let again = here.clone().any(|c| c.config.name == *name);
        let later = here.find(|c| Place::of(&c.config.name) > place);
        let allowed = again && name.starts_with("side-");
        later.filter(|_| !allowed).map(|later| format!("{uid}: {name} starts after {}", later.config.name))
    }

    /// The pod has no processes.
    pub(super) fn is_still(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_none_or(|pod| {
            pod.sandboxes.values().all(|s| s.state == SandboxState::NotReady)
                && !pod.containers.values().any(|c| matches!(c.life, Life::Running { .. }))
        })
    }
}
