//! A container's environment (section 10.1).
//!
//! Three layers, each overriding the ones before: variables of services, `envFrom`, `env`. [`references`] lists the config
//! maps, secrets and files that have to be fetched first; they come in as [`EnvSources`].

mod expand;
mod fields;
mod file;
mod service;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, EnvVarSource, FileKeySelector, Pod, Service};

pub use expand::{MAX_EXPANDED, NoRoom, Room, TooLarge, expand};
pub use fields::{field_value, resource_value, sorted_ips};
pub use file::{EnvFileError, env_file_value};

use crate::pod::PodExt;
use crate::resources::Amounts;

/// The inputs of an environment, apart from the pod and the container.
#[derive(Clone, Copy, Debug)]
pub struct EnvView<'a> {
    /// Every service of the cluster.
    pub services: Services<'a>,
    /// Addresses of the node, primary family first.
    pub host_ips: &'a [IpAddr],
    /// Addresses of the pod.
    pub pod_ips: &'a [IpAddr],
    /// The allocatable resources of the node, in place of limits that a container lacks.
    pub allocatable: &'a Amounts,
    /// The fetched objects and files.
    pub sources: &'a EnvSources,
}

/// The services of the cluster.
#[derive(Clone, Copy, Debug)]
pub enum Services<'a> {
    /// There is no API server: no variables.
    Standalone,
    /// Services have not been read yet: a pod from the API has to wait (ENV-03).
    Unread,
    /// All services.
    Known(&'a [Service]),
}

/// Objects and files that an environment refers to. One that is not listed counts as absent.
#[derive(Clone, Debug, Default)]
pub struct EnvSources {
    /// There is an API server to ask.
    pub api: bool,
    /// Data of config maps in the pod's namespace, by name.
    pub config_maps: BTreeMap<String, Fetched<BTreeMap<String, String>>>,
    /// Data of secrets in the pod's namespace, by name.
    pub secrets: BTreeMap<String, Fetched<BTreeMap<String, Vec<u8>>>>,
    /// Files of variables, by volume and path in it. One whose volume is not mounted is not listed. `None` while the gate
    /// `EnvFiles` is off: such variables are empty then.
    pub files: Option<BTreeMap<(String, String), EnvFile>>,
}

/// A file of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvFile {
    /// Where it is on the node.
    pub path: PathBuf,
    /// Its content.
    pub text: Fetched<String>,
}

/// The result of fetching an object or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched<T> {
    /// The object or file.
    Found(T),
    /// It does not exist.
    Absent,
    /// It could not be fetched, with the reason.
    Failed(String),
}

/// Objects and files to fetch before a container's environment can be built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvReferences {
    /// Names of config maps.
    pub config_maps: BTreeSet<String>,
    /// Names of secrets.
    pub secrets: BTreeSet<String>,
    /// Volume and path of files.
    pub files: BTreeSet<(String, String)>,
}

/// Why an environment cannot be built: the message after `CreateContainerConfigError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// ENV-02: the pod was not defaulted.
    #[error("nil pod.spec.enableServiceLinks encountered, cannot construct envvars")]
    NoServiceLinks,
    /// ENV-03.
    #[error("services have not yet been read at least once, cannot construct envvars")]
    ServicesUnread,
    /// There is no API server to ask for an object.
    #[error("couldn't get {kind} {namespace}/{name}, no kubeClient defined")]
    NoApi {
        /// `configMap` or `secret`.
        kind: &'static str,
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
    },
    /// The object does not exist.
    #[error("{kind} {name:?} not found")]
    NotFound {
        /// `configmap` or `secret`.
        kind: &'static str,
        /// Name of the object.
        name: String,
    },
    /// The object could not be fetched.
    #[error("{0}")]
    Fetch(String),
    /// The object has no such key (ENV-05).
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey {
        /// The key.
        key: String,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
    },
    /// A `fieldRef` that cannot be followed.
    #[error("{0}")]
    Field(String),
    /// A `resourceFieldRef` that cannot be followed.
    #[error("{0}")]
    Resource(String),
    /// A file's volume is not mounted.
    #[error("cannot find the volume {0:?} referenced by FileKeyRef")]
    NoFileVolume(String),
    /// A file could not be read or parsed. The reason is in the log only: the content belongs to the container.
    #[error("couldn't parse env file")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// A file has no such key.
    #[error("environment variable key {key:?} not found in file {path:?}")]
    NoFileKey {
        /// The key.
        key: String,
        /// The file.
        path: PathBuf,
    },
    /// The environment is larger than the kernel accepts.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// Objects and files to fetch before the environment of `container` can be built.
pub fn references(container: &Container) -> EnvReferences {
    let mut found = EnvReferences::default();
    for from in container.env_from.iter().flatten() {
        found.config_maps.extend(from.config_map_ref.as_ref().map(|r| r.name.clone()));
        found.secrets.extend(from.secret_ref.as_ref().map(|r| r.name.clone()));
    }
    let sources = container.env.iter().flatten().filter_map(|var| var.value_from.as_ref());
    for source in sources {
        found.config_maps.extend(source.config_map_key_ref.as_ref().map(|r| r.name.clone()));
        found.secrets.extend(source.secret_key_ref.as_ref().map(|r| r.name.clone()));
        found.files.extend(source.file_key_ref.as_ref().map(|r| (r.volume_name.clone(), r.path.clone())));
    }
    found
}

/// The environment of `container`, in order of definition, each name once.
///
/// upstream: kubelet_pods.go makeEnvironmentVariables (v1.36)
#[doc(alias = "makeEnvironmentVariables")]
pub fn container_env(pod: &Pod, container: &Container, view: &EnvView<'_>) -> Result<Vec<(String, String)>, EnvError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let links = pod.pod_spec().and_then(|spec| spec.enable_service_links).ok_or(EnvError::NoServiceLinks)?;
    let services = match view.services {
        Services::Known(services) => service_variables(container, services, namespace, links)?,
        // The API server itself may be a static pod.
        Services::Unread if !pod.is_static() => return Err(EnvError::ServicesUnread),
        Services::Unread | Services::Standalone => Env::default(),
    };
    let full = |NoRoom| TooLarge::of(&container.name);
    let mut env = Env::default();
    env_from(container, namespace, view.sources, &mut env)?;
    for var in container.env.iter().flatten() {
        let text = var.value.as_deref().unwrap_or_default();
        if !text.is_empty() {
            env.expand(&var.name, text, &services).map_err(full)?;
            continue;
        }
        let value = match &var.value_from {
            Some(source) => value_from(pod, container, view, source)?,
            None => Some(String::new()),
        };
        if let Some(value) = value {
            env.set(&var.name, value).map_err(full)?;
        }
    }
    for (name, value) in services.list {
        if env.get(&name).is_none() {
            env.set(&name, value).map_err(full)?;
        }
    }
    Ok(env.list)
}

/// Variables in order of definition; a later value replaces an earlier one. The room of an earlier value is not freed: a
/// list that defines one name again and again must not cost more than its room either.
struct Env {
    list: Vec<(String, String)>,
    /// The index of each name in the list.
    places: BTreeMap<String, usize>,
    room: Room,
}

impl Default for Env {
    fn default() -> Self {
        Self { list: Vec::new(), places: BTreeMap::new(), room: Room::new(MAX_EXPANDED) }
    }
}

impl Env {
    fn get(&self, name: &str) -> Option<&str> {
        self.places.get(name).and_then(|place| self.list.get(*place)).map(|(_, value)| value.as_str())
    }

    /// Sets a variable to a literal value.
    fn set(&mut self, name: &str, value: String) -> Result<(), NoRoom> {
        self.room.take(value.len())?;
        self.put(name, value)
    }

    /// Sets a variable to `text`, expanded with the variables before it, or else with those of services.
    fn expand(&mut self, name: &str, text: &str, services: &Self) -> Result<(), NoRoom> {
        let mut room = self.room;
        let value = expand(text, &mut room, &mut |name| self.get(name).or_else(|| services.get(name)))?;
        self.room = room;
        self.put(name, value)
    }

    fn put(&mut self, name: &str, value: String) -> Result<(), NoRoom> {
        self.room.variable(name)?;
        match self.places.get(name).and_then(|place| self.list.get_mut(*place)) {
            Some((_, old)) => *old = value,
            None => {
                self.places.insert(name.to_owned(), self.list.len());
                self.list.push((name.to_owned(), value));
            }
        }
        Ok(())
    }
}

/// The variables of services. If a namespace has more than a program can be started with, the list is cut short.
fn service_variables(
    container: &Container,
    services: &[Service],
    namespace: &str,
    links: bool,
) -> Result<Env, TooLarge> {
    let mut found = Env::default();
    for (name, value) in service::service_env(services, namespace, links) {
        found.set(&name, value).map_err(|NoRoom| TooLarge::of(&container.name))?;
    }
    Ok(found)
}

fn env_from(container: &Container, namespace: &str, sources: &EnvSources, env: &mut Env) -> Result<(), EnvError> {
    let full = |NoRoom| TooLarge::of(&container.name);
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        if let Some(wanted) = &from.config_map_ref {
            let object = Object { kind: Kind::ConfigMap, namespace, name: &wanted.name };
            let data = object.data(sources.api, &sources.config_maps, wanted.optional)?;
            for (key, value) in data.into_iter().flatten() {
                env.set(&format!("{prefix}{key}"), value.clone()).map_err(full)?;
            }
        } else if let Some(wanted) = &from.secret_ref {
            let object = Object { kind: Kind::Secret, namespace, name: &wanted.name };
            let data = object.data(sources.api, &sources.secrets, wanted.optional)?;
            for (key, value) in data.into_iter().flatten() {
                let value = String::from_utf8_lossy(value).into_owned();
                env.set(&format!("{prefix}{key}"), value).map_err(full)?;
            }
        }
    }
    Ok(())
}

/// The value of a variable with `valueFrom`; `None` if it is optional and absent.
fn value_from(
    pod: &Pod,
    container: &Container,
    view: &EnvView<'_>,
    source: &EnvVarSource,
) -> Result<Option<String>, EnvError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let sources = view.sources;
    if let Some(field) = &source.field_ref {
        field_value(pod, view, field).map(Some)
    } else if let Some(resource) = &source.resource_field_ref {
        resource_value(pod, container, view.allocatable, resource).map(Some)
    } else if let Some(wanted) = &source.config_map_key_ref {
        let object = Object { kind: Kind::ConfigMap, namespace, name: &wanted.name };
        object.key(object.data(sources.api, &sources.config_maps, wanted.optional)?, &wanted.key, wanted.optional)
    } else if let Some(wanted) = &source.secret_key_ref {
        let object = Object { kind: Kind::Secret, namespace, name: &wanted.name };
        let data = object.data(sources.api, &sources.secrets, wanted.optional)?;
        let value = object.key(data, &wanted.key, wanted.optional)?;
        Ok(value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    } else if let Some(wanted) = &source.file_key_ref {
        file_value(sources, wanted)
    } else {
        Ok(Some(String::new()))
    }
}

fn file_value(sources: &EnvSources, wanted: &FileKeySelector) -> Result<Option<String>, EnvError> {
    let Some(files) = &sources.files else { return Ok(Some(String::new())) };
    let place = (wanted.volume_name.clone(), wanted.path.clone());
    let Some(EnvFile { path, text }) = files.get(&place) else { return Err(EnvError::NoFileVolume(place.0)) };
    let failed = |problem: &str| EnvError::File { path: path.clone(), problem: problem.to_owned() };
    // A file that does not exist is an error even where the variable is optional: only its key is.
    let value = match text {
        Fetched::Found(text) => env_file_value(text, &wanted.key).map_err(|err| failed(&err.to_string()))?,
        Fetched::Absent => return Err(failed("it does not exist")),
        Fetched::Failed(why) => return Err(failed(why)),
    };
    match value.filter(|value| !value.is_empty()) {
        Some(value) => Ok(Some(value)),
        None if wanted.optional.unwrap_or_default() => Ok(None),
        None => Err(EnvError::NoFileKey { key: wanted.key.clone(), path: path.clone() }),
    }
}

#[derive(Clone, Copy)]
enum Kind {
    ConfigMap,
    Secret,
}

/// An API object that an environment refers to.
struct Object<'a> {
    kind: Kind,
    namespace: &'a str,
    name: &'a str,
}

impl Object<'_> {
    /// Its data; `None` if it is optional and does not exist.
    fn data<'a, T>(
        &self,
        api: bool,
        objects: &'a BTreeMap<String, Fetched<T>>,
        optional: Option<bool>,
    ) -> Result<Option<&'a T>, EnvError> {
        if !api {
            let kind = match self.kind {
                Kind::ConfigMap => "configMap",
                Kind::Secret => "secret",
            };
            let (namespace, name) = (self.namespace.to_owned(), self.name.to_owned());
            return Err(EnvError::NoApi { kind, namespace, name });
        }
        match objects.get(self.name) {
            Some(Fetched::Found(data)) => Ok(Some(data)),
            Some(Fetched::Failed(why)) => Err(EnvError::Fetch(why.clone())),
            Some(Fetched::Absent) | None if optional.unwrap_or_default() => Ok(None),
            Some(Fetched::Absent) | None => {
                let kind = match self.kind {
                    Kind::ConfigMap => "configmap",
                    Kind::Secret => "secret",
                };
                Err(EnvError::NotFound { kind, name: self.name.to_owned() })
            }
        }
    }

    /// The value of one key; `None` if it is optional and absent.
    fn key<V: Clone>(
        &self,
        data: Option<&BTreeMap<String, V>>,
        key: &str,
        optional: Option<bool>,
    ) -> Result<Option<V>, EnvError> {
        let Some(data) = data else { return Ok(None) };
        match data.get(key) {
            Some(value) => Ok(Some(value.clone())),
            None if optional.unwrap_or_default() => Ok(None),
            None => Err(EnvError::NoKey {
                key: key.to_owned(),
                kind: match self.kind {
                    Kind::ConfigMap => "ConfigMap",
                    Kind::Secret => "Secret",
                },
                namespace: self.namespace.to_owned(),
                name: self.name.to_owned(),
            }),
        }
    }
}
