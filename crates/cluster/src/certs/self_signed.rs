//! A self-signed serving certificate (TLS-01).
//!
//! upstream: cmd/kubelet/app/server.go InitializeTLS, client-go util/cert/cert.go GenerateSelfSignedCertKey (v1.36). Upstream
//! uses RSA keys, rubelet ECDSA.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use super::pem;
use super::store::{self, StoreError};

/// Validity: a year. As upstream, the certificate is generated once.
const LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// The validity begins in the past, for clients whose clocks are behind.
const HEAD_START: SignedDuration = SignedDuration::from_hours(1);

/// Why no certificate can be generated.
#[derive(Debug, thiserror::Error)]
pub(super) enum SelfSignError {
    #[error("generate a self-signed certificate for {host}")]
    Make { host: String, source: rcgen::Error },
    #[error("an internal task panicked")]
    Panicked,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// `kubelet.crt` and `kubelet.key` in `dir`: the existing ones, or new ones for `host`.
pub(super) fn ensure(dir: &Path, host: &str, now: Timestamp) -> Result<(PathBuf, PathBuf), SelfSignError> {
    let (certificate, key) = (dir.join("kubelet.crt"), dir.join("kubelet.key"));
    if store::read(&certificate)?.is_some() && store::read(&key)?.is_some() {
        return Ok((certificate, key));
    }
    let (chain, secret) = make(host, now).map_err(|source| SelfSignError::Make { host: host.into(), source })?;
    store::make_dir(dir)?;
    // The key is written first: a certificate without its key would be taken for a complete pair.
    store::write(&key, secret.as_bytes(), 0o600)?;
    store::write(&certificate, chain.as_bytes(), 0o644)?;
    Ok((certificate, key))
}

/// The certificate with that of its authority, whose key is not kept; and the key.
fn make(host: &str, now: Timestamp) -> Result<(String, String), rcgen::Error> {
    let from = now.checked_sub(HEAD_START).unwrap_or(now);
    let params = |name: String| {
        let mut params = CertificateParams::default();
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + since_epoch(from);
        params.not_after = epoch + since_epoch(from.checked_add(LIFE).unwrap_or(from));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let mut authority = params(format!("{host}-ca@{}", now.as_second()));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages =
        vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?;

    let mut server = params(format!("{host}@{}", now.as_second()));
    server.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    server.subject_alt_names.push(match host.parse::<IpAddr>() {
        Ok(ip) => rcgen::SanType::IpAddress(ip),
        Err(_) => rcgen::SanType::DnsName(host.try_into()?),
    });
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &Issuer::new(authority, authority_key))?;
    let chain = [certificate.der(), authority_certificate.der()].map(|der| pem::encode(pem::CERTIFICATE, der));
    Ok((chain.concat(), pem::encode("PRIVATE KEY", key.serialized_der())))
}

fn since_epoch(at: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default())
}
