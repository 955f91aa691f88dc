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
fn pleg_03_a_difference_is_one_hint() {
    use ContainerStateKind::{Created, Exited, Running, Unknown};
    let states = [None, Some(Created), Some(Running), Some(Exited), Some(Unknown)];
    for (before, after) in states.into_iter().flat_map(|before| states.map(|after| (before, after))) {
        let ready = Some(SandboxState::Ready);
        let hints = hints_between(Some(&listing(ready, before)), &listing(ready, after));
        assert_eq!(hints.len(), usize::from(before != after), "container {before:?} to {after:?}");
    }
}

#[test]
fn pleg_03_a_sandbox_counts_as_a_container() {
    let states = [None, Some(SandboxState::Ready), Some(SandboxState::NotReady)];
    for (before, after) in states.into_iter().flat_map(|before| states.map(|after| (before, after))) {
        let hints = hints_between(Some(&listing(before, None)), &listing(after, None));
        assert_eq!(hints.len(), usize::from(before != after), "sandbox {before:?} to {after:?}");
    }
}

#[test]
fn the_first_list_hints_at_everything_in_it_and_an_empty_one_at_all_that_went() {
    let one = listing(Some(SandboxState::Ready), Some(ContainerStateKind::Running));
    let hint = [Hint { uid: "u".into() }];
    assert_eq!(hints_between(None, &one), hint);
    assert_eq!(hints_between(Some(&one), &Listing::new()), hint);
}
