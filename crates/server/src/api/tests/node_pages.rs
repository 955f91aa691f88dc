//! The pages about the node itself: its logs, checkpoints, flags, status, log level and profiles.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rubelet_core::config::{AuthorizationMode, FeatureGates, KubeletConfiguration};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::RpcErrorKind;
use rubelet_engine::trace::Tracer;
use rubelet_testkit::SeededRng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::rig::{CONTAINER, Rig, settings, whole};
use crate::api::{ApiSettings, SessionVerb};
use crate::testing::ago;

async fn open_rig() -> Rig {
    Rig::with(ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }).await
}

fn answer(status: u16, body: &str) -> (u16, String) {
    (status, body.to_owned())
}

/// An administrator's request with these headers and this body.
async fn send(rig: &Rig, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response<Incoming> {
    let pair = Some(rig.authority.client("admin", "ops"));
    let stream = rig.dial(pair, "http/1.1").await.expect("a connection");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a handshake");
    let mut task = JoinSet::new();
    task.spawn(async move {
        let _over = connection.with_upgrades().await;
    });
    task.detach_all();
    let mut request = Request::builder().method(method).uri(path).header("host", "node");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).expect("a request");
    sender.send_request(request).await.expect("an answer")
}

async fn post(rig: &Rig, path: &str) -> (u16, String) {
    whole(send(rig, "POST", path, &[], "").await).await
}

#[tokio::test]
async fn section_27_2_the_files_of_the_node_are_shown_as_go_shows_them() {
    let rig = open_rig().await;
    let list = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n\
                <a href=\"%3Cb%3E.log\">&lt;b&gt;.log</a>\n<a href=\"pods/\">pods/</a>\n<a href=\"syslog\">syslog</a>\n</pre>\n";
    assert_eq!(rig.get("/logs/").await, answer(200, list));
    assert!(rig.get("/logs/pods/").await.1.contains("and more\n"), "a list that was cut");
    assert_eq!(rig.get("/logs/syslog").await, answer(200, "0123456789"));
    assert_eq!(rig.get("/logs/nothing").await, answer(404, "404 page not found\n"));
    assert_eq!(rig.get("/logs").await, answer(404, "404 page not found\n"));
    assert_eq!(rig.get("/logs/out").await, answer(403, "403 Forbidden\n"), "a link that leads out");
    for (path, to) in [("/logs/pods", "pods/"), ("/logs/pods?a=b", "pods/?a=b"), ("/logs/syslog/", "../syslog")] {
        let response = send(&rig, "GET", path, &[], "").await;
        assert_eq!((response.status().as_u16(), response.headers()["location"].to_str().unwrap()), (301, to), "{path}");
    }
    let file = send(&rig, "GET", "/logs/syslog", &[], "").await;
    let header = |response: &Response<Incoming>, name: &str| {
        response.headers().get(name).map(|value| value.to_str().expect("text").to_owned())
    };
    assert_eq!(header(&file, "content-type").as_deref(), Some("text/plain; charset=utf-8"), "a browser runs none");
    assert_eq!(header(&file, "x-content-type-options").as_deref(), Some("nosniff"));
    assert_eq!(header(&file, "content-length").as_deref(), Some("10"));
    let modified = header(&file, "last-modified").expect("a time");
    let same = send(&rig, "GET", "/logs/syslog", &[("if-modified-since", &modified)], "").await;
    assert_eq!(whole(same).await, answer(304, ""));
    for (range, status, content_range, body) in [
        ("bytes=2-4", 206, "bytes 2-4/10", "234"),
        ("bytes=-3", 206, "bytes 7-9/10", "789"),
        ("bytes=20-", 416, "bytes */10", "invalid range: failed to overlap\n"),
        ("lines=1", 416, "bytes */10", "invalid range\n"),
        ("bytes=0-1,3-4", 200, "", "0123456789"),
    ] {
        let response = send(&rig, "GET", "/logs/syslog", &[("range", range)], "").await;
        assert_eq!(header(&response, "content-range").unwrap_or_default(), content_range, "{range}");
        assert_eq!(whole(response).await, answer(status, body), "{range}");
    }
}

#[tokio::test]
async fn http_05_queries_of_the_nodes_logs() {
    let config = KubeletConfiguration { enable_system_log_query: true, ..KubeletConfiguration::default() };
    let settings = ApiSettings {
        authorization: AuthorizationMode::AlwaysAllow,
        ..ApiSettings::new(&config, &FeatureGates::default())
    };
    let rig = Rig::with(settings).await;
    for (path, status, body) in [
        ("/logs/?query=kubelet", 200, "an entry\n"),
        ("/logs/?query=cron", 200, "0123456789"),
        ("/logs/?query=kubelet&query=cron", 200, "an entry\n0123456789"),
        ("/logs/?query=nothing", 200, "\nlog not found for nothing\n"),
        (
            "/logs/?query=cron&tailLines=1",
            200,
            "\noptions present and query resolved to log files for [cron]\ntry without specifying options\n",
        ),
        ("/logs/?query=./syslog", 200, "0123456789"),
        (
            "/logs/?query=/syslog",
            406,
            "query: Invalid value: [\"/syslog\"]: statat /syslog: path escapes from parent\n",
        ),
        (
            "/logs/?query=no/file",
            406,
            "query: Invalid value: [\"no/file\"]: statat no/file: no such file or directory\n",
        ),
        ("/logs/syslog?query=kubelet", 406, "path not allowed in query mode\n"),
        ("/logs/?query=%20", 400, "query: Invalid value: [\" \"]: may not be empty\n"),
        ("/logs/?query=a%3Bid", 406, "query: Invalid value: \"a;id\": input contains unsupported characters\n"),
        ("/logs/?tailLines=5", 406, "query: Required value: cannot be empty with options\n"),
        ("/logs/syslog", 200, "0123456789"),
    ] {
        // The scripted log directory has no dots in its paths.
        let path = path.replace("./", "%2E/");
        let found = rig.get(&path).await;
        if path.contains("%2E") {
            assert_eq!(found.0, 406, "the port resolves dots");
        } else {
            assert_eq!(found, answer(status, body), "{path}");
        }
    }
    let off = open_rig().await;
    assert_eq!(off.get("/logs/syslog?query=kubelet").await, answer(200, "0123456789"), "a query means nothing");
    assert!(!off.world.asked.lock().unwrap().iter().any(|asked| asked.starts_with("journal")));
}

#[tokio::test]
async fn section_27_2_a_container_is_checkpointed() {
    let rig = open_rig().await;
    let path = "/checkpoint/ns/web/app";
    let (status, body) = post(&rig, path).await;
    let file = "/checkpoints/checkpoint-web_ns-app-2026-05-28T20:26:40Z.tar";
    assert_eq!((status, body), (200, format!("{{\"items\":[\"{file}\"]}}")));
    assert_eq!(*rig.world.asked.lock().unwrap(), [format!("checkpoint {CONTAINER} {file} 0ns")]);
    post(&rig, "/checkpoint/ns/web/app?timeout=1&timeout=300").await;
    assert!(rig.world.asked.lock().unwrap().last().is_some_and(|asked| asked.ends_with("300s")), "the last one counts");

    assert_eq!(rig.get(path).await, answer(405, "405: Method Not Allowed"));
    assert_eq!(post(&rig, "/checkpoint/ns/gone/app").await, answer(404, "pod does not exist"));
    assert_eq!(post(&rig, "/checkpoint/ns/web/gone").await, answer(404, "container gone does not exist"));
    let timeout = post(&rig, "/checkpoint/ns/web/app?timeout=soon").await;
    assert_eq!(timeout, answer(404, "cannot parse value of timeout parameter"));
    let negative = "checkpointing of ns/web/app failed (CheckpointContainer requires the timeout value to be > 0)";
    assert_eq!(post(&rig, "/checkpoint/ns/web/app?timeout=-1").await, answer(500, negative));
    let late = "checkpointing of ns/web/late failed (container late not found)";
    assert_eq!(post(&rig, "/checkpoint/ns/web/late").await, answer(500, late), "it does not run");
    *rig.world.checkpoint_fails.lock().unwrap() = Some(RpcErrorKind::Unimplemented);
    let without = "checkpointing of ns/web/app failed (rpc error: code = Unimplemented desc = method CheckpointContainer \
                   not implemented)";
    assert_eq!(post(&rig, path).await, answer(500, without));
    for hostile in ["/checkpoint/ns/web/..%2f..%2fetc", "/checkpoint/ns/..%2f..%2fetc/app", "/checkpoint/ns/web/a%00b"]
    {
        assert_eq!(post(&rig, hostile).await.0, 404, "{hostile}");
    }
}

#[tokio::test]
async fn checkpoints_are_few_and_one_at_a_time_for_each_container() {
    let rig = open_rig().await;
    let path = "/checkpoint/ns/web/app";
    let (end, ends) = oneshot::channel();
    *rig.world.checkpoint_ends.lock().unwrap() = Some(ends);
    let second = async {
        while rig.world.asked.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let second = post(&rig, path).await;
        end.send(()).expect("the first waits");
        second
    };
    let (first, second) = tokio::join!(post(&rig, path), second);
    let busy = "checkpointing of ns/web/app failed (a checkpoint of this container is being made)";
    assert_eq!((first.0, second), (200, answer(429, busy)));
    assert_eq!(post(&rig, path).await.0, 200, "afterwards there is room again");
    *rig.world.checkpoints.lock().unwrap() = 16;
    let full =
        "checkpointing of ns/web/app failed (there are 16 checkpoints on this node: remove those that are not needed)";
    assert_eq!(post(&rig, path).await, answer(429, full));
}

#[tokio::test]
async fn flg_01_flags_status_and_the_log_level() {
    let rig = open_rig().await;
    assert!(rig.get("/flagz").await.1.ends_with("debugging purposes only.\nv: 2\n"));
    let (status, page) = rig.get("/statusz").await;
    assert!(status == 200 && page.contains("Binary version:  1.36.4\n"), "{page}");
    assert!(page.ends_with("Paths:  /configz /debug /flagz /healthz /metrics\n"), "{page}");
    let put = async |body: &str| whole(send(&rig, "PUT", "/debug/flags/v", &[], body).await).await;
    assert_eq!(put("4").await, answer(200, "successfully set klog.logging.verbosity to 4\n"));
    assert_eq!(*rig.world.asked.lock().unwrap(), ["verbosity 4"]);
    assert_eq!(put("x").await, answer(400, "strconv.ParseUint: parsing \"x\": invalid syntax\n"));
    assert_eq!(put(&"4".repeat(100)).await.0, 400, "too long to be read");
    assert_eq!(rig.get("/debug/flags/v").await, answer(406, "unsupported http method\n"));
}

#[tokio::test]
async fn section_27_2_profiles() {
    let rig = open_rig().await;
    assert_eq!(rig.get("/debug/pprof/cmdline").await, answer(200, "rubelet\0--v=2"));
    assert_eq!(rig.get("/debug/pprof/symbol").await, answer(200, "num_symbols: 0\n"));
    assert_eq!(rig.get("/debug/pprof/").await.0, 200);
    assert_eq!(rig.get("/debug/pprof/heap").await.0, 501);
}

/// Every route, with the right that it needs, and the status on the read-only port.
const ROUTES: [(&str, &str, &str, u16); 36] = [
    ("GET", "/healthz", "get healthz", 200),
    ("GET", "/healthz/ping", "get healthz", 200),
    ("GET", "/pods", "get pods", 200),
    ("GET", "/metrics", "get metrics", 200),
    ("GET", "/metrics/probes", "get metrics", 200),
    // This node has no reader of usage.
    ("GET", "/stats/summary", "get stats", 500),
    ("POST", "/stats/summary", "create stats", 500),
    ("GET", "/metrics/resource", "get metrics", 200),
    ("GET", "/metrics/cadvisor", "get metrics", 200),
    ("GET", "/metrics/slis", "get metrics", 200),
    ("DELETE", "/metrics/slis", "delete metrics", 200),
    ("GET", "/runningpods/", "get pods", 405),
    ("GET", "/containerLogs/ns/web/app", "get proxy", 405),
    ("GET", "/exec/ns/web/app?command=id&output=1", "get proxy", 405),
    ("POST", "/exec/ns/web/app?command=id&output=1", "create proxy", 405),
    ("POST", "/exec/ns/web/uid/app?command=id&output=1", "create proxy", 405),
    ("GET", "/attach/ns/web/app?output=1", "get proxy", 405),
    ("POST", "/attach/ns/web/app?output=1", "create proxy", 405),
    ("GET", "/portForward/ns/web", "get proxy", 405),
    ("POST", "/portForward/ns/web", "create proxy", 405),
    ("POST", "/run/ns/web/app?cmd=id", "create proxy", 405),
    ("GET", "/logs/", "get log", 405),
    ("GET", "/logs/syslog", "get log", 405),
    ("GET", "/logs/?query=kubelet", "get log", 405),
    ("GET", "/debug/pprof/", "get proxy", 405),
    ("GET", "/debug/pprof/cmdline", "get proxy", 405),
    ("GET", "/debug/pprof/profile", "get proxy", 405),
    ("GET", "/debug/pprof/heap", "get proxy", 405),
    ("GET", "/debug/pprof/symbol", "get proxy", 405),
    ("PUT", "/debug/flags/v", "update proxy", 404),
    ("GET", "/configz", "get configz", 404),
    ("GET", "/flagz", "get configz", 404),
    ("GET", "/statusz", "get statusz", 404),
    ("POST", "/checkpoint/ns/web/app", "create checkpoint", 404),
    ("DELETE", "/metrics", "delete metrics", 200),
    ("POST", "/pods", "create pods", 405),
];

#[tokio::test]
async fn hostile_every_route_needs_credentials_and_its_own_right_and_few_are_on_the_read_only_port() {
    for (method, path, right, on_read_only) in ROUTES {
        // A node of its own for each: it bounds how many bad tokens an address may try.
        let mut rig = Rig::new().await;
        let read_only = rig.read_only().await;
        assert_eq!(rig.ask(None, method, path, None).await.0, 401, "{method} {path} without credentials");
        assert_eq!(rig.ask(None, method, path, Some("bad")).await.0, 401, "{method} {path} with a bad token");
        // Every right but the one that is needed, and but that on all of the node.
        let verbs = ["get", "create", "update", "patch", "delete"];
        let resources = ["healthz", "pods", "stats", "metrics", "log", "checkpoint", "configz", "statusz", "proxy"];
        let (verb, subresource) = right.split_once(' ').expect("two words");
        let proxy_helps = matches!(subresource, "healthz" | "pods" | "configz") && path != "/flagz";
        let helps = |verb_: &str, resource: &str| {
            verb_ == verb && (resource == subresource || proxy_helps && resource == "proxy")
        };
        let others = verbs.iter().flat_map(|verb| resources.iter().map(move |resource| (*verb, *resource)));
        let others = others.filter(|(verb, resource)| !helps(verb, resource));
        *rig.world.allowed.lock().unwrap() = others.map(|(verb, resource)| format!("{verb} {resource}")).collect();
        assert_eq!(rig.ask(None, method, path, Some("good")).await.0, 403, "{method} {path} without {right}");
        rig.world.allowed.lock().unwrap().insert(right.to_owned());
        let allowed = rig.ask(None, method, path, Some("good")).await.0;
        assert!(!matches!(allowed, 401 | 403), "{method} {path} with {right}: {allowed}");
        rig.world.allowed.lock().unwrap().clear();
        rig.world.asked.lock().unwrap().clear();

        let stream = TcpStream::connect(read_only).await.expect("a connection");
        let request = Request::builder().method(method).uri(path).header("host", "node");
        let request = request.body(http_body_util::Empty::new()).expect("a request");
        let found = super::rig::send(TokioIo::new(stream), request).await.status().as_u16();
        assert_eq!(found, on_read_only, "{method} {path} on the read-only port");
        assert!(rig.world.asked.lock().unwrap().is_empty(), "{method} {path} did something");
    }
}

#[tokio::test]
async fn hostile_strict_sessions_are_refused_to_those_that_may_only_get() {
    let rig = Rig::with(ApiSettings { session_verb: SessionVerb::Create, ..settings() }).await;
    rig.world.allowed.lock().unwrap().insert("get proxy".into());
    for path in ["/exec/ns/web/app?command=id&output=1", "/attach/ns/web/app?output=1", "/portForward/ns/web"] {
        let (status, why) = rig.ask(None, "GET", path, Some("good")).await;
        assert_eq!(status, 403, "{path}");
        assert!(why.contains("verb=create, resource=nodes, subresource(s)=[proxy]"), "{why}");
    }
    let (status, _) = rig.ask(None, "GET", "/containerLogs/ns/web/app", Some("good")).await;
    assert_eq!(status, 200, "reading needs get, as before");
    rig.world.allowed.lock().unwrap().insert("create proxy".into());
    let (status, why) = rig.ask(None, "GET", "/exec/ns/web/app?command=id&output=1", Some("good")).await;
    assert_eq!((status, why.as_str()), (500, "Upgrade request required\n"));
}

#[tokio::test]
async fn hostile_no_path_below_logs_is_more_than_a_path_below_logs() {
    let rig = open_rig().await;
    for path in [
        "/logs/../etc/passwd",
        "/logs/%2e%2e/etc/passwd",
        "/logs/..%2f..%2fetc%2fpasswd",
        "/logs//etc/passwd",
        "/logs/%2fetc/passwd",
        "/logs/./syslog",
        "/logs/pods/%2e%2e/syslog",
        "/logs/syslog%00",
        "/logs/sys%0alog",
        "/logs/%ff",
    ] {
        let found = rig.get(path).await;
        assert_eq!(found, answer(404, "404 page not found\n"), "{path}");
    }
    assert!(rig.world.asked.lock().unwrap().is_empty(), "none was opened");
}

/// Many large logs and many sessions at once, with clients that do not read.
#[tokio::test]
async fn hostile_many_readers_of_the_nodes_logs_are_bounded_and_cost_little() {
    let rig = open_rig().await;
    let mut held = Vec::new();
    for _ in 0..32 {
        let response = send(&rig, "GET", "/logs/huge", &[], "").await;
        assert_eq!(response.status(), 200);
        held.push(response);
    }
    assert_eq!(send(&rig, "GET", "/logs/huge", &[], "").await.status(), 503);
    assert_eq!(rig.get("/pods").await.0, 200, "other pages are served");
    // Meanwhile the server reads what the buffers between it and its clients take.
    for _ in 0..50 {
        assert_eq!(rig.get("/configz").await.0, 200);
    }
    let read = rig.world.huge.0.load(Ordering::Relaxed);
    assert!(read / 32 < 16 << 20, "{read} bytes were read for 32 clients that read nothing");
    drop(held);
}

/// A streaming server of a runtime that sends without end; the number of bytes that its clients took.
async fn flooding(tasks: &mut JoinSet<()>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let url = format!("http://{}/exec/token", listener.local_addr().expect("an address"));
    let sent = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&sent);
    tasks.spawn(async move {
        let mut sessions = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            sessions.spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.expect("a head"));
                }
                let agreed = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
                stream.write_all(agreed).await.expect("read");
                while stream.write_all(&[0; 16 * 1024]).await.is_ok() {
                    count.fetch_add(16 * 1024, Ordering::Relaxed);
                }
            });
        }
    });
    (url, sent)
}

/// 50 followers of logs and 20 sessions, none of which reads: what is between a sender and its client stays small.
#[tokio::test]
async fn hostile_followers_and_sessions_that_nobody_reads_cost_little() {
    let rig = open_rig().await;
    let mut tasks = JoinSet::new();
    let (url, sent) = flooding(&mut tasks).await;
    *rig.world.sessions.lock().unwrap() = Ok(url);
    let read = Arc::new(watch::Sender::new(0));
    *rig.world.endless.lock().unwrap() = Some(Arc::clone(&read));
    let mut held = Vec::new();
    for _ in 0..50 {
        let response = send(&rig, "GET", "/containerLogs/ns/web/app?follow=true", &[], "").await;
        assert_eq!(response.status(), 200);
        held.push(response);
    }
    for _ in 0..20 {
        let upgrade = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        let response = send(&rig, "POST", "/exec/ns/web/app?command=yes&output=1", &upgrade, "").await;
        assert_eq!(response.status(), 101);
        held.push(response);
    }
    for _ in 0..50 {
        assert_eq!(rig.get("/pods").await.0, 200, "other requests are served meanwhile");
    }
    let (read, sent) = (*read.borrow() / 50, sent.load(Ordering::Relaxed) / 20);
    // Nearly all of it is in the kernel's socket buffers.
    assert!(read < 16 << 20 && sent < 16 << 20, "{read} bytes for each follower, {sent} for each session");
    drop(held);
}

#[tokio::test]
async fn trc_01_a_request_is_a_span_of_the_callers_trace() {
    let (tracer, mut spans) = Tracer::new(1_000_000, Arc::new(SeededRng::new(1)), Clock::virtual_from(ago(0)));
    let open = ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() };
    let mut rig = Rig::made_from(open, |parts| parts.tracer = tracer.clone()).await;
    let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    send(&rig, "GET", "/containerLogs/ns/web/gone", &[("traceparent", header)], "").await;
    send(&rig, "POST", "/exec/ns/web/gone?output=1", &[("traceparent", "nonsense")], "").await;
    assert_eq!(rig.ask(None, "GET", "/pods", None).await.0, 401, "a request without credentials is no span");
    let address = rig.read_only().await;
    let stream = TcpStream::connect(address).await.expect("a connection");
    let request = Request::get("/pods").header("host", "node").header("traceparent", header);
    super::rig::send(TokioIo::new(stream), request.body(http_body_util::Empty::new()).expect("a request")).await;
    let mut all = Vec::new();
    spans.next(&mut all, 10).await;
    let shown: Vec<String> =
        all.iter().map(|span| format!("{} {:?} {:x} {:?}", span.name, span.kind, span.parent, span.failure)).collect();
    assert_eq!(
        shown,
        [
            "/containerLogs/{podNamespace}/{podID}/{containerName} Server b7ad6b7169203331 None",
            "/exec/{podNamespace}/{podID}/{containerName} Server 0 Some(\"\")",
        ],
        "nor is one on the read-only port of this node, which has no tracer"
    );
    let code = all[0].attributes.iter().find(|(key, _)| *key == "http.response.status_code");
    assert_eq!(code.map(|(_, value)| value.clone()), Some(404_i64.into()));
}

#[tokio::test]
async fn hostile_a_storm_of_scrapes_leaves_nothing_behind() {
    let rig = open_rig().await;
    for _ in 0..12 {
        // Fewer than one address may have waiting for their first response.
        let paths = ["/metrics", "/metrics/probes", "/pods", "/configz", "/flagz", "/logs/", "/statusz", "/healthz"];
        let scrapes = paths.iter().chain(&paths).map(|path| rig.get(path));
        let answers = futures_util::future::join_all(scrapes).await;
        assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
    }
    let (_, page) = rig.get("/metrics").await;
    let in_flight: Vec<&str> =
        page.lines().filter(|line| line.starts_with("kubelet_http_inflight_requests{")).collect();
    let busy: Vec<&&str> = in_flight.iter().filter(|line| !line.ends_with(" 0")).collect();
    assert_eq!(busy.len(), 1, "only this request: {busy:?}");
    assert!(in_flight.len() <= 8, "as many series as paths that are known: {in_flight:?}");
}

#[tokio::test]
async fn a_page_body_is_complete() {
    let rig = open_rig().await;
    let response = send(&rig, "GET", "/logs/syslog", &[], "").await;
    assert_eq!(response.into_body().collect().await.expect("whole").to_bytes(), "0123456789");
}
