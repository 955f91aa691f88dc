//! The node's lease (NODE-30).

use std::time::Duration;

use jiff::Timestamp;
use rubelet_engine::ports::ApiErrorKind;
use rubelet_testkit::FakeNodeApi;

use crate::node::started;

fn renewed(api: &FakeNodeApi) -> Option<Timestamp> {
    api.lease()?.spec?.renew_time.map(|time| time.0)
}

fn updates(api: &FakeNodeApi) -> usize {
    api.calls().iter().filter(|call| *call == "lease update").count()
}

#[tokio::test(start_paused = true)]
async fn node_30_a_lease_is_made_with_its_node_and_renewed_four_times_in_its_life() {
    let (sim, api) = started(|_, _| {}).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    let lease = api.lease().expect("as soon as there is a node");
    let owner = &lease.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(Some(&owner.uid), api.node().unwrap().metadata.uid.as_ref());
    let spec = lease.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("node"), Some(40)));
    api.forget();
    sim.pass(600).await;
    assert!((56..=60).contains(&updates(&api)), "every ten seconds and a little: {}", updates(&api));
    assert!(!api.calls().contains(&"lease get".to_owned()), "it has no other writer: it is not read");
}

#[tokio::test(start_paused = true)]
async fn node_30_a_lease_that_was_removed_or_changed_is_had_again_with_the_next_renewal() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(5).await;
    api.put_lease(None);
    sim.pass(11).await;
    assert!(api.lease().is_some());
    let mut theirs = api.lease().unwrap();
    theirs.spec.as_mut().unwrap().holder_identity = Some("theirs".into());
    api.put_lease(Some(theirs));
    let before = renewed(&api);
    sim.pass(11).await;
    assert!(renewed(&api) > before);
}

#[tokio::test(start_paused = true)]
async fn node_30_failures_are_tried_again_at_once_and_outages_are_waited_out() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(5).await;
    let before = renewed(&api);
    for _ in 0..4 {
        api.refuse("lease update", ApiErrorKind::Failed);
    }
    sim.pass(11).await;
    assert!(renewed(&api) > before, "the fifth attempt in one go");
    api.set_away(true);
    sim.pass(300).await;
    let before = renewed(&api);
    api.set_away(false);
    sim.pass(8).await;
    assert!(renewed(&api) > before, "at least every seven seconds");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_does_not_look_like_silence() {
    let (mut sim, api) = started(|_, _| {}).await;
    sim.pass(5).await;
    sim.set_wall(jiff::SignedDuration::from_hours(-2));
    let mut last = renewed(&api);
    for _ in 0..5 {
        sim.pass(11).await;
        let now = renewed(&api);
        assert!(now > last, "{now:?} after {last:?}");
        last = now;
    }
}

#[tokio::test(start_paused = true)]
async fn node_30_a_busy_server_is_given_the_time_that_it_asks_for() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(5).await;
    let asked = Duration::from_secs(3);
    api.refuse("lease update", ApiErrorKind::Busy { retry_after: Some(asked) });
    api.forget();
    sim.until(11, "a renewal", async |_| updates(&api) == 1).await;
    sim.pass(2).await;
    assert_eq!(updates(&api), 1, "the server asked for three seconds");
    sim.pass(2).await;
    assert_eq!(updates(&api), 2);
}

#[tokio::test(start_paused = true)]
async fn the_heartbeat_shows_since_when_the_api_server_answers() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(60).await;
    let seen = sim.heartbeat().expect("a node of a cluster");
    let first = seen.borrow().clone();
    sim.pass(60).await;
    let up = first.contact.expect("it has answered");
    assert!(up.reachable && first.problem.is_none(), "{first:?}");
    assert_eq!(seen.borrow().contact, first.contact, "it has been reachable since then");
    assert!(seen.borrow().renewed.map(|at| at.wall) > first.renewed.map(|at| at.wall));

    api.set_away(true);
    sim.pass(60).await;
    let away = seen.borrow().clone();
    let down = away.contact.expect("it has been asked");
    assert!(!down.reachable && away.problem.is_some() && down.since.mono > up.since.mono, "{away:?}");

    api.set_away(false);
    sim.pass(30).await;
    // An error is an answer.
    for _ in 0..100 {
        api.refuse("lease update", ApiErrorKind::Failed);
    }
    sim.pass(30).await;
    let refused = seen.borrow().clone();
    assert!(refused.contact.is_some_and(|contact| contact.reachable) && refused.problem.is_some(), "{refused:?}");
}
