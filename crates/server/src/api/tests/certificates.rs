//! Client certificates that are crafted, expired, not for clients, or foreign; and settings that admit no client.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::FutureExt;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rubelet_core::config::AuthorizationMode;
use rubelet_engine::blocking::VERIFICATIONS;
use rubelet_engine::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::limits::{poll_once, tls_parts};
use super::rig::{Authority, Rig, settings};
use crate::api::ApiSettings;
use crate::api::tls::{LARGEST_CHAIN, MOST_CERTIFICATES, PresentedChain, Tls};
use crate::testing::ago;

/// CPU time of this thread, which does not depend on the load of the machine.
pub(super) fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    Duration::from_nanos(text.split(' ').next().expect("a field").parse().expect("a number"))
}

/// A chain whose authorities all have the same name, so that each may have signed any other, and that leads to no root:
/// searching it for a path takes very long.
fn crafted(length: usize) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let named = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let authority = || {
        let mut params = named("c");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    };
    let issuer = Issuer::new(authority(), KeyPair::generate().expect("a key"));
    let key = KeyPair::generate().expect("a key");
    let mut chain = vec![named("admin").signed_by(&key, &issuer).expect("a certificate").der().clone()];
    for _ in 1..length {
        let own = KeyPair::generate().expect("a key");
        chain.push(authority().signed_by(&own, &issuer).expect("a certificate").der().clone());
    }
    (chain, PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
}

fn open_settings() -> ApiSettings {
    ApiSettings { authorization: AuthorizationMode::AlwaysAllow, ..settings() }
}

#[tokio::test]
async fn http_02_a_long_chain_is_rejected_before_it_is_searched() {
    let rig = Rig::with(open_settings()).await;
    let client = crafted(150);
    let began = on_cpu();
    let attack = async {
        let mut stream = rig.dial_from(Ipv4Addr::LOCALHOST, Some(client), "http/1.1").await?;
        stream.write_all(b"GET /pods HTTP/1.1\r\nHost: a\r\n\r\n").await?;
        let mut said = Vec::new();
        stream.read_to_end(&mut said).await.map(|_| said)
    };
    let said = tokio::time::timeout(Duration::from_secs(5), attack).await.expect("at once");
    assert!(said.as_ref().map_or(true, Vec::is_empty), "no answer: {said:?}");
    let held = on_cpu() - began;
    assert!(held < Duration::from_millis(500), "the thread was held up for {held:?}");
    assert_eq!(rig.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn http_02_chains_are_bounded_in_certificates_and_bytes() {
    let rig = Rig::with(open_settings()).await;
    // None of these chains is valid: an established connection gets a 401, a rejected chain no response.
    let answer = async |chain: (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)| {
        let mut stream = rig.dial_from(Ipv4Addr::LOCALHOST, Some(chain), "http/1.1").await.ok()?;
        stream.write_all(b"GET /pods HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.ok()?;
        let mut said = Vec::new();
        stream.read_to_end(&mut said).await.ok()?;
        String::from_utf8(said).ok()?.split(' ').nth(1)?.parse::<u16>().ok()
    };
    assert_eq!(answer(crafted(MOST_CERTIFICATES)).await, Some(401));
    let (chain, key) = crafted(MOST_CERTIFICATES + 1);
    assert!(chain.iter().map(|der| der.len()).sum::<usize>() < LARGEST_CHAIN);
    assert_eq!(answer((chain, key)).await, None, "one too many");
    for (size, status) in [(LARGEST_CHAIN / 2, Some(401)), (LARGEST_CHAIN, None)] {
        let name = "x".repeat(size);
        let (large, key) = Authority::new().client_with("admin", "ops", |params| {
            let name = name.as_str().try_into().expect("a name");
            params.subject_alt_names.push(rcgen::SanType::DnsName(name));
        });
        assert_eq!(answer((vec![large], key)).await, status, "one of more than {size} bytes");
    }
}

#[tokio::test]
async fn http_02_a_chain_of_maximum_length_is_searched_on_another_thread() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ca.crt");
    std::fs::write(&path, Authority::new().pem).expect("written");
    let tls = Tls::new(tls_parts(&path), Clock::virtual_from(ago(0))).expect("TLS");
    let shown = PresentedChain::new(crafted(MOST_CERTIFICATES).0);
    let began = on_cpu();
    assert!(tls.verify(&shown).await.expect("asked for").is_err());
    let held = on_cpu() - began;
    assert!(held < Duration::from_millis(20), "the thread was held up for {held:?}");
}

#[tokio::test]
async fn http_02_a_chain_is_verified_once_per_connection_and_few_at_a_time() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let path = dir.path().join("ca.crt");
    std::fs::write(&path, &authority.pem).expect("written");
    let tls = Tls::new(tls_parts(&path), Clock::virtual_from(ago(0))).expect("TLS");
    let shown = || PresentedChain::new(vec![authority.client("admin", "ops").0]);
    let (known, new) = (shown(), shown());
    let refused = PresentedChain::new(vec![Authority::new().client("admin", "ops").0]);
    assert!(tls.verify(&known).await.expect("asked for").is_ok());
    assert!(tls.verify(&refused).await.expect("asked for").is_err());
    // All verification threads are in use now.
    let held: Vec<_> = std::iter::from_fn(|| VERIFICATIONS.free_place("client certificates")).take(16).collect();
    assert!(held.len() <= 4);
    for (shown, good) in [(&known, true), (&refused, false)] {
        // A new verification would wait for as long as those are held.
        let again = tls.verify(shown).now_or_never().expect("a verified chain is not verified again");
        assert_eq!(again.expect("asked for").is_ok(), good);
    }
    let mut waiting = Box::pin(tls.verify(&new));
    assert!(poll_once(waiting.as_mut()).is_pending(), "an unverified chain has to wait");
}

#[tokio::test(start_paused = true)]
async fn http_02_an_expired_certificate_is_rejected_on_an_open_connection() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let path = dir.path().join("ca.crt");
    std::fs::write(&path, &authority.pem).expect("written");
    // It is the evening of 28 May.
    let clock = Clock::virtual_from(ago(0));
    let tls = Tls::new(tls_parts(&path), clock.clone()).expect("TLS");
    let short = authority.client_with("admin", "ops", |params| params.not_after = rcgen::date_time_ymd(2026, 5, 29));
    let shown = PresentedChain::new(vec![short.0]);
    assert!(tls.verify(&shown).await.expect("asked for").is_ok());
    tokio::time::advance(Duration::from_secs(3 * 3600)).await;
    assert!(tls.verify(&shown).await.expect("asked for").is_ok(), "{}", clock.wall());
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert!(tls.verify(&shown).await.expect("asked for").is_err(), "{}", clock.wall());
}

#[tokio::test]
async fn http_02_only_a_valid_client_certificate_is_accepted() {
    let rig = Rig::with(open_settings()).await;
    let with = |edit: fn(&mut CertificateParams)| rig.authority.client_with("admin", "ops", edit);
    for (what, client, status) in [
        ("as it should be", with(|_| {}), 200),
        ("for clients", with(|p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]), 200),
        ("for servers", with(|p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]), 401),
        ("for signing code", with(|p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning]), 401),
        ("expired", with(|p| p.not_after = rcgen::date_time_ymd(2026, 5, 28)), 401),
        ("not valid yet", with(|p| p.not_before = rcgen::date_time_ymd(2026, 5, 29)), 401),
        ("without a name", with(|p| p.distinguished_name = rcgen::DistinguishedName::new()), 401),
        ("of another authority", Authority::new().client("admin", "ops"), 401),
    ] {
        assert_eq!(rig.ask(Some(client), "GET", "/pods", None).await.0, status, "{what}");
    }
}

#[tokio::test]
async fn http_02_webhook_mode_without_an_api_server_admits_no_client() {
    let anonymous = ApiSettings { anonymous: true, ..settings() };
    for settings in [settings(), anonymous] {
        let nobody = if settings.anonymous { 403 } else { 401 };
        let rig = Rig::made_from(settings, |parts| parts.reviews = None).await;
        for (method, path) in [
            ("GET", "/pods"),
            ("GET", "/healthz"),
            ("GET", "/metrics"),
            ("GET", "/configz"),
            ("GET", "/containerLogs/ns/web/app"),
            ("POST", "/exec/ns/web/app?output=1"),
            ("POST", "/run/ns/web/app?cmd=true"),
        ] {
            let admin = rig.authority.client("admin", "system:masters");
            assert_eq!(rig.ask(Some(admin), method, path, None).await.0, 403, "{method} {path}");
            assert_eq!(rig.ask(None, method, path, None).await.0, nobody, "{method} {path}");
            assert_eq!(rig.ask(None, method, path, Some("good")).await.0, nobody, "no token can be reviewed");
        }
        assert!(rig.world.asked.lock().unwrap().is_empty(), "nothing was carried out");
    }
}
