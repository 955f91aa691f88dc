//! The reflector, with and without failures of the server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use rubelet_cluster::api::{Client, Extent, Reflector, Set, Watched};
use rubelet_testkit::SeededRng;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::fake::{Fake, PATIENCE, Reply, Seen, status};

/// An event of a watch.
fn event(kind: &str, name: &str, version: u64, value: &str) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"namespace":"d","name":"{name}","uid":"{name}","resourceVersion":"{version}","managedFields":[{{"a":{{"]":1}}}}]}},"data":{{"v":"{value}"}}}}}}"#
    ) + "\n"
}

fn bookmark(version: u64, listed: bool) -> String {
    let note = if listed { r#","annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
    format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}"{note}}}}}}}"#) + "\n"
}

fn gone() -> String {
    error(&status(410, "Expired", "too old resource version"))
}

/// An ERROR event.
fn error(status: &str) -> String {
    format!(r#"{{"type":"ERROR","object":{status}}}"#) + "\n"
}

/// The Status of a server that has not reached the requested resource version.
fn behind() -> String {
    let cause = r#""details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}"#;
    status(504, "Timeout", "Too large resource version: 10, current: 7").replacen('{', &format!("{{{cause},"), 1)
}

fn list(version: u64, names: &[&str]) -> Reply {
    let item = |name: &&str| format!(r#"{{"metadata":{{"namespace":"d","name":"{name}","resourceVersion":"3"}}}}"#);
    let items = names.iter().map(item).collect::<Vec<_>>().join(",");
    Reply::ok(format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":[{items}]}}"#))
}

struct Running {
    fake: Fake,
    sets: mpsc::Receiver<String>,
    cancel: CancellationToken,
}

impl Running {
    async fn start() -> Self {
        Self::with(|client| client, |reflector| reflector, Extent::Many).await
    }

    async fn with(
        client: impl FnOnce(Client) -> Client,
        reflector: impl FnOnce(Reflector<ConfigMap>) -> Reflector<ConfigMap>,
        extent: Extent,
    ) -> Self {
        let mut fake = Fake::start().await;
        let client = client(fake.client());
        let watched = Watched {
            extent,
            path: "/api/v1/configmaps".to_owned(),
            field_selector: Some("metadata.name=a,x!=b".to_owned()),
            ..Watched::default()
        };
        let reflector = reflector(Reflector::new(client, watched, Arc::new(SeededRng::new(1))));
        let (out, sets) = mpsc::channel(1_000);
        let sink = move |set: &Set<ConfigMap>| out.try_send(show(set)).unwrap();
        let cancel = CancellationToken::new();
        fake.group.start("reflector", reflector.run(sink, cancel.clone()));
        Self { fake, sets, cancel }
    }

    /// A reflector that has seen `a` at version 10.
    async fn listed() -> (Self, mpsc::Sender<String>) {
        let mut running = Self::start().await;
        let watch = running.fake.stream();
        watch.send(event("ADDED", "a", 10, "1") + &bookmark(10, true)).await.unwrap();
        running.until("a@10=1").await;
        running.fake.seen().await;
        (running, watch)
    }

    async fn until(&mut self, wanted: &str) {
        let mut seen = Vec::new();
        let all = async {
            while let Some(set) = self.sets.recv().await {
                if set == wanted {
                    return;
                }
                seen.push(set);
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, all).await;
        assert!(in_time.is_ok(), "wanted {wanted:?}, saw {seen:?}");
    }

    /// The next request, reduced to the relevant part of its query.
    async fn asked(&mut self) -> String {
        short(&self.fake.seen().await)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn show(set: &Set<ConfigMap>) -> String {
    let item = |map: &Arc<ConfigMap>| {
        let meta = &map.metadata;
        assert_eq!(meta.managed_fields, None);
        let value = map.data.as_ref().and_then(|data| data.get("v")).cloned().unwrap_or_default();
        format!("{}@{}={value}", meta.name.as_deref().unwrap(), meta.resource_version.as_deref().unwrap())
    };
    let bad = set.bad().keys().map(|key| format!("bad {}", key.name));
    set.objects().map(item).chain(bad).collect::<Vec<_>>().join(" ")
}

fn short(seen: &Seen) -> String {
    let query = seen.path.split_once('?').unwrap().1;
    let noise = ["timeoutSeconds=", "allowWatchBookmarks=", "fieldSelector=", "resourceVersionMatch="];
    let rest = query.split('&').filter(|part| !noise.iter().any(|noise| part.starts_with(noise)));
    rest.collect::<Vec<_>>().join("&")
}

#[tokio::test]
async fn src_04_a_watch_begins_with_all_objects_and_continues_with_changes() {
    let mut running = Running::start().await;
    let watch = running.fake.stream();
    watch.send(event("ADDED", "a", 7, "1") + &event("ADDED", "b", 9, "1")).await.unwrap();
    let seen = running.fake.seen().await;
    assert_eq!(short(&seen), "watch=true&sendInitialEvents=true");
    assert!(
        seen.path.contains("&allowWatchBookmarks=true&") && seen.path.contains("&resourceVersionMatch=NotOlderThan&")
    );
    assert!(seen.path.ends_with("&fieldSelector=metadata.name%3Da%2Cx%21%3Db"), "{}", seen.path);
    // Nothing is reported before the list is complete.
    watch.send(bookmark(9, true)).await.unwrap();
    assert_eq!(running.sets.recv().await.unwrap(), "a@7=1 b@9=1");
    watch.send(event("MODIFIED", "a", 11, "2")).await.unwrap();
    running.until("a@11=2 b@9=1").await;
    watch.send(event("DELETED", "b", 12, "1")).await.unwrap();
    running.until("a@11=2").await;
    // A watch that lasted a while and ended is no failure: it resumes at once at its last version.
    watch.send(bookmark(40, false)).await.unwrap();
    drop(watch);
    assert_eq!(running.asked().await, "watch=true&resourceVersion=40");
}

#[tokio::test]
async fn an_empty_set_is_reported() {
    let mut running = Running::start().await;
    let watch = running.fake.stream();
    watch.send(bookmark(9, true)).await.unwrap();
    assert_eq!(running.sets.recv().await.unwrap(), "");
}

#[tokio::test]
async fn a_server_without_watchlist_is_asked_for_pages() {
    let mut running = Running::start().await;
    let item = |name: &str| format!(r#"{{"metadata":{{"namespace":"d","name":"{name}","resourceVersion":"3"}}}}"#);
    running.fake.reply(Reply::status(422, "Invalid", "sendInitialEvents is forbidden"));
    running.fake.reply(Reply::ok(format!(
        r#"{{"metadata":{{"resourceVersion":"20","continue":"c 1"}},"items":[{},{{"metadata":{{"name":"bad"}},"data":1}}]}}"#,
        item("a")
    )));
    running.fake.reply(Reply::ok(format!(r#"{{"metadata":{{"resourceVersion":"21"}},"items":[{}]}}"#, item("b"))));
    let watch = running.fake.stream();
    assert_eq!(running.sets.recv().await.unwrap(), "a@3= b@3= bad bad");
    assert_eq!(running.asked().await, "watch=true&sendInitialEvents=true");
    assert_eq!(running.asked().await, "limit=500&resourceVersion=0");
    assert_eq!(running.asked().await, "limit=500&continue=c%201");
    assert_eq!(running.asked().await, "watch=true&resourceVersion=21");
    drop(watch);
}

#[tokio::test]
async fn a_version_that_is_too_old_leads_to_a_relist_and_deleted_objects_are_removed() {
    let (mut running, watch) = Running::listed().await;
    watch.send(event("ADDED", "b", 11, "1")).await.unwrap();
    running.until("a@10=1 b@11=1").await;
    let again = running.fake.stream();
    watch.send(gone()).await.unwrap();
    assert_eq!(running.asked().await, "watch=true&resourceVersion=11&sendInitialEvents=true");
    again.send(event("ADDED", "b", 15, "2") + &event("ADDED", "c", 16, "1")).await.unwrap();
    again.send(bookmark(16, true)).await.unwrap();
    assert_eq!(running.sets.recv().await.unwrap(), "b@15=2 c@16=1", "no partial list is reported");
}

#[tokio::test]
async fn after_any_failure_the_watch_resumes_at_its_last_version() {
    let (mut running, watch) = Running::listed().await;
    // The connection is cut; the server answers 500, then 429, then works again.
    running.fake.reply(Reply::status(500, "InternalError", "etcd is away"));
    running.fake.reply(Reply::Whole(429, vec![("retry-after", "1")], String::new()));
    let again = running.fake.stream();
    running.fake.cut();
    for _ in 0..3 {
        assert_eq!(running.asked().await, "watch=true&resourceVersion=10");
    }
    again.send(event("MODIFIED", "a", 12, "2")).await.unwrap();
    assert_eq!(running.sets.recv().await.unwrap(), "a@12=2");
    drop(watch);
}

#[tokio::test]
async fn a_stalled_connection_is_replaced() {
    let (mut running, _watch) = Running::listed().await;
    let again = running.fake.stream();
    running.fake.freeze();
    assert_eq!(running.asked().await, "watch=true&resourceVersion=10");
    again.send(event("MODIFIED", "a", 12, "2")).await.unwrap();
    running.until("a@12=2").await;
}

#[tokio::test]
async fn late_events_are_ignored() {
    let (mut running, watch) = Running::listed().await;
    let late = [
        event("MODIFIED", "a", 12, "2"),
        event("MODIFIED", "a", 11, "late"),
        event("DELETED", "a", 9, "late"),
        event("ADDED", "b", 13, "1"),
        event("ADDED", "c", 14, "1"),
        event("DELETED", "c", 16, "1"),
        event("MODIFIED", "c", 15, "late"),
    ];
    watch.send(late.concat()).await.unwrap();
    assert_eq!(
        running.sets.recv().await.unwrap(),
        "a@12=2 b@13=1",
        "changes that arrive together are reported together"
    );
    drop(watch);
    assert_eq!(running.asked().await, "watch=true&resourceVersion=16");
}

#[tokio::test]
async fn undecodable_events_restart_the_watch_and_then_relist() {
    let (mut running, watch) = Running::listed().await;
    let second = running.fake.stream();
    let third = running.fake.stream();
    watch.send("<html>\n".to_owned()).await.unwrap();
    assert_eq!(running.asked().await, "watch=true&resourceVersion=10");
    second.send("\u{0}\n".to_owned()).await.unwrap();
    assert_eq!(running.asked().await, "watch=true&resourceVersion=10&sendInitialEvents=true");
    third.send(event("ADDED", "a", 10, "1") + &event("ADDED", "b", 11, "1") + &bookmark(11, true)).await.unwrap();
    running.until("a@10=1 b@11=1").await;
}

#[tokio::test]
async fn an_undecodable_object_keeps_its_last_version_and_does_not_block_others() {
    let (mut running, watch) = Running::listed().await;
    let bad = event("MODIFIED", "a", 11, "x").replace(r#"{"v":"x"}"#, "[]");
    watch.send(bad + &event("ADDED", "b", 12, "1")).await.unwrap();
    running.until("a@10=1 b@12=1 bad a").await;
    watch.send(event("MODIFIED", "a", 13, "2")).await.unwrap();
    running.until("a@13=2 b@12=1").await;
}

#[tokio::test]
async fn unknown_fields_and_event_types_are_ignored() {
    let (mut running, watch) = Running::listed().await;
    let odd = event("MODIFIED", "a", 11, "2").replace(r#""data""#, r#""newField":{"x":[1]},"data""#);
    let unknown = event("INVENTED", "z", 11, "1");
    watch.send(unknown + &odd).await.unwrap();
    running.until("a@11=2").await;
}

#[tokio::test]
async fn watches_use_several_connections_and_leave_room_for_requests() {
    let mut fake = Fake::start().await;
    let client = fake.client();
    let streams: Vec<_> = (0..130).map(|_| fake.stream()).collect();
    for _ in &streams {
        let watched = Watched { path: "/x".to_owned(), ..Watched::default() };
        let reflector = Reflector::<ConfigMap>::new(client.clone(), watched, Arc::new(SeededRng::new(1)));
        let cancel = fake.group.cancel_token();
        fake.group.start("reflector", reflector.run(|_: &Set<ConfigMap>| {}, cancel));
    }
    let mut connections = [0; 3];
    for _ in &streams {
        connections[fake.seen().await.connection - 1] += 1;
    }
    assert_eq!(connections, [60, 60, 10]);
    fake.reply(Reply::ok("{}"));
    let _: serde_json::Value = client.get("/y").await.unwrap();
    assert_eq!(fake.seen().await.connection, 1);
}

#[tokio::test]
async fn only_the_end_of_list_bookmark_completes_a_list() {
    let mut running = Running::start().await;
    let watch = running.fake.stream();
    let other = bookmark(8, true).replace("initial-events-end", "another-annotation");
    let early = bookmark(9, true).replace(r#""true""#, r#""false""#);
    watch.send(event("ADDED", "a", 7, "1") + &bookmark(7, false) + &other + &early).await.unwrap();
    running.fake.reply(list(20, &["a", "b"]));
    assert_eq!(running.asked().await, "watch=true&sendInitialEvents=true");
    // Had the list been complete, the watch would resume at its version, and `b` would have been removed.
    drop(watch);
    assert_eq!(running.asked().await, "limit=500&resourceVersion=0");
    assert_eq!(running.sets.recv().await.unwrap(), "a@3= b@3=", "nothing was reported before");
}

#[tokio::test]
async fn a_watchlist_rejected_as_expired_is_repeated_without_a_minimum_version() {
    let (mut running, watch) = Running::listed().await;
    running.fake.reply(Reply::status(410, "Expired", "too old resource version"));
    let newest = running.fake.stream();
    watch.send(gone()).await.unwrap();
    assert_eq!(running.asked().await, "watch=true&resourceVersion=10&sendInitialEvents=true");
    assert_eq!(running.asked().await, "watch=true&sendInitialEvents=true");
    newest.send(event("ADDED", "b", 4, "1") + &bookmark(5, true)).await.unwrap();
    running.until("b@4=1").await;
}

#[tokio::test]
async fn a_paged_list_rejected_as_expired_is_repeated_without_a_minimum_version() {
    let mut running = Running::with(|client| client, Reflector::paged, Extent::Many).await;
    running.fake.reply(Reply::status(410, "Expired", "too old resource version"));
    running.fake.reply(list(20, &["a"]));
    assert_eq!(running.asked().await, "limit=500&resourceVersion=0");
    assert_eq!(running.asked().await, "limit=500");
    running.until("a@3=").await;
}

#[tokio::test]
async fn only_an_expired_or_unreached_version_leads_to_a_relist() {
    let (mut running, watch) = Running::listed().await;
    running.fake.reply(Reply::status(504, "Timeout", "request timed out"));
    running.fake.reply(Reply::status(503, "ServiceUnavailable", "starting"));
    running.fake.reply(Reply::Whole(504, Vec::new(), behind()));
    let again = running.fake.stream();
    drop(watch);
    for _ in 0..3 {
        assert_eq!(running.asked().await, "watch=true&resourceVersion=10");
    }
    assert_eq!(running.asked().await, "watch=true&resourceVersion=10&sendInitialEvents=true");
    again.send(event("ADDED", "a", 12, "2") + &bookmark(12, true)).await.unwrap();
    running.until("a@12=2").await;
}

/// Happens with etcd before 3.4.31 and 3.5.13.
#[tokio::test]
async fn a_failed_watchlist_falls_back_to_pages_once() {
    let mut running = Running::start().await;
    let first = running.fake.stream();
    first.send(error(&status(500, "InternalError", "etcdserver: progress is not supported"))).await.unwrap();
    running.fake.reply(list(20, &["a", "b"]));
    let watch = running.fake.stream();
    running.until("a@3= b@3=").await;
    assert_eq!(running.asked().await, "watch=true&sendInitialEvents=true");
    assert_eq!(running.asked().await, "limit=500&resourceVersion=0");
    assert_eq!(running.asked().await, "watch=true&resourceVersion=20");
    watch.send(gone()).await.unwrap();
    assert_eq!(running.asked().await, "watch=true&resourceVersion=20&sendInitialEvents=true");
}

#[tokio::test]
async fn a_busy_server_or_a_lost_connection_does_not_lead_to_a_paged_list() {
    let mut running = Running::start().await;
    running.fake.reply(Reply::Whole(429, vec![("retry-after", "1")], String::new()));
    let cut = running.fake.stream();
    let list = running.fake.stream();
    assert_eq!(running.asked().await, "watch=true&sendInitialEvents=true");
    cut.send(event("ADDED", "a", 7, "1")).await.unwrap();
    assert_eq!(running.asked().await, "watch=true&sendInitialEvents=true");
    running.fake.cut();
    assert_eq!(running.asked().await, "watch=true&sendInitialEvents=true");
    list.send(event("ADDED", "a", 7, "1") + &bookmark(9, true)).await.unwrap();
    running.until("a@7=1").await;
}

#[tokio::test]
async fn a_watchlist_that_stops_in_the_middle_falls_back_to_pages() {
    // The server ends the watch, or falls silent: no partial list is reported.
    for end in [true, false] {
        let short = std::time::Duration::from_secs(2);
        let mut running =
            Running::with(|client| client.with_deadline(short), |reflector| reflector, Extent::Many).await;
        let half = running.fake.stream();
        running.fake.reply(list(20, &["a", "b"]));
        half.send(event("ADDED", "a", 7, "1")).await.unwrap();
        assert_eq!(running.asked().await, "watch=true&sendInitialEvents=true");
        let half = Some(half).filter(|_| !end);
        assert_eq!(running.asked().await, "limit=500&resourceVersion=0");
        running.until("a@3= b@3=").await;
        drop(half);
    }
}

#[tokio::test]
async fn watches_of_single_objects_have_longer_timeouts() {
    for (extent, seconds) in [(Extent::Many, 300..=600), (Extent::One, 1_800..=3_600)] {
        let mut running = Running::with(|client| client, |reflector| reflector, extent).await;
        let seen = running.fake.seen().await;
        let asked = seen.path.split('&').find_map(|part| part.strip_prefix("timeoutSeconds=")).unwrap();
        assert!(seconds.contains(&asked.parse::<u64>().unwrap()), "{extent:?} {asked}");
    }
}

#[tokio::test]
async fn a_set_beyond_the_size_limit_is_rejected() {
    let mut running = Running::with(|client| client, |reflector| reflector, Extent::One).await;
    let watch = running.fake.stream();
    watch.send(event("ADDED", "a", 10, "1") + &bookmark(10, true)).await.unwrap();
    running.until("a@10=1").await;
    running.fake.seen().await;
    // 9 MiB each: each event is within its limit, both objects together exceed the limit of the set.
    let large = "x".repeat(9 << 20);
    for name in ["b", "c"] {
        watch.send(event("ADDED", name, 11, &large)).await.unwrap();
    }
    assert_eq!(running.asked().await, "watch=true&resourceVersion=11", "the watch was ended");
}

#[tokio::test]
async fn a_page_that_is_too_large_is_repeated_with_a_smaller_limit() {
    let mut running = Running::with(|client| client, Reflector::paged, Extent::Many).await;
    running.fake.reply(Reply::ok(" ".repeat((16 << 20) + 1)));
    running.fake.reply(list(20, &["a"]));
    assert_eq!(running.asked().await, "limit=500&resourceVersion=0");
    assert_eq!(running.asked().await, "limit=62&resourceVersion=0");
    running.until("a@3=").await;
}

#[tokio::test]
async fn an_event_beyond_the_size_limit_ends_the_watch() {
    let (mut running, watch) = Running::listed().await;
    let piece = "x".repeat(1 << 20);
    for _ in 0..11 {
        watch.send(piece.clone()).await.unwrap();
    }
    assert_eq!(running.asked().await, "watch=true&resourceVersion=10");
}
