use expect_test::expect;
use rubelet_server::documents::{NodeDocument, PodLine, PodState, RuntimeDocument};

use super::{notes, table};
use crate::commands::style::Style;

fn line(namespace: &str, name: &str, state: PodState, reason: Option<&str>, age_seconds: Option<u64>) -> PodLine {
    PodLine {
        namespace: namespace.into(),
        name: name.into(),
        uid: "u".into(),
        state,
        stage: None,
        reason: reason.map(Into::into),
        message: None,
        ready: u32::from(state == PodState::Running),
        total: 1,
        restarts: 0,
        age_seconds,
        ip: None,
    }
}

fn node(pods: Vec<PodLine>) -> NodeDocument {
    let runtime = RuntimeDocument { up: true, problem: None, network_problem: None };
    NodeDocument { runtime, unread_sources: Vec::new(), job_panics: 0, longest_hold_up: None, pods }
}

fn some() -> Vec<PodLine> {
    vec![
        line("default", "web-demo", PodState::Running, None, Some(330)),
        PodLine {
            restarts: 12,
            ..line("kube-system", "dns-demo", PodState::Pending, Some("ImagePullBackOff"), Some(5))
        },
        line("", "/etc/kubernetes/manifests/a b.yaml", PodState::Invalid, Some("InvalidManifest"), None),
    ]
}

#[test]
fn pods_are_a_table_of_single_words_with_the_age_last() {
    let text = table(&some(), Style::Plain);
    expect![[r#"
        POD                                 STATE    READY  REASON            RESTARTS  AGE
        web-demo                            Running  1/1    -                 0         5m30s
        kube-system/dns-demo                Pending  0/1    ImagePullBackOff  12        5s
        /etc/kubernetes/manifests/a_b.yaml  Invalid  -      InvalidManifest   0         -
    "#]]
    .assert_eq(&text);
    assert!(text.lines().all(|line| line.split_whitespace().count() == 6), "a cell has a space in it");
}

#[test]
fn colours_change_no_width() {
    let rich = table(&some(), Style::Rich);
    assert!(rich.contains("\x1b[32mRunning\x1b[0m"), "{rich}");
    let mut plain = rich;
    for code in ["\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, table(&some(), Style::Plain));
}

#[test]
fn notes_explain_the_table() {
    expect![
        "to see why /etc/kubernetes/manifests/a b.yaml does not run: rubelet explain /etc/kubernetes/manifests/a b.yaml"
    ]
    .assert_eq(&notes(&node(some()), None).join("\n"));
    assert_eq!(table(&[], Style::Plain), "");
    assert_eq!(notes(&node(Vec::new()), None), ["no pods on this node"]);
    assert_eq!(notes(&node(Vec::new()), Some("web")), ["no pods on this node in namespace web"]);
    let mut odd = node(Vec::new());
    odd.runtime.up = false;
    odd.runtime.problem = Some("status: no such socket".into());
    odd.unread_sources = vec!["http".into()];
    odd.job_panics = 1;
    expect![[r#"
        the container runtime is not ready, all pods wait for it: status: no such socket
        not read yet, so pods may be missing here: http
        internal errors since the start: 1; see rubelet's log"#]]
    .assert_eq(&notes(&odd, None).join("\n"));
    let mut network = node(vec![]);
    network.runtime.network_problem = Some("cni config uninitialized".into());
    expect!["the pod network is not ready, new pods wait for it: cni config uninitialized"]
        .assert_eq(&notes(&network, None).join("\n"));
}
