//! What is done about one name, as a table; the requests that follow are shown in `tests/sim/api.rs`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

fn at(secs: u64) -> Instant {
    Instant::from_secs(secs)
}

fn pod(hash: &str) -> Arc<Pod> {
    let annotations = BTreeMap::from([(HASH_ANNOTATION.to_owned(), hash.to_owned())]);
    let metadata = ObjectMeta { name: Some("web".into()), annotations: Some(annotations), ..ObjectMeta::default() };
    Arc::new(Pod { metadata, ..Pod::default() })
}

/// A mirror of the version `hash`; `deleted` has a time of deletion, `held` also a finalizer.
fn mirror(uid: &str, hash: &str, deleted: bool, held: bool) -> Arc<Pod> {
    let annotations = BTreeMap::from([(MIRROR_ANNOTATION.to_owned(), hash.to_owned())]);
    let metadata = ObjectMeta {
        name: Some("web".into()),
        uid: Some(uid.into()),
        annotations: Some(annotations),
        deletion_timestamp: deleted.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
        finalizers: Some(if held { vec!["example.com/f".to_owned()] } else { vec![] }),
        ..ObjectMeta::default()
    };
    Arc::new(Pod { metadata, ..Pod::default() })
}

fn step(memory: &mut Memory, pod: Option<&Arc<Pod>>, mirror: Option<&Arc<Pod>>, secs: u64) -> &'static str {
    let mirrored = Mirrored { pod: pod.cloned(), mirror: mirror.cloned() };
    match memory.step(&mirrored, at(secs)) {
        None => "nothing",
        Some(Step::Make(_)) => "make",
        Some(Step::Remove(_)) => "remove",
    }
}

// SRC-11, SRC-12
#[test]
fn src_11_src_12_a_mirror_shows_the_version_of_its_pod() {
    let (web, right, old) = (pod("1"), mirror("m", "1", false, false), mirror("m", "0", false, false));
    let gone = mirror("m", "1", true, false);
    for (pod, mirror, expected) in [
        (None, None, "nothing"),
        (Some(&web), None, "make"),
        (Some(&web), Some(&right), "nothing"),
        (Some(&web), Some(&old), "remove"),
        (Some(&web), Some(&gone), "remove"),
        (None, Some(&right), "remove"),
    ] {
        assert_eq!(step(&mut Memory::default(), pod, mirror, 0), expected, "{pod:?} {mirror:?}");
    }
}

#[test]
fn the_watch_has_time_to_show_what_was_done() {
    let (web, other) = (pod("1"), pod("2"));
    let mut memory = Memory::default();
    memory.done(&Step::Make(Arc::clone(&web)), at(100));
    assert_eq!(step(&mut memory, Some(&web), None, 109), "nothing");
    assert_eq!(memory.look_again(&Mirrored { pod: Some(Arc::clone(&web)), mirror: None }, at(109)), Some(at(110)));
    assert_eq!(step(&mut memory, Some(&web), None, 110), "make", "it was never shown");
    assert_eq!(step(&mut memory, Some(&other), None, 101), "make", "another version");

    let (old, another) = (mirror("m", "0", false, false), mirror("n", "0", false, false));
    let held = mirror("m", "0", true, true);
    let mut memory = Memory::default();
    memory.done(&Step::Remove(Arc::clone(&old)), at(100));
    assert_eq!(step(&mut memory, None, Some(&old), 109), "nothing");
    assert_eq!(step(&mut memory, None, Some(&old), 110), "remove", "it is still there");
    assert_eq!(step(&mut memory, None, Some(&another), 101), "remove", "another object");
    assert_eq!(step(&mut memory, None, Some(&held), 500), "nothing", "finalizers hold it");
    assert_eq!(step(&mut memory, None, Some(&mirror("m", "0", true, false)), 500), "remove");
    let shown = |mirror: Option<&Arc<Pod>>| Mirrored { pod: None, mirror: mirror.cloned() };
    assert_eq!(memory.look_again(&shown(Some(&old)), at(109)), Some(at(110)));
    assert_eq!(memory.look_again(&shown(Some(&old)), at(110)), None, "the time is over");
    assert_eq!(memory.look_again(&shown(None), at(109)), None, "it is gone");
}
