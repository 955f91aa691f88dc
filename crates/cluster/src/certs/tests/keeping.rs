//! The keeper with a signing authority in the process, on virtual time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::NodeAddress;
use rubelet_core::certs::{DnsOnly, Leaf, Purpose, Wish};
use rubelet_engine::clock::Clock;
use rubelet_engine::task::TaskGroup;
use rubelet_testkit::SeededRng;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::csr_api::SignedInAs;
use super::super::keeper::{Keeper, Parts, Rotate};
use super::super::key::NodeKey;
use super::super::store::Store;
use super::super::wishes::Wishes;
use super::authority::{Authority, FakeCsrApi, Handling};
use crate::metrics::ClusterMetrics;

const DAY: Duration = Duration::from_secs(24 * 3600);
const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A running keeper. Dropping it stands for a restart of the process.
struct Rig {
    authority: Authority,
    clock: Clock,
    held: watch::Receiver<Option<Leaf>>,
    metrics: Arc<ClusterMetrics>,
    _tasks: TaskGroup,
}

struct Setup<'a> {
    dir: &'a Path,
    authority: &'a Authority,
    clock: &'a Clock,
    bootstrap: bool,
    rotate: Rotate,
    wishes: Option<watch::Receiver<Vec<NodeAddress>>>,
    first: Option<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Setup<'a> {
    fn new(dir: &'a Path, authority: &'a Authority, clock: &'a Clock) -> Self {
        Self { dir, authority, clock, bootstrap: true, rotate: Rotate::Yes, wishes: None, first: None }
    }

    async fn start(self) -> Rig {
        let (publish, held) = watch::channel(None);
        let purpose = if self.wishes.is_some() { Purpose::Serving } else { Purpose::Client };
        let metrics = Arc::<ClusterMetrics>::default();
        let parts = Parts {
            purpose,
            rotate: self.rotate,
            store: Store::new(self.dir, purpose, None),
            kept_key: (purpose == Purpose::Client).then(|| self.dir.join("kubelet-client.key.tmp")),
            wishes: match self.wishes {
                None => Wishes::Fixed(Wish::client("n1")),
                Some(addresses) => Wishes::Addresses { node: "n1".into(), addresses, dns_only: DnsOnly::Refused },
            },
            csr_api: Box::new(FakeCsrApi { authority: self.authority.clone(), bootstrap: self.bootstrap }),
            publish: Box::new(move |pair, _| drop(publish.send_replace(Some(pair.leaf.clone())))),
            refusals: Some(self.authority.refusals.subscribe()),
            clock: self.clock.clone(),
            rng: Arc::new(SeededRng::new(7)),
            metrics: Arc::clone(&metrics),
        };
        let mut tasks = TaskGroup::new(&CancellationToken::new());
        let keeper = Keeper::new(parts, self.first).await;
        tasks.start("keeper", keeper.run(tasks.cancel_token()));
        Rig { authority: self.authority.clone(), clock: self.clock.clone(), held, metrics, _tasks: tasks }
    }
}

impl Rig {
    /// Waits for a certificate in use that satisfies `wanted`.
    async fn until(&mut self, wanted: impl Fn(&Leaf) -> bool) -> Leaf {
        let held = self.held.wait_for(|held| held.as_ref().is_some_and(&wanted));
        let held = tokio::time::timeout(DAY * 400, held).await.expect("in time").expect("the keeper runs");
        held.clone().expect("one is held")
    }

    async fn any(&mut self) -> Leaf {
        self.until(|_| true).await
    }

    async fn after(&mut self, old: &Leaf) -> Leaf {
        let end = old.validity.not_after;
        self.until(|leaf| leaf.validity.not_after != end).await
    }

    async fn requests(&self, count: usize) {
        for _ in 0..100_000 {
            if self.authority.log().len() >= count {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("{:?}", self.authority.log());
    }
}

fn clock() -> Clock {
    Clock::virtual_from("2026-01-01T00:00:00Z".parse::<Timestamp>().expect("a time"))
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[tokio::test(start_paused = true)]
async fn tls_04_the_first_certificate_is_requested_with_the_bootstrap_credentials() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Signs, DAY);
    let mut rig = Setup::new(dir.path(), &authority, &clock).start().await;
    let leaf = rig.any().await;
    assert_eq!(leaf.common_name, "system:node:n1");
    assert!(leaf.organizations.contains("system:nodes"));
    assert_eq!(authority.log(), [format!("Bootstrap {CLIENT} node-csr-")]);
    let usages = authority.requests().remove(0).spec.usages.expect("usages");
    assert_eq!(usages, ["digital signature", "client auth"]);
    let mut files: Vec<String> = std::fs::read_dir(dir.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    files.sort();
    assert_eq!(files, ["kubelet-client-2026-01-01-00-00-00.pem", "kubelet-client-current.pem"]);
}

#[tokio::test(start_paused = true)]
async fn tls_04_a_restart_finds_the_pending_request() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Waits, DAY);
    let rig = Setup::new(dir.path(), &authority, &clock).start().await;
    rig.requests(1).await;
    let key = std::fs::read(dir.path().join("kubelet-client.key.tmp")).expect("the key is kept");
    drop(rig);

    let mut rig = Setup::new(dir.path(), &authority, &clock).start().await;
    rig.requests(2).await;
    assert_eq!(authority.log(), [format!("Bootstrap {CLIENT} node-csr-"), "Bootstrap again".into()]);
    assert_eq!(key, std::fs::read(dir.path().join("kubelet-client.key.tmp")).expect("still there"));
    authority.approve_all();
    rig.any().await;
    assert_eq!(authority.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn tls_07_failures_and_rotations_are_counted() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Denies, DAY);
    let (_set, wishes) = watch::channel(addresses(&["10.0.0.1"]));
    let mut rig = Setup { wishes: Some(wishes), ..Setup::new(dir.path(), &authority, &clock) }.start().await;
    rig.requests(3).await;
    authority.set_handling(Handling::Signs);
    let first = rig.any().await;
    rig.after(&first).await;
    let mut page = String::new();
    rig.metrics.write_certificate(Purpose::Serving, None, &mut page);
    let number = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse::<f64>().ok()).unwrap_or_default()
    };
    assert!(number("kubelet_server_expiration_renew_errors") >= 2.0, "{page}");
    let age = number("kubelet_certificate_manager_server_rotation_seconds_sum");
    assert_eq!(number("kubelet_certificate_manager_server_rotation_seconds_count").to_string(), "1", "{page}");
    assert!((0.6..=1.0).contains(&(age / DAY.as_secs_f64())), "{page}");
}

#[tokio::test(start_paused = true)]
async fn tls_04_after_a_denial_the_next_request_has_a_new_key() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Denies, DAY);
    let mut rig = Setup::new(dir.path(), &authority, &clock).start().await;
    rig.requests(3).await;
    let first = format!("Bootstrap {CLIENT} node-csr-");
    assert_eq!(authority.log()[..3], [first.clone(), first.clone(), first], "each request is a new one");
    authority.set_handling(Handling::Signs);
    rig.any().await;
}

#[tokio::test(start_paused = true)]
async fn tls_03_a_certificate_is_rotated_between_70_and_90_percent_of_its_lifetime() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Signs, DAY);
    let mut rig = Setup::new(dir.path(), &authority, &clock).start().await;
    let mut leaf = rig.any().await;
    for _ in 0..5 {
        let next = rig.after(&leaf).await;
        let age = next.validity.not_before.duration_since(leaf.validity.not_before).as_secs_f64() / DAY.as_secs_f64();
        assert!((0.699..0.902).contains(&age), "{age}");
        leaf = next;
    }
    let node: Vec<_> = (1..=5).map(|n| format!("Node {CLIENT} csr-{n}")).collect();
    assert_eq!(authority.log()[1..], node, "sent with the certificate, under names that the server generates");
}

#[tokio::test(start_paused = true)]
async fn tls_03_an_unapproved_request_is_repeated_after_15_minutes() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Signs, DAY);
    let mut rig = Setup::new(dir.path(), &authority, &clock).start().await;
    let leaf = rig.any().await;
    authority.set_handling(Handling::Waits);
    tokio::time::sleep(DAY.mul_f64(0.69)).await;
    rig.requests(2).await;
    let asked = clock.mono();
    authority.set_handling(Handling::Signs);
    rig.after(&leaf).await;
    let waited = clock.mono().since(asked).as_secs();
    assert!((15 * 60..16 * 60).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn tls_05_an_expired_certificate_is_replaced_with_the_bootstrap_credentials() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Signs, DAY);
    let mut rig = Setup::new(dir.path(), &authority, &clock).start().await;
    let leaf = rig.any().await;
    authority.set_away(true);
    tokio::time::sleep(DAY.mul_f64(1.05)).await;
    assert!(rig.held.borrow().as_ref() == Some(&leaf), "no new certificate during the outage");
    authority.set_away(false);
    let back = clock.mono();
    rig.after(&leaf).await;
    assert!(clock.mono().since(back) <= Duration::from_secs(33), "{:?}", clock.mono().since(back));
    assert_eq!(authority.log().last(), Some(&format!("Bootstrap {CLIENT} node-csr-")));
}

#[tokio::test(start_paused = true)]
async fn tls_05_without_bootstrap_credentials_a_new_certificate_on_disk_is_used() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Signs, DAY);
    let mut rig = Setup::new(dir.path(), &authority, &clock).start().await;
    let leaf = rig.any().await;
    drop(rig);
    authority.does_not_know(SignedInAs::Node);
    tokio::time::sleep(DAY * 2).await;
    let mut rig = Setup { bootstrap: false, ..Setup::new(dir.path(), &authority, &clock) }.start().await;
    assert_eq!(rig.any().await, leaf, "there is only the expired one");
    tokio::time::sleep(Duration::from_secs(300)).await;
    let tries = *authority.refusals.borrow();
    assert!((5..15).contains(&tries), "{tries}: rejected requests are repeated with the usual backoff");
    let key = NodeKey::generate().expect("a key");
    let certificate = authority.issue(&key.request(&Wish::client("n1")).expect("a request"));
    let store = Store::new(dir.path(), Purpose::Client, None);
    store.update(&certificate, &key.to_pem(), rig.clock.wall()).expect("written");
    rig.after(&leaf).await;
}

#[tokio::test(start_paused = true)]
async fn bad_day_a_revoked_certificate_is_replaced_with_the_bootstrap_credentials() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Signs, DAY);
    let mut rig = Setup::new(dir.path(), &authority, &clock).start().await;
    let leaf = rig.any().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    authority.does_not_know(SignedInAs::Node);
    authority.refusals.send_modify(|count| *count += 1);
    rig.after(&leaf).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(authority.log().len(), 2, "earlier rejections do not cause another request");
    assert_eq!(authority.log().last(), Some(&format!("Bootstrap {CLIENT} node-csr-")));
    // A server that rejects every certificate does not get requests all day.
    for _ in 0..100 {
        authority.refusals.send_modify(|count| *count += 1);
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    assert!(authority.log().len() <= 5, "{:?}", authority.log());
}

#[tokio::test(start_paused = true)]
async fn bad_day_a_clock_jump_forward_rotates_within_a_minute_and_a_jump_back_changes_nothing() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Signs, DAY);
    let mut rig = Setup::new(dir.path(), &authority, &clock).start().await;
    let leaf = rig.any().await;
    let set = clock.mono();
    clock.set_wall(SignedDuration::from_hours(24 * 300));
    let next = rig.after(&leaf).await;
    assert!(clock.mono().since(set) <= Duration::from_secs(60));
    clock.set_wall(SignedDuration::from_hours(-24 * 300));
    tokio::time::sleep(DAY).await;
    assert_eq!(rig.any().await, next, "it is not valid yet, and no other is requested");
    assert_eq!(authority.log().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn tls_03_the_certificate_of_a_kubeconfig_is_stored_and_replaced_at_once() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Signs, DAY);
    let key = NodeKey::generate().expect("a key");
    let certificate = authority.issue(&key.request(&Wish::client("admin")).expect("a request"));
    let first = Some((certificate, key.to_pem().into_bytes()));
    let mut rig = Setup { bootstrap: false, first, ..Setup::new(dir.path(), &authority, &clock) }.start().await;
    rig.until(|leaf| leaf.common_name == "system:node:n1").await;
    assert_eq!(authority.log(), [format!("Node {CLIENT} csr-0")]);
}

#[tokio::test(start_paused = true)]
async fn tls_04_without_rotation_a_certificate_is_replaced_only_after_it_has_expired() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Signs, DAY);
    let mut rig = Setup { rotate: Rotate::No, ..Setup::new(dir.path(), &authority, &clock) }.start().await;
    let leaf = rig.any().await;
    let next = rig.after(&leaf).await;
    assert!(next.validity.not_before > leaf.validity.not_after);
    assert!(next.validity.not_before.duration_since(leaf.validity.not_after) < SignedDuration::from_secs(62));
}

fn addresses(list: &[&str]) -> Vec<NodeAddress> {
    list.iter().map(|ip| NodeAddress { type_: "InternalIP".into(), address: (*ip).into() }).collect()
}

#[tokio::test(start_paused = true)]
async fn tls_02_a_serving_certificate_waits_for_addresses_and_follows_them() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::Signs, DAY);
    let (set, wishes) = watch::channel(Vec::new());
    let mut rig =
        Setup { wishes: Some(wishes), bootstrap: false, ..Setup::new(dir.path(), &authority, &clock) }.start().await;
    tokio::time::sleep(DAY).await;
    assert_eq!(authority.log(), [""; 0], "nothing is requested");

    set.send_replace(addresses(&["10.0.0.1"]));
    let leaf = rig.any().await;
    assert_eq!(leaf.ips, addresses_of(&["10.0.0.1"]));
    let usages = authority.requests().remove(0).spec.usages.expect("usages");
    assert_eq!(usages, ["digital signature", "server auth"]);

    // A removed address does not cause a rotation, an added one does.
    tokio::time::sleep(Duration::from_secs(10)).await;
    set.send_replace(addresses(&["10.0.0.1", "10.0.0.2"]));
    rig.until(|leaf| leaf.ips.len() == 2).await;
    set.send_replace(addresses(&["10.0.0.2"]));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(authority.log().len(), 2);

    // The addresses change while a request is pending: a new request is sent at once.
    authority.set_handling(Handling::Waits);
    set.send_replace(addresses(&["10.0.0.3"]));
    rig.requests(3).await;
    set.send_replace(addresses(&["10.0.0.4"]));
    rig.requests(4).await;
    authority.approve_all();
    let leaf = rig.until(|leaf| leaf.ips.contains(&"10.0.0.4".parse().expect("an address"))).await;
    assert_eq!(leaf.ips, addresses_of(&["10.0.0.4"]));
    assert!(authority.log().iter().all(|line| line.starts_with("Node kubernetes.io/kubelet-serving csr-")));
}

fn addresses_of(list: &[&str]) -> std::collections::BTreeSet<std::net::IpAddr> {
    list.iter().map(|ip| ip.parse().expect("an address")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_signer_that_omits_addresses_is_retried_with_a_pause() {
    let (dir, clock) = (dir(), clock());
    let authority = Authority::new(&clock, Handling::LeavesOut, DAY);
    let (_set, wishes) = watch::channel(addresses(&["10.0.0.1"]));
    let mut rig =
        Setup { wishes: Some(wishes), bootstrap: false, ..Setup::new(dir.path(), &authority, &clock) }.start().await;
    rig.any().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let asked = authority.log().len();
    assert!((5..30).contains(&asked), "{asked}");
    authority.set_handling(Handling::Signs);
    rig.until(|leaf| !leaf.ips.is_empty()).await;
}
