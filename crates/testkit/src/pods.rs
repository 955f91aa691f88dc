//! Pods for tests: `pod("web").container("app").image("web:1").build()`.
//!
//! The result is a valid pod with the API's defaults filled in, so that a test states only the relevant fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, HTTPGetAction, HostPathVolumeSource, Pod, PodSecurityContext, PodSpec, PodStatus,
    Probe, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rubelet_core::pod::{HASH_ANNOTATION, MIRROR_ANNOTATION, RestartPolicy, SOURCE_ANNOTATION, Source};

/// Image of a container for which a test names none.
pub const DEFAULT_IMAGE: &str = "test/app:1";

/// A pod called `name` in namespace `default` with UID `<name>-uid`, and one container `app` unless others are added.
pub fn pod(name: &str) -> PodBuilder {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        namespace: Some("default".into()),
        uid: Some(format!("{name}-uid")),
        ..ObjectMeta::default()
    };
    let spec = PodSpec {
        dns_policy: Some("ClusterFirst".into()),
        enable_service_links: Some(true),
        node_name: Some("node".into()),
        restart_policy: Some("Always".into()),
        scheduler_name: Some("default-scheduler".into()),
        security_context: Some(PodSecurityContext::default()),
        termination_grace_period_seconds: Some(30),
        ..PodSpec::default()
    };
    let status = PodStatus { phase: Some("Pending".into()), ..PodStatus::default() };
    PodBuilder { metadata, spec, status, latest: Latest::None }
}

/// A pod in the making. Container settings go to the container that was added last.
#[derive(Clone, Debug)]
pub struct PodBuilder {
    metadata: ObjectMeta,
    spec: PodSpec,
    status: PodStatus,
    latest: Latest,
}

/// Which list the last container was added to.
#[derive(Clone, Copy, Debug)]
enum Latest {
    None,
    Regular,
    Init,
}

impl PodBuilder {
    /// Sets the UID.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.metadata.uid = Some(uid.into());
        self
    }

    /// Sets the namespace.
    #[must_use]
    pub fn ns(mut self, namespace: &str) -> Self {
        self.metadata.namespace = Some(namespace.into());
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.metadata.labels.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    /// Adds a regular container.
    #[must_use]
    pub fn container(mut self, name: &str) -> Self {
        self.spec.containers.push(container(name));
        self.latest = Latest::Regular;
        self
    }

    /// Adds an init container.
    #[must_use]
    pub fn init(mut self, name: &str) -> Self {
        self.spec.init_containers.get_or_insert_default().push(container(name));
        self.latest = Latest::Init;
        self
    }

    /// Adds a restartable init container.
    #[must_use]
    pub fn sidecar(self, name: &str) -> Self {
        self.init(name).edit_container(|c| c.restart_policy = Some("Always".into()))
    }

    /// Sets the image of the last container.
    #[must_use]
    pub fn image(self, image: &str) -> Self {
        self.edit_container(|c| c.image = Some(image.into()))
    }

    /// Sets the pull policy of the last container.
    #[must_use]
    pub fn pull(self, policy: &str) -> Self {
        self.edit_container(|c| c.image_pull_policy = Some(policy.into()))
    }

    /// Sets the command of the last container.
    #[must_use]
    pub fn command<const N: usize>(self, words: [&str; N]) -> Self {
        self.edit_container(|c| c.command = Some(words.map(String::from).to_vec()))
    }

    /// Adds an environment variable to the last container.
    #[must_use]
    pub fn env(self, name: &str, value: &str) -> Self {
        self.edit_container(|c| {
            c.env.get_or_insert_default().push(k8s_openapi::api::core::v1::EnvVar {
                name: name.into(),
                value: Some(value.into()),
                value_from: None,
            });
        })
    }

    /// Sets a resource request of the last container, such as `("cpu", "100m")`.
    #[must_use]
    pub fn request(self, resource: &str, quantity: &str) -> Self {
        self.edit_container(|c| {
            let all = c.resources.get_or_insert_default().requests.get_or_insert_default();
            all.insert(resource.into(), k8s_openapi::apimachinery::pkg::api::resource::Quantity(quantity.into()));
        })
    }

    /// Sets a resource limit of the last container.
    #[must_use]
    pub fn limit(self, resource: &str, quantity: &str) -> Self {
        self.edit_container(|c| {
            let all = c.resources.get_or_insert_default().limits.get_or_insert_default();
            all.insert(resource.into(), k8s_openapi::apimachinery::pkg::api::resource::Quantity(quantity.into()));
        })
    }

    /// Gives the last container a probe that GETs `/` on `port` every `period` seconds; the kind is chosen by `place`.
    #[must_use]
    pub fn http_probe(
        self,
        place: impl FnOnce(&mut Container) -> &mut Option<Probe>,
        port: u16,
        period: i32,
        edit: impl FnOnce(&mut Probe),
    ) -> Self {
        let get = HTTPGetAction {
            path: Some("/".into()),
            port: IntOrString::Int(port.into()),
            scheme: Some("HTTP".into()),
            ..HTTPGetAction::default()
        };
        self.probe(place, period, |probe| {
            probe.http_get = Some(get);
            edit(probe);
        })
    }

    /// Gives the last container a probe with the API's defaults but for `period`.
    #[must_use]
    pub fn probe(
        self,
        place: impl FnOnce(&mut Container) -> &mut Option<Probe>,
        period: i32,
        edit: impl FnOnce(&mut Probe),
    ) -> Self {
        let mut probe = Probe {
            period_seconds: Some(period),
            timeout_seconds: Some(1),
            success_threshold: Some(1),
            failure_threshold: Some(3),
            ..Probe::default()
        };
        edit(&mut probe);
        self.edit_container(|c| *place(c) = Some(probe))
    }

    /// Sets the pod's restart policy.
    #[must_use]
    pub fn restart(mut self, policy: RestartPolicy) -> Self {
        let word = match policy {
            RestartPolicy::Always => "Always",
            RestartPolicy::OnFailure => "OnFailure",
            RestartPolicy::Never => "Never",
        };
        self.spec.restart_policy = Some(word.into());
        self
    }

    /// Sets the termination grace period.
    #[must_use]
    pub fn grace_secs(mut self, secs: i64) -> Self {
        self.spec.termination_grace_period_seconds = Some(secs);
        self
    }

    /// Sets the active deadline.
    #[must_use]
    pub fn active_deadline_secs(mut self, secs: i64) -> Self {
        self.spec.active_deadline_seconds = Some(secs);
        self
    }

    /// Puts it on the node's network.
    #[must_use]
    pub fn host_network(mut self) -> Self {
        self.spec.host_network = Some(true);
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.spec.priority = Some(priority);
        self
    }

    /// Sets when the API server made it, in seconds since the epoch.
    #[must_use]
    pub fn created_secs(mut self, secs: i64) -> Self {
        self.metadata.creation_timestamp = Some(time(secs));
        self
    }

    /// Makes it a static pod of `source`, marked as `DesiredPods` and the manifest reader would.
    #[must_use]
    pub fn static_from(self, source: Source) -> Self {
        let hash = self.metadata.uid.clone().unwrap_or_default();
        self.annotation(SOURCE_ANNOTATION, source.as_str()).annotation(HASH_ANNOTATION, &hash)
    }

    /// Makes it the mirror pod of the static pod whose hash is `hash`.
    #[must_use]
    pub fn mirror_of(self, hash: &str) -> Self {
        self.annotation(SOURCE_ANNOTATION, Source::Api.as_str()).annotation(MIRROR_ANNOTATION, hash)
    }

    /// Marks it as deleted through the API, with this grace period.
    #[must_use]
    pub fn deleted(mut self, at_secs: i64, grace_secs: i64) -> Self {
        self.metadata.deletion_timestamp = Some(time(at_secs));
        self.metadata.deletion_grace_period_seconds = Some(grace_secs);
        self
    }

    /// Sets the phase in the API's status.
    #[must_use]
    pub fn phase(mut self, phase: &str) -> Self {
        self.status.phase = Some(phase.into());
        self
    }

    /// Adds an emptyDir volume, mounted at `path` in the last container.
    #[must_use]
    pub fn empty_dir(self, name: &str, path: &str) -> Self {
        let volume =
            Volume { name: name.into(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() };
        self.volume(volume).mount(name, path)
    }

    /// Adds a hostPath volume, mounted at `path` in the last container.
    #[must_use]
    pub fn host_path(self, name: &str, host: &str, path: &str) -> Self {
        let source = HostPathVolumeSource { path: host.into(), type_: None };
        let volume = Volume { name: name.into(), host_path: Some(source), ..Volume::default() };
        self.volume(volume).mount(name, path)
    }

    /// Adds a volume.
    #[must_use]
    pub fn volume(mut self, volume: Volume) -> Self {
        self.spec.volumes.get_or_insert_default().push(volume);
        self
    }

    /// Mounts the volume `name` at `path` in the last container.
    #[must_use]
    pub fn mount(self, name: &str, path: &str) -> Self {
        let mount = VolumeMount { name: name.into(), mount_path: path.into(), ..VolumeMount::default() };
        self.edit_container(|c| c.volume_mounts.get_or_insert_default().push(mount))
    }

    /// Changes anything of the last container.
    #[must_use]
    pub fn edit_container(mut self, edit: impl FnOnce(&mut Container)) -> Self {
        if matches!(self.latest, Latest::None) {
            self = self.container("app");
        }
        let list = match self.latest {
            Latest::Init => self.spec.init_containers.get_or_insert_default(),
            Latest::Regular | Latest::None => &mut self.spec.containers,
        };
        edit(list.last_mut().expect("a container was just added to this list"));
        self
    }

    /// Changes anything of the spec.
    #[must_use]
    pub fn edit_spec(mut self, edit: impl FnOnce(&mut PodSpec)) -> Self {
        edit(&mut self.spec);
        self
    }

    /// The pod.
    pub fn build(mut self) -> Arc<Pod> {
        if self.spec.containers.is_empty() {
            self.spec.containers.push(container("app"));
        }
        Arc::new(Pod { metadata: self.metadata, spec: Some(self.spec), status: Some(self.status) })
    }
}

fn container(name: &str) -> Container {
    Container {
        name: name.into(),
        image: Some(DEFAULT_IMAGE.into()),
        image_pull_policy: Some("IfNotPresent".into()),
        termination_message_path: Some("/dev/termination-log".into()),
        termination_message_policy: Some("File".into()),
        ..Container::default()
    }
}

fn time(secs: i64) -> Time {
    Time(Timestamp::from_second(secs).expect("seconds of a test are within jiff's range"))
}

/// `BTreeMap` from pairs of string literals, for labels in tables.
pub fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(k, v)| (k.into(), v.into())).into()
}
