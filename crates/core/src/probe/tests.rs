use std::time::Duration;

use expect_test::{Expect, expect};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, ExecAction, GRPCAction, HTTPGetAction, HTTPHeader, Probe, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::*;
use crate::id::ContainerId;
use crate::plan::{ProbeView, Verdict};
use crate::time::{Instant, Now};

const EPOCH: i64 = 1_767_225_600;

fn now(secs: u64) -> Now {
    let wall = Timestamp::from_second(EPOCH + i64::try_from(secs).unwrap()).unwrap();
    Now { mono: Instant::from_secs(secs), wall }
}

fn probe(period: i32, initial: i32, success: i32, failure: i32) -> Probe {
    Probe {
        period_seconds: Some(period),
        initial_delay_seconds: Some(initial),
        success_threshold: Some(success),
        failure_threshold: Some(failure),
        exec: Some(ExecAction { command: Some(vec!["true".into()]) }),
        ..Probe::default()
    }
}

fn id(n: u32) -> ContainerId {
    format!("c{n}").into()
}

/// A container whose probes run every ten seconds, seen running since `since`.
struct Rig {
    probes: ContainerProbes,
    id: ContainerId,
}

impl Rig {
    fn new(container: &Container) -> Self {
        Self { probes: ContainerProbes::new(container), id: id(0) }
    }

    fn runs(&mut self, since: u64, at: u64) {
        self.see(Some(since), false, false, at);
    }

    fn see(&mut self, since: Option<u64>, started_before: bool, ending: bool, at: u64) {
        let running_since = since.map(|s| now(s).wall);
        let sight = Sight { id: &self.id, running_since, started_before, ending };
        self.probes.see(&sight, now(at), 0.5);
    }

    fn answer(&mut self, kind: ProbeKind, answer: Answer, at: u64) {
        let instance = self.probes.begin(kind, Instant::from_secs(at)).expect("it is due");
        self.probes.answered(kind, &instance, &answer, now(at));
    }

    fn state(&self) -> String {
        let mut view = ProbeView::default();
        self.probes.show(&mut view);
        let word = |kind: ProbeKind| {
            let list = match kind {
                ProbeKind::Startup => &view.startup,
                ProbeKind::Readiness => &view.readiness,
                ProbeKind::Liveness => &view.liveness,
            };
            let due = self.probes.due(kind).map_or("-".into(), |at| format!("{at:?}"));
            let verdict = list.get(&self.id).map_or("none".into(), |v| format!("{v:?}"));
            format!("{} {verdict} {due}", kind.as_str())
        };
        ProbeKind::ALL.into_iter().filter(|k| self.probes.probe(*k).is_some()).map(word).collect::<Vec<_>>().join("; ")
    }
}

fn fail() -> Answer {
    Answer::Fail("no".into())
}

#[expect(clippy::needless_pass_by_value, reason = "reads better in a table")]
fn check(got: String, want: Expect) {
    want.assert_eq(&got);
}

#[test]
fn what_is_not_said_is_as_the_api_defaults_it_prb_01() {
    let secs = Duration::from_secs;
    let timing = Timing::of(&Probe::default());
    assert_eq!(
        timing,
        Timing {
            initial_delay: secs(0),
            period: secs(10),
            timeout: secs(1),
            success_threshold: 1,
            failure_threshold: 3
        }
    );
    assert_eq!(Timing::of(&Probe { period_seconds: Some(-4), ..Probe::default() }).period, secs(10));
}

#[test]
fn readiness_begins_at_once_and_flips_at_its_thresholds_prb_05() {
    let mut rig = Rig::new(&Container { readiness_probe: Some(probe(10, 0, 2, 2)), ..Container::default() });
    rig.runs(100, 100);
    check(rig.state(), expect!["Readiness none +100s"]);
    rig.answer(ProbeKind::Readiness, Answer::Pass, 100);
    check(rig.state(), expect!["Readiness none +110s"]);
    rig.answer(ProbeKind::Readiness, Answer::Pass, 110);
    check(rig.state(), expect!["Readiness Success +120s"]);
    rig.answer(ProbeKind::Readiness, fail(), 120);
    rig.answer(ProbeKind::Readiness, Answer::Pass, 130);
    rig.answer(ProbeKind::Readiness, fail(), 140);
    check(rig.state(), expect!["Readiness Success +150s"]);
    rig.answer(ProbeKind::Readiness, fail(), 150);
    check(rig.state(), expect!["Readiness Failure +160s"]);
}

#[test]
fn an_error_is_no_failure_prb_06() {
    let mut rig = Rig::new(&Container { liveness_probe: Some(probe(10, 0, 1, 1)), ..Container::default() });
    rig.runs(100, 100);
    check(rig.state(), expect!["Liveness none +110s"]);
    let error = Answer::Error { state: "unknown", detail: "x".into() };
    rig.answer(ProbeKind::Liveness, error, 110);
    check(rig.state(), expect!["Liveness none +120s"]);
}

#[test]
fn a_failed_liveness_is_on_hold_until_there_is_another_instance_prb_05() {
    let mut rig = Rig::new(&Container { liveness_probe: Some(probe(10, 5, 1, 2)), ..Container::default() });
    rig.runs(100, 102);
    check(rig.state(), expect!["Liveness none +105s"]);
    rig.answer(ProbeKind::Liveness, fail(), 105);
    rig.answer(ProbeKind::Liveness, fail(), 115);
    check(rig.state(), expect!["Liveness Failure -"]);
    rig.runs(100, 130);
    check(rig.state(), expect!["Liveness Failure -"]);
    rig.id = id(1);
    rig.runs(131, 131);
    check(rig.state(), expect!["Liveness none +136s"]);
    // One failure of the old instance is no failure of the new one.
    rig.answer(ProbeKind::Liveness, fail(), 136);
    check(rig.state(), expect!["Liveness none +146s"]);
}

#[test]
fn startup_gates_the_others_and_opens_them_at_once_prb_04_prb_10() {
    let container = Container {
        startup_probe: Some(probe(5, 0, 1, 3)),
        readiness_probe: Some(probe(10, 0, 1, 3)),
        liveness_probe: Some(probe(10, 0, 1, 3)),
        ..Container::default()
    };
    let mut rig = Rig::new(&container);
    rig.runs(100, 100);
    check(rig.state(), expect!["Startup none +100s; Readiness none -; Liveness none -"]);
    rig.answer(ProbeKind::Startup, fail(), 100);
    rig.runs(100, 103);
    check(rig.state(), expect!["Startup none +105s; Readiness none -; Liveness none -"]);
    rig.answer(ProbeKind::Startup, Answer::Pass, 107);
    check(rig.state(), expect!["Startup Success -; Readiness none +107s; Liveness none +110s"]);
}

#[test]
fn a_failed_startup_never_opens_the_gate() {
    let container = Container {
        startup_probe: Some(probe(5, 0, 1, 1)),
        readiness_probe: Some(probe(10, 0, 1, 3)),
        ..Container::default()
    };
    let mut rig = Rig::new(&container);
    rig.runs(100, 100);
    rig.answer(ProbeKind::Startup, fail(), 100);
    check(rig.state(), expect!["Startup Failure -; Readiness none -"]);
}

#[test]
fn what_started_before_us_need_not_start_again_prb_11() {
    let container = Container {
        startup_probe: Some(probe(5, 0, 1, 1)),
        readiness_probe: Some(probe(10, 0, 1, 3)),
        ..Container::default()
    };
    let mut rig = Rig::new(&container);
    // It has run for an hour; we for two seconds. The first run is spread over the period (PRB-02).
    let sight = |id| Sight {
        id,
        running_since: Some(Timestamp::from_second(EPOCH - 3600).unwrap()),
        started_before: true,
        ending: false,
    };
    rig.probes.see(&sight(&rig.id), now(2), 0.5);
    check(rig.state(), expect!["Startup Success -; Readiness none +7s"]);
    // Two failures are not enough to take back what was true before.
    rig.answer(ProbeKind::Readiness, fail(), 7);
    rig.answer(ProbeKind::Readiness, fail(), 17);
    check(rig.state(), expect!["Startup Success -; Readiness none +27s"]);
    rig.answer(ProbeKind::Readiness, fail(), 27);
    check(rig.state(), expect!["Startup Success -; Readiness Failure +37s"]);
}

#[test]
fn only_what_ran_before_us_is_spread_prb_02() {
    let container = Container { readiness_probe: Some(probe(10, 0, 1, 1)), ..Container::default() };
    let mut rig = Rig::new(&container);
    rig.runs(2, 3);
    check(rig.state(), expect!["Readiness none +3s"]);
    let mut late = Rig::new(&container);
    late.runs(0, 20);
    check(late.state(), expect!["Readiness none +20s"]);
}

#[test]
fn an_ending_pod_is_asked_for_readiness_alone_prb_09() {
    let container = Container {
        readiness_probe: Some(probe(10, 0, 1, 1)),
        liveness_probe: Some(probe(10, 0, 1, 1)),
        ..Container::default()
    };
    let mut rig = Rig::new(&container);
    rig.runs(100, 110);
    rig.answer(ProbeKind::Readiness, Answer::Pass, 110);
    rig.answer(ProbeKind::Liveness, fail(), 110);
    rig.see(Some(100), false, true, 111);
    check(rig.state(), expect!["Readiness Success +120s; Liveness none -"]);
    rig.see(None, false, true, 112);
    check(rig.state(), expect!["Readiness none -; Liveness none -"]);
}

#[test]
fn what_does_not_run_is_not_asked_prb_08() {
    let mut rig = Rig::new(&Container { readiness_probe: Some(probe(10, 0, 1, 1)), ..Container::default() });
    rig.runs(100, 100);
    rig.answer(ProbeKind::Readiness, Answer::Pass, 100);
    rig.see(None, false, false, 105);
    check(rig.state(), expect!["Readiness none -"]);
}

#[test]
fn a_question_that_comes_late_does_not_slow_the_pace_prb_01() {
    let mut rig = Rig::new(&Container { readiness_probe: Some(probe(10, 0, 1, 1)), ..Container::default() });
    rig.runs(100, 100);
    rig.answer(ProbeKind::Readiness, Answer::Pass, 103);
    check(rig.state(), expect!["Readiness Success +110s"]);
    rig.answer(ProbeKind::Readiness, Answer::Pass, 111);
    check(rig.state(), expect!["Readiness Success +120s"]);
    // One is made up for, not all that were missed.
    rig.answer(ProbeKind::Readiness, Answer::Pass, 158);
    check(rig.state(), expect!["Readiness Success +158s"]);
    rig.answer(ProbeKind::Readiness, Answer::Pass, 158);
    check(rig.state(), expect!["Readiness Success +168s"]);
}

#[test]
fn a_slow_answer_delays_the_next_question_and_a_late_one_counts_for_nothing() {
    let mut rig = Rig::new(&Container { readiness_probe: Some(probe(1, 0, 1, 1)), ..Container::default() });
    rig.runs(100, 100);
    let old = rig.probes.begin(ProbeKind::Readiness, Instant::from_secs(100)).expect("due");
    assert!(rig.probes.begin(ProbeKind::Readiness, Instant::from_secs(105)).is_none(), "one question at a time");
    rig.probes.answered(ProbeKind::Readiness, &old, &Answer::Pass, now(105));
    check(rig.state(), expect!["Readiness Success +105s"]);
    let _asked = rig.probes.begin(ProbeKind::Readiness, Instant::from_secs(105));
    rig.id = id(1);
    rig.runs(106, 106);
    rig.probes.answered(ProbeKind::Readiness, &old, &Answer::Pass, now(106));
    check(rig.state(), expect!["Readiness none +106s"]);
}

#[test]
fn events_have_upstreams_words_prb_06_prb_07() {
    let text = |answer: Answer, kind: ProbeKind| {
        answer.event(kind).map(|(reason, text)| format!("{reason} {text}")).unwrap_or_default()
    };
    check(text(Answer::Pass, ProbeKind::Readiness), expect![""]);
    check(text(fail(), ProbeKind::Readiness), expect!["Unhealthy Readiness probe failed: no"]);
    check(text(Answer::Warn("x".into()), ProbeKind::Startup), expect!["ProbeWarning Startup probe warning: x"]);
    let error = Answer::Error { state: "unknown", detail: "x".into() };
    check(
        text(error, ProbeKind::Liveness),
        expect!["Unhealthy Liveness probe errored and resulted in unknown state: x"],
    );
}

fn web() -> Container {
    Container {
        name: "app".into(),
        ports: Some(vec![ContainerPort { name: Some("web".into()), container_port: 8080, ..Default::default() }]),
        env: Some(vec![EnvVar { name: "DIR".into(), value: Some("/tmp".into()), value_from: None }]),
        ..Container::default()
    }
}

fn http(port: IntOrString, path: &str, headers: &[(&str, &str)]) -> HTTPGetAction {
    let header = |(name, value): &(&str, &str)| HTTPHeader { name: (*name).into(), value: (*value).into() };
    HTTPGetAction {
        port,
        path: Some(path.into()),
        http_headers: Some(headers.iter().map(header).collect()),
        ..HTTPGetAction::default()
    }
}

#[test]
fn targets_prb_13_prb_14() {
    let show = |probe: Probe, ip: Option<&str>| match resolve(&probe, &web(), ip) {
        Ok(ProbeAction::Http(t)) => format!("{} {:?} {:?}", t.url(), t.host_header, t.headers),
        Ok(ProbeAction::Tcp(t)) => t.address(),
        Ok(ProbeAction::Grpc(t)) => format!("{} {:?}", t.address(), t.service),
        Ok(ProbeAction::Exec(words)) => format!("{words:?}"),
        Err(err) => err.to_string(),
    };
    let get = |port, path: &str, headers: &[(&str, &str)]| Probe {
        http_get: Some(http(port, path, headers)),
        ..Probe::default()
    };
    let named = |name: &str| IntOrString::String(name.into());
    let ip = Some("10.0.0.7");
    check(
        show(get(named("web"), "/healthz?a=b", &[]), ip),
        expect![[r#"http://10.0.0.7:8080/healthz?a=b None [("User-Agent", "kube-probe/1.36"), ("Accept", "*/*")]"#]],
    );
    check(
        show(
            get(IntOrString::Int(80), "x y#z", &[("host", "a.example"), ("Accept", ""), ("X-A", "1"), ("X-A", "2")]),
            Some("::1"),
        ),
        expect![[
            r#"http://[::1]:80/x%20y Some("a.example") [("User-Agent", "kube-probe/1.36"), ("X-A", "1"), ("X-A", "2")]"#
        ]],
    );
    check(
        show(get(named("81"), "", &[("user-agent", "me"), ("Host", "")]), ip),
        expect![[r#"http://10.0.0.7:81/ None [("Accept", "*/*"), ("user-agent", "me")]"#]],
    );
    check(show(get(named("nope"), "/", &[]), ip), expect![[r#"strconv.Atoi: parsing "nope": invalid syntax"#]]);
    check(show(get(IntOrString::Int(0), "/", &[]), ip), expect!["invalid port number: 0"]);
    check(show(get(IntOrString::Int(70_000), "/", &[]), ip), expect!["invalid port number: 70000"]);
    check(show(get(IntOrString::Int(80), "/", &[]), None), expect!["the pod has no address yet"]);
    let tcp = TCPSocketAction { host: None, port: named("web") };
    check(show(Probe { tcp_socket: Some(tcp), ..Probe::default() }, ip), expect!["10.0.0.7:8080"]);
    let grpc = GRPCAction { port: 9000, service: Some("s".into()) };
    check(show(Probe { grpc: Some(grpc), ..Probe::default() }, ip), expect![[r#"10.0.0.7:9000 "s""#]]);
    let exec = ExecAction { command: Some(vec!["cat".into(), "$(DIR)/x".into(), "$(HOME)".into()]) };
    check(show(Probe { exec: Some(exec), ..Probe::default() }, None), expect![[r#"["cat", "/tmp/x", "$(HOME)"]"#]]);
    // A few KB of references to a value of 100 KB.
    let exec = ExecAction { command: Some(vec!["$(LARGE)".repeat(1000)]) };
    let large = EnvVar { name: "LARGE".into(), value: Some("x".repeat(100_000)), value_from: None };
    let container = Container { env: Some(vec![large]), ..web() };
    let probe = Probe { exec: Some(exec), ..Probe::default() };
    check(
        resolve(&probe, &container, None).expect_err("100 MB").to_string(),
        expect![[
            r#"the exec probe's command of container "app" expands to more than 1048576 bytes: shorten it or the $(NAME) references in it"#
        ]],
    );
    check(show(Probe::default(), ip), expect!["missing probe handler for app"]);
}

fn target() -> HttpTarget {
    http_target(&http(IntOrString::Int(80), "/a/b?c", &[("Host", "x.example")]), &web(), Some("10.0.0.7"), PROBE_AGENT)
        .unwrap()
}

#[test]
fn redirects_stay_with_the_host_prb_12() {
    let first = target();
    let hop = |status, location: Option<&str>, hops| match next_hop(&first, &first, status, location, hops) {
        Hop::Take => "take".to_owned(),
        Hop::TooMany => "too many".to_owned(),
        Hop::Follow(to) => format!("{} {:?}", to.url(), to.host_header),
    };
    for (status, location, hops, want) in [
        (200, Some("/x"), 0, "take"),
        (304, Some("/x"), 0, "take"),
        (302, None, 0, "take"),
        (302, Some("/x"), 0, "http://10.0.0.7:80/x Some(\"x.example\")"),
        (302, Some("x"), 0, "http://10.0.0.7:80/a/x Some(\"x.example\")"),
        (302, Some("?d"), 0, "http://10.0.0.7:80/a/b?d Some(\"x.example\")"),
        (307, Some("https://10.0.0.7/x"), 0, "https://10.0.0.7:443/x None"),
        (308, Some("//10.0.0.7:81"), 0, "http://10.0.0.7:81/ None"),
        (301, Some("http://other.example/"), 0, "take"),
        (301, Some("ftp://10.0.0.7/"), 0, "take"),
        (302, Some("/x"), 8, "http://10.0.0.7:80/x Some(\"x.example\")"),
        (302, Some("/x"), 9, "too many"),
    ] {
        assert_eq!(hop(status, location, hops), want, "{status} {location:?} after {hops}");
    }
}

#[test]
fn answers_prb_12_prb_13() {
    let reply = |status| http_answer(&target(), Ok(HttpReply { status, body: "secret".into() }));
    assert_eq!(reply(200), Answer::Pass);
    assert_eq!(reply(302), Answer::Warn("Probe terminated redirects, Response body: secret".into()));
    assert_eq!(reply(500), Answer::Fail("HTTP probe failed with statuscode: 500".into()));
    assert_eq!(reply(101), Answer::Fail("HTTP probe failed with statuscode: 101".into()));
    let lost = |err| match http_answer(&target(), Err(err)) {
        Answer::Fail(text) => text,
        other @ (Answer::Pass | Answer::Warn(_) | Answer::Error { .. }) => format!("{other:?}"),
    };
    check(
        lost(NetError::Connect("dial tcp 10.0.0.7:80: connect: connection refused".into())),
        expect![[r#"Get "http://10.0.0.7:80/a/b?c": dial tcp 10.0.0.7:80: connect: connection refused"#]],
    );
    check(
        lost(NetError::Timeout),
        expect![[
            r#"Get "http://10.0.0.7:80/a/b?c": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"#
        ]],
    );
    check(lost(NetError::TooManyRedirects), expect![[r#"Get "http://10.0.0.7:80/a/b?c": stopped after 10 redirects"#]]);
    check(lost(NetError::Body("x".into())), expect![[r#"Error { state: "failure", detail: "x" }"#]]);

    let words = ["cat".to_owned(), "/x".to_owned()];
    let exec = |got| exec_answer(&words, Duration::from_secs(1), got);
    assert_eq!(exec(Ok(ExecResult { code: 0, stdout: b"", stderr: b"" })), Answer::Pass);
    assert_eq!(exec(Ok(ExecResult { code: 1, stdout: b"a", stderr: b"b" })), Answer::Fail("ab".into()));
    let late = Answer::Fail("command timed out: \"cat /x\" timed out after 1s".into());
    assert_eq!(exec(Err(ExecFault::Timeout)), late);
    let long = vec![b'x'; MAX_OUTPUT * 2];
    let Answer::Fail(text) = exec(Ok(ExecResult { code: 1, stdout: &long, stderr: b"" })) else { panic!("it failed") };
    assert_eq!(text.len(), MAX_OUTPUT);

    let at = GrpcTarget { host: "10.0.0.7".into(), port: 9, service: String::new() };
    let grpc = |got| match grpc_answer(&at, Duration::from_secs(1), got) {
        Answer::Fail(text) => text,
        other @ (Answer::Pass | Answer::Warn(_) | Answer::Error { .. }) => format!("{other:?}"),
    };
    check(grpc(Ok(Serving::Serving)), expect!["Pass"]);
    check(grpc(Ok(Serving::Not(2))), expect![[r#"service unhealthy (responded with "NOT_SERVING")"#]]);
    check(
        grpc(Err(GrpcError::ConnectTimeout)),
        expect![[r#"timeout: failed to connect service "10.0.0.7:9" within 1s: context deadline exceeded"#]],
    );
    check(grpc(Err(GrpcError::Timeout)), expect!["timeout: health rpc did not complete within 1s"]);
    check(
        grpc(Err(GrpcError::Status { code: 12, message: "m".into() })),
        expect!["error: this server does not implement the grpc health protocol (grpc.health.v1.Health): m"],
    );
    check(
        grpc(Err(GrpcError::Status { code: 5, message: "m".into() })),
        expect!["error: health rpc probe failed: rpc error: code = NotFound desc = m"],
    );
}

#[test]
fn verdict_words_are_complete() {
    assert_eq!(Answer::Warn(String::new()).result(), Some(Verdict::Success));
}

/// A server, a command or a runtime that says pages: what is kept of it, for events and timelines, has a bound.
#[test]
fn hostile_answers_are_cut() {
    let pages = "\u{e4}".repeat(1 << 20);
    let bytes = vec![0xff; 1 << 20];
    let http = HttpTarget {
        scheme: Scheme::Http,
        host: "10.0.0.1".into(),
        port: 80,
        path: format!("/{pages}"),
        headers: Vec::new(),
        host_header: None,
    };
    let grpc = GrpcTarget { host: "10.0.0.1".into(), port: 80, service: String::new() };
    let second = Duration::from_secs(1);
    let command = [pages.clone()];
    let answers = [
        http_answer(&http, Err(NetError::Timeout)),
        http_answer(&http, Err(NetError::Body(pages.clone()))),
        http_answer(&http, Ok(HttpReply { status: 302, body: pages.clone() })),
        tcp_answer("10.0.0.1:80", Err(NetError::Connect(pages.clone()))),
        grpc_answer(&grpc, second, Err(GrpcError::Connect(pages.clone()))),
        grpc_answer(&grpc, second, Err(GrpcError::Broken(pages.clone()))),
        grpc_answer(&grpc, second, Err(GrpcError::Status { code: 12, message: pages.clone() })),
        grpc_answer(&grpc, second, Err(GrpcError::Status { code: 2, message: pages.clone() })),
        exec_answer(&command, second, Ok(ExecResult { code: 1, stdout: &bytes, stderr: &bytes })),
        exec_answer(&command, second, Err(ExecFault::Timeout)),
        exec_answer(&command, second, Err(ExecFault::Failed(pages.clone()))),
    ];
    for answer in answers {
        let (Answer::Warn(text) | Answer::Fail(text) | Answer::Error { detail: text, .. }) = &answer else {
            panic!("it does not pass: {answer:?}")
        };
        assert!(text.len() <= MAX_OUTPUT && text.len() > MAX_OUTPUT - 4, "{}", text.len());
    }
}

#[test]
fn the_state_of_a_probe_can_be_read() {
    let container = Container { readiness_probe: Some(probe(10, 0, 1, 2)), ..Container::default() };
    assert!(has_probe(&container) && !has_probe(&Container::default()));
    let mut rig = Rig::new(&container);
    assert_eq!((rig.probes.instance(), rig.probes.is_running()), (None, false));
    rig.runs(5, 5);
    assert_eq!((rig.probes.instance(), rig.probes.is_running()), (Some(&id(0)), true));
    let shown = |rig: &Rig| rig.probes.probe(ProbeKind::Readiness).map(|p| (p.verdict(), p.streak())).expect("a probe");
    rig.answer(ProbeKind::Readiness, Answer::Pass, 5);
    assert_eq!(shown(&rig), (Some(Verdict::Success), Some((Verdict::Success, 1))));
    rig.answer(ProbeKind::Readiness, fail(), 15);
    assert_eq!(shown(&rig), (Some(Verdict::Success), Some((Verdict::Failure, 1))), "one failure is not enough");
    rig.answer(ProbeKind::Readiness, fail(), 25);
    assert_eq!(shown(&rig), (Some(Verdict::Failure), Some((Verdict::Failure, 2))));
    rig.see(None, false, false, 30);
    assert!(!rig.probes.is_running());
    assert!(!Answer::Pass.is_error() && !fail().is_error());
}

#[test]
fn the_numbers_of_a_probe_must_be_positive_to_count_prb_01() {
    for (given, seconds, times) in [(0, [0, 10, 1], [1, 3]), (-1, [0, 10, 1], [1, 3]), (7, [7, 7, 7], [7, 7])] {
        let given = Some(given);
        let timing = Timing::of(&Probe {
            initial_delay_seconds: given,
            period_seconds: given,
            timeout_seconds: given,
            success_threshold: given,
            failure_threshold: given,
            ..Probe::default()
        });
        let shown = [timing.initial_delay, timing.period, timing.timeout].map(|time| time.as_secs());
        assert_eq!((shown, [timing.success_threshold, timing.failure_threshold]), (seconds, times), "{given:?}");
    }
}
