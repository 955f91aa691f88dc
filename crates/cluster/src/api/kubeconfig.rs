//! A kubeconfig: the API server's address and the node's credentials.
//!
//! Relative paths in a kubeconfig are relative to its directory. upstream: client-go tools/clientcmd (v1.36).

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

/// Server and user of a kubeconfig's current context.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    /// The server.
    pub endpoint: Endpoint,
    /// The credentials to use with it.
    pub user: User,
    /// Namespace of the context.
    pub namespace: Option<String>,
}

/// Why a kubeconfig cannot be used. Only errors of [`Kubeconfig::load`] name the file.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The file cannot be read.
    #[error("read kubeconfig {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The content is invalid.
    #[error("kubeconfig {}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is invalid.
        #[source]
        source: BadKubeconfig,
    },
}

/// What is invalid in a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum BadKubeconfig {
    /// The text is neither YAML nor JSON.
    #[error("{0}")]
    Text(String),
    /// A field has the wrong type.
    #[error(transparent)]
    Field(#[from] BadField),
    /// `current-context` is empty.
    #[error("current-context is empty: which of the contexts [{known}] is meant?")]
    NoContext {
        /// The names of the contexts in the file.
        known: String,
    },
    /// A context, cluster or user is referenced but not defined.
    #[error("{list} has none with the name {name:?}; there are [{known}]")]
    Unknown {
        /// `contexts`, `clusters` or `users`.
        list: &'static str,
        /// The name that is referenced.
        name: String,
        /// The names that are defined.
        known: String,
    },
    /// The server's URL or TLS settings are invalid.
    #[error("{at}")]
    Server {
        /// The field.
        at: String,
        /// What is invalid.
        #[source]
        source: BadServer,
    },
    /// One of two fields that belong together is missing.
    #[error("{at} has {has} without {lacks}")]
    Half {
        /// The object that has only one of them.
        at: String,
        /// The field that is set.
        has: &'static str,
        /// The field that is missing.
        lacks: &'static str,
    },
    /// Two fields that exclude each other are both set.
    #[error("{at} has both {one} and {other}")]
    Both {
        /// The object that has both.
        at: String,
        /// The first field.
        one: &'static str,
        /// The second field.
        other: &'static str,
    },
    /// A field that upstream supports and rubelet does not.
    #[error("{at} is not supported: {instead}")]
    Unsupported {
        /// The field.
        at: String,
        /// What to use instead, or why it is not supported.
        instead: &'static str,
    },
}

impl From<TextError> for BadKubeconfig {
    fn from(error: TextError) -> Self {
        Self::Text(error.to_string())
    }
}

impl Kubeconfig {
    /// Reads the file at `path` and resolves its current context.
    ///
    /// # Errors
    /// If the file cannot be read or its current context is not usable.
    pub fn load(path: &Path) -> Result<Self, KubeconfigError> {
        let content = std::fs::read(path).map_err(|source| KubeconfigError::Read { path: path.into(), source })?;
        let directory = path.parent().unwrap_or(Path::new("."));
        Self::parse(&content, directory).map_err(|source| KubeconfigError::Content { path: path.into(), source })
    }

    /// Resolves the current context of `content`; relative paths start at `directory`.
    ///
    /// # Errors
    /// If the current context is not usable.
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

    /// The files that server and user refer to, each with the field that names it. They need not exist: some are made later.
    #[must_use]
    pub fn files(&self) -> Vec<(&'static str, &Path)> {
        let mut files = Vec::new();
        if let Roots::File(path) = &self.endpoint.roots {
            files.push(("certificate-authority", path.as_path()));
        }
        if let Some((certificate, key)) = &self.user.certificate {
            for (field, pem) in [("client-certificate", certificate), ("client-key", key)] {
                if let Pem::File(path) = pem {
                    files.push((field, path.as_path()));
                }
            }
        }
        match &self.user.login {
            Login::TokenFile(path) => files.push(("tokenFile", path.as_path())),
            // A command without a slash is looked up in PATH.
            Login::Exec(exec) if exec.command.components().count() > 1 => {
                files.push(("exec.command", exec.command.as_path()))
            }
            Login::Exec(_) | Login::None | Login::Token(_) | Login::Basic(..) => {}
        }
        files
    }
}

/// The `field` of the entry of `list` with this name. If several have it, the last one counts, as upstream.
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
        endpoint = endpoint.without_verification();
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

/// The order of precedence: `tokenFile`, `token`, user name and password, plugin. As upstream, the file wins over the
/// inline token because the file is renewed.
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
    // As in a shell, a command without a slash is looked up in PATH.
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

/// `spec.cluster` of the ExecCredential that a plugin receives.
fn cluster_info(cluster: &At<'_>) -> Value {
    let fields = ["server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url"];
    let known = fields.iter().filter_map(|field| Some(((*field).to_owned(), cluster.value(field)?.clone())));
    Value::Object(known.collect())
}

/// The inline PEM text of field `data`, or else the file that field `file` names.
fn pem(at: &At<'_>, file: &str, data: &str, directory: &Path) -> Result<Option<Pem>, BadKubeconfig> {
    if let Some(text) = at.value(data).filter(|text| text.as_str() != Some("")) {
        let bytes: ByteString =
            serde_json::from_value(text.clone()).map_err(|_| BadField { at: at.name(data), wants: "base64" })?;
        return Ok(Some(Pem::Text(bytes.0)));
    }
    Ok(at.text(file)?.map(|path| Pem::File(directory.join(path))))
}
