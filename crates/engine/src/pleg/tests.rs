//! The generator on a runtime whose lists and streams are scripted.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use expect_test::expect;
use futures_util::stream;
use rubelet_core::id::PodRef;
use rubelet_core::observe::{PodObservation, SandboxState, SandboxSummary};

use super::*;

fn failure(kind: RpcErrorKind) -> RpcError {
    RpcError { operation: "scripted", kind, detail: String::new() }
}

/// One line of a stream's script.
#[derive(Clone)]
enum Script {
    Refused(RpcErrorKind),
    /// Gives this many hints, then ends, or fails with this kind, or goes on without any.
    Gives(u64, Option<Option<RpcErrorKind>>),
}

/// A runtime that only lists and streams. What is not scripted repeats the last line of the script.
struct Scripted {
    streams: Mutex<VecDeque<Script>>,
    lists: Mutex<VecDeque<Result<Vec<PodSummary>, RpcErrorKind>>>,
}

fn next<T: Clone>(script: &Mutex<VecDeque<T>>) -> T {
    let mut script = script.lock().expect("no panic while locked");
    if script.len() > 1 { script.pop_front() } else { script.front().cloned() }.expect("a script has a line")
}

#[async_trait]
impl RuntimeView for Scripted {
    async fn list(&self) -> Result<Vec<PodSummary>, RpcError> {
        next(&self.lists).map_err(failure)
    }

    async fn inspect(&self, _uid: &PodUid, _at: Instant) -> Result<PodObservation, RpcError> {
        Err(failure(RpcErrorKind::Failed))
    }

    async fn hints(&self) -> Result<BoxStream<'static, Result<Hint, RpcError>>, RpcError> {
        match next(&self.streams) {
            Script::Refused(kind) => Err(failure(kind)),
            Script::Gives(count, end) => {
                let hints = stream::iter(0..count).map(|n| Ok(hint(&format!("u{n}"))));
                Ok(match end {
                    None => hints.chain(stream::pending()).boxed(),
                    Some(None) => hints.boxed(),
                    Some(Some(kind)) => hints.chain(stream::iter([Err(failure(kind))])).boxed(),
                })
            }
        }
    }
}

fn hint(uid: &str) -> Hint {
    Hint { uid: uid.into() }
}

fn pod(uid: &str, state: SandboxState) -> PodSummary {
    let summary = SandboxSummary { state, attempt: 0, created_at: jiff::Timestamp::UNIX_EPOCH };
    PodSummary {
        pod: PodRef { namespace: "ns".into(), name: uid.into(), uid: uid.into() },
        sandboxes: [(format!("s-{uid}").into(), summary)].into(),
        containers: BTreeMap::new(),
    }
}

/// What the generator sent within `secs` of virtual time, and its health then.
async fn watch(
    secs: u64,
    streams: impl IntoIterator<Item = Script>,
    lists: impl IntoIterator<Item = Result<Vec<PodSummary>, RpcErrorKind>>,
) -> (Vec<PlegNews>, PlegHealth) {
    watch_counting(secs, streams, lists, &Arc::default()).await
}

async fn watch_counting(
    secs: u64,
    streams: impl IntoIterator<Item = Script>,
    lists: impl IntoIterator<Item = Result<Vec<PodSummary>, RpcErrorKind>>,
    metrics: &Arc<Metrics>,
) -> (Vec<PlegNews>, PlegHealth) {
    let streams = Mutex::new(streams.into_iter().collect());
    let runtime = Arc::new(Scripted { streams, lists: Mutex::new(lists.into_iter().collect()) });
    let (out, mut news) = mpsc::channel(100_000);
    let (pleg, health) = Pleg::new(runtime, Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH), out, Arc::clone(metrics));
    let cancel = CancellationToken::new();
    let end = async {
        tokio::time::sleep(Duration::from_secs(secs)).await;
        cancel.cancel();
    };
    tokio::join!(pleg.run(cancel.clone()), end);
    let mut all = Vec::new();
    while let Ok(one) = news.try_recv() {
        all.push(one);
    }
    let fares = health.borrow().clone();
    (all, fares)
}

fn lists(news: &[PlegNews]) -> usize {
    news.iter().filter(|n| matches!(n, PlegNews::Listed(_))).count()
}

fn hinted(news: &[PlegNews]) -> Vec<&str> {
    let hints = news.iter().filter_map(|n| match n {
        PlegNews::Hint(hint) => Some(hint.uid.as_str()),
        PlegNews::Listed(_) => None,
    });
    hints.collect()
}

#[tokio::test(start_paused = true)]
async fn without_events_everything_is_listed_every_second_pleg_01() {
    for refused in
        [Script::Refused(RpcErrorKind::Unimplemented), Script::Gives(0, Some(Some(RpcErrorKind::Unimplemented)))]
    {
        let (_, health) = watch(60, [refused], [Ok(Vec::new())]).await;
        assert!((60..=63).contains(&health.lists), "{} lists in a minute", health.lists);
        assert!(!health.streaming);
    }
}

#[tokio::test(start_paused = true)]
async fn section_28_1_lists_and_streams_are_counted() {
    let metrics = Arc::default();
    watch_counting(100, [Script::Gives(3, None)], [Ok(Vec::new())], &metrics).await;
    let mut page = String::new();
    metrics.write(&mut page);
    let lines = page.lines().filter(|line| line.starts_with("kubelet_") && line.contains("pleg"));
    let lines = lines.filter(|line| !line.contains("_bucket{") && !line.ends_with(" 0"));
    expect![[r#"
        kubelet_evented_pleg_connection_success_count 1
        kubelet_pleg_last_seen_seconds 60
        kubelet_pleg_relist_duration_seconds_count 2
        kubelet_pleg_relist_interval_seconds_sum 60
        kubelet_pleg_relist_interval_seconds_count 1
    "#]]
    .assert_eq(&lines.map(|line| format!("{line}\n")).collect::<String>());
    let metrics = Arc::default();
    watch_counting(3, [Script::Gives(0, Some(None))], [Err(RpcErrorKind::Unavailable)], &metrics).await;
    let mut page = String::new();
    metrics.write(&mut page);
    assert!(page.contains("kubelet_pleg_last_seen_seconds 0\n"), "a list that fails is no sign of life");
    assert!(!page.contains("kubelet_evented_pleg_connection_error_count 0\n"), "{page}");
    assert!(!page.contains("kubelet_pleg_relist_duration_seconds_count 0\n"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn with_events_a_list_is_only_the_safety_net() {
    let (news, health) = watch(300, [Script::Gives(3, None)], [Ok(Vec::new())]).await;
    assert!((5..=7).contains(&health.lists), "{} lists in five minutes", health.lists);
    assert_eq!((health.events, health.streaming), (3, true));
    assert_eq!(hinted(&news).len(), 3);
    assert_eq!(lists(&news), 1, "an unchanged list is not sent again");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_tried_again_soon_though_events_stream() {
    let down = || Err(RpcErrorKind::Unavailable);
    let (news, _) = watch(5, [Script::Gives(0, None)], [down(), down(), down(), Ok(Vec::new())]).await;
    assert_eq!(lists(&news), 1, "pods are not started before the first list");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_is_opened_again_and_what_was_missed_is_listed() {
    let streams = [Script::Gives(1, Some(None)), Script::Refused(RpcErrorKind::Unavailable), Script::Gives(1, None)];
    let running = vec![pod("a", SandboxState::Ready)];
    let dead = vec![pod("a", SandboxState::NotReady)];
    // One list at the start, one when the stream is open, one when it has ended: there the sandbox is dead.
    let (news, health) = watch(30, streams, [Ok(running.clone()), Ok(running), Ok(dead)]).await;
    assert!(health.streaming);
    assert_eq!(health.events, 2);
    let hints = hinted(&news);
    assert_eq!(hints.iter().filter(|uid| **uid == "a").count(), 2, "it was seen to run, and then dead: {hints:?}");
}

/// A runtime that offers a stream and always ends it at once costs little more than one that has none.
#[tokio::test(start_paused = true)]
async fn a_stream_that_never_lasts_is_opened_more_and_more_seldom() {
    let (_, health) = watch(60, [Script::Gives(0, Some(None))], [Ok(Vec::new())]).await;
    assert!(health.lists <= 120, "{} lists in a minute", health.lists);
}

#[tokio::test(start_paused = true)]
async fn a_full_channel_does_not_delay_shutdown() {
    let (out, _news) = mpsc::channel(1);
    let streams = Mutex::new([Script::Gives(10, None)].into());
    let runtime = Arc::new(Scripted { streams, lists: Mutex::new([Ok(Vec::new())].into()) });
    let (pleg, _) = Pleg::new(runtime, Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH), out, Arc::default());
    let cancel = CancellationToken::new();
    let end = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    };
    // The generator waits for room in the channel; cancelling it must still end it.
    let both = async { tokio::join!(pleg.run(cancel.clone()), end) };
    tokio::time::timeout(Duration::from_secs(2), both).await.expect("it ends when cancelled");
}
