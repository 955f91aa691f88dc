//! IMG-06; upstream: pkg/credentialprovider/keyring_test.go, config_test.go, secrets/secrets_test.go (v1.36)

use std::collections::BTreeMap;

use serde_json::json;

use super::*;

fn secret(type_: &str, key: &str, text: &str) -> Secret {
    let mut secret = Secret { type_: Some(type_.to_owned()), ..Secret::default() };
    let metadata = &mut secret.metadata;
    (metadata.namespace, metadata.name) = (Some("ns".to_owned()), Some("pull".to_owned()));
    metadata.uid = Some("s-1".to_owned());
    secret.data = Some(BTreeMap::from([(key.to_owned(), ByteString(text.as_bytes().to_vec()))]));
    secret
}

fn config(auths: &serde_json::Value) -> Secret {
    secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &json!({ "auths": auths }).to_string())
}

fn users(keyring: &Keyring, repository: &str) -> String {
    keyring.find(repository).iter().map(|login| login.username.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn img_06_which_registries_a_pattern_covers() {
    let table = [
        ("kubernetes.io", "kubernetes.io", true),
        ("*.kubernetes.io", "prefix.kubernetes.io", true),
        ("*.kubernetes.io", "kubernetes.io", false),
        ("prefix.*.io", "prefix.kubernetes.io", true),
        ("*-good.kubernetes.io", "prefix-good.kubernetes.io", true),
        ("*.io", "kubernetes.io", true),
        ("*.io", "a.b.io", false),
        ("*", "kubernetes.io", false),
        ("k?bernetes.io", "kubernetes.io", true),
        ("k[a-v]bernetes.io", "kubernetes.io", true),
        ("k[^u]bernetes.io", "kubernetes.io", false),
        ("k[ubernetes.io", "kubernetes.io", false),
        ("kubernetes.io:5000", "kubernetes.io", false),
        ("kubernetes.io:5000", "kubernetes.io:5000/a", true),
        ("kubernetes.io", "kubernetes.io:5000", false),
        ("*.kubernetes.io:5000/team", "x.kubernetes.io:5000/team/app", true),
        ("kubernetes.io/path", "kubernetes.io/path/more", true),
        ("kubernetes.io/path", "kubernetes.io/other", false),
        ("kubernetes.io/pa*", "kubernetes.io/path", false),
        ("[::1]:5000", "[::1]:5000/a", true),
    ];
    for (pattern, repository, expected) in table {
        assert_eq!(matches(pattern, repository), expected, "{pattern} {repository}");
    }
}

#[test]
fn img_06_the_most_specific_login_comes_first() {
    let keyring = Keyring::of_secrets(&[
        config(&json!({
            "https://registry.example.com": { "username": "all", "password": "p" },
            "registry.example.com/team/app": { "username": "app", "password": "p" },
            "http://registry.example.com/team": { "username": "team", "password": "p" },
            "*.example.com": { "username": "any", "password": "p" },
        })),
        config(&json!({ "registry.example.com": { "username": "second", "password": "p" } })),
    ]);
    let keyring = keyring.expect("readable");
    assert_eq!(users(&keyring, "registry.example.com/team/app"), "app team all second any");
    assert_eq!(users(&keyring, "registry.example.com/other"), "all second any");
    assert_eq!(users(&keyring, "mirror.example.com/x"), "any");
    assert_eq!(users(&keyring, "example.org/x"), "");
}

#[test]
fn img_06_logins_for_docker_hub() {
    for place in ["https://index.docker.io/v1/", "index.docker.io", "https://index.docker.io/v2/"] {
        let keyring = Keyring::of_secrets(&[config(&json!({ place: { "username": "u", "password": "p" } }))]);
        let keyring = keyring.expect("readable");
        for repository in ["docker.io/library/busybox", "busybox", "team/app"] {
            assert_eq!(users(&keyring, repository), "u", "{place} {repository}");
        }
        for repository in ["registry.example.com/busybox", "localhost:5000/x"] {
            assert_eq!(users(&keyring, repository), "", "{place} {repository}");
        }
    }
    let keyring = Keyring::of_secrets(&[config(&json!({ "docker.io": { "username": "u", "password": "p" } }))]);
    assert_eq!(users(&keyring.expect("readable"), "docker.io/library/busybox"), "u");
}

#[test]
fn img_06_secrets_of_both_types_and_no_other() {
    let legacy = json!({ "r.io": { "auth": "dXNlcjpwYXNzOndvcmQ=", "email": "a@b" } }).to_string();
    let keyring = Keyring::of_secrets(&[secret("kubernetes.io/dockercfg", ".dockercfg", &legacy)]).expect("readable");
    let origin = LoginOrigin::Secret { namespace: "ns".to_owned(), name: "pull".to_owned(), uid: "s-1".to_owned() };
    let expected = Login { username: "user".to_owned(), password: "pass:word".to_owned(), origin };
    assert_eq!(keyring.find("r.io/x"), [expected]);

    let other = [
        secret("Opaque", ".dockerconfigjson", "{"),
        secret("kubernetes.io/dockerconfigjson", ".dockercfg", "{"),
        secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", ""),
    ];
    assert_eq!(Keyring::of_secrets(&other).expect("passed over"), Keyring::default());
    assert_eq!(Keyring::of_secrets(&[config(&json!(null))]).expect("no auths"), Keyring::default());
}

#[test]
fn img_06_what_cannot_be_read_is_refused_without_being_repeated() {
    let broken = [
        secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{\"auths\": hunter2"),
        config(&json!({ "r.io": { "auth": "hunter2!" } })),
        config(&json!({ "r.io": { "auth": "aHVudGVyMg==" } })),
    ];
    for secret in broken {
        let err = Keyring::of_secrets(&[secret]).expect_err("refused").to_string();
        assert!(err.contains("\"pull\"") && !err.contains("hunter2"), "{err}");
    }
}

#[test]
fn an_auth_field_needs_no_padding() {
    for text in ["Zm9vOmJhcg==", "Zm9vOmJhcg", "Zm9v\nOmJhcg=="] {
        assert_eq!(decode(text).as_deref(), Some("foo:bar"), "{text}");
    }
    assert_eq!(decode("Zm9vOmJhc"), None);
}

#[test]
fn a_login_is_not_shown() {
    let origin = LoginOrigin::Provider("helper".to_owned());
    let login = Login { username: "ann".to_owned(), password: "hunter2".to_owned(), origin };
    assert_eq!(format!("{login:?}"), "Login(hidden, credential provider \"helper\")");
}

#[test]
fn each_login_keeps_the_secret_that_it_comes_from() {
    let of = |name: &str, place: &str, user: &str| {
        let mut secret = config(&json!({ place: { "username": user, "password": "p" } }));
        secret.metadata.name = Some(name.to_owned());
        secret
    };
    let secrets = [of("one", "r.io", "bob"), of("two", "r.io/team", "ann")];
    let keyring = Keyring::of_secrets(&secrets).expect("both can be read");
    let found = keyring.find("r.io/team/app");
    let lines: Vec<_> = found.iter().map(|login| format!("{}: {}", login.username, login.origin)).collect();
    assert_eq!(lines, ["ann: secret ns/two", "bob: secret ns/one"]);
}
