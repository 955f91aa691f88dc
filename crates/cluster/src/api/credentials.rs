//! The node's credentials for the API server, and their rotation.
//!
//! [`Credentials`] is a handle that can be cloned. A new certificate takes effect with the next connection:
//! [`Client`](super::Client) makes one for its next request, while open watches run to their end on the old connection. So a
//! certificate is rotated without dropping a watch.
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

use super::exec::{Exec, ExecError, Grant};
use crate::program::Programs;

mod user;

pub use user::{BadIdentity, Identity, Login, Pem, User};

/// How long the content of a file is used before the file is read again.
///
/// upstream: client-go transport/token_source.go NewCachedFileTokenSource (v1.36).
const FILE_PERIOD: Duration = Duration::from_secs(60);

/// Why there are no usable credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A certificate or key is invalid.
    #[error("the client certificate and key of {origin}")]
    Identity {
        /// Where they come from.
        origin: String,
        /// What is invalid.
        #[source]
        source: BadIdentity,
    },
    /// The token file is empty.
    #[error("{} holds no token", path.display())]
    NoToken {
        /// The file.
        path: PathBuf,
    },
    /// The credential plugin failed.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The token or password cannot be sent in a header.
    #[error("the token or password holds characters that a header must not have")]
    Header(#[source] InvalidHeaderValue),
}

/// The current credentials. Clones share them.
#[derive(Clone)]
pub struct Credentials {
    shared: Arc<Shared>,
}

struct Shared {
    user: User,
    /// Incremented with each new certificate: connections of an older version are retired.
    version: watch::Sender<u64>,
    /// Incremented with each 401 of the server.
    refusals: watch::Sender<u64>,
    state: Mutex<State>,
    /// Serializes runs of the plugin.
    running: Semaphore,
    programs: Programs,
}

#[derive(Default)]
struct State {
    /// The certificate set by [`Credentials::set_identity`]; it takes precedence over the user's.
    assigned: Option<Arc<Identity>>,
    /// The certificate of the newest connection.
    used: Option<Arc<Identity>>,
    /// Fingerprint of the certificate files, and when they were read.
    files: Option<(u64, Instant)>,
    token: Option<(HeaderValue, Instant)>,
    grant: Option<Arc<Granted>>,
}

/// The last credentials from the plugin.
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
    /// The credentials of `user`.
    pub fn new(user: User) -> Self {
        let (version, running) = (watch::Sender::new(0), Semaphore::new(1));
        let (refusals, programs) = (watch::Sender::new(0), Programs::new("exec plugin", 1));
        Self { shared: Arc::new(Shared { user, version, refusals, state: Mutex::default(), running, programs }) }
    }

    /// Replaces the client certificate, whatever the kubeconfig has. Open watches are not interrupted.
    #[doc(alias = "UpdateTransport")]
    pub fn set_identity(&self, identity: Identity) {
        self.state().assigned = Some(Arc::new(identity));
        self.renew();
    }

    /// The number of certificate changes, for waiting for the next one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.version.subscribe()
    }

    /// The number of 401 responses, for waiting for the next one.
    pub fn refusals(&self) -> watch::Receiver<u64> {
        self.shared.refusals.subscribe()
    }

    /// Sends new requests over a new connection from now on.
    pub fn renew(&self) {
        self.shared.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    pub(super) fn version(&self) -> u64 {
        *self.shared.version.borrow()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client certificate of the newest connection or, before there was one, the assigned one.
    pub(crate) fn in_use(&self) -> Option<Arc<Identity>> {
        let state = self.state();
        state.used.clone().or_else(|| state.assigned.clone())
    }

    /// The certificate for a new connection. Files are read again.
    pub(super) async fn identity(&self, now: Now) -> Result<Option<Arc<Identity>>, CredentialsError> {
        let identity = self.newest(now).await?;
        self.state().used.clone_from(&identity);
        Ok(identity)
    }

    /// When the certificate in use expired, if it has.
    pub(super) fn expired(&self, now: Timestamp) -> Option<Timestamp> {
        self.state().used.as_ref()?.expires().filter(|end| *end < now)
    }

    async fn newest(&self, now: Now) -> Result<Option<Arc<Identity>>, CredentialsError> {
        if let Some(assigned) = &self.state().assigned {
            return Ok(Some(Arc::clone(assigned)));
        }
        if let Login::Exec(exec) = &self.shared.user.login
            && let Some(identity) = &self.plugin_grant(exec, now.wall).await?.identity
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

    /// Checks, at most once per [`FILE_PERIOD`], whether the certificate files differ from those in use.
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
        // Files that cannot be read at the moment do not retire a working connection.
        if let (Ok(chain), Ok(secret)) = (certificate.text().await, key.text().await) {
            let found = fingerprint(&chain, &secret);
            if found != known && Identity::from_pem(&chain, &secret).is_ok() {
                self.state().files = Some((found, now));
                self.renew();
            }
        }
    }

    /// Value of the `Authorization` header.
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
            Login::Exec(exec) => Ok(self.plugin_grant(exec, now.wall).await?.authorization.clone()),
        }
    }

    /// The plugin's credentials. The plugin runs again only when they have expired.
    async fn plugin_grant(&self, exec: &Exec, now: Timestamp) -> Result<Arc<Granted>, CredentialsError> {
        let valid = || self.state().grant.clone().filter(|grant| grant.expires.is_none_or(|expires| now < expires));
        if let Some(grant) = valid() {
            return Ok(grant);
        }
        // The semaphore is never closed.
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

    /// The server answered 401: cached credentials are read again.
    pub(super) fn refused(&self) {
        self.shared.refusals.send_modify(|count| *count = count.wrapping_add(1));
        let mut state = self.state();
        state.token = None;
        if let Some(grant) = &state.grant {
            // Expired, not dropped: the next run compares its certificate with this one.
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

/// Value of a Basic `Authorization` header, from `name:password`.
pub(super) fn basic(pair: &str) -> String {
    // ByteString serializes as base64 in quotes.
    let quoted = serde_json::to_string(&ByteString(pair.as_bytes().to_vec())).unwrap_or_default();
    format!("Basic {}", quoted.trim_matches('"'))
}

fn fingerprint(certificate: &[u8], key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(certificate);
    hasher.write(key);
    hasher.finish()
}

/// Reads a file on a blocking thread: a hanging disk must not stop the event loop.
pub(super) async fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (key, path) = (path.display().to_string(), path.to_owned());
    let read = rubelet_engine::blocking::CREDENTIALS.spawn(&key, move || std::fs::read(path)).await;
    read.unwrap_or_else(|error| Err(io::Error::other(error)))
}
