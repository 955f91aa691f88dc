//! The pages of usage.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use rubelet_core::config::AuthorizationMode;
use rubelet_engine::ports::{Detail, Unmeasured, UsageReader};
use rubelet_testkit::{FakeUsage, node_usage};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::rig::{Rig, send, settings};
use crate::api::ApiSettings;
use crate::api::usage::{MOST_PAGES, UsagePages};
use crate::testing::ago;

async fn rig(reader: &FakeUsage, settings: ApiSettings) -> Rig {
    let reader: Arc<dyn UsageReader> = Arc::new(reader.clone());
    Rig::made_from(settings, |parts| parts.usage = Some(reader)).await
}

fn open() -> ApiSettings {
    ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }
}

const PAGES: [&str; 3] = ["/stats/summary", "/metrics/resource", "/metrics/cadvisor"];

#[tokio::test]
async fn section_27_2_the_pages_of_usage_have_their_content() {
    let reader = FakeUsage::new(Ok(node_usage(2)));
    let rig = rig(&reader, open()).await;
    let (status, page) = rig.get("/metrics/resource").await;
    assert_eq!(status, 200);
    let line = "container_cpu_usage_seconds_total{container=\"app-2\",namespace=\"default\",pod=\"web-1\"} 1.234 \
                1780000000000\n";
    assert!(page.contains(line) && page.ends_with("resource_scrape_error 0\n"), "{page}");
    assert!(
        reader.asked().iter().all(|wanted| wanted.detail == Detail::CpuAndMemory && !wanted.networks && !wanted.disks)
    );

    let (status, page) = rig.get("/metrics/cadvisor").await;
    assert_eq!(status, 200);
    assert!(page.contains("pod=\"web-0\",interface=\"eth0\"") && page.contains("machine_cpu_cores{"), "{page}");
    assert_eq!(reader.asked().last().map(|wanted| wanted.detail), Some(Detail::Everything));

    let (status, page) = rig.get("/stats/summary").await;
    let summary: serde_json::Value = serde_json::from_str(&page).expect("JSON");
    assert_eq!((status, &summary["node"]["nodeName"]), (200, &"node-1".into()));
    assert_eq!(summary["pods"][1]["containers"][0]["name"], "app-1");
    assert!(summary["node"].get("runtime").is_some());
    let last = reader.asked().pop().expect("asked");
    assert!(last.networks && last.disks);
}

/// upstream: kubelet/server/stats/handler.go handleSummary (v1.36)
#[tokio::test]
async fn section_27_2_only_cpu_and_memory_by_query_and_by_form() {
    let reader = FakeUsage::new(Ok(node_usage(1)));
    let rig = rig(&reader, open()).await;
    let short = |page: &str| {
        let summary: serde_json::Value = serde_json::from_str(page).expect("JSON");
        summary["node"].get("runtime").is_none()
    };
    for (method, path, expected) in [
        ("GET", "/stats/summary?only_cpu_and_memory=true", true),
        ("GET", "/stats/summary?only_cpu_and_memory=false", false),
        ("GET", "/stats/summary?only_cpu_and_memory=true&only_cpu_and_memory=true", false),
        ("POST", "/stats/summary?only_cpu_and_memory=true", true),
        ("POST", "/stats/summary", false),
    ] {
        let admin = Some(rig.authority.client("admin", "ops"));
        let (status, page) = rig.ask(admin, method, path, None).await;
        assert_eq!((status, short(&page)), (200, expected), "{method} {path}");
    }
    assert!(!reader.asked()[0].disks && !reader.asked()[0].networks, "nothing is measured that is not shown");

    let pages = UsagePages::new(Some(Arc::new(reader)), "node-1".into(), ago(0));
    let form = |body: String| {
        let request = Request::post("/stats/summary").header("content-type", "application/x-www-form-urlencoded");
        pages.summary(request.body(Full::new(Bytes::from(body))).expect("a request"))
    };
    let answer = form("a=b&only_cpu_and_memory=true".into()).await.expect("a page");
    let page = answer.into_body().collect().await.expect("a body").to_bytes();
    assert!(short(&String::from_utf8_lossy(&page)));
    let (status, why) = form("x".repeat(5000)).await.expect_err("too long");
    assert_eq!((status.as_u16(), why.as_str()), (500, "Internal Error: parse form failed"));
}

#[tokio::test]
async fn section_27_2_content_types_are_upstreams() {
    let mut rig = rig(&FakeUsage::new(Ok(node_usage(1))), open()).await;
    let address = rig.read_only().await;
    let metrics = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    for (path, expected) in [("/metrics/slis", metrics), ("/metrics", metrics)] {
        let stream = TcpStream::connect(address).await.expect("a connection");
        // OpenMetrics is not offered, as on upstream's pages.
        let request = Request::get(path).header("host", "node").header("accept", "application/openmetrics-text");
        let response = send(hyper_util::rt::TokioIo::new(stream), request.body(Empty::new()).expect("a request")).await;
        assert_eq!(response.headers()["content-type"], expected, "{path}");
    }
    let pages = UsagePages::new(Some(Arc::new(FakeUsage::new(Ok(node_usage(1))))), "node-1".into(), ago(0));
    assert_eq!(pages.resource().await.expect("a page").headers()["content-type"], metrics);
    assert_eq!(pages.cadvisor().await.expect("a page").headers()["content-type"], metrics);
    let summary = pages.summary(Request::get("/stats/summary").body(Empty::<Bytes>::new()).expect("a request")).await;
    assert_eq!(summary.expect("a page").headers()["content-type"], "application/json");
}

#[tokio::test]
async fn section_27_2_the_pages_of_usage_need_stats_and_metrics() {
    let rig = rig(&FakeUsage::new(Ok(node_usage(1))), settings()).await;
    let admin = || Some(rig.authority.client("admin", "ops"));
    for path in PAGES {
        assert_eq!(rig.ask(None, "GET", path, None).await.0, 401, "{path}");
        assert_eq!(rig.ask(admin(), "GET", path, None).await.0, 403, "{path}");
    }
    rig.world.allowed.lock().unwrap().insert("get proxy".into());
    assert_eq!(rig.get("/stats/summary").await.0, 403, "proxy is not enough");
    rig.world.allowed.lock().unwrap().insert("get stats".into());
    assert_eq!(rig.get("/stats/summary").await.0, 200);
    assert_eq!(rig.ask(admin(), "POST", "/stats/summary", None).await.0, 403, "create is another verb");
    assert_eq!(rig.get("/metrics/resource").await.0, 403);
    rig.world.allowed.lock().unwrap().insert("get metrics".into());
    for path in ["/metrics/resource", "/metrics/cadvisor", "/metrics/slis"] {
        assert_eq!(rig.get(path).await.0, 200, "{path}");
    }
    assert_eq!(rig.ask(admin(), "DELETE", "/metrics/slis", None).await.0, 403);
}

#[tokio::test]
async fn section_28_what_cannot_be_measured_is_an_error_as_upstreams() {
    for reader in [None, Some(FakeUsage::new(Err(Unmeasured("no cgroups".into()))))] {
        let why = if reader.is_some() { "no cgroups" } else { "there is no reader of usage" };
        let reader = reader.map(|reader| Arc::new(reader) as Arc<dyn UsageReader>);
        let rig = Rig::made_from(open(), |parts| parts.usage = reader).await;
        assert_eq!(rig.get("/stats/summary").await, (500, format!("Internal Error: {why}")));
        let (status, page) = rig.get("/metrics/resource").await;
        assert!(status == 200 && page.ends_with("resource_scrape_error 1\n"), "{page}");
        let (status, page) = rig.get("/metrics/cadvisor").await;
        assert!(status == 200 && page.contains("container_scrape_error 1\n"), "{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_hangs_ends_with_an_error() {
    let pages = UsagePages::new(Some(Arc::new(FakeUsage::hanging())), "node-1".into(), ago(0));
    let request = Request::get("/stats/summary").body(Empty::<Bytes>::new()).expect("a request");
    let (status, why) = pages.summary(request).await.expect_err("no page");
    assert_eq!((status.as_u16(), why.as_str()), (500, "Internal Error: no answer within 30 s"));
}

#[tokio::test(start_paused = true)]
async fn scrapes_that_come_together_share_one_look_and_only_so_many_are_sent_at_a_time() {
    const SCRAPES: usize = 4 * MOST_PAGES;
    let reader = FakeUsage::hanging();
    let pages = Arc::new(UsagePages::new(Some(Arc::new(reader.clone())), "node-1".into(), ago(0)));
    let done = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let begun = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut scrapes = JoinSet::new();
    for _ in 0..SCRAPES {
        let (pages, done, begun) = (Arc::clone(&pages), Arc::clone(&done), Arc::clone(&begun));
        scrapes.spawn(async move {
            begun.fetch_add(1, Ordering::Relaxed);
            let page = pages.cadvisor().await.expect("a page").into_body().collect().await.expect("a body").to_bytes();
            done.fetch_add(1, Ordering::Relaxed);
            page.len()
        });
    }
    while begun.load(Ordering::Relaxed) < SCRAPES {
        tokio::task::yield_now().await;
    }
    assert_eq!((done.load(Ordering::Relaxed), reader.asked().len()), (0, 1));
    reader.set(Ok(node_usage(40)));
    let sizes = scrapes.join_all().await;
    assert!(sizes.iter().all(|size| *size == sizes[0]) && sizes[0] > 512 * 1024, "{}", sizes[0]);
    assert_eq!(reader.asked().len(), 1, "looks");

    // Clients that do not read hold their turns; the next is refused, and others go on once one of them has left.
    let mut held = Vec::new();
    for _ in 0..MOST_PAGES {
        held.push(pages.cadvisor().await.expect("a page"));
    }
    assert_eq!(pages.resource().await.expect_err("no turn").0.as_u16(), 503);
    held.pop();
    assert!(pages.resource().await.is_ok());
}

/// upstream: component-base metrics/prometheus/slis/metrics_test.go, metrics/http.go HandlerWithReset (v1.36)
#[tokio::test]
async fn section_27_2_checks_of_healthz_are_counted_on_metrics_slis() {
    let rig = Rig::with(open()).await;
    let (_, empty) = rig.get("/metrics/slis").await;
    assert!(empty.starts_with("# HELP process_start_time_seconds"), "{empty}");
    for path in ["/healthz", "/healthz?exclude=log", "/healthz/ping"] {
        assert_eq!(rig.get(path).await.0, 200);
    }
    let (_, page) = rig.get("/metrics/slis").await;
    for line in [
        "# TYPE kubernetes_healthcheck gauge\n",
        "kubernetes_healthcheck{name=\"syncloop\",type=\"healthz\"} 1\n",
        "# TYPE kubernetes_healthchecks_total counter\n",
        "kubernetes_healthchecks_total{name=\"log\",status=\"success\",type=\"healthz\"} 1\n",
        "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 2\n",
    ] {
        assert!(page.contains(line), "{line}in\n{page}");
    }
    let admin = Some(rig.authority.client("admin", "ops"));
    assert_eq!(rig.ask(admin, "DELETE", "/metrics/slis", None).await, (200, "metrics reset\n".into()));
    assert_eq!(rig.get("/metrics/slis").await.1, empty);
}
