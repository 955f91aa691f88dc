//! rubelet's own share of the time from a manifest to a running container. The exact figures come from the benchmark; this
//! only keeps a pause that should not be there from going unnoticed.

use std::time::Duration;

use crate::rig::{Node, WAIT, pod};

/// Far above what it takes on an idle machine, far below any pause that rubelet makes when it waits for something.
const BOUND: Duration = Duration::from_millis(700);
const PODS: usize = 7;

#[test]
fn a_written_manifest_becomes_a_running_container_without_a_pause_of_ours() {
    let node = Node::started();
    node.apply(&pod("warm-up", WAIT));
    node.running("warm-up");
    let mut own: Vec<Duration> = (0..PODS).map(|n| own_share(&node, &format!("timed-{n}"))).collect();
    own.sort();
    println!("own share of manifest -> running: median {:?}, all {own:?}", own[PODS / 2]);
    assert!(own[PODS / 2] < BOUND, "{own:?}");
}

/// From the manifest's being in place to the start's being noted, less what the runtime's three calls took.
fn own_share(node: &Node, name: &str) -> Duration {
    let manifest = pod(name, WAIT);
    let written = node.clock.wall();
    node.apply(&manifest);
    let started = |what: &str| what == "Container app started";
    let story = node.until_story(name, "as started", |story| story.timeline.iter().any(|step| started(&step.what)));
    let calls = ["Sandbox created", "Container app created", "Container app started"];
    let calls: f64 = story.timeline.iter().filter(|s| calls.contains(&&*s.what)).filter_map(|s| s.took_seconds).sum();
    let at = story.timeline.iter().find(|step| started(&step.what)).expect("it was started").at;
    let whole = Duration::try_from(at.duration_since(written)).unwrap_or_default();
    whole.saturating_sub(Duration::from_secs_f64(calls))
}
