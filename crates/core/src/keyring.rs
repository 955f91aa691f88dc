//! Which logins a registry may be shown for an image (IMG-06).
//!
//! A login is kept under the registry, or the part of it, that it is for. Several may fit one image: all are tried, the
//! most specific first, so that a login can be replaced while both are in use.
//!
//! upstream: pkg/credentialprovider/keyring.go, config.go, secrets/secrets.go (v1.36)

mod glob;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;

use glob::matches;

/// Whether a pattern such as `*.example.com/team` covers images of `repository`.
#[doc(alias = "URLsMatchStr")]
pub fn covers_image(pattern: &str, repository: &str) -> bool {
    matches(pattern, repository)
}

/// Docker Hub, as logins name it.
const HUB: &str = "index.docker.io";

/// A login at a registry. Its `Debug` hides user and password: no log may hold them.
#[doc(alias = "TrackedAuthConfig")]
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Where it comes from.
    pub origin: LoginOrigin,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login(hidden, {})", self.origin)
    }
}

/// Where a login comes from. Whether a pod may use an image that is on the node depends on it: a login of the node counts
/// for every pod, that of a secret for pods that have the secret.
#[doc(alias = "CredentialSource")]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoginOrigin {
    /// A pull secret of the pod.
    Secret {
        /// Namespace of the secret.
        namespace: String,
        /// Name of the secret.
        name: String,
        /// UID of the secret: another secret may have had the name.
        uid: String,
    },
    /// A file on the node, as `docker login` writes it.
    File(PathBuf),
    /// A credential provider: the name of its program.
    Provider(String),
}

impl fmt::Display for LoginOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret { namespace, name, .. } => write!(f, "secret {namespace}/{name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Provider(name) => write!(f, "credential provider {name:?}"),
        }
    }
}

impl LoginOrigin {
    fn secret(secret: &Secret) -> Self {
        let metadata = &secret.metadata;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self::Secret { namespace: text(&metadata.namespace), name: text(&metadata.name), uid: text(&metadata.uid) }
    }
}

/// Logins, by what they are for.
#[doc(alias = "DockerKeyring")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    logins: BTreeMap<String, Vec<Login>>,
}

/// A pull secret that holds no logins that can be read. The text names no part of its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pull secret {name:?} cannot be read: {why}")]
pub struct KeyringError {
    /// Name of the secret.
    pub name: String,
    why: &'static str,
}

/// A file with logins, as `docker login` writes it.
#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: Option<BTreeMap<String, Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    auth: String,
}

impl Keyring {
    /// The logins of a pod's pull secrets. A secret of another type is passed over, one that cannot be read is an error.
    #[doc(alias = "MakeDockerKeyring")]
    pub fn of_secrets<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Result<Self, KeyringError> {
        let mut keyring = Self::default();
        for secret in secrets {
            let origin = LoginOrigin::secret(secret);
            let refuse = |why| KeyringError { name: secret.metadata.name.clone().unwrap_or_default(), why };
            let data = |key: &str| {
                let bytes = secret.data.as_ref().and_then(|data| data.get(key));
                bytes.map(|bytes| bytes.0.as_slice()).filter(|bytes| !bytes.is_empty())
            };
            match secret.type_.as_deref() {
                Some("kubernetes.io/dockerconfigjson") => {
                    let Some(bytes) = data(".dockerconfigjson") else { continue };
                    keyring.add_config(bytes, &origin).map_err(refuse)?;
                }
                Some("kubernetes.io/dockercfg") => {
                    let Some(bytes) = data(".dockercfg") else { continue };
                    keyring.add_legacy(bytes, &origin).map_err(refuse)?;
                }
                _ => {}
            }
        }
        Ok(keyring)
    }

    /// Adds the logins of a `config.json` that came from `origin`.
    pub fn add_config(&mut self, text: &[u8], origin: &LoginOrigin) -> Result<(), &'static str> {
        let config: DockerConfig = serde_json::from_slice(text).map_err(|_| "not a config.json")?;
        self.add(config.auths.unwrap_or_default(), origin)
    }

    /// Adds the logins of a `.dockercfg` that came from `origin`.
    pub fn add_legacy(&mut self, text: &[u8], origin: &LoginOrigin) -> Result<(), &'static str> {
        let entries = serde_json::from_slice(text).map_err(|_| "not a .dockercfg")?;
        self.add(entries, origin)
    }

    fn add(&mut self, entries: BTreeMap<String, Entry>, origin: &LoginOrigin) -> Result<(), &'static str> {
        let mut logins = Vec::new();
        for (place, entry) in entries {
            let login = entry.login(origin)?;
            // What is no address is never asked for.
            logins.extend(registry_key(&place).map(|key| (key, login)));
        }
        for (key, login) in logins {
            self.logins.entry(key).or_default().push(login);
        }
        Ok(())
    }

    /// Adds a login for the images that `pattern` matches.
    pub fn add_login(&mut self, pattern: &str, login: Login) {
        if let Some(key) = registry_key(pattern) {
            self.logins.entry(key).or_default().push(login);
        }
    }

    /// The logins for an image of `repository`, such as `registry.example.com/team/app`; the most specific first.
    #[doc(alias = "Lookup")]
    pub fn find(&self, repository: &str) -> Vec<Login> {
        // In reverse order of their text, a longer path comes before the shorter one that it begins with.
        let fitting = self.logins.iter().rev().filter(|(key, _)| matches(key, repository));
        let found: Vec<Login> = fitting.flat_map(|(_, logins)| logins.iter().cloned()).collect();
        if found.is_empty() && is_of_hub(repository) {
            return self.logins.get(HUB).cloned().unwrap_or_default();
        }
        found
    }
}

impl Entry {
    /// `auth` counts where it is given: base64 of `user:password`, with or without padding.
    #[doc(alias = "decodeDockerConfigFieldAuth")]
    fn login(self, origin: &LoginOrigin) -> Result<Login, &'static str> {
        let origin = origin.clone();
        if self.auth.is_empty() {
            return Ok(Login { username: self.username, password: self.password, origin });
        }
        let text = decode(&self.auth).ok_or("an auth field is not base64")?;
        let (username, password) = text.split_once(':').ok_or("an auth field is not user:password")?;
        Ok(Login { username: username.to_owned(), password: password.to_owned(), origin })
    }
}

fn decode(text: &str) -> Option<String> {
    let mut text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    let ByteString(bytes) = serde_json::from_value(serde_json::Value::String(text)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Host, port and path without scheme; `/v1/` and `/v2/` in front of a path stand for the registry as a whole.
fn registry_key(place: &str) -> Option<String> {
    let rest = place.strip_prefix("https://").or_else(|| place.strip_prefix("http://")).unwrap_or(place);
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let rest = rest.get(..end)?;
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return None;
    }
    let path = match path {
        _ if path.starts_with("/v1/") || path.starts_with("/v2/") => path.get(3..).unwrap_or_default(),
        _ => path,
    };
    Some(if path.len() > 1 { format!("{host}{path}") } else { host.to_owned() })
}

/// It is pulled from Docker Hub: the first part of its name is no host.
#[doc(alias = "isDefaultRegistryMatch")]
fn is_of_hub(repository: &str) -> bool {
    match repository.split_once('/') {
        None => !repository.is_empty(),
        Some(("", _)) => false,
        Some(("docker.io" | HUB, _)) => true,
        Some((first, _)) => !first.contains(['.', ':']),
    }
}
