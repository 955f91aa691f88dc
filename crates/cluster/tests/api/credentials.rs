//! Credentials, and their rotation.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rubelet_cluster::api::{Client, Credentials, Kubeconfig, Login, Pem, User};
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use serde_json::Value;

use crate::fake::{Fake, Reply};
use crate::pki::Valid;

async fn get(client: &Client) -> Result<Value, ApiError> {
    client.get("/x").await
}

#[tokio::test]
async fn a_new_certificate_is_used_by_new_requests_and_no_watch_is_dropped() {
    let mut fake = Fake::start().await;
    let (old, new) = (fake.authority.client("old", Valid::Now), fake.authority.client("new", Valid::Now));
    let credentials = Credentials::new(User::default());
    credentials.set_identity(old.identity());
    let client = fake.client_as(credentials.clone());
    // A slow response stands for a watch.
    let watch = fake.stream();
    let slow = client.get::<Value>("/slow");
    let work = async {
        assert_eq!(fake.seen().await.certificate, Some(old.certificate.to_vec()));
        watch.send("[1,".to_owned()).await.unwrap();
        credentials.set_identity(new.identity());
        fake.reply(Reply::ok("{}"));
        get(&client).await.unwrap();
        let seen = fake.seen().await;
        assert_eq!((seen.connection, seen.certificate), (2, Some(new.certificate.to_vec())));
        watch.send("2]".to_owned()).await.unwrap();
        drop(watch);
    };
    let (slow, ()) = tokio::join!(slow, work);
    assert_eq!(slow.unwrap(), serde_json::json!([1, 2]));
}

#[tokio::test]
async fn an_expired_certificate_is_named_in_the_error() {
    let mut fake = Fake::start().await;
    let credentials = Credentials::new(User::default());
    credentials.set_identity(fake.authority.client("old", Valid::LongAgo).identity());
    let error = get(&fake.client_as(credentials)).await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Unavailable);
    assert!(error.detail.contains("the client certificate has expired"), "{error}");
}

#[tokio::test]
async fn an_expired_certificate_is_named_when_the_server_answers_401() {
    let mut fake = Fake::start_blind().await;
    let credentials = Credentials::new(User::default());
    credentials.set_identity(fake.authority.client("old", Valid::LongAgo).identity());
    fake.reply(Reply::status(401, "Unauthorized", "Unauthorized"));
    let error = get(&fake.client_as(credentials)).await.unwrap_err();
    assert_eq!(error.detail, "Unauthorized (the client certificate expired at 2002-01-01T00:00:00Z)");
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_named_in_the_error() {
    let mut fake = Fake::start().await;
    let foreign = crate::pki::Authority::new().client("foreign", Valid::Now);
    let credentials = Credentials::new(User::default());
    credentials.set_identity(foreign.identity());
    let error = get(&fake.client_as(credentials)).await.unwrap_err();
    assert!(error.detail.contains("the server does not accept the client certificate"), "{error}");
}

#[tokio::test]
async fn a_token_file_is_read_again_after_a_401() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "first\n").unwrap();
    let mut fake = Fake::start().await;
    let user = User { certificate: None, login: Login::TokenFile(path.clone()) };
    let client = fake.client_as(Credentials::new(user));
    fake.reply(Reply::ok("{}"));
    get(&client).await.unwrap();
    assert_eq!(fake.seen().await.header("authorization"), "Bearer first");
    std::fs::write(&path, "second").unwrap();
    // The file is cached until the token is rejected.
    fake.reply(Reply::status(401, "Unauthorized", "Unauthorized"));
    assert_eq!(get(&client).await.unwrap_err().kind, ApiErrorKind::Unauthorized);
    assert_eq!(fake.seen().await.header("authorization"), "Bearer first");
    fake.reply(Reply::ok("{}"));
    get(&client).await.unwrap();
    assert_eq!(fake.seen().await.header("authorization"), "Bearer second");
    // An empty token file is named in the error.
    std::fs::write(&path, "").unwrap();
    fake.reply(Reply::status(401, "Unauthorized", "Unauthorized"));
    get(&client).await.unwrap_err();
    let error = get(&client).await.unwrap_err();
    assert!(error.detail.ends_with(&format!("{} holds no token", path.display())), "{error}");
}

#[tokio::test]
async fn a_certificate_file_is_read_at_each_new_connection() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubelet-client-current.pem");
    let mut fake = Fake::start().await;
    let (old, new) = (fake.authority.client("old", Valid::Now), fake.authority.client("new", Valid::Now));
    let user = User { certificate: Some((Pem::File(path.clone()), Pem::File(path.clone()))), login: Login::None };
    let client = fake.client_as(Credentials::new(user));
    let error = get(&client).await.unwrap_err();
    assert!(error.detail.contains(&format!("read {}: No such file", path.display())), "{error}");
    for signed in [&old, &new] {
        std::fs::write(&path, signed.pem()).unwrap();
        fake.reply(Reply::ok("{}"));
        get(&client).await.unwrap();
        assert_eq!(fake.seen().await.certificate, Some(signed.certificate.to_vec()));
        fake.cut();
        // The client notices the cut before or with the next request; both lead to a new connection.
    }
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_plugin_runs_once_and_again_when_its_credentials_expire() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().join("plugin");
    let grant = |expires: &str| {
        format!(
            r#"echo run >> {}/runs; echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"t-'$WHO-$1'","expirationTimestamp":"{expires}"}}}}'"#,
            directory.path().display()
        )
    };
    script(&plugin, &grant("2999-01-01T00:00:00Z"));
    let mut fake = Fake::start().await;
    let config = format!(
        "clusters: [{{name: c, cluster: {{server: 'https://{}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: u, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: ./plugin,\n\
           args: [arg], env: [{{name: WHO, value: me}}], interactiveMode: Never, provideClusterInfo: true}}}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
        fake.address
    );
    let config = Kubeconfig::parse(config.as_bytes(), directory.path()).unwrap();
    let client = fake.client_of(config.endpoint, Credentials::new(config.user));
    let runs = || std::fs::read_to_string(directory.path().join("runs")).unwrap().lines().count();
    for _ in 0..2 {
        fake.reply(Reply::ok("{}"));
        get(&client).await.unwrap();
        assert_eq!(fake.seen().await.header("authorization"), "Bearer t-me-arg");
    }
    assert_eq!(runs(), 1);
    script(&plugin, &grant("2001-01-01T00:00:00Z"));
    fake.reply(Reply::status(401, "Unauthorized", "Unauthorized"));
    get(&client).await.unwrap_err();
    for expected in [2, 3] {
        fake.reply(Reply::ok("{}"));
        get(&client).await.unwrap();
        assert_eq!(runs(), expected);
    }
    script(&plugin, "echo no such luck >&2; exit 3");
    let error = get(&client).await.unwrap_err();
    assert!(error.detail.contains("ended with exit status: 3: no such luck"), "{error}");
    script(&plugin, "echo hello");
    let error = get(&client).await.unwrap_err();
    assert!(error.detail.contains("printed no ExecCredential"), "{error}");
}
