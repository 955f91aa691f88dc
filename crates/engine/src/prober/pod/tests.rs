//! The answers of probes as they are kept and shown; when probes run is decided and tested in `core::probe`.

use jiff::Timestamp;
use rubelet_core::id::PodRef;
use rubelet_core::observe::{ContainerMarks, ContainerObservation, PodObservation};
use serde_json::json;

use super::*;

fn now(secs: u64) -> Now {
    Now { mono: Instant::from_secs(secs), wall: Timestamp::UNIX_EPOCH + Duration::from_secs(secs) }
}

fn pod() -> Arc<Pod> {
    let probe = json!({"tcpSocket": {"port": 80}, "periodSeconds": 10, "failureThreshold": 3});
    let containers = json!([{"name": "app", "startupProbe": probe, "readinessProbe": probe}, {"name": "plain"}]);
    Arc::new(
        serde_json::from_value(json!({"metadata": {"uid": "u"}, "spec": {"containers": containers}})).expect("a pod"),
    )
}

fn seen(pod: &Pod, id: &str, state: ContainerState) -> Option<Arc<PodObservation>> {
    let container = ContainerObservation {
        id: id.into(),
        sandbox: "s".into(),
        name: "app".into(),
        state,
        created_at: now(1).wall,
        image: String::new(),
        image_id: String::new(),
        marks: ContainerMarks::default(),
        log_path: String::new(),
        resources: None,
        user: None,
    };
    let nothing = PodObservation::nothing(PodRef::of(pod), Instant::from_secs(1));
    Some(Arc::new(PodObservation { containers: vec![container], ..nothing }))
}

fn running(pod: &Arc<Pod>, id: &str) -> ProbeTargets {
    let seen = seen(pod, id, ContainerState::Running { started_at: now(1).wall });
    ProbeTargets { pod: Arc::clone(pod), seen, status: Arc::default(), ending: false }
}

fn key(kind: ProbeKind) -> Key {
    Key { uid: "u".into(), container: "app".into(), kind }
}

fn fails(text: &str) -> Answer {
    Answer::Fail(text.to_owned())
}

#[test]
fn an_answer_is_news_when_its_text_changes_and_counts_for_its_instance_alone() {
    let pod = pod();
    let mut probed = ProbedPod::new(&pod);
    probed.update(&running(&pod, "c1"), now(1), || 0.5);
    let startup = key(ProbeKind::Startup);
    for (instance, answer, changed, shown) in [
        ("c1", fails("refused"), true, Some("refused")),
        ("c1", fails("refused"), false, Some("refused")),
        ("c0", fails("of the instance before"), false, Some("refused")),
        ("c1", fails("timeout"), true, Some("timeout")),
        ("c1", Answer::Pass, true, None),
        ("c1", Answer::Pass, false, None),
    ] {
        let news = probed.answered(&startup, &instance.into(), &answer, now(5));
        assert_eq!(news, changed, "{instance} {answer:?}");
        let troubles = probed.troubles();
        assert_eq!(troubles.first().map(|trouble| trouble.said.as_str()), shown, "{instance} {answer:?}");
    }
    assert!(!probed.answered(&Key { container: "other".into(), ..startup }, &"c1".into(), &fails("x"), now(5)));
}

#[test]
fn a_pod_waits_for_its_startup_probe_and_then_for_its_readiness_probe() {
    let pod = pod();
    let mut probed = ProbedPod::new(&pod);
    assert_eq!(probed.waits_for(), None, "nothing is known of it");
    let exited = ProbeTargets { seen: seen(&pod, "c1", ContainerState::Created), ..running(&pod, "c1") };
    probed.update(&exited, now(1), || 0.5);
    assert_eq!(probed.waits_for(), None, "it waits for its start");
    probed.update(&running(&pod, "c1"), now(1), || 0.5);
    let first = "the startup probe of container app to pass for the first time";
    assert_eq!(probed.waits_for().as_deref(), Some(first));
    probed.answered(&key(ProbeKind::Startup), &"c1".into(), &fails("refused"), now(5));
    let said = "the startup probe of container app to pass; its last output: refused";
    assert_eq!(probed.waits_for().as_deref(), Some(said));
    // Another instance begins anew.
    probed.update(&running(&pod, "c2"), now(6), || 0.5);
    assert_eq!((probed.waits_for().as_deref(), probed.troubles().len()), (Some(first), 0));
}

#[test]
fn a_status_shows_an_instance_as_started_by_its_id() {
    let status = |id: &str, started: bool| -> PodStatus {
        serde_json::from_value(json!({"containerStatuses": [{"name": "app", "containerID": id, "started": started}]}))
            .expect("a status")
    };
    for (status, expected) in [
        (status("containerd://c1", true), true),
        (status("containerd://c1", false), false),
        (status("containerd://c2", true), false),
        (status("c1", true), false),
        (PodStatus::default(), false),
    ] {
        assert_eq!(has_started(&status, "app", &"c1".into()), expected, "{status:?}");
    }
    assert!(!has_started(&status("containerd://c1", true), "other", &"c1".into()));
}
