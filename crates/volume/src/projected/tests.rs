use rubelet_testkit::{FakeObjects, FakeTokens, PodBuilder, pod};
use serde_json::{Value, json};

use super::*;
use crate::testing::{FakeDisk, disk, request};

struct Case {
    disk: Arc<FakeDisk>,
    objects: FakeObjects,
    tokens: FakeTokens,
    plugin: Projected,
}

fn case() -> Case {
    let (disk, content) = disk();
    let (objects, tokens) = (FakeObjects::default(), FakeTokens::default());
    let plugin = Projected::new(content, Arc::new(objects.clone()), Arc::new(tokens.clone()), Amounts::default());
    Case { disk, objects, tokens, plugin }
}

impl Case {
    async fn set_up(&self, pod: PodBuilder, sources: Value) -> Result<Vec<String>, String> {
        let pod = pod.edit_spec(|spec| spec.service_account_name = Some("robot".to_owned()));
        let request = request(pod.build(), &json!({"projected": {"defaultMode": 420, "sources": sources}}));
        self.plugin.set_up(&request).await.map(|_| self.disk.files()).map_err(|err| err.to_string())
    }
}

fn token(path: &str) -> Value {
    json!({"serviceAccountToken": {"path": path, "expirationSeconds": 3607}})
}

#[tokio::test]
async fn all_sources_end_up_in_one_directory_and_the_last_wins() {
    let case = case();
    case.objects.put_config_map("kube-root-ca.crt", [("ca.crt", "CERT")]);
    case.objects.put_secret("s", [("key", "hush"), ("namespace", "no")]);
    let sources = json!([
        token("token"),
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]);
    let files = case.set_up(pod("web"), sources).await.unwrap();
    assert_eq!(files, ["ca.crt 644 CERT", "key 644 hush", "namespace 644 default", "token 644 robot/#0"]);
    let wish = TokenWish { service_account: "robot".into(), audiences: Vec::new(), expiration_seconds: 3607 };
    assert_eq!(case.tokens.wishes(), [("web-uid".into(), wish)]);
    assert!(case.disk.calls().iter().any(|call| call.starts_with("mount Tmpfs")));
}

#[tokio::test]
async fn tok_01_a_token_belongs_to_the_only_user_or_to_the_group() {
    let user = |pod: PodBuilder, name: &str, user: i64| {
        let set = json!({ "runAsUser": user });
        pod.container(name).edit_container(|c| c.security_context = serde_json::from_value(set).unwrap())
    };
    let of_pod = |context: Value| {
        pod("web").edit_spec(move |spec| spec.security_context = serde_json::from_value(context).unwrap())
    };
    let nothing = || of_pod(json!({}));
    for (pod, expected) in [
        (nothing().container("a"), "token 644 robot/#0"),
        (user(nothing(), "a", 1000), "token 600 user 1000 robot/#0"),
        (user(nothing(), "a", 0), "token 600 user 0 robot/#0"),
        (user(user(nothing(), "a", 1000), "b", 1000), "token 600 user 1000 robot/#0"),
        (user(user(nothing(), "a", 1000), "b", 1001), "token 644 robot/#0"),
        (user(nothing(), "a", 1000).container("b"), "token 644 robot/#0"),
        (of_pod(json!({"runAsUser": 7})).container("a"), "token 600 user 7 robot/#0"),
        (user(of_pod(json!({"runAsUser": 7})), "a", 8).container("b"), "token 644 robot/#0"),
        (of_pod(json!({"fsGroup": 2000})).container("a"), "token 600 robot/#0"),
    ] {
        assert_eq!(case().set_up(pod, json!([token("token")])).await.unwrap(), [expected]);
    }
}

#[tokio::test]
async fn every_missing_source_is_named() {
    let case = case();
    let sources = json!([
        {"configMap": {"name": "c"}},
        {"secret": {"name": "s"}},
        {"secret": {"name": "t", "optional": true}},
    ]);
    let err = case.set_up(pod("web"), sources).await.unwrap_err();
    assert_eq!(err, "[configmap \"c\" not found, secret \"s\" not found]");
    assert!(case.disk.calls().is_empty(), "nothing is made before all is there");
    let err = case.set_up(pod("web"), json!([{"clusterTrustBundle": {"path": "x"}}])).await.unwrap_err();
    assert!(err.contains("clusterTrustBundle"), "{err}");
    let bad = json!([{"podCertificate": {"signerName": "a/b", "keyType": "ED25519"}}]);
    let err = case.set_up(pod("web"), bad).await.unwrap_err();
    assert!(err.contains("podCertificate"), "{err}");
    case.tokens.set_down(true);
    let err = case.set_up(pod("web"), json!([token("token")])).await.unwrap_err();
    assert_eq!(err, "connection refused");
}

#[tokio::test]
async fn tok_02_tokens_are_renewed_in_time_and_forgotten_with_their_pod() {
    let case = case();
    let source = json!({"projected": {"sources": [
        {"serviceAccountToken": {"path": "short", "expirationSeconds": 600, "audience": "vault"}},
        {"serviceAccountToken": {"path": "long"}},
    ]}});
    let request = request(pod("web").build(), &source);
    let ready = case.plugin.set_up(&request).await.unwrap();
    assert_eq!(ready.renew_at, Some("1970-01-01T00:08:00Z".parse().unwrap()), "the first of both");
    case.tokens.renew();
    case.plugin.set_up(&request).await.unwrap();
    assert_eq!(case.disk.files(), ["long 644 /#1", "short 644 /vault#1"]);
    case.plugin.tear_down(&"web-uid".into(), "v").await.unwrap();
    assert_eq!(case.tokens.forgotten(), ["web-uid".into()]);
    rubelet_testkit::contract::check_volume_plugin(&case.plugin, &request).await;
}

#[tokio::test]
async fn sources_that_show_one_large_object_over_and_over_are_refused() {
    let case = case();
    case.objects.put_config_map("large", [("k", &"x".repeat(1024 * 1024))]);
    let source = |n: usize| json!({"configMap": {"name": "large", "items": [{"key": "k", "path": n.to_string()}]}});
    let sources = |n| json!((0..n).map(source).collect::<Vec<_>>());
    assert_eq!(case.set_up(pod("web"), sources(64)).await.map(|files| files.len()), Ok(64));
    assert_eq!(
        case.set_up(pod("web"), sources(65)).await,
        Err("the files of the volume hold more than 67108864 bytes together".to_owned())
    );
}
