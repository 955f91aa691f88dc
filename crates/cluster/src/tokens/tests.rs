//! TOK-01, TOK-02; upstream: kubelet/token/token_manager_test.go (v1.36)

use jiff::Timestamp;
use rubelet_engine::ports::ApiErrorKind;
use rubelet_testkit::SeededRng;
use serde_json::json;

use super::*;
use crate::requests::fake::{FakeServer, error};

const PATH: &str = "POST /api/v1/namespaces/shop/serviceaccounts/till/token";

struct Rig {
    server: FakeServer,
    clock: Clock,
    tokens: ApiTokens<FakeServer>,
    pod: PodRef,
}

fn rig() -> Rig {
    let server = FakeServer::new();
    let clock = Clock::virtual_from(Timestamp::from_second(1_767_225_600).expect("a time"));
    let tokens = ApiTokens::new(server.clone(), clock.clone(), Arc::new(SeededRng::new(1)));
    let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid: "u1".into() };
    Rig { server, clock, tokens, pod }
}

fn wish(audience: &str) -> TokenWish {
    TokenWish { service_account: "till".into(), audiences: vec![audience.into()], expiration_seconds: 3600 }
}

impl Rig {
    /// The server grants this token next, valid for an hour.
    fn grants(&self, token: &str) {
        let expires = self.clock.wall() + Duration::from_secs(3600);
        let answer = json!({ "spec": { "audiences": [], "expirationSeconds": 3600 },
            "status": { "token": token, "expirationTimestamp": expires.to_string() } });
        self.server.answer(PATH, Ok(answer));
    }

    async fn token(&self, audience: &str) -> Result<String, ApiErrorKind> {
        self.tokens.token(&self.pod, &wish(audience)).await.map(|token| token.token).map_err(|err| err.kind)
    }
}

#[tokio::test(start_paused = true)]
async fn tok_01_a_token_is_requested_for_its_pod_and_cached() {
    let rig = rig();
    rig.grants("one");
    assert_eq!(rig.token("a").await, Ok("one".into()));
    assert_eq!(rig.token("a").await, Ok("one".into()), "cached");
    assert_eq!(
        rig.server.asked(),
        [format!(
            r#"{PATH} {{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","metadata":{{}},"spec":{{"audiences":["a"],"boundObjectRef":{{"apiVersion":"v1","kind":"Pod","name":"web","uid":"u1"}},"expirationSeconds":3600}}}}"#
        )]
    );
    rig.grants("two");
    assert_eq!(rig.token("b").await, Ok("two".into()), "another audience is another token");
}

#[tokio::test(start_paused = true)]
async fn tok_01_a_token_is_refreshed_in_time_and_used_until_it_expires_if_the_refresh_fails() {
    let rig = rig();
    rig.grants("one");
    assert_eq!(rig.token("a").await, Ok("one".into()));
    tokio::time::sleep(Duration::from_secs(2690)).await;
    assert_eq!(rig.token("a").await, Ok("one".into()), "before the refresh is due");
    tokio::time::sleep(Duration::from_secs(200)).await;
    rig.server.answer(PATH, Err(error(ApiErrorKind::Failed)));
    assert_eq!(rig.token("a").await, Ok("one".into()), "the refresh failed, and the token is still valid");
    rig.grants("two");
    assert_eq!(rig.token("a").await, Ok("two".into()));
    tokio::time::sleep(Duration::from_secs(3601)).await;
    for _ in 0..=AFTER_REFUSAL.len() {
        rig.server.answer(PATH, Err(error(ApiErrorKind::Forbidden)));
    }
    assert_eq!(rig.token("a").await, Err(ApiErrorKind::Forbidden), "an expired token is not returned");
}

/// NodeRestriction in the API server uses an informer of pods, which may be a moment behind.
#[tokio::test(start_paused = true)]
async fn tok_01_a_pod_that_was_just_bound_gets_its_token() {
    let rig = rig();
    rig.server.answer(PATH, Err(error(ApiErrorKind::Forbidden)));
    rig.grants("one");
    assert_eq!(rig.token("a").await, Ok("one".into()));
}

#[tokio::test(start_paused = true)]
async fn tok_02_the_tokens_of_a_deleted_pod_are_removed() {
    let rig = rig();
    rig.grants("one");
    rig.grants("two");
    assert_eq!(rig.token("a").await, Ok("one".into()));
    rig.tokens.forget(&"other".into());
    assert_eq!(rig.token("a").await, Ok("one".into()));
    rig.tokens.forget(&"u1".into());
    assert_eq!(rig.token("a").await, Ok("two".into()));
}

#[tokio::test(start_paused = true)]
async fn a_response_without_a_token_is_an_error() {
    let rig = rig();
    assert_eq!(rig.token("a").await, Err(ApiErrorKind::Garbage));
}
