//! A kubeconfig: where the API server is and who we are to it.
//!
//! upstream: client-go tools/clientcmd (v1.36). What is relative in it is relative to the file.

use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;
use serde_json::Value;

use super::credentials::{Login, Pem, User};
use super::endpoint::{BadServer, Endpoint, Roots};
use super::exec::Exec;
use crate::text::{self, TextError};

mod at;
#[cfg(test)]
mod tests;

use at::At;
pub use at::BadField;

/// What the current context of a kubeconfig names.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    /// The server.
    pub endpoint: Endpoint,
    /// Who we are to it.
    pub user: User,
    /// Namespace of the context.
    pub namespace: Option<String>,
}

/// Why a kubeconfig cannot be used. The file is named by [`Kubeconfig::load`] alone.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// It cannot be read.
    #[error("read kubeconfig {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Something in it is wrong.
    #[error("kubeconfig {}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What.
        #[source]
        source: BadKubeconfig,
    },
}

/// What is wrong in a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum BadKubeconfig {
    /// It is neither YAML nor JSON.
    #[error("{0}")]
    Text(String),
    /// A field has another type than it should.
    #[error(transparent)]
    Field(#[from] BadField),
    /// There is no current context.
    #[error("current-context is empty: which of the contexts [{known}] is meant?")]
    NoContext {
        /// Those that there are.
        known: String,
    },
    /// Something is named that is not there.
    #[error("{list} has none with the name {name:?}; there are [{known}]")]
    Unknown {
        /// `contexts`, `clusters` or `users`.
        list: &'static str,
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The server cannot be used.
    #[error("{at}")]
    Server {
        /// Which field.
        at: String,
        /// Why.
        #[source]
        source: BadServer,
    },
    /// One of two that belong together is missing.
    #[error("{at} has {has} without {lacks}")]
    Half {
        /// Where.
        at: String,
        /// What it has.
        has: &'static str,
        /// What it lacks.
        lacks: &'static str,
    },
    /// Two that exclude each other.
    #[error("{at} has both {one} and {other}")]
    Both {
        /// Where.
        at: String,
        /// The one.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// Something that exists elsewhere but not here.
    #[error("{at} is not supported: {instead}")]
    Unsupported {
        /// Which field.
        at: String,
        /// What to do.
        instead: &'static str,
    },
}

impl From<TextError> for BadKubeconfig {
    fn from(error: TextError) -> Self {
        Self::Text(error.to_string())
    }
}

impl Kubeconfig {
    /// Reads the file at `path` and takes its current context.
    ///
    /// # Errors
    /// If the file cannot be read, or names no usable server.
    pub fn load(path: &Path) -> Result<Self, KubeconfigError> {
        let content = std::fs::read(path).map_err(|source| KubeconfigError::Read { path: path.into(), source })?;
        let directory = path.parent().unwrap_or(Path::new("."));
        Self::parse(&content, directory).map_err(|source| KubeconfigError::Content { path: path.into(), source })
    }

    /// Takes the current context of a text whose relative paths start at `directory`.
    ///
    /// # Errors
    /// If it names no usable server.
    pub fn parse(content: &[u8], directory: &Path) -> Result<Self, BadKubeconfig> {
        let text = text::parse(content)?;
        let root = At::root(&text.value);
        let name = root.text("current-context")?;
        let Some(name) = name else { return Err(BadKubeconfig::NoContext { known: names(&root, "contexts") }) };
        let context = named(&root, "contexts", "context", name)?;
        let cluster = named(&root, "clusters", "cluster", context.text("cluster")?.unwrap_or_default())?;
        let endpoint = endpoint(&cluster, directory)?;
        let user = match context.text("user")? {
            None => User::default(),
            Some(name) => user(&named(&root, "users", "user", name)?, &cluster, directory)?,
        };
        Ok(Self { endpoint, user, namespace: context.text("namespace")?.map(ToOwned::to_owned) })
    }
}

/// The `field` of the entry of `list` that has this name. Of several the last counts, as upstream.
fn named<'a>(root: &At<'a>, list: &'static str, field: &'static str, name: &str) -> Result<At<'a>, BadKubeconfig> {
    let mut found = None;
    for entry in root.list(list)? {
        if entry.text("name")? == Some(name) {
            found = Some(entry.object(field)?);
        }
    }
    found.ok_or_else(|| BadKubeconfig::Unknown { list, name: name.to_owned(), known: names(root, list) })
}

fn names(root: &At<'_>, list: &str) -> String {
    let entries = root.list(list).unwrap_or_default();
    let names = entries.iter().filter_map(|entry| entry.text("name").ok().flatten());
    names.collect::<Vec<_>>().join(", ")
}

fn endpoint(cluster: &At<'_>, directory: &Path) -> Result<Endpoint, BadKubeconfig> {
    let bad = |field: &str| {
        let at = cluster.name(field);
        move |source| BadKubeconfig::Server { at, source }
    };
    let anybody = cluster.flag("insecure-skip-tls-verify")?;
    let roots = match pem(cluster, "certificate-authority", "certificate-authority-data", directory)? {
        None => Roots::System,
        Some(_) if anybody => {
            return Err(BadKubeconfig::Both {
                at: cluster.path().to_owned(),
                one: "insecure-skip-tls-verify",
                other: "a certificate-authority",
            });
        }
        Some(Pem::Text(text)) => Roots::Pem(text),
        Some(Pem::File(path)) => Roots::File(path),
    };
    let server = cluster.text("server")?.unwrap_or_default();
    let mut endpoint = Endpoint::new(server, roots).map_err(bad("server"))?;
    if anybody {
        endpoint = endpoint.trusting_anybody();
    }
    if let Some(name) = cluster.text("tls-server-name")? {
        endpoint = endpoint.with_server_name(name).map_err(bad("tls-server-name"))?;
    }
    if let Some(proxy) = cluster.text("proxy-url")? {
        endpoint = endpoint.with_proxy(proxy).map_err(bad("proxy-url"))?;
    }
    Ok(endpoint)
}

fn user(user: &At<'_>, cluster: &At<'_>, directory: &Path) -> Result<User, BadKubeconfig> {
    for (field, instead) in [
        ("auth-provider", "use exec"),
        ("as", "a node speaks for itself"),
        ("as-uid", "a node speaks for itself"),
        ("as-groups", "a node speaks for itself"),
        ("as-user-extra", "a node speaks for itself"),
    ] {
        if user.has(field) {
            return Err(BadKubeconfig::Unsupported { at: user.name(field), instead });
        }
    }
    let certificate = pem(user, "client-certificate", "client-certificate-data", directory)?;
    let key = pem(user, "client-key", "client-key-data", directory)?;
    let half = |has, lacks| BadKubeconfig::Half { at: user.path().to_owned(), has, lacks };
    let certificate = match (certificate, key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (Some(_), None) => return Err(half("client-certificate", "client-key")),
        (None, Some(_)) => return Err(half("client-key", "client-certificate")),
    };
    Ok(User { certificate, login: login(user, cluster, directory)? })
}

/// A file goes before a token, as it is the newer of the two; a token before a name, a name before a plugin.
fn login(user: &At<'_>, cluster: &At<'_>, directory: &Path) -> Result<Login, BadKubeconfig> {
    let both = |one, other| BadKubeconfig::Both { at: user.path().to_owned(), one, other };
    let token = user.text("token")?;
    let name = user.text("username")?;
    let login = match (user.text("tokenFile")?, token, name) {
        (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => return Err(both("a token", "username")),
        (Some(file), _, None) => Login::TokenFile(directory.join(file)),
        (None, Some(token), None) => Login::Token(token.to_owned()),
        (None, None, Some(name)) => {
            Login::Basic(name.to_owned(), user.text("password")?.unwrap_or_default().to_owned())
        }
        (None, None, None) => Login::None,
    };
    if !user.has("exec") {
        return Ok(login);
    }
    if !matches!(login, Login::None) {
        return Err(both("exec", "a token or password"));
    }
    Ok(Login::Exec(Box::new(exec(&user.object("exec")?, cluster, directory)?)))
}

fn exec(exec: &At<'_>, cluster: &At<'_>, directory: &Path) -> Result<Exec, BadKubeconfig> {
    let version = exec.text("apiVersion")?.unwrap_or_default();
    if !["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"].contains(&version) {
        let instead = "it must be client.authentication.k8s.io/v1";
        return Err(BadKubeconfig::Unsupported { at: format!("{} {version:?}", exec.name("apiVersion")), instead });
    }
    if exec.text("interactiveMode")? == Some("Always") {
        let instead = "a node has nobody to ask";
        return Err(BadKubeconfig::Unsupported { at: format!("{} Always", exec.name("interactiveMode")), instead });
    }
    let command = exec.text("command")?.unwrap_or_default();
    if command.is_empty() {
        return Err(BadKubeconfig::Half { at: exec.path().to_owned(), has: "apiVersion", lacks: "command" });
    }
    // A bare name is looked for in PATH; with a slash it is a path.
    let command = if command.contains('/') { directory.join(command) } else { PathBuf::from(command) };
    let mut environment = Vec::new();
    for entry in exec.list("env")? {
        let text = |field| Ok::<_, BadField>(entry.text(field)?.unwrap_or_default().to_owned());
        environment.push((text("name")?, text("value")?));
    }
    let cluster = exec.flag("provideClusterInfo")?.then(|| cluster_info(cluster));
    Ok(Exec {
        command,
        arguments: exec.texts("args")?,
        environment,
        api_version: version.to_owned(),
        hint: exec.text("installHint")?.unwrap_or_default().to_owned(),
        cluster,
    })
}

/// What a plugin is told of the cluster.
fn cluster_info(cluster: &At<'_>) -> Value {
    let fields = ["server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url"];
    let known = fields.iter().filter_map(|field| Some(((*field).to_owned(), cluster.value(field)?.clone())));
    Value::Object(known.collect())
}

/// The text in `data`, else the file that `file` names.
fn pem(at: &At<'_>, file: &str, data: &str, directory: &Path) -> Result<Option<Pem>, BadKubeconfig> {
    if let Some(text) = at.value(data).filter(|text| text.as_str() != Some("")) {
        let bytes: ByteString =
            serde_json::from_value(text.clone()).map_err(|_| BadField { at: at.name(data), wants: "base64" })?;
        return Ok(Some(Pem::Text(bytes.0)));
    }
    Ok(at.text(file)?.map(|path| Pem::File(directory.join(path))))
}
