//! Authentication, authorization, and the responses.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use rubelet_core::config::AuthorizationMode;
use tokio::net::TcpStream;

use super::rig::{Authority, Rig, send, settings, whole};
use crate::api::ApiSettings;

fn answer(status: u16, body: &str) -> (u16, String) {
    (status, body.to_owned())
}

#[tokio::test]
async fn http_02_authentication_and_authorization() {
    let rig = Rig::new().await;
    let admin = || Some(rig.authority.client("admin", "ops"));
    let foreign = || Some(Authority::new().client("admin", "ops"));
    let unauthorized = answer(401, "Unauthorized");

    assert_eq!(rig.ask(None, "GET", "/pods", None).await, unauthorized, "without credentials");
    assert_eq!(rig.ask(foreign(), "GET", "/pods", None).await, unauthorized, "with a certificate of another authority");
    assert_eq!(rig.ask(None, "GET", "/pods", Some("bad")).await, unauthorized, "with an unknown token");
    let forbidden = "Forbidden (user=admin, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
    assert_eq!(rig.ask(admin(), "GET", "/pods", None).await, answer(403, forbidden));
    let forbidden = "Forbidden (user=prometheus, verb=get, resource=nodes, subresource(s)=[metrics])\n";
    assert_eq!(rig.ask(None, "GET", "/metrics", Some("good")).await, answer(403, forbidden));
    assert_eq!(
        *rig.world.asked.lock().unwrap(),
        [
            "may admin [ops system:authenticated] get pods",
            "may admin [ops system:authenticated] get proxy",
            "may prometheus [system:authenticated] get metrics",
        ]
    );

    rig.world.allowed.lock().unwrap().insert("get pods".into());
    assert_eq!(rig.ask(admin(), "GET", "/pods", None).await.0, 200, "the fine-grained subresource suffices");
    rig.world.allowed.lock().unwrap().clear();
    rig.world.allowed.lock().unwrap().insert("get proxy".into());
    assert_eq!(rig.ask(admin(), "GET", "/pods", None).await.0, 200, "and so does proxy");
    assert_eq!(rig.ask(foreign(), "GET", "/pods", Some("good")).await.0, 200, "a bad certificate with a good token");

    *rig.world.reviews_fail.lock().unwrap() = true;
    assert_eq!(rig.ask(None, "GET", "/pods", Some("good")).await, unauthorized);
    let error = "Authorization error (user=admin, verb=get, resource=nodes, subresource=pods)";
    assert_eq!(rig.ask(admin(), "GET", "/pods", None).await, answer(500, error));
}

#[tokio::test]
async fn http_02_anonymous_requests_are_accepted_only_if_configured() {
    let anonymous = ApiSettings { anonymous: true, ..settings() };
    let rig = Rig::with(anonymous.clone()).await;
    let forbidden = "Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
    assert_eq!(rig.ask(None, "GET", "/pods", None).await, answer(403, forbidden));
    assert_eq!(rig.world.asked.lock().unwrap()[0], "may system:anonymous [system:unauthenticated] get pods");
    assert_eq!(rig.ask(None, "GET", "/pods", Some("bad")).await.0, 401, "a bad token is not anonymous");

    let rig = Rig::with(ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..anonymous }).await;
    assert_eq!(rig.ask(None, "GET", "/pods", None).await.0, 200);
    let foreign = Authority::new().client("admin", "ops");
    assert_eq!(rig.ask(Some(foreign), "GET", "/pods", None).await.0, 401, "nor is a rejected certificate");
    assert_eq!(rig.ask(None, "GET", "/pods", Some("bad")).await.0, 401, "nor is an unknown token");
    *rig.world.reviews_fail.lock().unwrap() = true;
    assert_eq!(rig.ask(None, "GET", "/pods", Some("good")).await.0, 401, "nor one that cannot be reviewed");
    let rig = Rig::with(ApiSettings { tokens: false, ..settings() }).await;
    assert_eq!(rig.ask(None, "GET", "/pods", Some("good")).await.0, 401, "tokens are not accepted");
}

async fn open_rig() -> Rig {
    Rig::with(ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }).await
}

#[tokio::test]
async fn section_27_2_the_content_of_the_pages() {
    let rig = open_rig().await;
    assert_eq!(rig.get("/healthz").await, answer(200, "ok"));
    assert_eq!(rig.get("/healthz/log").await, answer(200, "ok"));
    let verbose = "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n";
    assert_eq!(rig.get("/healthz?verbose").await, answer(200, verbose));
    assert_eq!(rig.get("/configz").await, answer(200, "{\"kubeletconfig\":{}}"));
    assert_eq!(rig.get("/nothing").await, answer(404, "404 page not found\n"));
    assert_eq!(rig.ask(None, "GET", "/nothing", None).await.0, 404, "without authorization, as upstream");
    assert_eq!(rig.ask(None, "GET", "/exec/ns", None).await.0, 401, "paths below an endpoint need authorization");
    assert_eq!(rig.get("/exec/ns").await, answer(404, "404: Page Not Found"));
    let (status, body) = rig.get("/pods").await;
    let list: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &list["kind"], &list["apiVersion"]), (200, &"PodList".into(), &"v1".into()));
    assert_eq!(list["items"][0]["metadata"]["name"], "web");
    assert_eq!(list["items"][0]["status"]["phase"], "Running");
    let (status, body) = rig.get("/runningpods/").await;
    assert_eq!((status, body.contains("\"PodList\"")), (200, true));

    let (status, page) = rig.get("/metrics/probes").await;
    assert_eq!(status, 200);
    assert!(page.contains("process_start_time_seconds") && page.ends_with("prober_one 1\n"), "{page}");

    let (status, page) = rig.get("/metrics").await;
    assert_eq!(status, 200);
    for line in [
        "kubelet_http_requests_duration_seconds_bucket{long_running=\"false\",method=\"GET\",path=\"configz\",\
         server_type=\"readwrite\",le=\"+Inf\"} 1\n",
        "kubelet_http_requests_duration_seconds_count{long_running=\"false\",method=\"GET\",path=\"healthz\",\
         server_type=\"readwrite\"} 3\n",
        "kubelet_node_name{node=\"node-1\"} 1\n",
        "kubelet_running_pods 0\n",
        "kubelet_running_containers{container_state=\"running\"} 0\n",
        "kubelet_one 1\n",
        "kubelet_http_requests_total{long_running=\"false\",method=\"GET\",path=\"other\",server_type=\"readwrite\"} 2\n",
        "kubelet_http_requests_total{long_running=\"true\",method=\"GET\",path=\"exec\",server_type=\"readwrite\"} 0\n",
    ] {
        let expected = !line.contains("exec");
        assert_eq!(page.contains(line), expected, "{line}in\n{page}");
    }
}

#[tokio::test]
async fn http_2_is_used_if_the_client_negotiates_it() {
    let rig = open_rig().await;
    let stream = rig.dial(Some(rig.authority.client("admin", "ops")), "h2").await.expect("a connection");
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("a handshake");
    let mut task = tokio::task::JoinSet::new();
    task.spawn(connection);
    let ask = |path: &str| Request::get(format!("https://node{path}")).body(Empty::<Bytes>::new()).expect("a request");
    let first = sender.send_request(ask("/healthz")).await.expect("an answer");
    let log = rig.world.log();
    let followed = sender.send_request(ask("/containerLogs/ns/web/app?follow=true")).await.expect("an answer");
    assert_eq!(whole(first).await, answer(200, "ok"));
    assert_eq!(whole(sender.send_request(ask("/configz")).await.expect("an answer")).await.0, 200, "beside another");
    log.send(b"a line\n".to_vec()).await.expect("read");
    drop(log);
    assert_eq!(whole(followed).await, answer(200, "a line\n"));
}

#[tokio::test]
async fn log_05_a_followed_log_ends_with_its_container() {
    let rig = open_rig().await;
    let log = rig.world.log();
    let stream = rig.dial(Some(rig.authority.client("admin", "ops")), "http/1.1").await.expect("a connection");
    let request = Request::get("/containerLogs/ns/web/app?follow=true").header("host", "node");
    let response = send(TokioIo::new(stream), request.body(Empty::new()).expect("a request")).await;
    assert_eq!(response.status(), 200, "before there is anything to read");
    let mut body = response.into_body();
    log.send(b"one\n".to_vec()).await.expect("read");
    let piece = body.frame().await.expect("a piece").expect("a good one");
    assert_eq!(piece.into_data().expect("data"), "one\n");
    rig.world.end_container();
    log.send(b"last\n".to_vec()).await.expect("read");
    let rest = body.collect().await.expect("it ends").to_bytes();
    assert_eq!(rest, "last\n");
    assert_eq!(*rig.world.asked.lock().unwrap(), ["log /var/log/pods/ns_web_uid-web/app/0.log follow=true"]);
}

#[tokio::test]
async fn log_06_errors_where_there_is_no_log() {
    let rig = open_rig().await;
    for (path, status, words) in [
        ("/containerLogs/ns/gone/app", 404, "pod \"gone\" does not exist"),
        ("/containerLogs/other/web/app", 404, "pod \"web\" does not exist"),
        ("/containerLogs/ns/web/gone", 404, "container \"gone\" not found in pod \"web\""),
        ("/containerLogs/ns/web/late", 400, "container \"late\" in pod \"web\" is not available"),
        ("/containerLogs/ns/web/app?previous=1", 400, "previous terminated container \"app\" in pod \"web\" not found"),
        ("/containerLogs/ns/web/app?tailLines=x", 400, "{\"message\": \"Unable to decode query.\"}"),
        ("/containerLogs/ns/web/app?limitBytes=0", 422, "{\"message\": \"Invalid request.\"}"),
    ] {
        assert_eq!(rig.get(path).await, answer(status, words), "{path}");
    }
    let (status, words) = rig.get("/containerLogs/ns/web/app").await;
    assert_eq!((status, words.starts_with("failed to open log file: ")), (200, true), "{words}");
    rig.world.end_container();
    let gone = "unable to retrieve container logs for containerd://c-app";
    assert_eq!(rig.get("/containerLogs/ns/web/app").await, answer(200, gone));
}

#[tokio::test]
async fn section_27_1_the_read_only_port_serves_pages_and_no_sessions() {
    let mut rig = Rig::new().await;
    let address = rig.read_only().await;
    for (method, path, expected) in [
        ("GET", "/healthz", 200),
        ("GET", "/pods", 200),
        ("GET", "/metrics", 200),
        ("GET", "/metrics/probes", 200),
        ("GET", "/metrics/resource", 200),
        ("GET", "/metrics/cadvisor", 200),
        ("GET", "/metrics/slis", 200),
        ("POST", "/stats/summary", 500),
        ("GET", "/containerLogs/ns/web/app", 405),
        ("POST", "/exec/ns/web/app", 405),
        ("POST", "/run/ns/web/app?cmd=true", 405),
        ("GET", "/configz", 404),
        ("POST", "/checkpoint/ns/web/app", 404),
    ] {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let request = Request::builder().method(method).uri(path).header("host", "node");
        let response = send(TokioIo::new(stream), request.body(Empty::new()).expect("a request")).await;
        assert_eq!(response.status(), expected, "{method} {path}");
    }
    assert!(rig.world.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_serving_certificate_may_change_and_may_be_missing() {
    let rig = open_rig().await;
    let shown = |stream: &tokio_rustls::client::TlsStream<TcpStream>| {
        stream.get_ref().1.peer_certificates().map(|chain| chain[0].to_vec()).expect("a certificate")
    };
    let first = rig.dial(None, "http/1.1").await.expect("a connection");
    let renewed = rig.authority.server();
    rig.certificate.send_replace(Some(Arc::clone(&renewed)));
    let second = rig.dial(None, "http/1.1").await.expect("a connection");
    assert_ne!(shown(&first), shown(&second));
    assert_eq!(shown(&second), renewed.chain[0]);
    rig.certificate.send_replace(None);
    assert!(rig.dial(None, "http/1.1").await.is_err());
}
