//! projected: config maps, secrets, fields of the pod and tokens of its service account in one directory, in memory
//! (22.2). Every pod of a cluster has one, at `/var/run/secrets/kubernetes.io/serviceaccount`.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection, Volume, VolumeProjection};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::pod::PodExt;
use rubelet_core::resources::Amounts;
use rubelet_core::volume_files::{Files, PayloadFile, Weight, aggregate, default_mode, file, of_pod};
use rubelet_engine::ports::{Objects, ReadyVolume, TokenWish, Tokens, VolumeError, VolumePlugin, VolumeRequest};

use crate::content::{Content, Medium, not_given};
use crate::object::{Kind, ObjectSource};

const NAME: &str = "kubernetes.io/projected";

/// For the pod's own user alone; a group that must read it is let in by the writer (TOK-01).
const PRIVATE: u32 = 0o600;

/// How long a token is good if the spec does not say, in seconds.
const TOKEN_SECONDS: i64 = 3600;

/// The plugin.
#[doc(alias = "projectedPlugin")]
pub struct Projected {
    content: Content,
    objects: Arc<dyn Objects>,
    tokens: Arc<dyn Tokens>,
    allocatable: Amounts,
}

impl Projected {
    /// Volumes in `content`, from `objects` and `tokens`. `allocatable` is what the node offers to pods.
    pub fn new(content: Content, objects: Arc<dyn Objects>, tokens: Arc<dyn Tokens>, allocatable: Amounts) -> Self {
        Self { content, objects, tokens, allocatable }
    }
}

#[async_trait]
impl VolumePlugin for Projected {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serves(&self, volume: &Volume) -> bool {
        volume.projected.is_some()
    }

    fn follows_changes(&self) -> bool {
        true
    }

    async fn set_up(&self, request: &VolumeRequest) -> Result<ReadyVolume, VolumeError> {
        let source = request.volume.projected.clone().unwrap_or_default();
        let mode = default_mode(source.default_mode);
        let (mut files, mut problems, mut renew_at) = (Files::new(), Vec::new(), None);
        let mut weight = Weight::default();
        for one in source.sources.iter().flatten() {
            match self.source(request, one, mode).await {
                // Of two files with one path the later counts.
                Ok((more, renew)) => {
                    more.values().try_for_each(|file| weight.add(file.data.len()))?;
                    files.extend(more);
                    renew_at = [renew_at, renew].into_iter().flatten().min();
                }
                Err(err) => problems.push(err),
            }
        }
        let path = self.content.put(NAME, request, Medium::Memory, all_or(files, problems)).await?;
        Ok(ReadyVolume { path, renew_at })
    }

    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<String>, VolumeError> {
        self.content.volumes_of(NAME, uid).await
    }

    async fn tear_down(&self, uid: &PodUid, volume: &str) -> Result<(), VolumeError> {
        self.content.remove(NAME, uid, volume).await?;
        self.tokens.forget(uid);
        Ok(())
    }
}

impl Projected {
    /// The files of one source. upstream: projected.go collectData (v1.36)
    async fn source(
        &self,
        request: &VolumeRequest,
        source: &VolumeProjection,
        mode: u32,
    ) -> Result<(Files, Option<Timestamp>), VolumeError> {
        let pod = &request.pod;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let files = if let Some(from) = &source.secret {
            let (items, optional) = (from.items.as_deref(), from.optional);
            let object = ObjectSource { kind: Kind::Secret, name: &from.name, items, optional };
            object.files(&*self.objects, namespace, mode).await?
        } else if let Some(from) = &source.config_map {
            let (items, optional) = (from.items.as_deref(), from.optional);
            let object = ObjectSource { kind: Kind::ConfigMap, name: &from.name, items, optional };
            object.files(&*self.objects, namespace, mode).await?
        } else if let Some(from) = &source.downward_api {
            of_pod(pod, from.items.as_deref(), mode, &self.allocatable)?
        } else if let Some(from) = &source.service_account_token {
            return self.token(request, from, mode).await;
        } else if source.cluster_trust_bundle.is_some() {
            return Err(not_yet("clusterTrustBundle"));
        } else if source.pod_certificate.is_some() {
            return Err(not_yet("podCertificate"));
        } else {
            Files::new()
        };
        Ok((files, None))
    }

    async fn token(
        &self,
        request: &VolumeRequest,
        from: &ServiceAccountTokenProjection,
        mode: u32,
    ) -> Result<(Files, Option<Timestamp>), VolumeError> {
        let pod = &request.pod;
        let account = pod.pod_spec().and_then(|spec| spec.service_account_name.clone()).unwrap_or_default();
        let wish = TokenWish {
            service_account: account,
            audiences: from.audience.iter().filter(|audience| !audience.is_empty()).cloned().collect(),
            expiration_seconds: from.expiration_seconds.unwrap_or(TOKEN_SECONDS),
        };
        let token = self.tokens.token(&PodRef::of(pod), &wish).await;
        let token = token.map_err(not_given)?;
        let owner = only_user(pod);
        let mode = if owner.is_some() || request.fs_group.is_some() { PRIVATE } else { mode };
        let file = PayloadFile { owner, ..file(token.token, mode) };
        Ok((Files::from([(from.path.clone(), file)]), Some(token.renew_at)))
    }
}

/// The files, or one error with all problems: `Away` only if each of them is an API server that could not be reached.
fn all_or(files: Files, problems: Vec<VolumeError>) -> Result<Files, VolumeError> {
    if problems.is_empty() {
        return Ok(files);
    }
    let away = problems.iter().all(|problem| matches!(problem, VolumeError::Away(_)));
    let text = aggregate(problems.iter().map(ToString::to_string));
    Err(if away { VolumeError::Away(text) } else { VolumeError::Refused(text) })
}

fn not_yet(source: &str) -> VolumeError {
    VolumeError::Refused(format!("projected volumes with a {source} source are not supported on this node yet"))
}

/// The user that every container of the pod runs as, if each says so and all say the same.
/// upstream: pkg/volume/util/util.go FsUserFrom (v1.36)
#[doc(alias = "FsUserFrom")]
fn only_user(pod: &Pod) -> Option<u32> {
    let spec = pod.pod_spec()?;
    let of_pod = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let contexts = containers.map(|container| container.security_context.as_ref());
    let debug = spec.ephemeral_containers.iter().flatten().map(|container| container.security_context.as_ref());
    let mut users = contexts.chain(debug).map(|own| own.and_then(|own| own.run_as_user).or(of_pod));
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(first).and_then(|user| u32::try_from(user).ok())
}

#[cfg(test)]
mod tests;
