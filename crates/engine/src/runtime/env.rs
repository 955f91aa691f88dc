//! A container's environment: fetches the config maps and secrets that it uses, then lets `core` make it (section 10.1).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Container;
use rubelet_core::env::{EnvSources, EnvView, Fetched, Services, container_env, references};

use super::PodRuntime;
use crate::ports::{ApiError, ClusterPorts};

impl PodRuntime<'_> {
    /// The environment, or the message that the status shows with `CreateContainerConfigError`.
    pub(super) async fn environment(
        &self,
        container: &Container,
        pod_ips: &[IpAddr],
    ) -> Result<Vec<(String, String)>, String> {
        let cluster = self.node.ports.cluster.as_ref();
        let known = cluster.map(|cluster| cluster.view.services());
        let sources = match cluster {
            Some(cluster) => self.fetch(cluster, container).await,
            None => EnvSources::default(),
        };
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
        container_env(self.pod, container, &view).map_err(|err| err.to_string())
    }

    async fn fetch(&self, cluster: &ClusterPorts, container: &Container) -> EnvSources {
        let namespace = &self.job.pod.namespace;
        let wanted = references(container);
        let mut sources = EnvSources { api: true, ..EnvSources::default() };
        for name in wanted.config_maps {
            let fetched = cluster.objects.config_map(namespace, &name).await;
            let fetched = outcome(fetched.map(|map| map.data.clone().unwrap_or_default()));
            sources.config_maps.insert(name, fetched);
        }
        for name in wanted.secrets {
            let fetched = cluster.objects.secret(namespace, &name).await;
            let bytes = fetched.map(|secret| secret.data.clone().unwrap_or_default());
            let fetched = outcome(bytes.map(|data| data.into_iter().map(|(key, value)| (key, value.0)).collect()));
            sources.secrets.insert(name, fetched);
        }
        sources
    }
}

fn outcome<T>(result: Result<T, ApiError>) -> Fetched<T> {
    match result {
        Ok(data) => Fetched::Found(data),
        Err(err) if err.is_not_found() => Fetched::Absent,
        Err(err) => Fetched::Failed(err.to_string()),
    }
}
