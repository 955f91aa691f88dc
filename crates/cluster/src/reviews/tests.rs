//! Section 27.2; upstream: apiserver token/cache, authorizer/webhook (v1.36)

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::requests::fake::{FakeServer, error};

const TOKENS: &str = "POST /apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS: &str = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";

fn rig() -> (FakeServer, ApiReviews<FakeServer>) {
    let server = FakeServer::new();
    let times = ReviewTimes {
        identity: Duration::from_secs(120),
        allowed: Duration::from_secs(300),
        refused: Duration::from_secs(30),
    };
    let lines = [server.clone(), server.clone()];
    let reviews = ApiReviews::new(lines, Clock::virtual_from(Timestamp::UNIX_EPOCH), times);
    (server, reviews)
}

fn review(status: &Value) -> Result<Value, ApiError> {
    Ok(json!({ "spec": {}, "status": status }))
}

fn access() -> NodeAccess {
    NodeAccess { verb: "get".into(), node: "node-a".into(), subresource: "log".into() }
}

#[tokio::test(start_paused = true)]
async fn the_user_of_a_token_is_reviewed_and_cached() {
    let (server, reviews) = rig();
    let user = json!({ "username": "ann", "uid": "7", "groups": ["ops"], "extra": { "k": ["v"] } });
    server.answer(TOKENS, review(&json!({ "authenticated": true, "user": user })));
    let caller = reviews.who_is("t1").await.expect("answered").expect("known");
    assert_eq!((caller.name.as_str(), caller.uid.as_str(), caller.groups), ("ann", "7", vec!["ops".to_owned()]));
    assert_eq!(caller.extra.get("k"), Some(&vec!["v".to_owned()]));
    assert!(reviews.who_is("t1").await.expect("answered").is_some());
    assert_eq!(server.asked().len(), 1);

    server.answer(TOKENS, review(&json!({ "authenticated": false })));
    assert_eq!(reviews.who_is("t2").await, Ok(None));
    assert_eq!(reviews.who_is("t2").await, Ok(None));
    assert_eq!(server.asked().len(), 1, "an unknown token is cached too");

    tokio::time::sleep(Duration::from_secs(121)).await;
    server.answer(TOKENS, review(&json!({ "authenticated": false, "error": "broken" })));
    server.answer(TOKENS, review(&json!({ "authenticated": false })));
    assert_eq!(reviews.who_is("t1").await, Ok(None));
    assert_eq!(reviews.who_is("t1").await, Ok(None));
    assert_eq!(server.asked().len(), 2, "an error is not cached");
}

#[tokio::test(start_paused = true)]
async fn the_access_of_a_user_is_reviewed_and_cached() {
    let (server, reviews) = rig();
    let ann = Caller { name: "ann".into(), groups: vec!["ops".into()], ..Caller::default() };
    server.answer(ACCESS, review(&json!({ "allowed": true })));
    assert_eq!(reviews.may(&ann, &access()).await, Ok(true));
    let asked = server.asked();
    assert_eq!(
        asked,
        [format!(
            r#"{ACCESS} {{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","metadata":{{}},"spec":{{"groups":["ops"],"resourceAttributes":{{"name":"node-a","resource":"nodes","subresource":"log","verb":"get","version":"v1"}},"user":"ann"}}}}"#
        )]
    );
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(reviews.may(&ann, &access()).await, Ok(true));
    assert!(server.asked().is_empty());
    tokio::time::sleep(Duration::from_secs(2)).await;
    for (status, pause) in [(json!({ "allowed": false }), 31), (json!({ "allowed": true, "denied": true }), 31)] {
        server.answer(ACCESS, review(&status));
        assert_eq!(reviews.may(&ann, &access()).await, Ok(false));
        assert_eq!(reviews.may(&ann, &access()).await, Ok(false));
        assert_eq!(server.asked().len(), 1);
        tokio::time::sleep(Duration::from_secs(pause)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn long_keys_are_not_cached() {
    let (server, reviews) = rig();
    let long = Caller { name: "x".repeat(LONGEST), ..Caller::default() };
    for _ in 0..2 {
        server.answer(ACCESS, review(&json!({ "allowed": true })));
        assert_eq!(reviews.may(&long, &access()).await, Ok(true));
    }
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_review_is_retried_and_a_rejected_one_is_not() {
    let (server, reviews) = rig();
    server.answer(TOKENS, Err(error(ApiErrorKind::Unavailable)));
    server.answer(TOKENS, Err(error(ApiErrorKind::Failed)));
    server.answer(TOKENS, review(&json!({ "authenticated": false })));
    assert_eq!(reviews.who_is("t").await, Ok(None));
    assert_eq!(server.asked().len(), 3);
    server.answer(TOKENS, Err(error(ApiErrorKind::Forbidden)));
    assert_eq!(reviews.who_is("u").await.map_err(|err| err.kind), Err(ApiErrorKind::Forbidden));
    assert_eq!(server.asked().len(), 1);
    server.set_away(true);
    assert_eq!(reviews.who_is("u").await.map_err(|err| err.kind), Err(ApiErrorKind::Unavailable));
    assert_eq!(server.asked().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn equal_reviews_in_flight_are_sent_once() {
    let (server, reviews) = rig();
    server.answer(TOKENS, review(&json!({ "authenticated": true, "user": { "username": "ann" } })));
    server.answer(ACCESS, review(&json!({ "allowed": true })));
    let hold = server.hold();
    let release = async {
        tokio::task::yield_now().await;
        drop(hold);
    };
    let (ann, access) = (Caller { name: "ann".into(), ..Caller::default() }, access());
    let (first, second, may, again, ()) = tokio::join!(
        reviews.who_is("t"),
        reviews.who_is("t"),
        reviews.may(&ann, &access),
        reviews.may(&ann, &access),
        release
    );
    assert_eq!((first.clone(), may), (second, again));
    assert_eq!(first.map(|caller| caller.map(|caller| caller.name)), Ok(Some("ann".into())));
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn random_tokens_are_bounded_and_do_not_delay_access_reviews() {
    let (server, reviews) = rig();
    let hold = server.hold();
    let tokens: Vec<_> = (0..10_000).map(|number| format!("random-{number}")).collect();
    let mut attack: Vec<_> = tokens.iter().map(|token| reviews.who_is(token)).collect();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut refused = 0;
    attack.retain_mut(|one| match one.as_mut().poll(&mut context) {
        std::task::Poll::Pending => true,
        std::task::Poll::Ready(answer) => {
            assert_eq!(answer.map_err(|err| err.kind), Err(ApiErrorKind::Busy { retry_after: None }));
            refused += 1;
            false
        }
    });
    assert_eq!((attack.len(), refused), (MOST_OPEN, 10_000 - MOST_OPEN));
    assert_eq!(server.asked().len(), AT_ONCE, "the others wait in the client");
    // A caller with a certificate needs no token review.
    let (ann, access) = (Caller { name: "ann".into(), ..Caller::default() }, access());
    let mut may = reviews.may(&ann, &access);
    assert!(may.as_mut().poll(&mut context).is_pending());
    assert_eq!(server.asked().len(), 1, "it is sent at once");
    server.answer(ACCESS, review(&json!({ "allowed": true })));
    drop(hold);
    assert_eq!(may.await, Ok(true));
    // Dropped callers release their places.
    drop(attack);
    server.answer(TOKENS, review(&json!({ "authenticated": true, "user": { "username": "bob" } })));
    assert!(reviews.who_is("good").await.expect("answered").is_some());
}

#[tokio::test(start_paused = true)]
async fn random_tokens_do_not_evict_a_good_one() {
    let (server, reviews) = rig();
    server.answer(TOKENS, review(&json!({ "authenticated": true, "user": { "username": "ann" } })));
    assert!(reviews.who_is("good").await.expect("answered").is_some());
    for number in 0..=REMEMBERED {
        server.answer(TOKENS, review(&json!({ "authenticated": false })));
        assert_eq!(reviews.who_is(&format!("random-{number}")).await, Ok(None));
    }
    server.asked();
    assert!(reviews.who_is("good").await.expect("answered").is_some());
    assert!(server.asked().is_empty(), "it is still cached");
}

#[tokio::test(start_paused = true)]
async fn a_review_without_a_response_ends_at_its_deadline() {
    let (server, reviews) = rig();
    let _hold = server.hold();
    let start = tokio::time::sleep(DEADLINE);
    assert_eq!(reviews.who_is("t").await.map_err(|err| err.kind), Err(ApiErrorKind::Timeout));
    assert_eq!(start.deadline().elapsed(), Duration::ZERO);
}
