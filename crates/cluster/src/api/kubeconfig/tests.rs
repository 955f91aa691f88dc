use expect_test::{Expect, expect};

use super::*;
use crate::decode::explain;

/// A kubeconfig with this cluster and this user.
fn config(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u, namespace: d}}}}]\ncurrent-context: x\npreferences: {{}}\n"
    )
}

fn check(text: &str, expected: Expect) {
    let shown = match Kubeconfig::parse(text.as_bytes(), Path::new("/etc/kubernetes")) {
        Ok(config) => {
            let Endpoint { base, roots, skip_verify, server_name, proxy, .. } = &config.endpoint;
            let proxy = proxy.as_ref().map(|proxy| (&proxy.host, proxy.port, &proxy.authorization));
            let server = config.endpoint.url();
            format!("{server} {base:?} {roots:?} {skip_verify} {server_name:?} {proxy:?}\n{:?}\n", config.user)
        }
        Err(error) => explain(&error) + "\n",
    };
    expected.assert_eq(&shown);
}

#[test]
fn servers() {
    let cluster = |text: &str, expected| check(&config(text, "{}"), expected);
    cluster(
        "{server: 'https://127.0.0.1:6443', certificate-authority: pki/ca.crt}",
        expect![[r#"
            https://127.0.0.1:6443 "" File("/etc/kubernetes/pki/ca.crt") false None None
            User { certificate: None, login: None }
        "#]],
    );
    cluster(
        "{server: 'https://[::1]/base/', certificate-authority-data: YQ==, certificate-authority: ignored, tls-server-name: kubernetes}",
        expect![[r#"
            https://[::1]:443 "/base" Pem([97]) false Some("kubernetes") None
            User { certificate: None, login: None }
        "#]],
    );
    cluster(
        "{server: 'http://localhost:8080', insecure-skip-tls-verify: true, proxy-url: 'http://me:you@proxy:3128'}",
        expect![[r#"
            http://localhost:8080 "" System true None Some(("proxy", 3128, Some("Basic bWU6eW91")))
            User { certificate: None, login: None }
        "#]],
    );
}

#[test]
fn servers_that_are_rejected() {
    let cluster = |text: &str, expected| check(&config(text, "{}"), expected);
    cluster(
        "{}",
        expect![[r#"
        clusters[0].cluster.server: "" is not a URL
    "#]],
    );
    cluster(
        "{server: 1}",
        expect![[r#"
        clusters[0].cluster.server must be a text
    "#]],
    );
    cluster(
        "{server: 'unix:///x'}",
        expect![[r#"
        clusters[0].cluster.server: "unix:///x" is not a URL
    "#]],
    );
    cluster(
        "{server: 'ftp://x'}",
        expect![[r#"
        clusters[0].cluster.server: "ftp://x" is not of the form https://host[:port]
    "#]],
    );
    cluster(
        "{server: 'https://a:b@x'}",
        expect![[r#"
        clusters[0].cluster.server: the URL of the server holds credentials: put them in the user of the kubeconfig
    "#]],
    );
    cluster(
        "{server: 'https://x', insecure-skip-tls-verify: true, certificate-authority: ca}",
        expect![[r#"
        clusters[0].cluster has both insecure-skip-tls-verify and a certificate-authority
    "#]],
    );
    cluster(
        "{server: 'https://x', insecure-skip-tls-verify: 'yes please'}",
        expect![[r#"
        clusters[0].cluster.insecure-skip-tls-verify must be true or false
    "#]],
    );
    cluster(
        "{server: 'https://x', certificate-authority-data: '%'}",
        expect![[r#"
        clusters[0].cluster.certificate-authority-data must be base64
    "#]],
    );
    cluster(
        "{server: 'https://x', proxy-url: 'socks5://me:secret@p'}",
        expect![[r#"
        clusters[0].cluster.proxy-url: proxy-url "socks5://…@p" is not of the form http://host:port; other proxies are not supported
    "#]],
    );
}

#[test]
fn users() {
    let user = |text: &str, expected| check(&config("{server: 'https://x'}", text), expected);
    let current = "/var/lib/kubelet/pki/kubelet-client-current.pem";
    user(
        &format!("{{client-certificate: {current}, client-key: {current}}}"),
        expect![[r#"
        https://x:443 "" System false None None
        User { certificate: Some(("/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/pki/kubelet-client-current.pem")), login: None }
    "#]],
    );
    user(
        "{client-certificate-data: YQ==, client-key: a.key, token: secret}",
        expect![[r#"
        https://x:443 "" System false None None
        User { certificate: Some((…, "/etc/kubernetes/a.key")), login: Token(…) }
    "#]],
    );
    user(
        "{token: secret, tokenFile: token}",
        expect![[r#"
        https://x:443 "" System false None None
        User { certificate: None, login: TokenFile("/etc/kubernetes/token") }
    "#]],
    );
    user(
        "{username: me, password: secret}",
        expect![[r#"
        https://x:443 "" System false None None
        User { certificate: None, login: Basic("me", …) }
    "#]],
    );
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: bin/login, args: [secret], env: null}}";
    user(
        exec,
        expect![[r#"
        https://x:443 "" System false None None
        User { certificate: None, login: Exec { command: "/etc/kubernetes/bin/login", .. } }
    "#]],
    );
    user(
        &exec.replace("bin/", ""),
        expect![[r#"
        https://x:443 "" System false None None
        User { certificate: None, login: Exec { command: "login", .. } }
    "#]],
    );
}

#[test]
fn users_that_are_rejected() {
    let user = |text: &str, expected| check(&config("{server: 'https://x'}", text), expected);
    user(
        "{client-certificate: a}",
        expect![[r#"
        users[0].user has client-certificate without client-key
    "#]],
    );
    user(
        "{client-key-data: YQ==}",
        expect![[r#"
        users[0].user has client-key without client-certificate
    "#]],
    );
    user(
        "{token: a, username: b}",
        expect![[r#"
        users[0].user has both a token and username
    "#]],
    );
    user(
        "{as: admin}",
        expect![[r#"
        users[0].user.as is not supported: a node speaks for itself
    "#]],
    );
    user(
        "{auth-provider: {name: gcp}}",
        expect![[r#"
        users[0].user.auth-provider is not supported: use exec
    "#]],
    );
    user(
        "{exec: {command: a, apiVersion: client.authentication.k8s.io/v1alpha1}}",
        expect![[r#"
        users[0].user.exec.apiVersion "client.authentication.k8s.io/v1alpha1" is not supported: it must be client.authentication.k8s.io/v1
    "#]],
    );
    user(
        "{exec: {command: a, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}}",
        expect![[r#"
        users[0].user.exec.interactiveMode Always is not supported: a node has nobody to ask
    "#]],
    );
    user(
        "{exec: {command: a, apiVersion: client.authentication.k8s.io/v1, args: [1]}}",
        expect![[r#"
        users[0].user.exec.args[0] must be a text
    "#]],
    );
    user(
        "[]",
        expect![[r#"
        users[0].user must be a mapping
    "#]],
    );
}

#[test]
fn contexts() {
    let good = config("{server: 'https://x'}", "{}");
    check(
        &good.replace("current-context: x\n", ""),
        expect![[r#"
        current-context is empty: which of the contexts [x] is meant?
    "#]],
    );
    check(
        &good.replace("current-context: x", "current-context: other"),
        expect![[r#"
            contexts has none with the name "other"; there are [x]
        "#]],
    );
    check(
        &good.replace("cluster: c,", "cluster: other,"),
        expect![[r#"
        clusters has none with the name "other"; there are [c]
    "#]],
    );
    check(
        &good.replace("user: u,", "user: other,"),
        expect![[r#"
        users has none with the name "other"; there are [u]
    "#]],
    );
    check(
        "",
        expect![[r#"
        it is empty
    "#]],
    );
    check(
        "a: [",
        expect![[r#"
            it is neither YAML nor JSON: line 1, column 4: unclosed bracket '['
        "#]],
    );
    check(
        r#"{"clusters":[{"name":"c","cluster":{"server":"https://x"}}],"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}"#,
        expect![[r#"
            https://x:443 "" System false None None
            User { certificate: None, login: None }
        "#]],
    );
}

#[test]
fn errors_name_the_file() {
    let error = Kubeconfig::load(Path::new("/nowhere/kubelet.conf")).unwrap_err();
    assert_eq!(explain(&error), "read kubeconfig /nowhere/kubelet.conf: No such file or directory (os error 2)");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubelet.conf");
    std::fs::write(&path, "current-context: 1").unwrap();
    let error = Kubeconfig::load(&path).unwrap_err();
    assert_eq!(explain(&error), format!("kubeconfig {}: current-context must be a text", path.display()));
}

#[test]
fn the_files_that_are_referred_to_are_listed_with_their_fields() {
    let exec = |command: &str| format!("{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {command}}}}}");
    let files = |cluster: &str, user: &str| {
        let kubeconfig =
            Kubeconfig::parse(config(cluster, user).as_bytes(), Path::new("/etc/k")).expect("it is usable");
        let files = kubeconfig.files().into_iter().map(|(field, path)| format!("{field} {}", path.display()));
        files.collect::<Vec<_>>()
    };
    let server = "{server: 'https://a', certificate-authority: ca.crt}";
    assert_eq!(
        files(server, "{client-certificate: c.pem, client-key: /k/k.pem, tokenFile: t}"),
        [
            "certificate-authority /etc/k/ca.crt",
            "client-certificate /etc/k/c.pem",
            "client-key /k/k.pem",
            "tokenFile /etc/k/t"
        ]
    );
    assert_eq!(files("{server: 'https://a'}", "{token: t}"), Vec::<String>::new());
    assert_eq!(files("{server: 'https://a'}", &exec("bin/login")), ["exec.command /etc/k/bin/login"]);
    assert_eq!(files("{server: 'https://a'}", &exec("login")), Vec::<String>::new());
}
