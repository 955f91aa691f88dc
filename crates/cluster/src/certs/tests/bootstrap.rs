//! The choice between kubeconfig and bootstrap kubeconfig.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use jiff::{SignedDuration, Timestamp};
use rubelet_core::certs::Wish;
use rubelet_engine::clock::Clock;

use super::super::client::{ClientCertificate, ClientError, load};
use super::super::key::NodeKey;
use super::authority::{Authority, Handling};
use crate::api::ProxyEnvironment;
use crate::decode::explain;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

/// A directory with a bootstrap kubeconfig as `kubeadm join` writes it.
struct Node {
    dir: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let node = Self { dir };
        node.write(
            "bootstrap-kubelet.conf",
            "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    certificate-authority-data: QQ==\n    server: https://10.0.0.1:6443\n  name: kubernetes\ncontexts:\n- context:\n    cluster: kubernetes\n    user: tls-bootstrap-token-user\n  name: tls-bootstrap-token-user@kubernetes\ncurrent-context: tls-bootstrap-token-user@kubernetes\nusers:\n- name: tls-bootstrap-token-user\n  user:\n    token: abcdef.0123456789abcdef\n",
        );
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).expect("written");
    }

    /// Writes `c.crt` and `c.key`, valid for a day.
    fn certificate(&self) {
        let authority = Authority::new(&Clock::virtual_from(start()), Handling::Signs, DAY);
        let key = NodeKey::generate().expect("a key");
        self.write("c.crt", authority.issue(&key.request(&Wish::client("n1")).expect("a request")));
        self.write("c.key", key.to_pem());
    }

    fn kubeconfig(&self, user: &str) {
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://old:6443'}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\nusers: [{{name: u, user: {user}}}]\n"
        );
        self.write("kubelet.conf", text);
    }

    fn options(&self, bootstrap: bool) -> ClientCertificate {
        ClientCertificate {
            kubeconfig: self.path("kubelet.conf"),
            bootstrap: bootstrap.then(|| self.path("bootstrap-kubelet.conf")),
            dir: self.path("pki"),
            node: "n1".into(),
            rotate: true,
            proxy: ProxyEnvironment::default(),
            metrics: Arc::default(),
        }
    }

    fn load(&self, bootstrap: bool, after: SignedDuration) -> Result<(String, bool), ClientError> {
        let now = start().checked_add(after).expect("a time");
        load(&self.options(bootstrap), now).map(|(kubeconfig, fresh)| (kubeconfig.endpoint.url(), fresh))
    }
}

const NEW: &str = "https://10.0.0.1:6443";
const OLD: &str = "https://old:6443";
const FILES: &str = "{client-certificate: c.crt, client-key: c.key}";

#[test]
fn tls_04_the_bootstrap_kubeconfig_is_used_only_while_the_kubeconfig_is_invalid() {
    let hour = SignedDuration::from_hours(1);
    let check = |prepare: &dyn Fn(&Node), after: SignedDuration, expected: (&str, bool)| {
        let node = Node::new();
        node.certificate();
        prepare(&node);
        let (server, fresh) = node.load(true, after).expect("one of them is good");
        assert_eq!((server.as_str(), fresh), expected);
    };
    // upstream: bootstrap_test.go TestLoadClientConfig (v1.36): valid, expired, missing.
    check(&|node| node.kubeconfig(FILES), hour, (OLD, false));
    check(&|node| node.kubeconfig(FILES), SignedDuration::from_hours(25), (NEW, true));
    check(&|_| {}, hour, (NEW, true));
    // Malformed, without a certificate, without a key, with another's key, and with missing files.
    check(&|node| node.write("kubelet.conf", "{"), hour, (NEW, true));
    check(&|node| node.kubeconfig("{token: t}"), hour, (NEW, true));
    check(&|node| node.kubeconfig("{client-certificate: c.crt, client-key: c.crt}"), hour, (NEW, true));
    let other = |node: &Node| {
        node.kubeconfig(FILES);
        node.write("c.key", NodeKey::generate().expect("a key").to_pem());
    };
    check(&other, hour, (NEW, true));
    check(&|node| node.kubeconfig("{client-certificate: gone.crt, client-key: c.key}"), hour, (NEW, true));
}

#[test]
fn tls_04_without_a_bootstrap_kubeconfig_the_kubeconfig_is_required() {
    let node = Node::new();
    node.kubeconfig("{token: t}");
    assert_eq!(node.load(false, SignedDuration::ZERO).expect("good"), (OLD.to_owned(), false));
    fs::remove_file(node.path("kubelet.conf")).expect("removed");
    let text = explain(&node.load(false, SignedDuration::ZERO).expect_err("there is no kubeconfig"));
    assert!(text.starts_with("read kubeconfig ") && text.contains("No such file"), "{text}");
    fs::remove_file(node.path("bootstrap-kubelet.conf")).expect("removed");
    let text = explain(&node.load(true, SignedDuration::ZERO).expect_err("there is no kubeconfig"));
    assert!(text.contains("bootstrap-kubelet.conf"), "{text}");
}

fn check_written(node: &Node, expected: &Expect) {
    node.load(true, SignedDuration::ZERO).expect("written");
    let text = fs::read_to_string(node.path("kubelet.conf")).expect("text");
    expected.assert_eq(&text.replace(&node.dir.path().display().to_string(), "DIR"));
}

#[test]
fn tls_04_the_written_kubeconfig_equals_upstreams() {
    let node = Node::new();
    check_written(
        &node,
        &expect![[r#"
        apiVersion: v1
        clusters:
        - cluster:
            certificate-authority-data: QQ==
            server: https://10.0.0.1:6443
          name: default-cluster
        contexts:
        - context:
            cluster: default-cluster
            namespace: default
            user: default-auth
          name: default-context
        current-context: default-context
        kind: Config
        users:
        - name: default-auth
          user:
            client-certificate: DIR/pki/kubelet-client-current.pem
            client-key: DIR/pki/kubelet-client-current.pem
    "#]],
    );
    assert_eq!(mode(&node.path("kubelet.conf")), 0o600);
    // Relative paths become absolute; the fields for reaching the server are copied.
    let node = Node::new();
    let text = fs::read_to_string(node.path("bootstrap-kubelet.conf")).expect("text");
    let other = "certificate-authority: ca.crt\n    tls-server-name: api";
    node.write("bootstrap-kubelet.conf", text.replace("certificate-authority-data: QQ==", other));
    check_written(
        &node,
        &expect![[r#"
        apiVersion: v1
        clusters:
        - cluster:
            certificate-authority: DIR/ca.crt
            server: https://10.0.0.1:6443
            tls-server-name: api
          name: default-cluster
        contexts:
        - context:
            cluster: default-cluster
            namespace: default
            user: default-auth
          name: default-context
        current-context: default-context
        kind: Config
        users:
        - name: default-auth
          user:
            client-certificate: DIR/pki/kubelet-client-current.pem
            client-key: DIR/pki/kubelet-client-current.pem
    "#]],
    );
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}
