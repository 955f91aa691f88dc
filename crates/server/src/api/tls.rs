//! TLS of the node's API: the newest certificate for each handshake, client certificates asked for and kept.
//!
//! A client certificate does not decide whether there is a connection: one that is not believed is as good as none, and
//! its bearer may still have a token. So the handshake only proves that the peer has the key. Whether the certificate is
//! believed is decided once for each connection, and anew when the authorities in the file change or a certificate
//! expires.
//!
//! The peer chooses what it shows before anything is known of it. So chains are short, and are verified on
//! blocking threads, few at a time: to find a path through many crafted certificates takes seconds.
//! upstream: cmd/kubelet/app/server.go InitializeTLS, apiserver/pkg/authentication/request/x509/x509.go (v1.36)

use std::fmt;
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
use rubelet_engine::ports::ServingCert;
use tokio::sync::watch;
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier,
};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme, SupportedProtocolVersion,
};
use tracing::{info, warn};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::TlsParts;

/// How often the file of authorities is looked at, at most: only when somebody asks for something.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The largest file of authorities: a bundle of all that a browser believes is a tenth of it.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// Certificates that a client may show, in number and in bytes together. Real chains have one to three.
pub(super) const MOST_CERTIFICATES: usize = 8;
pub(super) const LARGEST_CHAIN: usize = 32 * 1024;

/// Go's older versions, 1.0 and 1.1, are not to be had here: nobody should.
const ALL: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
const NEW_ONLY: &[&SupportedProtocolVersion] = &[&TLS13];

/// TLS cannot be set up as configured.
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
    /// It is not PEM.
    #[error("{} is not PEM", .path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: pem::Error,
    },
    /// What is in it is no authority.
    #[error("{} holds a certificate that cannot be used", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: rustls::Error,
    },
    /// There is nothing in it.
    #[error("{} holds no certificate", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: VerifierBuilderError,
    },
    /// Versions and cipher suites do not go together.
    #[error("no TLS with these versions and cipher suites")]
    Impossible(#[source] rustls::Error),
}

/// TLS as it is now.
pub(super) struct Tls {
    provider: Arc<CryptoProvider>,
    versions: &'static [&'static SupportedProtocolVersion],
    certificate: Arc<Newest>,
    client_ca: Option<PathBuf>,
    clock: Clock,
    state: Mutex<State>,
}

/// What a peer showed in the handshake, and whether it is believed.
#[derive(Default)]
pub(super) struct Shown {
    chain: Arc<Vec<CertificateDer<'static>>>,
    verdict: Mutex<Option<Verdict>>,
}

#[derive(Clone)]
struct Verdict {
    /// Which authorities were asked.
    authorities: u64,
    /// Until when it holds, in seconds since 1970.
    until: u64,
    outcome: Result<(), rustls::Error>,
}

impl Shown {
    pub(super) fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self { chain: Arc::new(chain), verdict: Mutex::default() }
    }

    /// The peer's own certificate.
    pub(super) fn leaf(&self) -> Option<&CertificateDer<'static>> {
        self.chain.first()
    }

    fn verdict(&self) -> MutexGuard<'_, Option<Verdict>> {
        self.verdict.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone)]
struct State {
    config: Arc<ServerConfig>,
    /// Counts the changes of the file of authorities.
    authorities: u64,
    /// Whether client certificates are believed; `None` if none is.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// What the file of authorities was when it was read.
    stamp: Option<Stamp>,
    looked: Instant,
    /// The last failure was told.
    told: bool,
}

/// Tells one content of a file from the next without reading it: inode, size, time of change.
type Stamp = (u64, u64, i64, i64);

impl Tls {
    pub(super) fn new(parts: TlsParts, clock: Clock) -> Result<Self, TlsError> {
        let versions = if parts.min_version == "VersionTLS13" { NEW_ONLY } else { ALL };
        let provider = Arc::new(provider(&parts.cipher_suites));
        let certificate = Arc::new(Newest { news: parts.certificate, made: Mutex::default() });
        let loaded = parts.client_ca.as_deref().map(|path| load(path, &provider)).transpose()?;
        let (verifier, stamp) = loaded.unzip();
        let config = server_config(&provider, versions, &certificate, verifier.as_ref())?;
        let state = State { config, authorities: 0, verifier, stamp, looked: clock.mono(), told: false };
        Ok(Self { provider, versions, certificate, client_ca: parts.client_ca, clock, state: Mutex::new(state) })
    }

    /// For the next handshake.
    pub(super) async fn config(&self) -> Arc<ServerConfig> {
        self.refresh().await;
        Arc::clone(&self.state().config)
    }

    /// Whether the certificate that a peer showed is believed; `None` if it showed none, or none is asked for.
    pub(super) async fn verify(&self, shown: &Shown) -> Option<Result<(), rustls::Error>> {
        self.refresh().await;
        let (verifier, authorities) = {
            let state = self.state();
            (state.verifier.clone()?, state.authorities)
        };
        shown.leaf()?;
        let now = u64::try_from(self.clock.wall().as_second()).unwrap_or_default();
        let holds = |verdict: &&Verdict| verdict.authorities == authorities && now < verdict.until;
        if let Some(verdict) = shown.verdict().as_ref().filter(holds) {
            return Some(verdict.outcome.clone());
        }
        let stopping = || rustls::Error::General("the server is stopping".to_owned());
        let chain = Arc::clone(&shown.chain);
        // A peer that leaves does not make room before its chain is done with: the pool sees to it.
        let verified = VERIFICATIONS.spawn("client certificates", move || {
            let (leaf, rest) = chain.split_first()?;
            let at = UnixTime::since_unix_epoch(Duration::from_secs(now));
            let outcome = verifier.verify_client_cert(leaf, rest, at).map(|_| ());
            let until = if outcome.is_ok() { expiry(&chain) } else { u64::MAX };
            Some(Verdict { authorities, until, outcome })
        });
        let Ok(verdict) = verified.await else { return Some(Err(stopping())) };
        let verdict = verdict?;
        *shown.verdict() = Some(verdict.clone());
        Some(verdict.outcome)
    }

    /// Reads the file of authorities again if it has changed. One that cannot be read changes nothing.
    async fn refresh(&self) {
        let Some(path) = self.client_ca.clone() else { return };
        let now = self.clock.mono();
        let stamp = {
            let mut state = self.state();
            if now.since(state.looked) < LOOK_EVERY {
                return;
            }
            state.looked = now;
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
                *state = State { config, authorities, verifier, stamp, looked: now, told: false };
            }
            Err(err) if !std::mem::replace(&mut state.told, true) => {
                warn!(err = %Chain(&err), "Keeping the client certificate authorities as they were");
            }
            Err(_) => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When the first certificate of a chain expires, in seconds since 1970. A root in the file of authorities does not.
fn expiry(chain: &[CertificateDer<'static>]) -> u64 {
    let end = |der: &CertificateDer<'static>| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        // The last second is one in which it is good.
        u64::try_from(certificate.validity().not_after.timestamp()).ok().map(|last| last.saturating_add(1))
    };
    chain.iter().map(|der| end(der).unwrap_or_default()).min().unwrap_or_default()
}

/// Ring's algorithms, of TLS 1.2 only the suites that are named. As in Go, those of TLS 1.3 are not up for choice.
fn provider(names: &[String]) -> CryptoProvider {
    let mut provider = ring::default_provider();
    if names.is_empty() {
        return provider;
    }
    // Go knows two of them by a short name as well.
    let short = |name: &str| name.trim_end_matches("_SHA256").to_owned();
    let known = provider.cipher_suites.clone();
    let is = |suite: &rustls::SupportedCipherSuite, name: &str| {
        suite.suite().as_str().is_some_and(|known| known == name || known.contains("CHACHA") && short(known) == name)
    };
    for name in names.iter().filter(|name| !known.iter().any(|suite| is(suite, name))) {
        warn!(suite = %name, "This cipher suite is not supported, and left out");
    }
    provider.cipher_suites.retain(|suite| suite.tls13().is_some() || names.iter().any(|name| is(suite, name)));
    provider
}

fn server_config(
    provider: &Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
    certificate: &Arc<Newest>,
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
        Some(verifier) => builder.with_client_cert_verifier(Arc::new(Asked(Arc::clone(verifier)))),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::clone(certificate) as _);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A session that is kept to be resumed holds the client's chain, and any client can make one. Go's clients, of which
    // the API server is one, resume none.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn load(path: &Path, provider: &Arc<CryptoProvider>) -> Result<(Arc<dyn ClientCertVerifier>, Stamp), TlsError> {
    let own = || path.to_owned();
    let read = || -> io::Result<_> {
        // The stamp first: a file that changes while it is read is read again.
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

/// The newest certificate.
struct Newest {
    news: watch::Receiver<Option<Arc<ServingCert>>>,
    /// The last one, tried once: any client can have it tried.
    made: Mutex<Option<Made>>,
}

/// A certificate and what TLS makes of it; nothing if it cannot be used.
struct Made {
    of: Arc<ServingCert>,
    key: Option<Arc<CertifiedKey>>,
}

impl fmt::Debug for Newest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Newest").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Newest {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let newest = self.news.borrow().clone()?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.as_ref().filter(|made| Arc::ptr_eq(&made.of, &newest)) {
            return made.key.clone();
        }
        let key = match certified(&newest) {
            Ok(key) => Some(Arc::new(key)),
            Err(err) => {
                warn!(err = %Chain(&err), "The serving certificate cannot be used: no client can connect");
                None
            }
        };
        *made = Some(Made { of: newest, key: key.clone() });
        key
    }
}

fn certified(cert: &ServingCert) -> Result<CertifiedKey, rustls::Error> {
    let chain = cert.chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
    let key = PrivateKeyDer::try_from(cert.key.clone()).map_err(|why| rustls::Error::General(why.to_owned()))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
}

/// Asks for a client certificate and believes none: see the module. Only what is too large is refused at once.
#[derive(Debug)]
struct Asked(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Asked {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let size: usize = rest.iter().map(|der| der.len()).sum::<usize>().saturating_add(leaf.len());
        if rest.len() >= MOST_CERTIFICATES || size > LARGEST_CHAIN {
            return Err(rustls::Error::General("the client shows too many certificates".to_owned()));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
