//! Unauthenticated callers of the node's API, and the other requests of the node meanwhile.

use std::sync::Arc;
use std::time::Duration;

use rubelet_cluster::api::{Client, Credentials, Options, Rate, User};
use rubelet_cluster::requests::Server;
use rubelet_cluster::reviews::{ApiReviews, ReviewTimes};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{Caller, NodeAccess, Reviews as _};
use rubelet_testkit::SeededRng;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::fake::{Fake, PATIENCE, Reply};

#[tokio::test]
async fn ten_thousand_random_tokens_delay_no_other_request() {
    let mut fake = Fake::start().await;
    let identity = || Credentials::new(User::default());
    // So slow that a request queued behind the tokens would wait for minutes.
    let options = Options { rate: Some(Rate { per_second: 1.0, burst: 2 }), ..Options::default() };
    let (endpoint, clock) = (fake.endpoint(), Clock::real());
    let client = Client::new(endpoint.clone(), identity(), &options, clock.clone(), &mut fake.group);
    let time = Duration::from_secs(60);
    let times = ReviewTimes { identity: time, allowed: time, refused: time };
    let rng = Arc::new(SeededRng::new(1));
    let reviews: ApiReviews<Server> =
        ApiReviews::connect((endpoint, identity()), &options, times, (clock, rng), &mut fake.group);
    let reviews = Arc::new(reviews);

    // The API server answers none of the reviews.
    let mut callers = JoinSet::new();
    for number in 0..10_000 {
        let reviews = Arc::clone(&reviews);
        callers.spawn(async move { reviews.who_is(&format!("random-{number}")).await.is_err() });
    }
    let first = fake.seen().await;
    assert_eq!(first.path, "/apis/authentication.k8s.io/v1/tokenreviews");
    // Most reviews are rejected without a request.
    let mut refused = 0;
    while refused < 9_000 {
        let answer = tokio::time::timeout(PATIENCE, callers.join_next()).await.expect("refused at once");
        refused += usize::from(answer.unwrap().unwrap());
    }
    // The next request is the config map's, or one more review of the burst.
    fake.reply_to("/configmap", Reply::ok(r#"{"kind":"ConfigMap"}"#));
    let asked = client.get::<Value>("/configmap");
    let answer = tokio::time::timeout(Duration::from_secs(1), asked).await.expect("it goes out at once");
    assert_eq!(answer.unwrap()["kind"], "ConfigMap");
    // Authorization of a caller with a known certificate is not delayed, either.
    fake.reply_to("/apis/authorization.k8s.io/v1/subjectaccessreviews", Reply::ok(r#"{"status":{"allowed":true}}"#));
    let known = Caller { name: "admin".to_owned(), ..Caller::default() };
    let access = NodeAccess { verb: "get".to_owned(), node: "node".to_owned(), subresource: "pods".to_owned() };
    let allowed = tokio::time::timeout(Duration::from_secs(1), reviews.may(&known, &access)).await;
    assert!(allowed.expect("it goes out at once").unwrap());
    let mut seen = fake.seen().await;
    while seen.path != "/configmap" {
        assert_eq!(seen.connection, first.connection);
        seen = fake.seen().await;
    }
    assert_ne!(seen.connection, first.connection, "reviews have a connection of their own");
}

#[tokio::test]
async fn a_request_dropped_while_it_waits_for_the_rate_limit_delays_no_other() {
    let mut fake = Fake::start().await;
    let options = Options { rate: Some(Rate { per_second: 0.1, burst: 2 }), ..Options::default() };
    let (endpoint, credentials) = (fake.endpoint(), Credentials::new(User::default()));
    let client = Client::new(endpoint, credentials, &options, Clock::real(), &mut fake.group);
    fake.reply(Reply::ok("{}"));
    let _: Value = client.get("/x").await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..5 {
        let client = client.clone();
        waiting.spawn(async move { client.get::<Value>("/dropped").await });
    }
    // One of the five takes the rest of the burst; three wait, one is rejected, and all are dropped.
    fake.seen().await;
    assert_eq!(fake.seen().await.path, "/dropped");
    waiting.shutdown().await;
    // Queued behind those three it would be rejected: they would have had the next 30 s.
    let client = client.with_deadline(Duration::from_secs(15));
    let waits = tokio::time::timeout(Duration::from_millis(50), client.get::<Value>("/x")).await;
    assert!(waits.is_err(), "it is not refused: {waits:?}");
}
