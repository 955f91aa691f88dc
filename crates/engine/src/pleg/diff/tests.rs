//! What a difference between two lists means.

use jiff::Timestamp;
use rubelet_core::id::PodRef;
use rubelet_core::observe::{ContainerSummary, SandboxSummary};

use super::*;

/// A pod with a sandbox and one container, either of which may not be there.
fn listing(sandbox: Option<SandboxState>, container: Option<ContainerStateKind>) -> Listing {
    let pod = PodRef { namespace: "default".into(), name: "web".into(), uid: "u".into() };
    let at = Timestamp::UNIX_EPOCH;
    let sandboxes = sandbox.map(|state| ("s".into(), SandboxSummary { state, attempt: 0, created_at: at }));
    let containers = container.map(|state| {
        let (name, image_id) = ("app".to_owned(), String::new());
        ("c".into(), ContainerSummary { name, sandbox: "s".into(), state, created_at: at, restart_count: 0, image_id })
    });
    let summary = PodSummary {
        pod: pod.clone(),
        sandboxes: sandboxes.into_iter().collect(),
        containers: containers.into_iter().collect(),
    };
    [(pod.uid, summary)].into()
}

#[test]
fn pleg_03_a_difference_is_a_hint_of_its_kind() {
    use ContainerStateKind::{Created, Exited, Running, Unknown};
    use HintKind::{ContainerChanged, ContainerDied, ContainerRemoved, ContainerStarted};
    for (before, after, kinds) in [
        (None, Some(Created), vec![ContainerChanged]),
        (None, Some(Running), vec![ContainerStarted]),
        (None, Some(Exited), vec![ContainerDied]),
        (Some(Created), Some(Running), vec![ContainerStarted]),
        (Some(Running), Some(Running), vec![]),
        (Some(Running), Some(Exited), vec![ContainerDied]),
        (Some(Running), Some(Unknown), vec![ContainerChanged]),
        (Some(Running), None, vec![ContainerDied, ContainerRemoved]),
        (Some(Unknown), None, vec![ContainerDied, ContainerRemoved]),
        (Some(Exited), None, vec![ContainerRemoved]),
    ] {
        let ready = Some(SandboxState::Ready);
        let hints = hints_between(Some(&listing(ready, before)), &listing(ready, after));
        let told: Vec<HintKind> = hints.into_iter().map(|hint| hint.kind).collect();
        assert_eq!(told, kinds, "container {before:?} to {after:?}");
    }
}

#[test]
fn pleg_03_a_sandbox_counts_as_a_container() {
    let (ready, dead) = (Some(SandboxState::Ready), Some(SandboxState::NotReady));
    for (before, after, kinds) in [
        (None, ready, vec![HintKind::ContainerStarted]),
        (ready, dead, vec![HintKind::ContainerDied]),
        (dead, None, vec![HintKind::ContainerRemoved]),
    ] {
        let hints = hints_between(Some(&listing(before, None)), &listing(after, None));
        let told: Vec<HintKind> = hints.into_iter().map(|hint| hint.kind).collect();
        assert_eq!(told, kinds, "sandbox {before:?} to {after:?}");
    }
}

#[test]
fn the_first_list_hints_at_everything_in_it_and_an_empty_one_at_all_that_went() {
    let one = listing(Some(SandboxState::Ready), Some(ContainerStateKind::Running));
    assert_eq!(hints_between(None, &one).len(), 1);
    assert_eq!(hints_between(Some(&one), &Listing::new()).len(), 2);
}
