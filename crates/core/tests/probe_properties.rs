//! Laws of probes, over any sequence of looks, answers and restarts.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Probe};
use proptest::prelude::*;
use rubelet_core::id::ContainerId;
use rubelet_core::plan::{ProbeView, Verdict};
use rubelet_core::probe::{Answer, ContainerProbes, ProbeKind, Sight};
use rubelet_core::time::{Instant, Now};

#[derive(Clone, Debug)]
enum Step {
    /// A look: another instance or the same, running or not, ending or not.
    See {
        fresh: bool,
        running: bool,
    },
    /// Whatever is due is asked and answers so.
    Answer(ProbeKind, u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(ProbeKind::Startup), Just(ProbeKind::Readiness), Just(ProbeKind::Liveness)];
    prop_oneof![
        (prop::bool::weighted(0.2), prop::bool::weighted(0.8))
            .prop_map(|(fresh, running)| Step::See { fresh, running }),
        (kind, 0..3u8).prop_map(|(kind, answer)| Step::Answer(kind, answer)),
        (0..15u64).prop_map(Step::Wait),
    ]
}

fn probe(thresholds: (i32, i32)) -> Option<Probe> {
    let (success, failure) = thresholds;
    (success > 0).then(|| Probe {
        success_threshold: Some(success),
        failure_threshold: Some(failure),
        ..Probe::default()
    })
}

fn view(probes: &ContainerProbes) -> ProbeView {
    let mut view = ProbeView::default();
    probes.show(&mut view);
    view
}

proptest! {
    #[test]
    fn gates_holds_and_thresholds_are_kept(
        thresholds in prop::collection::vec((0..3i32, 1..4i32), 3),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let container = Container {
            startup_probe: probe((thresholds[0].0.min(1), thresholds[0].1)),
            readiness_probe: probe(thresholds[1]),
            liveness_probe: probe((thresholds[2].0.min(1), thresholds[2].1)),
            ..Container::default()
        };
        let mut probes = ContainerProbes::new(&container);
        let (mut secs, mut instance, mut running) = (1000u64, 0u32, false);
        let mut since = secs;
        // What was answered in a row by the instance, per kind.
        let mut rows = [(9u8, 0u32); 3];
        for step in steps {
            let now = Now {
                mono: Instant::from_secs(secs),
                wall: Timestamp::from_second(i64::try_from(secs).unwrap()).unwrap(),
            };
            let before = view(&probes);
            match step {
                Step::Wait(by) => secs += by,
                Step::See { fresh, running: runs } => {
                    if fresh {
                        instance += 1;
                        since = secs;
                    }
                    if fresh || !runs {
                        rows = [(9, 0); 3];
                    }
                    running = runs;
                    let id = ContainerId::from(format!("c{instance}"));
                    let running_since = runs.then(|| Timestamp::from_second(i64::try_from(since).unwrap()).unwrap());
                    probes.see(&Sight { id: &id, running_since, started_before: false, ending: false }, now, 0.0);
                    if fresh {
                        prop_assert_eq!(view(&probes), ProbeView::default(), "a new instance begins with nothing");
                    }
                }
                Step::Answer(kind, answer) => {
                    let Some(id) = probes.begin(kind, now.mono) else { continue };
                    prop_assert!(running, "only what runs is asked");
                    prop_assert!(kind == ProbeKind::Startup || probes.has_started(), "startup comes first");
                    prop_assert!(
                        !before.startup.contains_key(&id) || kind != ProbeKind::Startup,
                        "a start is decided once"
                    );
                    prop_assert!(
                        before.liveness.get(&id) != Some(&Verdict::Failure) || kind != ProbeKind::Liveness,
                        "a failed liveness is on hold"
                    );
                    let text = match answer {
                        0 => Answer::Pass,
                        1 => Answer::Fail(String::new()),
                        _ => Answer::Error { state: "unknown", detail: String::new() },
                    };
                    probes.answered(kind, &id, &text, now);
                    let place = ProbeKind::ALL.iter().position(|k| *k == kind).unwrap();
                    if answer < 2 {
                        rows[place] = if rows[place].0 == answer { (answer, rows[place].1 + 1) } else { (answer, 1) };
                    }
                    let timing = *probes.probe(kind).unwrap().timing();
                    let (list, old) = match kind {
                        ProbeKind::Startup => (view(&probes).startup, before.startup),
                        ProbeKind::Readiness => (view(&probes).readiness, before.readiness),
                        ProbeKind::Liveness => (view(&probes).liveness, before.liveness),
                    };
                    let needed = if answer == 0 { timing.success_threshold } else { timing.failure_threshold };
                    if answer == 2 || rows[place].1 < needed {
                        prop_assert_eq!(list, old, "too few, or none: what stood stands");
                    } else {
                        let want = if answer == 0 { Verdict::Success } else { Verdict::Failure };
                        prop_assert_eq!(list.get(&id), Some(&want));
                    }
                }
            }
        }
    }
}
