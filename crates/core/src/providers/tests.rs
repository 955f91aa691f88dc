//! IMG-07; upstream: pkg/credentialprovider/plugin/{config,plugin}_test.go (v1.36)

use super::*;

const V1: &str = "credentialprovider.kubelet.k8s.io/v1";

fn config(providers: &Value) -> Value {
    json!({ "apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": providers })
}

fn good() -> Value {
    json!({ "name": "ecr", "matchImages": ["*.example.com"], "defaultCacheDuration": "10m", "apiVersion": V1 })
}

fn provider() -> Provider {
    read_providers(vec![("f".into(), config(&json!([good()])))]).expect("good").remove(0)
}

#[test]
fn img_07_what_a_configuration_must_say() {
    let with = |key: &str, value: Value| {
        let mut provider = good();
        provider[key] = value;
        config(&json!([provider]))
    };
    let table = [
        (with("name", json!("a/b")), "name: must be"),
        (with("name", json!("..")), "name: must be"),
        (with("name", json!(".")), "name: must be"),
        (with("name", json!("")), "name: must be"),
        (with("name", json!("a b")), "name: must be"),
        (with("apiVersion", json!("v2")), "apiVersion: \"v2\" is none of"),
        (with("matchImages", json!([])), "matchImages: at least one"),
        (with("defaultCacheDuration", json!(null)), "defaultCacheDuration: is required"),
        (with("defaultCacheDuration", json!("-1s")), "must not be negative"),
        (with("tokenAttributes", json!({})), "tokenAttributes"),
        (with("nmae", json!("x")), "unknown field `nmae`"),
        (config(&json!([good(), good()])), "it is there twice"),
        (config(&json!([])), "no credential provider"),
        (json!({ "apiVersion": "v1", "kind": "CredentialProviderConfig" }), "is no CredentialProviderConfig"),
        (json!({ "apiVersion": "kubelet.config.k8s.io/v1", "kind": "Pod" }), "is no CredentialProviderConfig"),
    ];
    for (value, expected) in table {
        let err = read_providers(vec![("f".into(), value.clone())]).expect_err("refused").to_string();
        assert!(err.contains(expected), "{value}: {err}");
    }
    let uncached = with("defaultCacheDuration", json!("0s"));
    assert!(read_providers(vec![("f".into(), uncached)]).is_ok());
    let mut second = good();
    second["name"] = json!("other");
    second["args"] = json!(["get"]);
    second["env"] = json!([{ "name": "A", "value": "b" }]);
    let files = vec![("a".into(), config(&json!([good()]))), ("b".into(), config(&json!([second])))];
    let names: Vec<String> = read_providers(files).expect("good").into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["ecr", "other"]);
}

#[test]
fn img_07_what_a_program_is_asked_and_answers() {
    let ecr = provider();
    assert!(ecr.covers("x.example.com/team/app") && !ecr.covers("example.com/app"));
    let request = r#"{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"x.example.com/app","kind":"CredentialProviderRequest"}"#;
    assert_eq!(ecr.request("x.example.com/app"), request);

    let answer = |key: &str, duration: Value| {
        let text = json!({ "apiVersion": V1, "kind": "CredentialProviderResponse", "cacheKeyType": key,
            "cacheDuration": duration, "auth": { "*.example.com": { "username": "u", "password": "p" } } });
        ecr.answer("x.example.com/app", text.to_string().as_bytes())
    };
    let table = [
        ("Image", json!("1h"), Reach::Image("x.example.com/app".into()), 3600),
        ("Registry", json!("0s"), Reach::Registry("x.example.com".into()), 0),
        ("Global", json!(null), Reach::Global, 600),
    ];
    for (key, duration, reach, seconds) in table {
        let answer = answer(key, duration).expect("an answer");
        assert_eq!((answer.reach.clone(), answer.keep.as_secs()), (reach, seconds), "{key}");
        assert!(Reach::of("x.example.com/app").contains(&answer.reach));
        assert_eq!(answer.logins.find("x.example.com/app").len(), 1);
        assert!(answer.logins.find("other.org/app").is_empty());
    }
    assert!(answer("Each", json!(null)).is_err_and(|err| err.contains("cacheKeyType")));
}

#[test]
fn img_07_what_is_no_answer() {
    let ecr = provider();
    for text in [
        "hunter2".to_owned(),
        json!({ "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1", "kind": "CredentialProviderResponse" })
            .to_string(),
        json!({ "apiVersion": V1, "kind": "Pod" }).to_string(),
    ] {
        let err = ecr.answer("x.example.com/app", text.as_bytes()).expect_err("refused");
        assert!(!err.contains("hunter2"), "{err}");
    }
}
