//! Requests and the connection that carries them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use rubelet_cluster::api::{Client, Credentials, DeleteOptions, Endpoint, Heartbeat, Options, PatchKind, Roots, User};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use rubelet_engine::task::TaskGroup;
use rubelet_engine::trace::{self, SpanKind, Tracer};
use rubelet_testkit::SeededRng;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::fake::{Fake, PATIENCE, Reply};
use crate::pki::{Authority, Valid};

const NODE: &str = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","managedFields":[{"fieldsV1":{}}]}}"#;

async fn get(client: &Client) -> Result<Value, ApiError> {
    tokio::time::timeout(PATIENCE, client.get("/x")).await.expect("an answer or a refusal comes in time")
}

#[tokio::test]
async fn each_verb_has_the_apis_method_and_content_type_and_all_share_one_connection() {
    let mut fake = Fake::start().await;
    let client = fake.client();
    for _ in 0..6 {
        fake.reply(Reply::ok(NODE));
    }
    let node: Node = client.get("/api/v1/nodes/n?resourceVersion=0").await.unwrap();
    assert_eq!(node.metadata.managed_fields, None, "managed fields are dropped");
    let _: Node = client.create("/api/v1/nodes", &node).await.unwrap();
    let _: Node = client.replace("/api/v1/nodes/n", &node).await.unwrap();
    for kind in [PatchKind::Strategic, PatchKind::Merge] {
        let _: Node = client.patch("/api/v1/nodes/n/status", kind, r#"{"status":{}}"#).await.unwrap();
    }
    client.delete("/api/v1/nodes/n", &DeleteOptions::now("u1")).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..6 {
        let one = fake.seen().await;
        assert_eq!(one.connection, 1);
        assert_eq!(one.header("accept"), "application/json");
        assert!(one.header("user-agent").starts_with("kubelet/v1.36.4 (linux/"), "{}", one.header("user-agent"));
        seen.push(format!("{} {} {} {}", one.method, one.path, one.header("content-type"), one.body));
    }
    expect_test::expect![[r#"
        GET /api/v1/nodes/n?resourceVersion=0  
        POST /api/v1/nodes application/json {"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}
        PUT /api/v1/nodes/n application/json {"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}
        PATCH /api/v1/nodes/n/status application/strategic-merge-patch+json {"status":{}}
        PATCH /api/v1/nodes/n/status application/merge-patch+json {"status":{}}
        DELETE /api/v1/nodes/n application/json {"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"u1"}}"#]]
    .assert_eq(&seen.join("\n"));
}

#[tokio::test]
async fn a_response_that_cannot_be_decoded_is_garbage() {
    let mut fake = Fake::start().await;
    let client = fake.client();
    fake.reply(Reply::ok("<html>"));
    let error = client.get::<Pod>("/x").await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Garbage, "{error}");
}

#[tokio::test]
async fn an_error_response_keeps_the_servers_message() {
    let mut fake = Fake::start().await;
    let client = fake.client();
    fake.reply(Reply::status(409, "AlreadyExists", r#"pods "a" already exists"#));
    let error = client.create::<_, Pod>("/x", &json!({})).await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::AlreadyExists);
    assert_eq!(error.detail, r#"pods "a" already exists"#);
    let busy = Reply::Whole(429, vec![("retry-after", "7")], String::new());
    fake.reply(busy);
    let error = get(&client).await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Busy { retry_after: Some(Duration::from_secs(7)) });
}

#[tokio::test]
async fn a_request_without_a_response_ends_at_its_deadline() {
    let mut fake = Fake::start().await;
    let client = fake.client().with_deadline(Duration::from_millis(50));
    let error = get(&client).await.unwrap_err();
    assert_eq!((error.kind, error.detail.as_str()), (ApiErrorKind::Timeout, "GET /x: no answer within 50ms"));
}

#[tokio::test]
async fn a_request_that_the_server_did_not_process_is_sent_again_and_others_are_not() {
    let mut fake = Fake::start().await;
    let client = fake.client();
    fake.reply(Reply::Refused);
    fake.reply(Reply::ok("{}"));
    let _: Value = client.create("/x", &json!({})).await.unwrap();
    // The connection is cut in the middle: the request may have had an effect.
    let (_, _) = (fake.seen().await, fake.seen().await);
    fake.reply(Reply::Silence);
    let sent = json!({});
    let cut = client.create::<_, Value>("/x", &sent);
    let (error, _) = tokio::join!(cut, async {
        fake.seen().await;
        fake.cut();
    });
    assert_eq!(error.unwrap_err().kind, ApiErrorKind::Unavailable);
}

#[tokio::test]
async fn a_get_survives_a_lost_connection() {
    let mut fake = Fake::start().await;
    let client = fake.client();
    fake.reply(Reply::Silence);
    fake.reply(Reply::ok("{}"));
    let (answer, _) = tokio::join!(get(&client), async {
        assert_eq!(fake.seen().await.connection, 1);
        fake.cut();
    });
    answer.unwrap();
    assert_eq!(fake.seen().await.connection, 2);
}

#[tokio::test]
async fn after_goaway_the_next_request_uses_a_new_connection() {
    let mut fake = Fake::start().await;
    let client = fake.client();
    fake.reply(Reply::ok("{}"));
    get(&client).await.unwrap();
    fake.seen().await;
    fake.go_away();
    for _ in 0..20 {
        fake.reply(Reply::ok("{}"));
        get(&client).await.unwrap();
        if fake.seen().await.connection == 2 {
            return;
        }
    }
    panic!("the old connection is still in use");
}

#[tokio::test]
async fn a_stalled_connection_is_given_up_and_the_error_names_it() {
    let mut fake = Fake::start().await;
    let client = fake.client();
    fake.reply(Reply::Silence);
    let body = json!({});
    let asked = client.create::<_, Value>("/x", &body);
    let (answer, _) = tokio::join!(asked, async {
        fake.seen().await;
        fake.freeze();
    });
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Unavailable);
    assert!(error.detail.contains("stalled: nothing was received for "), "{error}");
    // The next request does not use the stalled connection.
    fake.reply(Reply::ok("{}"));
    get(&client).await.unwrap();
    assert_eq!(fake.seen().await.connection, 2);
}

#[tokio::test]
async fn a_connection_that_pauses_keeps_its_streams_and_gets_no_new_ones() {
    let mut fake = Fake::start().await;
    let heartbeat = Heartbeat { every: Duration::from_millis(100), patience: Duration::from_secs(2) };
    let options = Options { heartbeat, deadline: PATIENCE, ..Options::default() };
    let (endpoint, credentials) = (fake.endpoint(), Credentials::new(User::default()));
    let client = Client::new(endpoint, credentials, &options, Clock::real(), &mut fake.group);
    // A slow response stands for a watch.
    let slow = fake.stream();
    let work = async {
        assert_eq!(fake.seen().await.connection, 1);
        slow.send("[1,".to_owned()).await.unwrap();
        fake.freeze();
        // Until the connection is suspect, requests go to the frozen connection and get no response.
        let mut seen = 0;
        while seen != 2 {
            fake.reply(Reply::ok("{}"));
            let asked = client.with_deadline(Duration::from_millis(200));
            if asked.get::<Value>("/new").await.is_ok() {
                seen = fake.seen().await.connection;
            }
        }
        fake.thaw();
        slow.send("2]".to_owned()).await.unwrap();
        drop(slow);
    };
    let (slow, ()) = tokio::join!(client.get::<Value>("/slow"), work);
    assert_eq!(slow.unwrap(), json!([1, 2]), "it was not ended");
}

#[tokio::test]
async fn a_response_that_is_too_large_is_rejected() {
    let mut fake = Fake::start().await;
    let client = fake.client();
    fake.reply(Reply::ok(" ".repeat((16 << 20) + 1)));
    let error = get(&client).await.unwrap_err();
    assert_eq!(
        (error.kind, error.detail.as_str()),
        (ApiErrorKind::Garbage, "the response is larger than 16777216 bytes")
    );
    // So is a response head that is too large.
    fake.reply(Reply::Whole(200, vec![("x-large", "x".repeat(100 << 10).leak())], "{}".to_owned()));
    let error = client.create::<_, Value>("/x", &json!({})).await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn an_untrusted_server_is_rejected_with_the_reason() {
    let wrong = {
        let mut fake = Fake::start().await;
        let roots = Roots::Pem(Authority::new().pem());
        let endpoint = Endpoint::new(&format!("https://{}", fake.address), roots).unwrap();
        get(&fake.client_of(endpoint, Credentials::new(User::default()))).await.unwrap_err()
    };
    assert!(wrong.detail.contains("not signed by the certificate-authority of the kubeconfig"), "{wrong}");
    for (name, valid, expected) in [
        ("127.0.0.1", Valid::LongAgo, "the server's certificate has expired, or this machine's clock is wrong"),
        ("10.0.0.1", Valid::Now, "the server's certificate is for another name"),
    ] {
        let authority = Authority::new();
        let server = authority.server(name, valid);
        let mut fake = Fake::with(authority, &server).await;
        let client = fake.client();
        let error = get(&client).await.unwrap_err();
        assert_eq!(error.kind, ApiErrorKind::Unavailable);
        assert!(error.detail.contains(expected), "{error}");
        // Verification can be switched off.
        let endpoint = fake.endpoint().without_verification();
        fake.reply(Reply::ok("{}"));
        get(&fake.client_of(endpoint, Credentials::new(User::default()))).await.unwrap();
    }
}

#[tokio::test]
async fn the_servers_certificate_may_have_another_name_than_the_host() {
    let authority = Authority::new();
    let server = authority.server("kubernetes.default", Valid::Now);
    let mut fake = Fake::with(authority, &server).await;
    let endpoint = fake.endpoint().with_server_name("kubernetes.default").unwrap();
    fake.reply(Reply::ok("{}"));
    get(&fake.client_of(endpoint, Credentials::new(User::default()))).await.unwrap();
}

#[tokio::test]
async fn a_refused_connection_is_reported_at_once() {
    let mut fake = Fake::start().await;
    let endpoint = Endpoint::new("https://127.0.0.1:1", Roots::Pem(fake.authority.pem())).unwrap();
    let error = get(&fake.client_of(endpoint, Credentials::new(User::default()))).await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Unavailable);
    assert!(error.detail.starts_with("connect to https://127.0.0.1:1: Connection refused"), "{error}");
}

/// Answers one HTTP/1 request on one connection, and returns the request.
async fn plain(listener: &TcpListener, answer: &str) -> String {
    let (mut tcp, _) = listener.accept().await.unwrap();
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(tcp.read_u8().await.unwrap());
    }
    tcp.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn a_server_without_tls_is_accessed_by_http_1() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::new(&format!("http://{}/base/", listener.local_addr().unwrap()), Roots::System).unwrap();
    let mut group = TaskGroup::new(&CancellationToken::new());
    let credentials = Credentials::new(User::default());
    let client = Client::new(endpoint, credentials, &Options::default(), Clock::real(), &mut group);
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n";
    let (got, sent) = tokio::join!(get(&client), plain(&listener, answer));
    assert_eq!(got.unwrap(), json!({"a": 1}));
    assert!(sent.starts_with("GET /base/x HTTP/1.1\r\n"), "{sent}");
}

/// Such an answer ends the connection while its head is read, with nothing left to wait for.
#[tokio::test]
async fn a_server_may_close_the_connection_with_an_answer_without_a_body() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::new(&format!("http://{}", listener.local_addr().unwrap()), Roots::System).unwrap();
    let mut group = TaskGroup::new(&CancellationToken::new());
    let credentials = Credentials::new(User::default());
    let client = Client::new(endpoint, credentials, &Options::default(), Clock::real(), &mut group);
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let (got, _) = tokio::join!(get(&client), plain(&listener, answer));
    assert!(got.is_err(), "nothing is no object: {got:?}");
}

#[tokio::test]
async fn trc_01_a_request_is_a_span_of_the_job_that_makes_it_and_the_server_learns_of_it() {
    let mut fake = Fake::start().await;
    let (tracer, mut spans) = Tracer::new(1_000_000, Arc::new(SeededRng::new(1)), Clock::real());
    let options = Options { tracer: tracer.clone(), ..Options::default() };
    let (endpoint, credentials) = (fake.endpoint(), Credentials::new(User::default()));
    let client = Client::new(endpoint, credentials, &options, Clock::real(), &mut fake.group);
    fake.reply(Reply::ok("{}"));
    fake.reply(Reply::status(404, "NotFound", "gone"));
    let job = tracer.start("syncPod", SpanKind::Internal, None).expect("it is on");
    let work = async {
        client.get::<Value>("/api/v1/pods?limit=1").await.unwrap();
        client.delete("/api/v1/pods/gone", &DeleteOptions::now("u1")).await.unwrap_err();
    };
    trace::within(Some(job.context()), work).await;
    let (header, first) = (fake.seen().await.header("traceparent").to_owned(), job.context());
    drop(job);
    let mut all = Vec::new();
    spans.next(&mut all, 10).await;
    let shown: Vec<String> = all.iter().map(|span| format!("{} {:?}", span.name, span.failure.is_some())).collect();
    assert_eq!(shown, ["HTTP GET false", "HTTP DELETE true", "syncPod false"]);
    assert!(all[..2].iter().all(|span| span.parent == first.span && span.context.trace == first.trace), "{all:?}");
    assert_eq!(header, all[0].context.to_string());
    let path = all[0].attributes.iter().find(|(key, _)| *key == "url.path").map(|(_, value)| value.clone());
    assert_eq!(path, Some(String::from("/api/v1/pods").into()), "without the query");
}

#[tokio::test]
async fn trc_01_without_traces_the_api_server_gets_no_header() {
    let mut fake = Fake::start().await;
    let client = fake.client();
    fake.reply(Reply::ok("{}"));
    get(&client).await.unwrap();
    assert_eq!(fake.seen().await.header("traceparent"), "");
}
