//! A container's environment: fetches the config maps, secrets and files that it uses, then lets `core` make it (section
//! 10.1).

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::Path;

use k8s_openapi::api::core::v1::Container;
use rubelet_core::env::{
    EnvError, EnvFile, EnvReferences, EnvSources, EnvView, Fetched, Services, container_env, references,
};
use tracing::warn;

use super::PodRuntime;
use crate::chain::Chain;
use crate::ports::{ApiError, ClusterPorts, EnvFileRequest, FileError};

/// The largest file of variables. No program can be started with an environment of that size.
const MAX_ENV_FILE: usize = 1 << 20;
/// All files of one container together: they are in memory until its environment is made.
const MAX_ENV_FILES: usize = 4 << 20;

impl PodRuntime<'_> {
    /// The environment, or the message that the status shows with `CreateContainerConfigError`.
    pub(super) async fn environment(
        &self,
        container: &Container,
        pod_ips: &[IpAddr],
    ) -> Result<Vec<(String, String)>, String> {
        let cluster = self.node.ports.cluster.as_ref();
        let known = cluster.map(|cluster| cluster.view.services());
        let wanted = references(container);
        let mut sources = match cluster {
            Some(cluster) => self.fetch(cluster, &wanted).await,
            None => EnvSources::default(),
        };
        if self.node.settings.launch.gates.env_files {
            sources.files = Some(self.read_files(wanted.files).await);
        }
        let now = self.node.now();
        let view = EnvView {
            services: match &known {
                None => Services::Standalone,
                Some(None) => Services::Unread,
                Some(Some(services)) => Services::Known(services.as_slice()),
            },
            host_ips: &now.ips,
            pod_ips,
            allocatable: &now.allocatable,
            sources: &sources,
        };
        container_env(self.pod, container, &view).map_err(|err| {
            if let EnvError::File { path, problem } = &err {
                warn!(container = container.name, file = %path.display(), err = problem, "Cannot read a file of variables");
            }
            err.to_string()
        })
    }

    async fn fetch(&self, cluster: &ClusterPorts, wanted: &EnvReferences) -> EnvSources {
        let namespace = &self.job.pod.namespace;
        let mut sources = EnvSources { api: true, ..EnvSources::default() };
        for name in &wanted.config_maps {
            let fetched = cluster.objects.config_map(namespace, name).await;
            let fetched = outcome(fetched.map(|map| map.data.clone().unwrap_or_default()));
            sources.config_maps.insert(name.clone(), fetched);
        }
        for name in &wanted.secrets {
            let fetched = cluster.objects.secret(namespace, name).await;
            let bytes = fetched.map(|secret| secret.data.clone().unwrap_or_default());
            let fetched = outcome(bytes.map(|data| data.into_iter().map(|(key, value)| (key, value.0)).collect()));
            sources.secrets.insert(name.clone(), fetched);
        }
        sources
    }

    /// Reads the files whose volume is mounted.
    async fn read_files(&self, wanted: BTreeSet<(String, String)>) -> BTreeMap<(String, String), EnvFile> {
        let mut files = BTreeMap::new();
        let mut room = MAX_ENV_FILES;
        for (volume, path) in wanted {
            let Some(volume_path) = self.volumes.get(&volume) else { continue };
            let inside = Path::new(&path).components().collect();
            let request =
                EnvFileRequest { uid: self.job.pod.uid.clone(), volume_path: volume_path.clone(), path: inside };
            let text = match self.node.ports.env_files.read(&request, MAX_ENV_FILE.min(room)).await {
                Ok(bytes) => {
                    room = room.saturating_sub(bytes.len());
                    Fetched::Found(String::from_utf8_lossy(&bytes).into_owned())
                }
                Err(FileError { source, .. }) if source.kind() == ErrorKind::NotFound => Fetched::Absent,
                Err(err) => Fetched::Failed(Chain(&err).to_string()),
            };
            files.insert((volume, path), EnvFile { path: volume_path.join(&request.path), text });
        }
        files
    }
}

fn outcome<T>(result: Result<T, ApiError>) -> Fetched<T> {
    match result {
        Ok(data) => Fetched::Found(data),
        Err(err) if err.is_not_found() => Fetched::Absent,
        Err(err) => Fetched::Failed(err.to_string()),
    }
}
