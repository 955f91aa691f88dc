//! Files on disk: the store, the self-signed pair, and externally maintained files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rubelet_core::certs::{Purpose, Wish};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::ServingCert;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::files::Files;
use super::super::key::NodeKey;
use super::super::pair::Pair;
use super::super::self_signed;
use super::super::store::Store;
use super::authority::{Authority, Handling};
use crate::decode::explain;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn clock() -> Clock {
    Clock::virtual_from(at("2026-01-01T00:00:00Z"))
}

/// A certificate and its key in PEM.
fn made(common_name: &str) -> (Vec<u8>, String) {
    let authority = Authority::new(&clock(), Handling::Signs, YEAR);
    let key = NodeKey::generate().expect("a key");
    let certificate = authority.issue(&key.request(&Wish::client(common_name)).expect("a request"));
    (certificate, key.to_pem())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[tokio::test]
async fn tls_03_a_stored_certificate_is_a_dated_file_behind_a_link() {
    let dir = tempfile::tempdir().expect("a directory");
    let pki = dir.path().join("pki");
    let store = Store::new(&pki, Purpose::Client, None);
    assert!(store.current().expect("nothing is no error").is_none());
    for (name, time) in [("a", "2026-01-02T03:04:05Z"), ("b", "2026-02-02T03:04:05Z")] {
        let (certificate, key) = made(name);
        let stored = store.update(&certificate, &key, at(time)).expect("stored");
        assert_eq!(store.current().expect("read"), Some(stored.clone()));
        assert_eq!(stored.leaf.common_name, format!("system:node:{name}"));
    }
    let link = fs::read_link(pki.join("kubelet-client-current.pem")).expect("a link");
    assert_eq!(link, pki.join("kubelet-client-2026-02-02-03-04-05.pem"));
    assert_eq!((mode(&link), mode(&pki)), (0o600, 0o755));
    let text = fs::read_to_string(&link).expect("text");
    let begins: Vec<&str> = text.lines().filter(|line| line.starts_with("-----BEGIN")).collect();
    assert_eq!(begins, ["-----BEGIN CERTIFICATE-----", "-----BEGIN EC PRIVATE KEY-----"]);
    assert!(pki.join("kubelet-client-2026-01-02-03-04-05.pem").exists(), "old files stay, as with upstream");
}

#[tokio::test]
async fn tls_03_an_interrupted_replacement_is_completed() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::new(dir.path(), Purpose::Serving, None);
    let (certificate, key) = made("a");
    store.update(&certificate, &key, at("2026-01-02T03:04:05Z")).expect("stored");
    let (current, updated) = (store.current_path(), dir.path().join("kubelet-server-updated.pem"));
    fs::rename(&current, updated).expect("upstream's first of two steps");
    assert!(store.current().expect("read").is_some());
    assert!(current.is_symlink());
}

#[tokio::test]
async fn tls_03_the_link_wins_over_configured_files_and_these_over_legacy_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let write = |name: &str, stem: &str| {
        let (certificate, key) = made(name);
        fs::write(path(&format!("{stem}.crt")), certificate).expect("written");
        fs::write(path(&format!("{stem}.key")), key).expect("written");
    };
    let store = Store::new(dir.path(), Purpose::Client, Some((path("given.crt"), path("given.key"))));
    let who = || store.current().expect("read").map(|pair| pair.leaf.common_name);
    write("old", "kubelet-client");
    assert_eq!(who().as_deref(), Some("system:node:old"));
    write("given", "given");
    assert_eq!(who().as_deref(), Some("system:node:given"));
    let (certificate, key) = made("stored");
    store.update(&certificate, &key, at("2026-01-02T03:04:05Z")).expect("stored");
    assert_eq!(who().as_deref(), Some("system:node:stored"));
}

#[tokio::test]
async fn errors_name_the_unusable_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::new(dir.path(), Purpose::Client, None);
    let (certificate, key) = made("a");
    let (_, other) = made("b");
    let error = store.update(&certificate, &other, at("2026-01-02T03:04:05Z")).expect_err("another's key");
    let text = explain(&error);
    assert!(
        text.starts_with("what was issued cannot be used: the certificate and the private key do not belong together"),
        "{text}"
    );
    let current = store.current_path();
    fs::write(&current, "garbage").expect("written");
    let text = explain(&store.current().expect_err("no certificate"));
    assert!(
        text.ends_with(
            "kubelet-client-current.pem holds no certificate and key that can be used: there is no certificate in it"
        ),
        "{text}"
    );
    let text = explain(&store.update(&certificate, &key, at("2026-01-02T03:04:05Z")).expect_err("a file, no link"));
    assert!(text.ends_with("is a file, but must be a link to a dated file: move it away"), "{text}");
    fs::remove_file(&current).expect("removed");
    symlink("nowhere", &current).expect("linked");
    assert!(store.current().expect("a link to nothing is nothing").is_none());
}

#[tokio::test]
async fn tls_01_the_self_signed_pair_is_generated_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let pki = dir.path().join("pki");
    let now = at("2026-01-01T00:00:00Z");
    let (certificate, key) = self_signed::ensure(&pki, "node-1", now).expect("made");
    assert_eq!((mode(&certificate), mode(&key)), (0o644, 0o600));
    let text = fs::read_to_string(&certificate).expect("text");
    assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2, "the certificate and its authority's");
    let pair = Pair::from_pem(text.as_bytes(), &fs::read(&key).expect("a key")).expect("they belong together");
    assert_eq!(pair.leaf.common_name, "node-1@1767225600");
    assert_eq!(pair.leaf.dns_names.iter().collect::<Vec<_>>(), ["node-1"]);
    assert_eq!(pair.leaf.validity.not_before, at("2025-12-31T23:00:00Z"));
    assert_eq!(pair.leaf.validity.not_after, at("2026-12-31T23:00:00Z"));
    self_signed::ensure(&pki, "other", now).expect("there already");
    assert_eq!(fs::read_to_string(&certificate).expect("text"), text);

    let (certificate, key) = self_signed::ensure(&dir.path().join("ip"), "10.0.0.1", now).expect("made");
    let pair = Pair::from_pem(&fs::read(certificate).expect("text"), &fs::read(key).expect("a key")).expect("a pair");
    assert_eq!(pair.leaf.ips.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn tls_06_a_serving_certificate_on_disk_is_read_again_when_it_changes() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = Files { certificate: dir.path().join("tls.crt"), key: dir.path().join("tls.key") };
    let write = |name: &str| {
        let (certificate, key) = made(name);
        fs::write(&files.certificate, &certificate).expect("written");
        fs::write(&files.key, &key).expect("written");
        Arc::new(Pair::from_pem(&certificate, key.as_bytes()).expect("a pair").serving(None))
    };
    let first = write("a");
    let (out, mut seen) = watch::channel(None);
    let cancel = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(files.clone().run(out, clock(), cancel.clone()));
    let is = async |seen: &mut watch::Receiver<Option<Arc<ServingCert>>>, wanted: &Arc<ServingCert>| {
        let found = seen.wait_for(|found| found.as_ref() == Some(wanted));
        tokio::time::timeout(Duration::from_secs(30), found).await.expect("in time").expect("it runs");
    };
    is(&mut seen, &first).await;
    fs::write(&files.certificate, "half of a").expect("written");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(seen.borrow().as_ref(), Some(&first), "an unusable file changes nothing");
    let second = write("a-much-longer-name");
    is(&mut seen, &second).await;
    cancel.cancel();
    tasks.join_all().await;
}
