//! TLS of the node's API: the newest serving certificate for each handshake, and optional client certificates.
//!
//! An invalid client certificate does not fail the handshake: it counts as none, and the client may still have a token. The
//! handshake only proves possession of the key. Whether the certificate is valid is decided once per connection, and again
//! when the file of authorities changes or a certificate expires.
//!
//! A client presents its chain before it is authenticated. Chains are therefore short, and verified on a few blocking
//! threads: finding a path through many crafted certificates takes seconds.
//! upstream: cmd/kubelet/app/server.go InitializeTLS, apiserver/pkg/authentication/request/x509/x509.go (v1.36)

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rubelet_core::time::Instant;
use rubelet_engine::blocking::VERIFICATIONS;
use rubelet_engine::chain::Chain;
use rubelet_engine::clock::Clock;
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tracing::{info, warn};

use super::TlsParts;

mod chain;
mod resolver;

pub(super) use chain::PresentedChain;
use chain::{AcceptAnyChain, Verification, expiry};
#[cfg(test)]
pub(super) use chain::{LARGEST_CHAIN, MOST_CERTIFICATES};
use resolver::CertificateResolver;

/// Shortest interval between checks of the file of authorities. It is checked only on connections and requests.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Largest file of authorities, ten times a browser's bundle.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// Go's TLS 1.0 and 1.1 are not supported.
const ALL: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
const NEW_ONLY: &[&SupportedProtocolVersion] = &[&TLS13];

/// Why TLS cannot be set up as configured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of authorities cannot be read.
    #[error("read the client certificate authorities in {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file is not PEM.
    #[error("{} is not PEM", .path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: pem::Error,
    },
    /// A certificate in the file cannot be used as an authority.
    #[error("{} holds a certificate that cannot be used", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: rustls::Error,
    },
    /// The file has no certificate.
    #[error("{} holds no certificate", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: VerifierBuilderError,
    },
    /// TLS versions and cipher suites do not match.
    #[error("no TLS with these versions and cipher suites")]
    Impossible(#[source] rustls::Error),
}

/// The TLS settings, kept up to date with their files.
pub(super) struct Tls {
    provider: Arc<CryptoProvider>,
    versions: &'static [&'static SupportedProtocolVersion],
    certificate: Arc<CertificateResolver>,
    client_ca: Option<PathBuf>,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    config: Arc<ServerConfig>,
    /// Version of the authorities; incremented when the file changes.
    authorities: u64,
    /// Verifies client certificates; `None` if none is accepted.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// Identity of the file of authorities when it was read.
    stamp: Option<Stamp>,
    checked: Instant,
    /// The last failure was logged.
    failure_logged: bool,
}

/// Identifies the content of a file without reading it: inode, size, time of change.
type Stamp = (u64, u64, i64, i64);

impl Tls {
    pub(super) fn new(parts: TlsParts, clock: Clock) -> Result<Self, TlsError> {
        let versions = if parts.min_version == "VersionTLS13" { NEW_ONLY } else { ALL };
        let provider = Arc::new(provider(&parts.cipher_suites));
        let certificate = Arc::new(CertificateResolver::new(parts.certificate));
        let loaded = parts.client_ca.as_deref().map(|path| load(path, &provider)).transpose()?;
        let (verifier, stamp) = loaded.unzip();
        let config = server_config(&provider, versions, &certificate, verifier.as_ref())?;
        let state = State { config, authorities: 0, verifier, stamp, checked: clock.mono(), failure_logged: false };
        Ok(Self { provider, versions, certificate, client_ca: parts.client_ca, clock, state: Mutex::new(state) })
    }

    /// The configuration for the next handshake.
    pub(super) async fn config(&self) -> Arc<ServerConfig> {
        self.refresh().await;
        Arc::clone(&self.state().config)
    }

    /// Verifies a client's chain; `None` if there is no chain, or client certificates are not accepted.
    pub(super) async fn verify(&self, presented: &PresentedChain) -> Option<Result<(), rustls::Error>> {
        self.refresh().await;
        let (verifier, authorities) = {
            let state = self.state();
            (state.verifier.clone()?, state.authorities)
        };
        presented.leaf()?;
        let now = u64::try_from(self.clock.wall().as_second()).unwrap_or_default();
        let holds = |verification: &&Verification| verification.authorities == authorities && now < verification.until;
        if let Some(verification) = presented.verification().as_ref().filter(holds) {
            return Some(verification.outcome.clone());
        }
        let stopping = || rustls::Error::General("the server is stopping".to_owned());
        let chain = Arc::clone(&presented.chain);
        // A client that disconnects does not free its slot before its chain is verified: the pool holds it.
        let verified = VERIFICATIONS.spawn("client certificates", move || {
            let (leaf, rest) = chain.split_first()?;
            let at = UnixTime::since_unix_epoch(Duration::from_secs(now));
            let outcome = verifier.verify_client_cert(leaf, rest, at).map(|_| ());
            let until = if outcome.is_ok() { expiry(&chain) } else { u64::MAX };
            Some(Verification { authorities, until, outcome })
        });
        let Ok(verification) = verified.await else { return Some(Err(stopping())) };
        let verification = verification?;
        *presented.verification() = Some(verification.clone());
        Some(verification.outcome)
    }

    /// Reads the file of authorities again if it has changed. An unreadable file changes nothing.
    async fn refresh(&self) {
        let Some(path) = self.client_ca.clone() else { return };
        let now = self.clock.mono();
        let stamp = {
            let mut state = self.state();
            if now.since(state.checked) < CHECK_EVERY {
                return;
            }
            state.checked = now;
            state.stamp
        };
        let provider = Arc::clone(&self.provider);
        let read = rubelet_engine::blocking::CREDENTIALS.spawn("client authorities", move || {
            let changed = stamp_of(&path).map_or(true, |found| Some(found) != stamp);
            changed.then(|| load(&path, &provider))
        });
        let Ok(Some(outcome)) = read.await else { return };
        let outcome = outcome.and_then(|(verifier, stamp)| {
            let config = server_config(&self.provider, self.versions, &self.certificate, Some(&verifier))?;
            Ok((config, verifier, stamp))
        });
        let mut state = self.state();
        match outcome {
            Ok((config, verifier, stamp)) => {
                info!("The client certificate authorities have changed");
                let authorities = state.authorities + 1;
                let (verifier, stamp) = (Some(verifier), Some(stamp));
                *state = State { config, authorities, verifier, stamp, checked: now, failure_logged: false };
            }
            Err(err) if !std::mem::replace(&mut state.failure_logged, true) => {
                warn!(err = %Chain(&err), "Keeping the client certificate authorities as they were");
            }
            Err(_) => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ring's algorithms, with only the named TLS 1.2 suites. As in Go, the TLS 1.3 suites cannot be configured.
fn provider(names: &[String]) -> CryptoProvider {
    let mut provider = ring::default_provider();
    if names.is_empty() {
        return provider;
    }
    // Go has short names for two of them.
    let short = |name: &str| name.trim_end_matches("_SHA256").to_owned();
    let known = provider.cipher_suites.clone();
    let is = |suite: &rustls::SupportedCipherSuite, name: &str| {
        suite.suite().as_str().is_some_and(|known| known == name || known.contains("CHACHA") && short(known) == name)
    };
    for name in names.iter().filter(|name| !known.iter().any(|suite| is(suite, name))) {
        warn!(suite = %name, "Ignoring an unsupported cipher suite");
    }
    provider.cipher_suites.retain(|suite| suite.tls13().is_some() || names.iter().any(|name| is(suite, name)));
    provider
}

fn server_config(
    provider: &Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
    certificate: &Arc<CertificateResolver>,
    verifier: Option<&Arc<dyn ClientCertVerifier>>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let offered = |version: &&&SupportedProtocolVersion| {
        provider.cipher_suites.iter().any(|suite| suite.version().version == version.version)
    };
    let versions: Vec<_> = versions.iter().filter(offered).copied().collect();
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&versions)
        .map_err(TlsError::Impossible)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(Arc::new(AcceptAnyChain(Arc::clone(verifier)))),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::clone(certificate) as _);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A stored session holds the client's chain, and any client can create one. Go's clients, including the API server,
    // do not resume sessions.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn load(path: &Path, provider: &Arc<CryptoProvider>) -> Result<(Arc<dyn ClientCertVerifier>, Stamp), TlsError> {
    let own = || path.to_owned();
    let read = || -> io::Result<_> {
        // The stamp is taken first: a file that changes while it is read is read again.
        let stamp = stamp_of(path)?;
        let mut text = Vec::new();
        File::open(path)?.take(LARGEST_FILE).read_to_end(&mut text)?;
        Ok((stamp, text))
    };
    let (stamp, text) = read().map_err(|source| TlsError::Read { path: own(), source })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|source| TlsError::Pem { path: own(), source })?;
        roots.add(certificate).map_err(|source| TlsError::Certificate { path: own(), source })?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|source| TlsError::Empty { path: own(), source })?;
    Ok((verifier, stamp))
}

fn stamp_of(path: &Path) -> io::Result<Stamp> {
    let found = path.metadata()?;
    Ok((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}
