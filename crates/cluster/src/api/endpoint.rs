//! The API server's address, and the trust in its certificate.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use http::uri::Authority;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::credentials::{Identity, read};

/// Where distributions keep the system's certificate authorities, in the order in which Go looks.
const SYSTEM_ROOTS: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A `cluster` of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `https` or, for tests and proxies on loopback, `http`.
    pub(super) tls: bool,
    /// Name or address to connect to, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Prefix of every path: empty, or `/something` without a trailing slash.
    pub(super) base: String,
    /// The certificate authorities that sign the server's certificate.
    pub(super) roots: Roots,
    /// `insecure-skip-tls-verify`: accept any certificate.
    pub(super) skip_verify: bool,
    /// `tls-server-name`: the name that the certificate must have, if it differs from the host.
    pub(super) server_name: Option<String>,
    /// `proxy-url`: `http://host:port` of a proxy, which is sent a CONNECT.
    pub(super) proxy: Option<Proxy>,
}

/// The certificate authorities that sign the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// The system's.
    System,
    /// PEM text.
    Pem(Vec<u8>),
    /// A file with PEM text, read at each new connection.
    File(PathBuf),
}

/// A proxy. Its `Debug` hides the credentials.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// Value of the `Proxy-Authorization` header.
    pub(super) authorization: Option<String>,
}

impl Proxy {
    /// `host:port`, for messages.
    pub(super) fn name(&self) -> String {
        host_and_port(&self.host, self.port)
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let authorization = self.authorization.as_ref().map(|_| "…");
        f.debug_struct("Proxy").field("name", &self.name()).field("authorization", &authorization).finish()
    }
}

/// Why a server's address or TLS settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadServer {
    /// Not a URL.
    #[error("{url:?} is not a URL")]
    Malformed {
        /// The text.
        url: String,
    },
    /// Neither `https` nor `http`.
    #[error("{url:?} is not of the form https://host[:port]")]
    Scheme {
        /// The text.
        url: String,
    },
    /// The URL has a user name or password.
    #[error("the URL of the server holds credentials: put them in the user of the kubeconfig")]
    Credentials,
    /// `tls-server-name` is neither a name nor an address.
    #[error("tls-server-name {name:?} is not a host name")]
    ServerName {
        /// The text.
        name: String,
    },
    /// A proxy other than HTTP.
    #[error("{named_by} {url:?} is not of the form http://host:port; other proxies are not supported")]
    Proxy {
        /// The field or variable that names it.
        named_by: &'static str,
        /// The URL without its credentials.
        url: String,
    },
}

/// Why TLS with the server cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadTrust {
    #[error("read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{origin} holds no certificate")]
    Empty { origin: String },
    #[error("{origin} is not PEM")]
    Pem { origin: String, source: pem::Error },
    #[error("a certificate of {origin} cannot be used")]
    Certificate { origin: String, source: rustls::Error },
    #[error("the machine has no certificate authorities")]
    NoSystemRoots,
    #[error("set up verification")]
    Verifier(#[from] VerifierBuilderError),
    #[error("set up TLS")]
    Tls(#[source] rustls::Error),
    #[error("the key of the client certificate cannot be used")]
    Identity(#[source] rustls::Error),
    #[error("{host:?} is not a host name")]
    Host { host: String, source: InvalidDnsNameError },
}

impl Endpoint {
    /// A server at `url` whose certificate must be signed by one of `roots`.
    ///
    /// # Errors
    /// If the URL is not an `https` or `http` URL with a host.
    pub fn new(url: &str, roots: Roots) -> Result<Self, BadServer> {
        let uri = absolute(url)?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(BadServer::Scheme { url: without_credentials(url) }),
        };
        let authority = uri.authority().ok_or_else(|| BadServer::Scheme { url: without_credentials(url) })?;
        if authority.as_str().contains('@') {
            return Err(BadServer::Credentials);
        }
        let (host, port) = host_port(authority, if tls { 443 } else { 80 });
        if host.is_empty() {
            return Err(BadServer::Scheme { url: without_credentials(url) });
        }
        let base = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { tls, host, port, base, roots, skip_verify: false, server_name: None, proxy: None })
    }

    /// Accepts any certificate (`insecure-skip-tls-verify`).
    #[must_use]
    pub fn without_verification(mut self) -> Self {
        self.skip_verify = true;
        self
    }

    /// Expects this name in the server's certificate (`tls-server-name`).
    ///
    /// # Errors
    /// If it is not a host name.
    pub fn with_server_name(mut self, name: &str) -> Result<Self, BadServer> {
        ServerName::try_from(name.to_owned()).map_err(|_| BadServer::ServerName { name: name.into() })?;
        self.server_name = Some(name.to_owned());
        Ok(self)
    }

    /// Connects through a proxy by `CONNECT` (`proxy-url`).
    ///
    /// # Errors
    /// If it is not the URL of an HTTP proxy.
    pub fn with_proxy(mut self, url: &str) -> Result<Self, BadServer> {
        let shown = || BadServer::Proxy { named_by: "proxy-url", url: without_credentials(url) };
        let uri: Uri = url.parse().map_err(|_| shown())?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(shown)?;
        let (host, port) = host_port(authority, 80);
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        let authorization = user.map(super::credentials::basic);
        self.proxy = Some(Proxy { host, port, authorization });
        Ok(self)
    }

    /// `https://host:port`, for messages and as the start of every URI.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    pub(super) fn authority(&self) -> String {
        host_and_port(&self.host, self.port)
    }

    /// The host and port of the TCP connection: the proxy's, if there is one.
    pub fn dial_target(&self) -> (&str, u16) {
        match &self.proxy {
            None => (&self.host, self.port),
            Some(proxy) => (&proxy.host, proxy.port),
        }
    }

    /// The name that the server's certificate must have.
    pub(super) fn name(&self) -> Result<ServerName<'static>, BadTrust> {
        let host = self.server_name.as_ref().unwrap_or(&self.host);
        ServerName::try_from(host.clone()).map_err(|source| BadTrust::Host { host: host.clone(), source })
    }

    /// The TLS configuration, with `identity` as client certificate. Certificate files are read again each time.
    pub(super) async fn tls(&self, identity: Option<&Identity>) -> Result<ClientConfig, BadTrust> {
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = if self.skip_verify {
            Arc::new(TrustAll(Arc::clone(&provider)))
        } else {
            let roots = Arc::new(self.roots().await?);
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?
        };
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let config = config.map_err(BadTrust::Tls)?.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let key = provider.key_provider.load_private_key(identity.key().clone_key());
                let pair = CertifiedKey::new(identity.chain().to_vec(), key.map_err(BadTrust::Identity)?);
                // The resolver, not `with_client_auth_cert`: that one rejects version 1 certificates, which openssl makes.
                config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair)))
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    async fn roots(&self) -> Result<RootCertStore, BadTrust> {
        match &self.roots {
            Roots::Pem(pem) => store(pem, "certificate-authority-data"),
            Roots::File(path) => {
                let pem = read(path).await.map_err(|source| BadTrust::Read { path: path.clone(), source })?;
                store(&pem, &path.display().to_string())
            }
            Roots::System => {
                for path in SYSTEM_ROOTS {
                    if let Ok(pem) = read(path.as_ref()).await {
                        return Ok(store_usable(&pem));
                    }
                }
                Err(BadTrust::NoSystemRoots)
            }
        }
    }
}

/// TLS configuration and server name for a manifest URL.
pub(super) async fn http1(host: &str, roots: &Roots) -> Result<(ClientConfig, ServerName<'static>), BadTrust> {
    let endpoint = Endpoint {
        tls: true,
        host: host.to_owned(),
        port: 0,
        base: String::new(),
        roots: roots.clone(),
        skip_verify: false,
        server_name: None,
        proxy: None,
    };
    let mut config = endpoint.tls(None).await?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((config, endpoint.name()?))
}

fn absolute(url: &str) -> Result<Uri, BadServer> {
    // As upstream, a server without a scheme is http.
    let full = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    full.parse().map_err(|_| BadServer::Malformed { url: without_credentials(url) })
}

fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn host_port(authority: &Authority, default: u16) -> (String, u16) {
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    (host, authority.port_u16().unwrap_or(default))
}

/// A URL for messages: everything before the last `@` may be a password and is replaced.
fn without_credentials(url: &str) -> String {
    let Some((before, host)) = url.rsplit_once('@') else { return url.to_owned() };
    match before.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://…@{host}"),
        None => format!("…@{host}"),
    }
}

/// All certificates of `pem`. An unusable one is an error, because the administrator configured it.
fn store(pem: &[u8], origin: &str) -> Result<RootCertStore, BadTrust> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|source| BadTrust::Pem { origin: origin.into(), source })?;
        store.add(certificate).map_err(|source| BadTrust::Certificate { origin: origin.into(), source })?;
    }
    if store.is_empty() { Err(BadTrust::Empty { origin: origin.into() }) } else { Ok(store) }
}

/// The usable certificates of the system's bundle.
fn store_usable(pem: &[u8]) -> RootCertStore {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
    store
}

#[derive(Debug)]
struct TrustAll(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
