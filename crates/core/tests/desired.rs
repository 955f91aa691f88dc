//! The merge of pod sources: tables for SRC-07 … SRC-12, then properties over sequences of deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use proptest::collection::vec;
use proptest::prelude::*;
use rubelet_core::desired::{Changes, DeltaOp, DesiredPods};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::pod::{PodExt, SEEN_ANNOTATION, SOURCE_ANNOTATION, Source};
use rubelet_core::time::{Instant, Now};
use rubelet_testkit::{PodBuilder, pod};

fn at(secs: u64) -> Now {
    let wall = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000) + Duration::from_secs(secs);
    Now { mono: Instant::from_secs(secs), wall }
}

fn show(changes: &Changes) -> String {
    let mut text = String::new();
    if changes.first_delivery {
        text.push_str("first delivery\n");
    }
    for delta in &changes.deltas {
        text += &format!("{:?} {}\n", delta.op, PodRef::of(&delta.pod));
    }
    for duplicate in &changes.duplicates {
        text += &format!("refused: {}\n", duplicate.message());
    }
    text
}

/// Delivers `before`, then `after`, and shows what the second delivery changed.
fn check<const N: usize, const M: usize>(before: [PodBuilder; N], after: [PodBuilder; M], want: Expect) {
    let mut desired = DesiredPods::sources([Source::Api]);
    desired.deliver(Source::Api, before.map(PodBuilder::build).to_vec(), at(0));
    want.assert_eq(&show(&desired.deliver(Source::Api, after.map(PodBuilder::build).to_vec(), at(60))));
}

#[test]
fn src_08_what_counts_as_a_change() {
    let web = || pod("web");
    check([], [web()], expect!["Add web_default(web-uid)\n"]);
    check([web()], [], expect!["Remove web_default(web-uid)\n"]);
    check([web()], [web()], expect![""]);
    check([web()], [web().image("web:2")], expect!["Update web_default(web-uid)\n"]);
    check([web()], [web().label("a", "b")], expect!["Update web_default(web-uid)\n"]);
    check([web()], [web().annotation("a", "b")], expect!["Update web_default(web-uid)\n"]);
    check([web().annotation("a", "b")], [web()], expect!["Update web_default(web-uid)\n"]);
    check([web()], [web().deleted(9, 30)], expect!["Delete web_default(web-uid)\n"]);
    check([web().deleted(9, 30)], [web().deleted(9, 1)], expect!["Delete web_default(web-uid)\n"]);
    check([web().deleted(9, 30)], [web().deleted(9, 30)], expect![""]);
    check([web()], [web().phase("Running")], expect!["Reconcile web_default(web-uid)\n"]);
    check([web()], [web().phase("Running").label("a", "b")], expect!["Update web_default(web-uid)\n"]);
    // The kubelet's own annotations are no reason.
    check([web()], [web().annotation(SEEN_ANNOTATION, "x").annotation(SOURCE_ANNOTATION, "file")], expect![""]);
    // Another UID under the same name is another pod; the old one goes first.
    check(
        [web()],
        [web().uid("new")],
        expect![[r#"
            Remove web_default(web-uid)
            Add web_default(new)
        "#]],
    );
    // Our difference: under another name it is another pod, whatever its UID.
    check(
        [web()],
        [pod("www").uid("web-uid")],
        expect![[r#"
            Remove web_default(web-uid)
            Add www_default(web-uid)
        "#]],
    );
}

#[test]
fn src_09_deltas_come_in_the_order_that_is_safe_to_act_on() {
    check(
        [pod("gone"), pod("changed"), pod("deleted"), pod("status")],
        [pod("status").phase("Running"), pod("deleted").deleted(9, 30), pod("changed").image("x"), pod("new")],
        expect![[r#"
            Remove gone_default(gone-uid)
            Add new_default(new-uid)
            Update changed_default(changed-uid)
            Delete deleted_default(deleted-uid)
            Reconcile status_default(status-uid)
        "#]],
    );
}

/// Upstream goes by creation alone, so that after a reboot a pod that others need may start last.
#[test]
fn additions_come_by_priority_then_age_then_order_of_the_source() {
    check(
        [],
        [
            pod("young").created_secs(20),
            pod("old").created_secs(10),
            pod("static-b"),
            pod("static-a"),
            pod("critical").priority(2_000_001_000).created_secs(30),
            pod("lowly").priority(-1).created_secs(1),
        ],
        expect![[r#"
            Add critical_default(critical-uid)
            Add static-b_default(static-b-uid)
            Add static-a_default(static-a-uid)
            Add old_default(old-uid)
            Add young_default(young-uid)
            Add lowly_default(lowly-uid)
        "#]],
    );
}

#[test]
fn src_07_the_later_of_two_with_one_name_is_refused() {
    check(
        [],
        [pod("web").uid("a"), pod("web").uid("b"), pod("web").uid("c").ns("other"), pod("www").uid("a")],
        expect![[r#"
            Add web_default(a)
            Add web_other(c)
            refused: Error validating pod web_default(b) from api due to duplicate pod name "web", ignoring
            refused: Error validating pod www_default(a) from api due to duplicate pod UID "a", ignoring
        "#]],
    );
}

#[test]
fn src_10_sources_are_ready_when_each_has_delivered_even_nothing() {
    let mut desired = DesiredPods::sources([Source::File, Source::Http]);
    assert!(!desired.all_sources_seen());
    assert_eq!(show(&desired.deliver(Source::File, vec![], at(0))), "first delivery\n");
    assert_eq!(desired.sources_missing().collect::<Vec<_>>(), [Source::Http]);
    assert!(!desired.all_sources_seen());
    desired.deliver(Source::Http, vec![pod("web").build()], at(1));
    assert!(desired.all_sources_seen());
    assert_eq!(show(&desired.deliver(Source::File, vec![], at(2))), "");
    assert!(DesiredPods::sources([]).all_sources_seen(), "a node without sources waits for none");
}

#[test]
fn a_pod_is_marked_with_its_source_and_the_time_it_was_first_seen() {
    let mut desired = DesiredPods::sources([Source::File]);
    let seen = |desired: &DesiredPods| {
        let pod = desired.get(&"web-uid".into()).unwrap();
        (pod.source(), pod.annotation(SEEN_ANNOTATION).unwrap().to_owned())
    };
    desired.deliver(Source::File, vec![pod("web").build()], at(0));
    assert_eq!(seen(&desired), (Some(Source::File), "2023-11-14T22:13:20Z".to_owned()));
    desired.deliver(Source::File, vec![pod("web").image("web:2").build()], at(5));
    assert_eq!(seen(&desired), (Some(Source::File), "2023-11-14T22:13:20Z".to_owned()));
    desired.deliver(Source::File, vec![], at(6));
    desired.deliver(Source::File, vec![pod("web").build()], at(7));
    assert_eq!(seen(&desired), (Some(Source::File), "2023-11-14T22:13:27Z".to_owned()));
}

#[test]
fn a_pod_is_not_copied_where_a_pointer_does() {
    let mut desired = DesiredPods::sources([Source::File]);
    let first = pod("web").build();
    let address = Arc::as_ptr(&first);
    let changes = desired.deliver(Source::File, vec![first], at(0));
    assert_eq!(Arc::as_ptr(&changes.deltas[0].pod), address, "sole references are annotated in place");
    desired.deliver(Source::File, vec![pod("web").build()], at(1));
    assert_eq!(Arc::as_ptr(desired.get(&"web-uid".into()).unwrap()), address, "an equal pod replaces nothing");
}

#[test]
fn src_11_a_mirror_is_not_an_ordinary_pod() {
    let mut desired = DesiredPods::sources([Source::File, Source::Api]);
    desired.deliver(Source::File, vec![pod("etcd-node").uid("s").build()], at(0));
    let pods = [pod("etcd-node").uid("m").mirror_of("s"), pod("old-node").uid("o").mirror_of("x"), pod("web")];
    desired.deliver(Source::Api, pods.map(PodBuilder::build).to_vec(), at(0));

    let uids = |pods: Vec<&Arc<Pod>>| pods.iter().map(|p| PodRef::of(p).uid.to_string()).collect::<Vec<_>>();
    assert_eq!(uids(desired.pods().collect()), ["s", "web-uid"]);
    assert_eq!(uids(desired.mirrors().collect()), ["m", "o"]);
    assert!(desired.get(&"m".into()).is_none());

    // SRC-12: a deleted mirror takes nothing with it.
    let changes = desired.deliver(Source::Api, vec![pod("web").build()], at(1));
    assert!(changes.deltas.iter().all(|d| d.op == DeltaOp::Remove && d.pod.is_mirror()));
    assert_eq!(uids(desired.pods().collect()), ["s", "web-uid"]);
    assert_eq!(desired.mirrors().count(), 0);
}

#[test]
fn a_manifest_cannot_pass_itself_off_as_a_mirror() {
    let mut desired = DesiredPods::sources([Source::File]);
    desired.deliver(Source::File, vec![pod("web").mirror_of("x").build()], at(0));
    assert_eq!(desired.pods().count(), 1);
    assert_eq!(desired.mirrors().count(), 0);
}

/// One pod out of few names, UIDs and contents, so that clashes and changes are frequent.
fn any_pod() -> impl Strategy<Value = Arc<Pod>> {
    (0..4u8, 0..5u8, 0..3u8, any::<bool>(), any::<bool>(), -1..2i32).prop_map(
        |(name, uid, image, runs, deleted, priority)| {
            let mut pod = pod(&format!("pod{name}")).uid(&format!("uid{uid}")).image(&format!("image:{image}"));
            pod = pod.phase(if runs { "Running" } else { "Pending" }).priority(priority);
            if deleted {
                pod = pod.deleted(9, 30);
            }
            pod.build()
        },
    )
}

fn any_source() -> impl Strategy<Value = Source> {
    prop_oneof![Just(Source::File), Just(Source::Http), Just(Source::Api)]
}

fn any_deliveries() -> impl Strategy<Value = Vec<(Source, Vec<Arc<Pod>>)>> {
    vec((any_source(), vec(any_pod(), 0..6)), 0..12)
}

/// The delivered set, less what must be refused.
fn accepted(pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let (mut names, mut uids, mut kept) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for pod in pods {
        let pod_ref = PodRef::of(pod);
        if !names.contains(&pod_ref.full_name()) && !uids.contains(&pod_ref.uid) {
            names.insert(pod_ref.full_name());
            uids.insert(pod_ref.uid);
            kept.push(Arc::clone(pod));
        }
    }
    kept
}

/// What matters of a pod, so that what was held and what was delivered can be compared.
fn essence(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    pod.metadata.annotations = None;
    pod
}

type Sets = BTreeMap<Source, BTreeMap<PodUid, Arc<Pod>>>;

/// A reader that knows nothing but the deltas.
fn follow(sets: &mut Sets, changes: &Changes) {
    let set = sets.entry(changes.source).or_default();
    for delta in &changes.deltas {
        let uid = PodRef::of(&delta.pod).uid;
        match delta.op {
            DeltaOp::Remove => assert!(set.remove(&uid).is_some(), "removed an unknown {uid}"),
            DeltaOp::Add => assert!(set.insert(uid, Arc::clone(&delta.pod)).is_none(), "added a known pod"),
            DeltaOp::Update | DeltaOp::Delete | DeltaOp::Reconcile => {
                assert!(set.insert(uid, Arc::clone(&delta.pod)).is_some(), "changed an unknown pod");
            }
        }
    }
}

proptest! {
    #[test]
    fn deltas_alone_rebuild_what_was_delivered(deliveries in any_deliveries()) {
        let mut desired = DesiredPods::sources([Source::File, Source::Http, Source::Api]);
        let (mut rebuilt, mut wanted) = (Sets::new(), BTreeMap::new());
        for (second, (source, pods)) in deliveries.into_iter().enumerate() {
            let kept = accepted(&pods);
            let refused = pods.len() - kept.len();
            let changes = desired.deliver(source, pods, at(second as u64));
            prop_assert_eq!(changes.duplicates.len(), refused);
            prop_assert_eq!(changes.first_delivery, !wanted.contains_key(&source));
            follow(&mut rebuilt, &changes);
            let set: BTreeMap<_, _> = kept.iter().map(|p| (PodRef::of(p).uid, essence(p))).collect();
            wanted.insert(source, set);
            for (source, set) in &wanted {
                let seen: BTreeMap<_, _> = rebuilt[source].iter().map(|(uid, p)| (uid.clone(), essence(p))).collect();
                prop_assert_eq!(&seen, set);
            }
        }
        let all: Vec<_> = wanted.values().flat_map(BTreeMap::values).cloned().collect();
        let held: Vec<_> = desired.pods().map(|p| essence(p)).collect();
        prop_assert_eq!(held, all);
        for pod in desired.pods() {
            prop_assert!(pod.source().is_some() && pod.annotation(SEEN_ANNOTATION).is_some());
        }
    }

    #[test]
    fn operations_never_come_out_of_order(deliveries in any_deliveries()) {
        let mut desired = DesiredPods::default();
        for (source, pods) in deliveries {
            let changes = desired.deliver(source, pods, at(0));
            prop_assert!(changes.deltas.is_sorted_by_key(|delta| delta.op));
        }
    }

    #[test]
    fn the_same_delivery_again_changes_nothing(deliveries in any_deliveries()) {
        let mut desired = DesiredPods::default();
        for (source, pods) in deliveries {
            desired.deliver(source, pods.clone(), at(0));
            let again = desired.deliver(source, pods, at(1));
            prop_assert_eq!(again.deltas, vec![]);
            prop_assert!(!again.first_delivery);
        }
    }

    #[test]
    fn a_delivery_of_the_same_objects_changes_the_same_as_one_of_copies(deliveries in any_deliveries()) {
        let (mut desired, mut twin) = (DesiredPods::default(), DesiredPods::default());
        for (second, (source, pods)) in deliveries.into_iter().enumerate() {
            let held = |pod: &Pod| desired.pods().find(|h| h.source() == Some(source) && essence(h) == essence(pod));
            let pods: Vec<_> = pods.into_iter().map(|pod| held(&pod).cloned().unwrap_or(pod)).collect();
            let copies = pods.iter().map(|pod| Arc::new(Pod::clone(pod))).collect();
            let changes = twin.deliver(source, copies, at(second as u64));
            prop_assert_eq!(desired.deliver(source, pods, at(second as u64)), changes);
            prop_assert!(desired.pods().eq(twin.pods()));
        }
    }

    #[test]
    fn the_time_first_seen_never_changes_while_a_pod_stays(deliveries in any_deliveries()) {
        let mut desired = DesiredPods::default();
        for (second, (source, pods)) in deliveries.into_iter().enumerate() {
            for delta in desired.deliver(source, pods, at(second as u64)).deltas {
                let seen = delta.pod.annotation(SEEN_ANNOTATION).unwrap();
                let now = at(second as u64).wall.to_string();
                prop_assert_eq!(seen == now, delta.op == DeltaOp::Add);
            }
        }
    }
}

#[test]
fn src_10_a_source_has_delivered_once_its_first_set_is_there() {
    let mut desired = DesiredPods::sources([Source::Api, Source::File]);
    assert!(!desired.has_delivered(Source::Api) && !desired.all_sources_seen());
    desired.deliver(Source::Api, vec![], at(0));
    assert!(desired.has_delivered(Source::Api) && !desired.has_delivered(Source::File));
    assert!(!desired.all_sources_seen());
    desired.deliver(Source::File, vec![], at(0));
    assert!(desired.has_delivered(Source::File) && desired.all_sources_seen());
}
