use super::*;

fn pod_ref(uid: &str) -> PodRef {
    PodRef { namespace: "ns".into(), name: "web".into(), uid: uid.into() }
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).expect("in range")
}

fn sandbox(state: SandboxState) -> SandboxObservation {
    SandboxObservation {
        id: "s".into(),
        attempt: 0,
        state,
        created_at: at(1),
        network: NamespaceMode::Pod,
        ips: Vec::new(),
        runtime_handler: String::new(),
    }
}

fn container(state: ContainerState) -> ContainerObservation {
    ContainerObservation {
        id: "c".into(),
        sandbox: "s".into(),
        name: "app".into(),
        state,
        created_at: at(2),
        image: "img".into(),
        image_id: "sha256:1".into(),
        marks: ContainerMarks::default(),
        log_path: String::new(),
        resources: None,
        user: None,
    }
}

fn look(sandboxes: &[SandboxState], containers: &[ContainerState]) -> PodObservation {
    PodObservation {
        sandboxes: sandboxes.iter().copied().map(sandbox).collect(),
        containers: containers.iter().cloned().map(container).collect(),
        ..PodObservation::nothing(pod_ref("u"), Instant::from_secs(5))
    }
}

const RUNNING: ContainerState = ContainerState::Running { started_at: Timestamp::UNIX_EPOCH };

#[test]
fn two_looks_show_the_same_whenever_they_were_taken() {
    let one = look(&[SandboxState::Ready], &[RUNNING]);
    assert!(one.shows_the_same_as(&PodObservation { at: Instant::from_secs(9), ..one.clone() }));
    for other in [
        PodObservation { pod: pod_ref("other"), ..one.clone() },
        look(&[SandboxState::NotReady], &[RUNNING]),
        look(&[SandboxState::Ready], &[ContainerState::Created]),
        look(&[], &[]),
    ] {
        assert!(!one.shows_the_same_as(&other), "{other:?}");
    }
}

#[test]
fn a_pod_is_stopped_when_neither_container_nor_sandbox_may_have_a_process() {
    use SandboxState::{NotReady, Ready};
    for (sandboxes, containers, stopped) in [
        (&[][..], &[][..], true),
        (&[NotReady], &[ContainerState::Created], true),
        (&[Ready], &[ContainerState::Created], false),
        (&[NotReady, Ready], &[], false),
        (&[NotReady], &[RUNNING], false),
        (&[Ready], &[RUNNING], false),
    ] {
        assert_eq!(look(sandboxes, containers).is_stopped(), stopped, "{sandboxes:?} {containers:?}");
    }
}

#[test]
fn a_listed_pod_runs_if_a_sandbox_is_ready_or_a_container_runs() {
    use ContainerStateKind::{Created, Exited, Running, Unknown};
    for (sandbox, container, runs) in [
        (None, None, false),
        (Some(SandboxState::Ready), None, true),
        (Some(SandboxState::NotReady), None, false),
        (Some(SandboxState::NotReady), Some(Running), true),
        (Some(SandboxState::NotReady), Some(Created), false),
        (Some(SandboxState::NotReady), Some(Exited), false),
        (None, Some(Unknown), false),
    ] {
        let sandboxes = sandbox.map(|state| ("s".into(), SandboxSummary { state, attempt: 0, created_at: at(1) }));
        let summary = |state| ContainerSummary {
            name: "app".into(),
            sandbox: "s".into(),
            state,
            created_at: at(1),
            restart_count: 0,
            image_id: String::new(),
        };
        let containers = container.map(|state| ("c".into(), summary(state)));
        let pod = PodSummary {
            pod: pod_ref("u"),
            sandboxes: sandboxes.into_iter().collect(),
            containers: containers.into_iter().collect(),
        };
        assert_eq!(pod.is_running(), runs, "{sandbox:?} {container:?}");
    }
}

// KILL-05
#[test]
fn the_annotations_of_a_container_name_its_ports() {
    let marked = |ports: Option<&str>| {
        let marks = ContainerMarks { ports: ports.map(str::to_owned), ..ContainerMarks::default() };
        let spec = ContainerObservation { marks, ..container(RUNNING) }.marks_as_container();
        let ports = spec.ports.into_iter().flatten().map(|p| (p.name.unwrap_or_default(), p.container_port));
        (spec.name, ports.collect::<Vec<_>>())
    };
    let app = || "app".to_owned();
    assert_eq!(marked(Some(r#"[{"name":"http","containerPort":80}]"#)), (app(), vec![("http".to_owned(), 80)]));
    assert_eq!(marked(Some("no list")), (app(), vec![]));
    assert_eq!(marked(None), (app(), vec![]));
}
