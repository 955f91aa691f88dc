use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::config::{FeatureGates, KubeletConfiguration};

fn plan(json: &str) -> Option<ShutdownPlan> {
    let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let gates: BTreeMap<String, bool> =
        value.get("featureGates").and_then(|gates| serde_json::from_value(gates.clone()).ok()).unwrap_or_default();
    let config: KubeletConfiguration = serde_json::from_value(value).expect("a configuration");
    ShutdownPlan::of(&config, &FeatureGates::new(&gates).expect("gates"))
}

fn pod(name: &str, priority: Option<i32>, grace: Option<i64>) -> Arc<Pod> {
    let spec = serde_json::json!({"containers": [], "priority": priority, "terminationGracePeriodSeconds": grace});
    let pod = serde_json::json!({"metadata": {"name": name, "uid": name}, "spec": spec});
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

fn shown(groups: &[PodGroup]) -> Vec<String> {
    let pods = |group: &PodGroup| {
        let pods = group.pods.iter().map(|(pod, grace)| format!("{}={}", PodRef::of(pod).name, grace.as_secs()));
        pods.collect::<Vec<_>>().join(" ")
    };
    groups.iter().map(|g| format!("{}/{}: {}", g.group.priority, g.group.grace.as_secs(), pods(g))).collect()
}

// SHUT-01; upstream: nodeshutdown_manager.go newPodManager, migrateConfig (v1.36)
#[test]
fn the_settings_become_groups() {
    let off = "\"GracefulNodeShutdownBasedOnPodPriority\":false";
    for (json, groups, period) in [
        ("{}".to_owned(), None, 0),
        (r#"{"shutdownGracePeriodCriticalPods":"0s","shutdownGracePeriod":"0s"}"#.into(), None, 0),
        (r#"{"shutdownGracePeriod":"30s"}"#.into(), Some(vec!["0/30: ", "2000000000/0: "]), 30),
        (
            r#"{"shutdownGracePeriod":"30s","shutdownGracePeriodCriticalPods":"10s"}"#.into(),
            Some(vec!["0/20: ", "2000000000/10: "]),
            30,
        ),
        // Parts of seconds are cut in each group.
        (
            r#"{"shutdownGracePeriod":"3500ms","shutdownGracePeriodCriticalPods":"1700ms"}"#.into(),
            Some(vec!["0/1: ", "2000000000/1: "]),
            2,
        ),
        (
            r#"{"shutdownGracePeriodByPodPriority":[{"priority":100,"shutdownGracePeriodSeconds":5},
                {"priority":-1,"shutdownGracePeriodSeconds":7},{"priority":0,"shutdownGracePeriodSeconds":-3}]}"#
                .into(),
            Some(vec!["-1/7: ", "0/0: ", "100/5: "]),
            12,
        ),
        // Without its gate the list counts for nothing.
        (
            format!(
                r#"{{"shutdownGracePeriodByPodPriority":[{{"priority":1,"shutdownGracePeriodSeconds":5}}],"featureGates":{{{off}}}}}"#
            ),
            None,
            0,
        ),
        (
            format!(
                r#"{{"shutdownGracePeriod":"30s","featureGates":{{"GracefulNodeShutdown":false,{off},"WindowsGracefulNodeShutdown":false}}}}"#
            ),
            None,
            0,
        ),
    ] {
        let plan = plan(&json);
        assert_eq!(plan.as_ref().map_or(0, |plan| plan.period().as_secs()), period, "{json}");
        let groups: Option<Vec<String>> = groups.map(|list| list.into_iter().map(str::to_owned).collect());
        assert_eq!(plan.map(|plan| shown(&plan.groups(Vec::new()))), groups, "{json}");
    }
}

// SHUT-02; upstream: nodeshutdown_manager.go groupByPriority, killPods (v1.36)
#[test]
fn a_pod_belongs_to_the_highest_group_that_is_not_above_it() {
    let group = |priority, secs| ShutdownGroup { priority, grace: Duration::from_secs(secs) };
    let plan = ShutdownPlan::new(vec![group(1000, 3), group(0, 10), group(100, 5)]).expect("groups");
    let pods = vec![
        pod("below", Some(-5), None),
        pod("none", None, Some(30)),
        pod("zero", Some(0), Some(4)),
        pod("between", Some(99), Some(0)),
        pod("exact", Some(100), Some(5)),
        pod("over", Some(101), Some(6)),
        pod("critical", Some(2_000_000_000), None),
    ];
    assert_eq!(
        shown(&plan.groups(pods)),
        ["0/10: below=10 none=10 zero=4 between=0", "100/5: exact=5 over=5", "1000/3: critical=3"]
    );
}

fn names(commands: &[ShutdownCommand]) -> String {
    let name = |command: &ShutdownCommand| match command {
        ShutdownCommand::Begin => "begin".to_owned(),
        ShutdownCommand::List => "list".to_owned(),
        ShutdownCommand::End { pod, grace } => format!("end {} {}", PodRef::of(pod).name, grace.as_secs()),
        ShutdownCommand::Flush => "flush".to_owned(),
        ShutdownCommand::Release => "release".to_owned(),
        ShutdownCommand::Resume => "resume".to_owned(),
    };
    commands.iter().map(name).collect::<Vec<_>>().join(", ")
}

const ANNOUNCED: ShutdownEvent = ShutdownEvent::Announced(Announcer::LoginManager);

fn thirty_and_ten() -> Shutdown {
    let json = r#"{"shutdownGracePeriod":"30s","shutdownGracePeriodCriticalPods":"10s"}"#;
    Shutdown::new(plan(json).expect("a plan"))
}

fn uid(name: &str) -> PodUid {
    PodRef::of(&pod(name, None, None)).uid
}

// SHUT-02
#[test]
fn ordinary_pods_end_before_critical_ones_and_the_machine_goes_down_after_the_last_status() {
    let pods = || vec![pod("a", None, Some(5)), pod("b", None, None), pod("c", Some(2_000_000_001), Some(60))];
    let at = Instant::from_secs;
    let mut shutdown = thirty_and_ten();
    for (second, event, commands) in [
        (0, ShutdownEvent::Unknown, ""),
        (0, ShutdownEvent::Cancelled, ""),
        (1, ANNOUNCED, "begin, list"),
        (1, ANNOUNCED, ""),
        (2, ShutdownEvent::Active(pods()), "end a 5, end b 20"),
        (3, ShutdownEvent::Active(pods()), ""),
        (6, ShutdownEvent::Ended(uid("a")), ""),
        (7, ShutdownEvent::Ended(uid("stranger")), ""),
        (8, ShutdownEvent::Deadline, ""),
        // b takes too long: it is the turn of the next group.
        (22, ShutdownEvent::Deadline, "end c 10"),
        (23, ShutdownEvent::Ended(uid("b")), ""),
        (24, ShutdownEvent::Ended(uid("c")), "flush"),
        (25, ANNOUNCED, ""),
        (25, ShutdownEvent::Flushed, "release"),
        (26, ShutdownEvent::Flushed, ""),
        (90, ShutdownEvent::Deadline, ""),
        (91, ShutdownEvent::Cancelled, "resume"),
        (92, ANNOUNCED, "begin, list"),
        (93, ShutdownEvent::Active(Vec::new()), "flush"),
        (98, ShutdownEvent::Deadline, "release"),
    ] {
        let text = format!("{second}: {event:?}");
        assert_eq!(names(&shutdown.step(event, at(second))), commands, "{text}");
    }
    assert!(shutdown.is_on());
}

/// The login manager, asked after a connection was lost, knows of its own shutdowns only. So its "no" ends one of root's
/// after the pods had their time, and not in the middle; a signal that cancels it ends it at once.
#[test]
fn a_shutdown_that_root_announced_is_not_ended_by_a_login_manager_that_knows_nothing_of_it() {
    let by_root = || ShutdownEvent::Announced(Announcer::Root);
    let pods = || ShutdownEvent::Active(vec![pod("a", None, None)]);
    let check = |name: &str, steps: &[(u64, ShutdownEvent, &str)]| {
        let mut shutdown = thirty_and_ten();
        for (second, event, commands) in steps {
            let step = shutdown.step(event.clone(), Instant::from_secs(*second));
            assert_eq!(names(&step), *commands, "{name}: {second}: {event:?}");
        }
    };
    let begun = [(0, by_root(), "begin, list"), (1, pods(), "end a 20")];
    let with = |more: &[(u64, ShutdownEvent, &'static str)]| [&begun[..], more].concat();
    check(
        "asked in the middle",
        &with(&[
            (2, ShutdownEvent::Unknown, ""),
            (3, ShutdownEvent::Ended(uid("a")), "flush"),
            (4, ShutdownEvent::Flushed, "release, resume"),
            (5, ShutdownEvent::Unknown, ""),
        ]),
    );
    let done = [(3, ShutdownEvent::Ended(uid("a")), "flush"), (4, ShutdownEvent::Flushed, "release")];
    check("asked at the end", &with(&[&done[..], &[(5, ShutdownEvent::Unknown, "resume")]].concat()));
    check("cancelled", &with(&[(2, ShutdownEvent::Cancelled, "resume"), (3, ShutdownEvent::Cancelled, "")]));
    check(
        "announced anew after the question",
        &with(&[&[(2, ShutdownEvent::Unknown, ""), (2, by_root(), "")], &done[..], &[(90, by_root(), "")]].concat()),
    );
    check(
        "announced by the login manager, too",
        &with(&[(2, ANNOUNCED, ""), (2, by_root(), ""), (3, ShutdownEvent::Unknown, "resume")]),
    );
}

#[test]
fn a_list_that_never_comes_does_not_keep_the_machine_up() {
    let mut shutdown = thirty_and_ten();
    shutdown.step(ANNOUNCED, Instant::START);
    assert_eq!(shutdown.next_deadline(), Some(Instant::from_secs(30)));
    assert_eq!(names(&shutdown.step(ShutdownEvent::Deadline, Instant::from_secs(30))), "flush");
    assert_eq!(names(&shutdown.step(ShutdownEvent::Deadline, Instant::from_secs(35))), "release");
}

fn event() -> impl Strategy<Value = ShutdownEvent> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d"]);
    let pod = (name(), prop::option::of(-2_000_000_000..2_100_000_000_i32), prop::option::of(-1..90_i64));
    prop_oneof![
        2 => prop::sample::select(vec![Announcer::LoginManager, Announcer::Root]).prop_map(ShutdownEvent::Announced),
        1 => Just(ShutdownEvent::Cancelled),
        1 => Just(ShutdownEvent::Unknown),
        3 => prop::collection::vec(pod, 0..5).prop_map(|pods| {
            ShutdownEvent::Active(pods.into_iter().map(|(name, priority, grace)| self::pod(name, priority, grace)).collect())
        }),
        6 => name().prop_map(|name| ShutdownEvent::Ended(uid(name))),
        1 => Just(ShutdownEvent::Flushed),
        6 => Just(ShutdownEvent::Deadline),
    ]
}

proptest! {
    /// Whatever happens: the machine is let go once for each announcement at most, and only while the shutdown is on; no
    /// pod gets more grace than its group's time; nothing ends unless announced; the time is bounded.
    #[test]
    fn a_shutdown_is_bounded_and_releases_once(events in prop::collection::vec((event(), 0..12_u64), 1..60)) {
        let mut shutdown = thirty_and_ten();
        let (mut now, mut since, mut released) = (Instant::START, None, false);
        for (event, pause) in events {
            now = now + Duration::from_secs(pause);
            let announced = matches!(event, ShutdownEvent::Announced(_));
            // The driver's timer fires before anything else.
            let mut events = Vec::new();
            while shutdown.next_deadline().is_some_and(|until| until <= now) {
                events.push((false, shutdown.step(ShutdownEvent::Deadline, now), shutdown.is_on()));
            }
            let begins = announced && !shutdown.is_on();
            events.push((begins, shutdown.step(event, now), shutdown.is_on()));
            for (begins, commands, is_on) in events {
                if begins {
                    (since, released) = (Some(now), false);
                }
                for command in commands {
                    match command {
                        ShutdownCommand::Release => {
                            prop_assert!(!released, "twice");
                            released = true;
                        }
                        ShutdownCommand::End { grace, .. } => {
                            prop_assert!(is_on && grace <= Duration::from_secs(20));
                        }
                        ShutdownCommand::Begin | ShutdownCommand::List | ShutdownCommand::Flush | ShutdownCommand::Resume => {}
                    }
                }
            }
            if !shutdown.is_on() {
                since = None;
            }
            if let Some(since) = since {
                // Listing takes the whole period at most, the groups another, and the pauses between two events of this
                // test come on top of each stage.
                let most = Duration::from_secs(30 + 30 + 5 + 4 * 12);
                prop_assert!(now.since(since) <= most || *shutdown.stage() == ShutdownStage::Done);
            }
        }
    }
}
