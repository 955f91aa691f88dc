//! Who we are to the API server, and how that changes while we run.
//!
//! A handle that can be cloned. A new certificate takes effect with the next connection: [`Client`](super::Client) makes one
//! for its next request, and what already runs on the old connection runs to its end there. So a certificate is replaced
//! without a watch being dropped.
//!
//! upstream: client-go transport/cert_rotation.go closes every connection instead (v1.36).

use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use http::header::InvalidHeaderValue;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use rubelet_core::time::{Instant, Now};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::exec::{Exec, ExecError, Grant};
use crate::program::Programs;

/// How long a file is believed before it is read again.
///
/// upstream: client-go transport/token_source.go NewCachedFileTokenSource (v1.36).
const FILE_PERIOD: Duration = Duration::from_secs(60);

/// A certificate and its key. Its `Debug` hides the key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Why a certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadIdentity {
    /// The certificate is not PEM.
    #[error("the client certificate is not PEM")]
    Certificate(#[source] pem::Error),
    /// There is no certificate.
    #[error("there is no certificate in it")]
    NoCertificate,
    /// There is no key, or it is not one.
    #[error("the client key cannot be read")]
    Key(#[source] pem::Error),
}

impl Identity {
    /// From PEM text; both may be the same text, as in `kubelet-client-current.pem`.
    ///
    /// # Errors
    /// If there is no certificate or no key in it.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, BadIdentity> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let chain = chain.map_err(BadIdentity::Certificate)?;
        if chain.is_empty() {
            return Err(BadIdentity::NoCertificate);
        }
        Ok(Self { chain, key: PrivateKeyDer::from_pem_slice(key).map_err(BadIdentity::Key)? })
    }

    /// When it ends, if that can be read.
    pub(super) fn expires(&self) -> Option<Timestamp> {
        let (_, certificate) = X509Certificate::from_der(self.chain.first()?).ok()?;
        Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
    }

    /// From DER: the certificate, those that lead to its issuer, and the key.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        Self { chain, key }
    }

    pub(super) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    pub(super) fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// PEM text, or the file that holds it.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The text.
    Text(Vec<u8>),
    /// Where it is; read at each new connection.
    File(PathBuf),
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("…"),
            Self::File(path) => path.fmt(f),
        }
    }
}

impl Pem {
    async fn text(&self) -> Result<Vec<u8>, CredentialsError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => {
                read(path).await.map_err(|source| CredentialsError::Read { path: path.clone(), source })
            }
        }
    }

    fn origin(&self) -> String {
        match self {
            Self::Text(_) => "the kubeconfig".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// Who we are, as a kubeconfig's `user` says it.
#[derive(Clone, Debug, Default)]
pub struct User {
    /// The certificate and its key.
    pub certificate: Option<(Pem, Pem)>,
    /// What is said with each request.
    pub login: Login,
}

/// What is said with each request.
#[derive(Clone, Default)]
pub enum Login {
    /// Nothing: the certificate says it all.
    #[default]
    None,
    /// A bearer token.
    Token(String),
    /// A file that holds a bearer token, which others renew.
    TokenFile(PathBuf),
    /// A name and a password.
    Basic(String, String),
    /// What a program says: a token, a certificate, or both.
    Exec(Box<Exec>),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Token(_) => f.write_str("Token(…)"),
            Self::TokenFile(path) => f.debug_tuple("TokenFile").field(path).finish(),
            Self::Basic(name, _) => write!(f, "Basic({name:?}, …)"),
            Self::Exec(exec) => exec.fmt(f),
        }
    }
}

/// Why we cannot say who we are.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A certificate or key is not one.
    #[error("the client certificate and key of {origin}")]
    Identity {
        /// Where they come from.
        origin: String,
        /// What is wrong with them.
        #[source]
        source: BadIdentity,
    },
    /// The file holds no token.
    #[error("{} holds no token", path.display())]
    NoToken {
        /// Which.
        path: PathBuf,
    },
    /// The program that should say who we are does not.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// It cannot stand in a header.
    #[error("the token or password holds characters that no header may have")]
    Header(#[source] InvalidHeaderValue),
}

/// Who we are, now. Clones are handles of the same.
#[derive(Clone)]
pub struct Credentials {
    shared: Arc<Shared>,
}

struct Shared {
    user: User,
    /// Counts how often the certificate changed: a connection made under another count is an old one.
    version: watch::Sender<u64>,
    /// Counts how often the server did not know us.
    refusals: watch::Sender<u64>,
    state: Mutex<State>,
    /// One run of the program at a time.
    running: Semaphore,
    programs: Programs,
}

#[derive(Default)]
struct State {
    /// The certificate that was given at run time; it goes before the user's.
    given: Option<Arc<Identity>>,
    /// The certificate of the newest connection.
    used: Option<Arc<Identity>>,
    /// What the files held when they were last read, and when they were last looked at.
    files: Option<(u64, Instant)>,
    token: Option<(HeaderValue, Instant)>,
    grant: Option<Arc<Granted>>,
}

/// What a program last said.
struct Granted {
    authorization: Option<HeaderValue>,
    identity: Option<Arc<Identity>>,
    fingerprint: u64,
    expires: Option<Timestamp>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.shared.user).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Those of `user`.
    pub fn new(user: User) -> Self {
        let (version, running) = (watch::Sender::new(0), Semaphore::new(1));
        let (refusals, programs) = (watch::Sender::new(0), Programs::new("exec plugin", 1));
        Self { shared: Arc::new(Shared { user, version, refusals, state: Mutex::default(), running, programs }) }
    }

    /// From now on this certificate, whatever the user of the kubeconfig has. Running watches go on.
    #[doc(alias = "UpdateTransport")]
    pub fn set_identity(&self, identity: Identity) {
        self.state().given = Some(Arc::new(identity));
        self.renew();
    }

    /// Counts the certificates: tells when there is a new one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.version.subscribe()
    }

    /// Counts the answers that said that the server does not know us: tells when there is another.
    pub fn refusals(&self) -> watch::Receiver<u64> {
        self.shared.refusals.subscribe()
    }

    /// New requests go over a new connection from now on.
    pub fn renew(&self) {
        self.shared.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    pub(super) fn version(&self) -> u64 {
        *self.shared.version.borrow()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The certificate for a new connection, read anew.
    pub(super) async fn identity(&self, now: Now) -> Result<Option<Arc<Identity>>, CredentialsError> {
        let identity = self.newest(now).await?;
        self.state().used.clone_from(&identity);
        Ok(identity)
    }

    /// When the certificate that we show ended, if it has.
    pub(super) fn expired(&self, now: Timestamp) -> Option<Timestamp> {
        self.state().used.as_ref()?.expires().filter(|end| *end < now)
    }

    async fn newest(&self, now: Now) -> Result<Option<Arc<Identity>>, CredentialsError> {
        if let Some(given) = &self.state().given {
            return Ok(Some(Arc::clone(given)));
        }
        if let Login::Exec(exec) = &self.shared.user.login
            && let Some(identity) = &self.granted(exec, now.wall).await?.identity
        {
            return Ok(Some(Arc::clone(identity)));
        }
        let Some((certificate, key)) = &self.shared.user.certificate else { return Ok(None) };
        let (chain, secret) = (certificate.text().await?, key.text().await?);
        let identity = Identity::from_pem(&chain, &secret)
            .map_err(|source| CredentialsError::Identity { origin: certificate.origin(), source })?;
        self.state().files = Some((fingerprint(&chain, &secret), now.mono));
        Ok(Some(Arc::new(identity)))
    }

    /// Looks now and then whether the files of the certificate are others than those in use.
    pub(super) async fn look_at_files(&self, now: Instant) {
        let Some((certificate, key)) = &self.shared.user.certificate else { return };
        if matches!((certificate, key), (Pem::Text(_), Pem::Text(_))) {
            return;
        }
        let known = {
            let mut state = self.state();
            match &mut state.files {
                Some((known, at)) if now.since(*at) >= FILE_PERIOD => {
                    *at = now;
                    *known
                }
                _ => return,
            }
        };
        // Files that cannot be read just now are no reason to give up a connection that works.
        if let (Ok(chain), Ok(secret)) = (certificate.text().await, key.text().await) {
            let found = fingerprint(&chain, &secret);
            if found != known && Identity::from_pem(&chain, &secret).is_ok() {
                self.state().files = Some((found, now));
                self.renew();
            }
        }
    }

    /// What the `Authorization` header says.
    pub(super) async fn authorization(&self, now: Now) -> Result<Option<HeaderValue>, CredentialsError> {
        match &self.shared.user.login {
            Login::None => Ok(None),
            Login::Token(token) => bearer(token).map(Some),
            Login::Basic(name, password) => secret(&basic(&format!("{name}:{password}"))).map(Some),
            Login::TokenFile(path) => {
                if let Some((header, at)) = &self.state().token
                    && now.mono.since(*at) < FILE_PERIOD
                {
                    return Ok(Some(header.clone()));
                }
                let header = token_of(path).await?;
                self.state().token = Some((header.clone(), now.mono));
                Ok(Some(header))
            }
            Login::Exec(exec) => Ok(self.granted(exec, now.wall).await?.authorization.clone()),
        }
    }

    /// What the program says, asked again only when its word has run out.
    async fn granted(&self, exec: &Exec, now: Timestamp) -> Result<Arc<Granted>, CredentialsError> {
        let valid = || self.state().grant.clone().filter(|grant| grant.expires.is_none_or(|expires| now < expires));
        if let Some(grant) = valid() {
            return Ok(grant);
        }
        // Never closed, so a permit always comes.
        let _permit = self.shared.running.acquire().await;
        if let Some(grant) = valid() {
            return Ok(grant);
        }
        let grant = Arc::new(Granted::read(exec.run(&self.shared.programs).await?)?);
        let before = self.state().grant.replace(Arc::clone(&grant));
        if before.is_some_and(|before| before.fingerprint != grant.fingerprint) {
            self.renew();
        }
        Ok(grant)
    }

    /// The server did not know us: whatever is kept is read anew.
    pub(super) fn refused(&self) {
        self.shared.refusals.send_modify(|count| *count = count.wrapping_add(1));
        let mut state = self.state();
        state.token = None;
        if let Some(grant) = &state.grant {
            // Not forgotten: whether its certificate is another one must be told.
            let (authorization, identity) = (grant.authorization.clone(), grant.identity.clone());
            let stale =
                Granted { authorization, identity, fingerprint: grant.fingerprint, expires: Some(Timestamp::MIN) };
            state.grant = Some(Arc::new(stale));
        }
    }
}

impl Granted {
    fn read(grant: Grant) -> Result<Self, CredentialsError> {
        let (certificate, key) = (grant.client_certificate_data.as_bytes(), grant.client_key_data.as_bytes());
        let identity = if certificate.is_empty() {
            None
        } else {
            let bad = |source| CredentialsError::Identity { origin: "the credential plugin".to_owned(), source };
            Some(Arc::new(Identity::from_pem(certificate, key).map_err(bad)?))
        };
        let authorization = if grant.token.is_empty() { None } else { Some(bearer(&grant.token)?) };
        let fingerprint = fingerprint(certificate, key);
        Ok(Self { authorization, identity, fingerprint, expires: grant.expiration_timestamp })
    }
}

async fn token_of(path: &Path) -> Result<HeaderValue, CredentialsError> {
    let text = read(path).await.map_err(|source| CredentialsError::Read { path: path.into(), source })?;
    let text = String::from_utf8_lossy(&text);
    let token = text.trim();
    if token.is_empty() { Err(CredentialsError::NoToken { path: path.into() }) } else { bearer(token) }
}

fn bearer(token: &str) -> Result<HeaderValue, CredentialsError> {
    secret(&format!("Bearer {token}"))
}

fn secret(text: &str) -> Result<HeaderValue, CredentialsError> {
    let mut value = HeaderValue::from_str(text).map_err(CredentialsError::Header)?;
    value.set_sensitive(true);
    Ok(value)
}

/// `Basic` with `name:password`.
pub(super) fn basic(pair: &str) -> String {
    // The API's own byte strings are base64 in quotes.
    let quoted = serde_json::to_string(&ByteString(pair.as_bytes().to_vec())).unwrap_or_default();
    format!("Basic {}", quoted.trim_matches('"'))
}

fn fingerprint(certificate: &[u8], key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(certificate);
    hasher.write(key);
    hasher.finish()
}

/// A whole file, read aside: a disk that hangs must not stop the node.
pub(super) async fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (key, path) = (path.display().to_string(), path.to_owned());
    let read = rubelet_engine::blocking::CREDENTIALS.spawn(&key, move || std::fs::read(path)).await;
    read.unwrap_or_else(|error| Err(io::Error::other(error)))
}
