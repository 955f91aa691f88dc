//! The requests that `ApiPods` sends.

use k8s_openapi::api::core::v1::Pod;
use rubelet_cluster::ApiPods;
use rubelet_core::id::PodRef;
use rubelet_engine::ports::{ApiErrorKind, PodApi as _};

use crate::fake::{Fake, Reply};

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"web","uid":"u1"}}"#;

#[tokio::test]
async fn each_method_addresses_the_pod_by_name_and_uid() {
    let mut fake = Fake::start().await;
    let pods = ApiPods::new(&fake.client());
    let web = PodRef { namespace: "shop".into(), name: "web".into(), uid: "u1".into() };
    for _ in 0..5 {
        fake.reply(Reply::ok(POD));
    }
    assert_eq!(pods.get(&web).await.unwrap().metadata.uid.as_deref(), Some("u1"));
    pods.patch_status(&web, r#"{"metadata":{"uid":"u1"},"status":{}}"#).await.unwrap();
    let mut mirror: Pod = serde_json::from_str(POD).unwrap();
    pods.create(&mirror).await.unwrap();
    mirror.metadata.namespace = None;
    pods.create(&mirror).await.unwrap();
    pods.delete(&web).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let one = fake.seen().await;
        seen.push(format!("{} {} {} {}", one.method, one.path, one.header("content-type"), one.body));
    }
    expect_test::expect![[r#"
        GET /api/v1/namespaces/shop/pods/web  
        PATCH /api/v1/namespaces/shop/pods/web/status application/strategic-merge-patch+json {"metadata":{"uid":"u1"},"status":{}}
        POST /api/v1/namespaces/shop/pods application/json {"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"u1"}}
        POST /api/v1/namespaces/default/pods application/json {"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","uid":"u1"}}
        DELETE /api/v1/namespaces/shop/pods/web application/json {"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"u1"}}"#]]
    .assert_eq(&seen.join("\n"));
}

#[tokio::test]
async fn names_are_escaped_in_paths() {
    let mut fake = Fake::start().await;
    let pods = ApiPods::new(&fake.client());
    let odd = PodRef { namespace: "a/b".into(), name: "../nodes?x".into(), uid: "u1".into() };
    fake.reply(Reply::status(404, "NotFound", "no such pod"));
    assert_eq!(pods.get(&odd).await.unwrap_err().kind, ApiErrorKind::NotFound);
    assert_eq!(fake.seen().await.path, "/api/v1/namespaces/a%2Fb/pods/..%2Fnodes%3Fx");
}
