//! Names and UIDs that several pods want, and pods that are refused: one at a time, none forgotten, none left running.

use std::time::Duration;

use rubelet_core::lifecycle::Stage;
use rubelet_core::pod::{RestartPolicy, Source};
use rubelet_testkit::{Behaviour, FakeSource};

use crate::sim::{Sim, phase, static_pod};

fn http_pod(name: &str) -> rubelet_testkit::PodBuilder {
    rubelet_testkit::pod(name).static_from(Source::Http)
}

/// A node with a file source that has been read, and a URL.
async fn two_sources(seed: u64, http_is_read: bool) -> Sim {
    let mut sim = Sim::stopped(seed);
    sim.files.push([]);
    let http = FakeSource::new(Source::Http);
    if http_is_read {
        http.push([]);
    }
    sim.more = Some(http);
    sim.start().await;
    sim
}

fn http(sim: &Sim) -> &FakeSource {
    sim.more.as_ref().expect("there are two sources")
}

#[tokio::test(start_paused = true)]
async fn an_orphan_holds_its_name_until_it_has_ended_work_08() {
    let mut sim = Sim::seeded(40).await;
    sim.runtime.set_hints(false);
    sim.files.push([static_pod("web").uid("old").build(), static_pod("other").build()]);
    sim.until_ready(&["web", "other"], 10).await;
    sim.kill();
    sim.files.push([static_pod("web").uid("new").build(), static_pod("other").build()]);
    sim.runtime.hang(&"old".into());
    sim.start().await;
    // Every change in the runtime makes a new list, in which the orphan is known.
    for _ in 0..20 {
        sim.pass(1).await;
        sim.runtime.end_container("other", "app", 1);
        sim.check_laws();
    }
    assert_eq!(sim.runtime.running("web"), ["app"], "the old one runs, and it alone");
    sim.runtime.release(&"old".into());
    sim.until(120, "the new one", async |sim| {
        sim.view().await.pods.iter().any(|p| p.pod.uid.as_str() == "new" && phase(p) == "Running")
    })
    .await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_already_goes_before_one_that_came_first() {
    let mut sim = two_sources(41, true).await;
    http(&sim).put(http_pod("web").uid("old").build());
    sim.until_ready(&["web"], 10).await;
    sim.kill();
    sim.files.put(static_pod("web").uid("new").build());
    let late = FakeSource::new(Source::Http);
    sim.more = Some(late.clone());
    sim.start().await;
    sim.pass(5).await;
    late.put(http_pod("web").uid("old").build());
    sim.pass(100).await;
    assert_eq!(sim.runtime.calls("web").iter().filter(|c| *c == "start app").count(), 1, "nothing was restarted");
    let stages: Vec<_> = sim.view().await.pods.iter().map(|p| (p.pod.uid.to_string(), p.stage.word())).collect();
    assert_eq!(stages, [("new".to_owned(), "Waiting"), ("old".to_owned(), "Syncing")]);
    late.take_away("web");
    sim.until_ready(&["web"], 30).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn of_two_sources_with_one_uid_the_files_go_first_and_the_other_inherits() {
    let sim = two_sources(42, true).await;
    http(&sim).put(http_pod("url").uid("same").build());
    sim.until_ready(&["url"], 10).await;
    sim.files.put(static_pod("file").uid("same").build());
    sim.until_ready(&["file"], 60).await;
    assert!(sim.runtime.running("url").is_empty(), "one UID is one pod");
    // What the other source says of it now is heard, but changes nothing.
    http(&sim).put(http_pod("url").uid("same").grace_secs(3).build());
    sim.pass(10).await;
    assert!(sim.is_ready("file").await);
    assert!(sim.events.lines("url").iter().any(|l| l.contains("FailedValidation")), "{:?}", sim.events.lines("url"));
    sim.files.take_away("file");
    sim.until_ready(&["url"], 60).await;
    http(&sim).take_away("url");
    sim.until(60, "nothing to be left", async |sim| sim.runtime.world().is_empty()).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_pod_renamed_while_a_source_is_unread_leaves_its_old_name() {
    let sim = two_sources(43, false).await;
    sim.files.push([static_pod("web").uid("u").build()]);
    sim.until_ready(&["web"], 10).await;
    sim.files.push([static_pod("shop").uid("u").build()]);
    sim.until_ready(&["shop"], 60).await;
    assert!(sim.pod("web").await.is_none());
    sim.files.push([static_pod("shop").uid("u").build(), static_pod("web").uid("v").build()]);
    sim.until_ready(&["shop", "web"], 60).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_finished_pod_put_back_while_a_source_is_unread_runs_again() {
    let sim = two_sources(44, false).await;
    sim.runtime.script("app", [Behaviour::exits_after(Duration::from_secs(1), 0)]);
    let pod = static_pod("job").restart(RestartPolicy::Never).build();
    sim.files.put(pod.clone());
    sim.until(30, "its end", async |sim| sim.stage("job").await == Some(Stage::Finished)).await;
    sim.files.take_away("job");
    sim.pass(1).await;
    let before = sim.pod("job").await.expect("it is known until every source has been read").arrived;
    sim.files.put(pod);
    sim.until(30, "a second life", async |sim| sim.pod("job").await.is_some_and(|p| p.arrived != before)).await;
    sim.until(30, "its end", async |sim| sim.stage("job").await == Some(Stage::Finished)).await;
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_does_not_count_against_its_own_admission() {
    let sim = two_sources(45, false).await;
    let pod = static_pod("big").request("cpu", "40").build();
    sim.files.put(pod.clone());
    sim.until_ready(&["big"], 10).await;
    sim.files.take_away("big");
    sim.pass(1).await;
    sim.files.put(pod);
    sim.pass(5).await;
    assert!(sim.view().await.rejected.is_empty(), "it was let in before");
    assert!(sim.is_ready("big").await);
    assert_eq!(sim.runtime.calls("big").iter().filter(|c| *c == "start app").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_pod_that_runs_is_ended_loop_05() {
    let mut sim = Sim::seeded(46).await;
    sim.files.put(static_pod("small").request("cpu", "40").build());
    sim.until_ready(&["small"], 10).await;
    sim.kill();
    // Its definition no longer fits the node.
    let elsewhere = Some(rubelet_testkit::map([("disk", "ssd")]));
    sim.files.put(static_pod("small").request("cpu", "40").edit_spec(|spec| spec.node_selector = elsewhere).build());
    sim.start().await;
    sim.until(120, "the refused one to be ended", async |sim| sim.runtime.is_still(&"small-uid".into())).await;
    let view = sim.view().await;
    assert_eq!(view.rejected.len(), 1);
    sim.until(60, "nothing of it to be left", async |sim| sim.is_gone("small").await).await;
    sim.check_laws();
}
