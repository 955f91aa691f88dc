//! TLS of the node's API: the newest certificate for each handshake, client certificates asked for and kept.
//!
//! A client certificate does not decide whether there is a connection: one that is not believed is as good as none, and
//! its bearer may still have a token. So the handshake only proves that the peer has the key, and whether the certificate
//! is believed is asked for every request, against the authorities that are in the file then.
//! upstream: cmd/kubelet/app/server.go InitializeTLS, apiserver/pkg/authentication/request/x509/x509.go (v1.36)

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rubelet_core::time::Instant;
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
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme, SupportedProtocolVersion,
};
use tracing::{info, warn};

use super::TlsParts;

/// How often the file of authorities is looked at, at most: only when somebody asks for something.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The largest file of authorities: a bundle of all that a browser believes is a tenth of it.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

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

#[derive(Clone)]
struct State {
    config: Arc<ServerConfig>,
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
        let state = State { config, verifier, stamp, looked: clock.mono(), told: false };
        Ok(Self { provider, versions, certificate, client_ca: parts.client_ca, clock, state: Mutex::new(state) })
    }

    /// For the next handshake.
    pub(super) async fn config(&self) -> Arc<ServerConfig> {
        self.refresh().await;
        Arc::clone(&self.state().config)
    }

    /// Whether the certificate that a peer showed is believed; `None` if none is asked for.
    pub(super) async fn verify(&self, chain: &[CertificateDer<'static>]) -> Option<Result<(), rustls::Error>> {
        self.refresh().await;
        let verifier = self.state().verifier.clone()?;
        let (leaf, rest) = chain.split_first()?;
        let since_epoch = u64::try_from(self.clock.wall().as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(since_epoch));
        Some(verifier.verify_client_cert(leaf, rest, now).map(|_| ()))
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
                *state = State { config, verifier: Some(verifier), stamp: Some(stamp), looked: now, told: false };
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
    /// The last one, made ready.
    made: Mutex<Option<(Arc<ServingCert>, Arc<CertifiedKey>)>>,
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
        if let Some((_, key)) = made.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &newest)) {
            return Some(Arc::clone(key));
        }
        match certified(&newest) {
            Ok(key) => {
                let key = Arc::new(key);
                *made = Some((newest, Arc::clone(&key)));
                Some(key)
            }
            Err(err) => {
                warn!(err = %Chain(&err), "The serving certificate cannot be used");
                None
            }
        }
    }
}

fn certified(cert: &ServingCert) -> Result<CertifiedKey, rustls::Error> {
    let chain = cert.chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
    let key = PrivateKeyDer::try_from(cert.key.clone()).map_err(|why| rustls::Error::General(why.to_owned()))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
}

/// Asks for a client certificate and believes none: see the module.
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
        _leaf: &CertificateDer<'_>,
        _rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
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
