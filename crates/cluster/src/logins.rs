//! Logins that the node itself has for registries: files as `docker login` writes them, and programs (IMG-06, IMG-07).

mod files;
mod program;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::keyring::{Keyring, Login};
use rubelet_core::providers::{Provider, ProviderError, Reach, read_providers};
use rubelet_core::time::Instant;
use rubelet_engine::chain::Chain;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::NodeLogins;
use tracing::warn;

use crate::metrics::ClusterMetrics;
use crate::program::Programs;
use crate::text::{self, TextError};
pub use files::DockerFiles;
use program::ask;

/// How long what the files say holds.
const FILES_HOLD: Duration = Duration::from_secs(300);
/// How many programs are asked at a time: as many as images are pulled at once, more or less.
const AT_ONCE: usize = 5;

/// The providers cannot be used: the node does not start then.
#[derive(Debug, thiserror::Error)]
pub enum ProvidersError {
    /// A path cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A directory holds no configuration.
    #[error("no .json, .yaml or .yml file in {}", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// A file is neither JSON nor YAML.
    #[error("read {}: {problem}", path.display())]
    Text {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// What a file says cannot be used.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// A program is not there.
    #[error("credential provider {name:?}: there is no program {}", path.display())]
    Program {
        /// The provider.
        name: String,
        /// Where it should be.
        path: PathBuf,
    },
}

/// The node's logins.
#[doc(alias = "nodeKeyring")]
pub struct DiskLogins {
    files: DockerFiles,
    /// Where the programs are.
    dir: PathBuf,
    programs: Programs,
    providers: Vec<Provider>,
    clock: Clock,
    metrics: Arc<ClusterMetrics>,
    kept: Mutex<Kept>,
}

/// What is remembered.
#[derive(Default)]
struct Kept {
    files: Option<(Instant, Keyring)>,
    /// Answers of programs, by program and reach, until when they hold.
    answers: BTreeMap<(String, Reach), (Instant, Keyring)>,
}

impl DiskLogins {
    /// Logins of files alone.
    pub fn new(files: DockerFiles, clock: Clock, metrics: Arc<ClusterMetrics>) -> Self {
        let programs = Programs::new("credential providers", AT_ONCE);
        Self { files, dir: PathBuf::new(), programs, providers: Vec::new(), clock, metrics, kept: Mutex::default() }
    }

    /// And of the programs in `programs` that the file or directory `config` names. Reads the disk: at start-up alone.
    #[doc(alias = "RegisterCredentialProviderPlugins")]
    pub fn with_providers(mut self, config: &Path, programs: &Path) -> Result<Self, ProvidersError> {
        let providers = read_providers(documents(config)?)?;
        for provider in &providers {
            let path = programs.join(&provider.name);
            if !path.is_file() {
                return Err(ProvidersError::Program { name: provider.name.clone(), path });
            }
        }
        programs.clone_into(&mut self.dir);
        self.providers = providers;
        Ok(self)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn of_files(&self) -> Keyring {
        let now = self.clock.mono();
        if let Some((at, keyring)) = &self.kept().files
            && now.since(*at) < FILES_HOLD
        {
            return keyring.clone();
        }
        let keyring = self.files.read().await;
        self.kept().files = Some((now, keyring.clone()));
        keyring
    }

    /// The logins that a program knows for an image of `repository`.
    async fn of_provider(&self, provider: &Provider, repository: &str) -> Keyring {
        let now = self.clock.mono();
        for reach in Reach::of(repository) {
            let key = (provider.name.clone(), reach);
            if let Some((until, keyring)) = self.kept().answers.get(&key)
                && now < *until
            {
                return keyring.clone();
            }
        }
        let answer = ask(provider, (&self.programs, &self.dir), repository).await;
        self.metrics.asked_provider(&provider.name, self.clock.mono().since(now), answer.is_err());
        let answer = match answer {
            Ok(answer) => answer,
            Err(err) => {
                warn!(provider = %provider.name, image = repository, err = %Chain(&err), "A credential provider failed");
                return Keyring::default();
            }
        };
        if !answer.keep.is_zero() {
            let now = self.clock.mono();
            let mut kept = self.kept();
            kept.answers.retain(|_, (until, _)| now < *until);
            kept.answers.insert((provider.name.clone(), answer.reach), (now + answer.keep, answer.logins.clone()));
        }
        answer.logins
    }
}

#[async_trait]
impl NodeLogins for DiskLogins {
    async fn find(&self, repository: &str) -> Vec<Login> {
        let mut logins = self.of_files().await.find(repository);
        for provider in self.providers.iter().filter(|provider| provider.covers(repository)) {
            logins.extend(self.of_provider(provider, repository).await.find(repository));
        }
        logins
    }
}

/// The documents of a configuration: one file, or those of a directory in order of their names.
fn documents(config: &Path) -> Result<Vec<(String, serde_json::Value)>, ProvidersError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| ProvidersError::Read { path, source }
    };
    let mut paths = Vec::new();
    if std::fs::metadata(config).map_err(failed(config))?.is_dir() {
        for entry in std::fs::read_dir(config).map_err(failed(config))? {
            let path = entry.map_err(failed(config))?.path();
            let fits = path.extension().is_some_and(|ext| ext == "json" || ext == "yaml" || ext == "yml");
            if fits && !path.is_dir() {
                paths.push(path);
            }
        }
        paths.sort();
        if paths.is_empty() {
            return Err(ProvidersError::Empty { path: config.to_owned() });
        }
    } else {
        paths.push(config.to_owned());
    }
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).map_err(failed(&path))?;
        let not_text = |err: TextError| ProvidersError::Text { path: path.clone(), problem: err.to_string() };
        Ok((path.display().to_string(), text::parse(&bytes).map_err(not_text)?.value))
    };
    paths.into_iter().map(read).collect()
}
