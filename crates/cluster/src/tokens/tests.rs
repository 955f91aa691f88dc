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
    /// The server gives this token next, good for an hour.
    fn gives(&self, token: &str) {
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
async fn tok_01_a_token_is_asked_for_its_pod_and_kept() {
    let rig = rig();
    rig.gives("one");
    assert_eq!(rig.token("a").await, Ok("one".into()));
    assert_eq!(rig.token("a").await, Ok("one".into()), "kept");
    assert_eq!(
        rig.server.asked(),
        [format!(
            r#"{PATH} {{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","metadata":{{}},"spec":{{"audiences":["a"],"boundObjectRef":{{"apiVersion":"v1","kind":"Pod","name":"web","uid":"u1"}},"expirationSeconds":3600}}}}"#
        )]
    );
    rig.gives("two");
    assert_eq!(rig.token("b").await, Ok("two".into()), "another wish is another token");
}

#[tokio::test(start_paused = true)]
async fn tok_01_it_is_replaced_in_time_and_used_to_its_end_if_it_cannot_be() {
    let rig = rig();
    rig.gives("one");
    assert_eq!(rig.token("a").await, Ok("one".into()));
    tokio::time::sleep(Duration::from_secs(2690)).await;
    assert_eq!(rig.token("a").await, Ok("one".into()), "not three quarters of its life");
    tokio::time::sleep(Duration::from_secs(200)).await;
    rig.server.answer(PATH, Err(error(ApiErrorKind::Failed)));
    assert_eq!(rig.token("a").await, Ok("one".into()), "it could not be replaced, and is still good");
    rig.gives("two");
    assert_eq!(rig.token("a").await, Ok("two".into()));
    tokio::time::sleep(Duration::from_secs(3601)).await;
    for _ in 0..=AFTER_REFUSAL.len() {
        rig.server.answer(PATH, Err(error(ApiErrorKind::Forbidden)));
    }
    assert_eq!(rig.token("a").await, Err(ApiErrorKind::Forbidden), "one that expired is not handed out");
}

/// The node restriction of the API server looks at its own copy of the pods, which may be a moment behind.
#[tokio::test(start_paused = true)]
async fn tok_01_a_pod_that_was_bound_a_moment_ago_gets_its_token() {
    let rig = rig();
    rig.server.answer(PATH, Err(error(ApiErrorKind::Forbidden)));
    rig.gives("one");
    assert_eq!(rig.token("a").await, Ok("one".into()));
}

#[tokio::test(start_paused = true)]
async fn tok_02_the_tokens_of_a_pod_that_is_gone_are_forgotten() {
    let rig = rig();
    rig.gives("one");
    rig.gives("two");
    assert_eq!(rig.token("a").await, Ok("one".into()));
    rig.tokens.forget(&"other".into());
    assert_eq!(rig.token("a").await, Ok("one".into()));
    rig.tokens.forget(&"u1".into());
    assert_eq!(rig.token("a").await, Ok("two".into()));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_token_is_none() {
    let rig = rig();
    assert_eq!(rig.token("a").await, Err(ApiErrorKind::Garbage));
}
