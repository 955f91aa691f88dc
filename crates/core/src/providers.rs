//! Programs that know logins for registries: how they are configured, asked and understood (IMG-07).
//!
//! upstream: pkg/credentialprovider/plugin/{config,plugin}.go (v1.36)

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::GoDuration;
use crate::keyring::{Keyring, Login, LoginOrigin, covers_image};

/// Versions in which programs are asked.
const VERSIONS: [&str; 3] = [
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
];
/// Versions of the configuration.
const CONFIG_VERSIONS: [&str; 3] =
    ["kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1alpha1", "kubelet.config.k8s.io/v1beta1"];

/// A program that knows logins.
#[doc(alias = "CredentialProvider")]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provider {
    /// Name of the program in `--image-credential-provider-bin-dir`.
    pub name: String,
    /// Patterns of images that it is asked for.
    #[serde(default)]
    pub match_images: Vec<String>,
    /// How long its answers hold if they do not say.
    #[serde(default)]
    pub default_cache_duration: Option<GoDuration>,
    /// Version of request and answer.
    #[serde(default)]
    pub api_version: String,
    /// Arguments.
    #[serde(default)]
    pub args: Option<Vec<String>>,
    /// Environment, besides our own.
    #[serde(default)]
    pub env: Option<Vec<ProviderEnv>>,
    /// Asks for a token of the pod's service account.
    #[serde(default)]
    token_attributes: Option<Value>,
}

/// A variable for the program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderEnv {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    api_version: String,
    kind: String,
    #[serde(default)]
    providers: Vec<Provider>,
}

/// A configuration of providers that cannot be used. Names the file and the provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It is not what was expected.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// One provider is wrong.
    #[error("credential provider {name:?}: {problem}")]
    Provider {
        /// The provider.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// There is none.
    #[error("no credential provider is configured")]
    Empty,
}

/// The providers of all files, in order.
#[doc(alias = "readCredentialProviderConfig")]
pub fn read_providers(files: Vec<(String, Value)>) -> Result<Vec<Provider>, ProviderError> {
    let mut all = Vec::new();
    let mut names = BTreeSet::new();
    for (file, value) in files {
        let refuse = |problem: String| ProviderError::File { file: file.clone(), problem };
        let config: Config = serde_json::from_value(value).map_err(|err| refuse(err.to_string()))?;
        if config.kind != "CredentialProviderConfig" || !CONFIG_VERSIONS.contains(&config.api_version.as_str()) {
            let (kind, version) = (config.kind, config.api_version);
            return Err(refuse(format!("{kind} of {version} is no CredentialProviderConfig of kubelet.config.k8s.io")));
        }
        for provider in config.providers {
            let name = provider.name.clone();
            if let Some(problem) = problem_of(&provider) {
                return Err(ProviderError::Provider { name, problem });
            }
            if !names.insert(name.clone()) {
                return Err(ProviderError::Provider { name, problem: "it is there twice".to_owned() });
            }
            all.push(provider);
        }
    }
    if all.is_empty() { Err(ProviderError::Empty) } else { Ok(all) }
}

#[doc(alias = "validateCredentialProviderConfig")]
fn problem_of(provider: &Provider) -> Option<String> {
    let name = provider.name.as_str();
    let text = |problem: &str| Some(problem.to_owned());
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', ' ']) {
        return text("name: must be the name of a program, without '/' and spaces");
    }
    if !VERSIONS.contains(&provider.api_version.as_str()) {
        return Some(format!("apiVersion: {:?} is none of {}", provider.api_version, VERSIONS.join(", ")));
    }
    if provider.match_images.is_empty() {
        return text("matchImages: at least one is required");
    }
    match provider.default_cache_duration {
        None => return text("defaultCacheDuration: is required"),
        Some(keep) if keep < GoDuration::ZERO => return text("defaultCacheDuration: must not be negative"),
        Some(_) => {}
    }
    if provider.token_attributes.is_some() {
        return text("tokenAttributes: tokens of service accounts are not given to programs yet");
    }
    None
}

/// How far an answer reaches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// For this image alone.
    Image(String),
    /// For every image of this registry.
    Registry(String),
    /// For every image.
    Global,
}

impl Reach {
    /// Under what an answer for an image of `repository` may be known.
    pub fn of(repository: &str) -> [Self; 3] {
        [Self::Image(repository.to_owned()), Self::Registry(registry(repository)), Self::Global]
    }
}

/// What a program answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How far it reaches.
    pub reach: Reach,
    /// How long it holds; zero if it is not to be kept.
    pub keep: Duration,
    /// The logins.
    pub logins: Keyring,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    cache_key_type: String,
    #[serde(default)]
    cache_duration: Option<GoDuration>,
    #[serde(default)]
    auth: Option<BTreeMap<String, Auth>>,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

impl Provider {
    /// It is asked for images of `repository`.
    #[doc(alias = "isImageAllowed")]
    pub fn covers(&self, repository: &str) -> bool {
        self.match_images.iter().any(|pattern| covers_image(pattern, repository))
    }

    /// What it is asked.
    #[doc(alias = "CredentialProviderRequest")]
    pub fn request(&self, repository: &str) -> String {
        let kind = "CredentialProviderRequest";
        json!({ "kind": kind, "apiVersion": self.api_version, "image": repository }).to_string()
    }

    /// Reads the provider's answer. An error does not quote it: it may hold logins.
    #[doc(alias = "CredentialProviderResponse")]
    pub fn answer(&self, repository: &str, text: &[u8]) -> Result<Answer, &'static str> {
        let response: Response = serde_json::from_slice(text).map_err(|_| "the answer cannot be read")?;
        if response.api_version != self.api_version {
            return Err("the answer is of another version than was asked for");
        }
        if response.kind != "CredentialProviderResponse" {
            return Err("the answer is no CredentialProviderResponse");
        }
        let reach = match response.cache_key_type.as_str() {
            "Image" => Reach::Image(repository.to_owned()),
            "Registry" => Reach::Registry(registry(repository)),
            "Global" => Reach::Global,
            _ => return Err("the answer's cacheKeyType is none of Image, Registry, Global"),
        };
        let keep = response.cache_duration.or(self.default_cache_duration);
        let mut logins = Keyring::default();
        for (pattern, Auth { username, password }) in response.auth.unwrap_or_default() {
            logins.add_login(&pattern, Login { username, password, origin: LoginOrigin::Provider(self.name.clone()) });
        }
        Ok(Answer { reach, keep: keep.map(GoDuration::to_std).unwrap_or_default(), logins })
    }
}

/// The registry of an image, with its port.
#[doc(alias = "parseRegistry")]
fn registry(repository: &str) -> String {
    repository.split('/').next().unwrap_or_default().to_owned()
}
