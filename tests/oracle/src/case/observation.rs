//! What a runtime shows of a pod: sandboxes and instances of containers in every state, some of them contradictory.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use rubelet_core::hash::container_hash;
use rubelet_core::id::PodRef;
use rubelet_core::launch::NamespaceMode;
use rubelet_core::observe::{
    ContainerMarks, ContainerObservation, ContainerState, ContainerUser, Exit, ObservedResources, PodObservation,
    SandboxObservation, SandboxState,
};
use rubelet_core::time::Instant;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::pod::{EXIT_CODES, containers};
use crate::rng::Rng;

/// The hour in which everything happens: nanoseconds since 1970.
pub const EPOCH: i64 = 1_767_225_600_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// What a runtime might show of `pod`.
pub fn generate(rng: &mut Rng, pod: &Value, size: usize) -> Value {
    let host = pod["spec"]["hostNetwork"].as_bool().unwrap_or_default();
    let count = rng.weighted(&[(15, 0), (65, 1), (15, 2), (5, 3)]).min(size + 1);
    let sandboxes: Vec<Value> = (0..count).map(|place| sandbox(rng, place, count, host)).collect();
    let mut seen = Vec::new();
    for container in containers(pod) {
        instances(rng, container, count, &mut seen);
    }
    if rng.chance(3) {
        instances(rng, &json!({ "name": "gone", "image": "app:0" }), count, &mut seen);
    }
    // The runtime lists them in any order.
    if rng.chance(30) && !seen.is_empty() {
        let by = rng.below(seen.len());
        seen.rotate_left(by);
    }
    json!({ "sandboxes": sandboxes, "containers": seen })
}

/// A ready sandbox in which every regular container of `pod` runs as defined.
pub fn running(pod: &Value) -> Value {
    let instances = pod["spec"]["containers"].as_array().into_iter().flatten().map(|container| {
        let name = container["name"].as_str().unwrap_or_default();
        json!({
            "id": format!("{name}-0"), "sandbox": "s0", "name": name, "state": "running", "createdAt": EPOCH,
            "startedAt": EPOCH, "image": container["image"], "hash": definition_hash(container), "restartCount": 0,
        })
    });
    let instances: Vec<Value> = instances.collect();
    let sandbox = json!({ "id": "s0", "ready": true, "createdAt": EPOCH, "ips": ["10.0.0.7"] });
    json!({ "sandboxes": [sandbox], "containers": instances })
}

/// Sandbox number `place` of `count`, newest first.
fn sandbox(rng: &mut Rng, place: usize, count: usize, host: bool) -> Value {
    let older = i64::try_from(place).unwrap_or_default();
    let attempt = if rng.chance(5) { rng.below(4) } else { count - 1 - place };
    let ready = if place == 0 { rng.chance(80) } else { rng.chance(10) };
    let other_network = rng.chance(5);
    let ips: &[&str] = if host || rng.chance(8) {
        &[]
    } else if rng.chance(20) {
        &["10.0.0.7", "fd00::7"]
    } else {
        &["10.0.0.7"]
    };
    json!({
        "id": format!("s{}", count - 1 - place), "attempt": attempt, "ready": ready,
        "createdAt": EPOCH + (100 - 10 * older) * SECOND, "hostNetwork": host != other_network, "ips": ips,
    })
}

/// Instances of one container, newest first.
fn instances(rng: &mut Rng, container: &Value, sandboxes: usize, seen: &mut Vec<Value>) {
    let count = rng.weighted(&[(30, 0_usize), (45, 1), (17, 2), (8, 3)]);
    let name = container["name"].as_str().unwrap_or_default();
    for place in 0..count {
        seen.push(instance(rng, container, name, place, count, sandboxes));
    }
}

fn instance(rng: &mut Rng, container: &Value, name: &str, place: usize, count: usize, sandboxes: usize) -> Value {
    let older = i64::try_from(place).unwrap_or_default();
    let state = if place == 0 {
        rng.weighted(&[(10, "created"), (45, "running"), (38, "exited"), (7, "unknown")])
    } else {
        rng.weighted(&[(2, "created"), (2, "running"), (94, "exited"), (2, "unknown")])
    };
    // Two instances may share a moment, and a clock that was set back may turn their order round.
    let created = EPOCH + (200 - 20 * older + if rng.chance(3) { rng.between(-40, 40) } else { 0 }) * SECOND;
    let mut instance = Map::new();
    let mut put = |key: &str, value: Value| instance.insert(key.to_owned(), value);
    put("id", format!("{name}-{}", count - 1 - place).into());
    put("sandbox", format!("s{}", if rng.chance(90) { sandboxes.saturating_sub(1) } else { 0 }).into());
    put("name", name.into());
    put("state", state.into());
    put("createdAt", created.into());
    if state != "created" {
        put("startedAt", if rng.chance(95) { created + SECOND } else { 0 }.into());
    }
    if state == "exited" {
        put("finishedAt", (created + rng.between(1, 15) * SECOND).into());
        put("exitCode", (*rng.pick(&EXIT_CODES)).into());
        put(
            "reason",
            rng.weighted(&[(5, "Completed"), (5, "Error"), (2, "OOMKilled"), (1, "ContainerCannotRun"), (1, "")])
                .into(),
        );
        if rng.chance(20) {
            put("message", "it said so".into());
        }
    }
    put("image", container["image"].clone());
    put("imageID", "sha256:abc".into());
    put("hash", hash(rng, container).into());
    put("restartCount", (count - 1 - place).into());
    Value::Object(instance)
}

/// What a runtime may tell beside: resources in force, and the user of the first process.
pub fn report(rng: &mut Rng, observation: &mut Value) {
    for container in observation["containers"].as_array_mut().into_iter().flatten() {
        if rng.chance(85) {
            container["resources"] = json!({
                "cpuShares": rng.pick(&[0, 2, 3, 102, 1024, 1536]), "cpuPeriod": rng.pick(&[0, 100_000, 100_000]),
                "cpuQuota": rng.pick(&[-1, 0, 1000, 1500, 100_000, 150_000]),
                "memoryLimit": rng.pick(&[0, 67_108_864, 100_000_000, 1_073_741_824]),
            });
        }
        if rng.chance(20) {
            container["user"] = json!({ "uid": rng.below(3), "gid": 1000, "supplementalGroups": [1000, 2000] });
        }
    }
}

/// The hash that its annotation holds: mostly that of its definition.
fn hash(rng: &mut Rng, container: &Value) -> String {
    match rng.weighted(&[(88, 0), (8, 1), (2, 2), (2, 3)]) {
        0 => definition_hash(container),
        1 => "deadbeef".to_owned(),
        2 => "not a number".to_owned(),
        _ => String::new(),
    }
}

fn definition_hash(container: &Value) -> String {
    let field = |key: &str| container[key].as_str().unwrap_or_default().to_owned();
    let definition = Container { name: field("name"), image: Some(field("image")), ..Container::default() };
    format!("{:x}", container_hash(&definition))
}

/// What a case shows.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Observation {
    sandboxes: Vec<Sandbox>,
    /// Instances of containers, in any order.
    pub containers: Vec<Instance>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Sandbox {
    id: String,
    attempt: u32,
    ready: bool,
    created_at: i64,
    host_network: bool,
    ips: Vec<IpAddr>,
}

/// One instance of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Instance {
    id: String,
    sandbox: String,
    name: String,
    state: State,
    created_at: i64,
    started_at: i64,
    finished_at: i64,
    exit_code: i32,
    reason: String,
    message: String,
    image: String,
    #[serde(rename = "imageID")]
    image_id: String,
    hash: String,
    restart_count: u32,
    resources: Option<Resources>,
    user: Option<User>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    #[default]
    Created,
    Running,
    Exited,
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Resources {
    #[serde(rename = "cpuShares")]
    shares: i64,
    #[serde(rename = "cpuQuota")]
    quota: i64,
    #[serde(rename = "cpuPeriod")]
    period: i64,
    #[serde(rename = "memoryLimit")]
    memory: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct User {
    uid: i64,
    gid: i64,
    supplemental_groups: Vec<i64>,
}

impl Observation {
    /// As core sees it: newest first.
    ///
    /// # Errors
    /// If a time is out of range.
    pub fn view(&self, pod: &Pod) -> anyhow::Result<PodObservation> {
        let mut seen = PodObservation::nothing(PodRef::of(pod), Instant::START);
        seen.sandboxes = self.sandboxes.iter().map(Sandbox::view).collect::<anyhow::Result<_>>()?;
        seen.sandboxes.sort_by_key(|s| std::cmp::Reverse(s.created_at));
        seen.containers = self.containers.iter().map(Instance::view).collect::<anyhow::Result<_>>()?;
        seen.containers.sort_by_key(|c| std::cmp::Reverse(c.created_at));
        Ok(seen)
    }
}

fn time(nanos: i64) -> anyhow::Result<Timestamp> {
    Ok(Timestamp::from_nanosecond(nanos.into())?)
}

impl Sandbox {
    fn view(&self) -> anyhow::Result<SandboxObservation> {
        Ok(SandboxObservation {
            id: self.id.as_str().into(),
            attempt: self.attempt,
            state: if self.ready { SandboxState::Ready } else { SandboxState::NotReady },
            created_at: time(self.created_at)?,
            network: if self.host_network { NamespaceMode::Node } else { NamespaceMode::Pod },
            ips: self.ips.clone(),
            runtime_handler: String::new(),
        })
    }
}

impl Instance {
    fn view(&self) -> anyhow::Result<ContainerObservation> {
        let state = match self.state {
            State::Created => ContainerState::Created,
            State::Running => ContainerState::Running { started_at: time(self.started_at)? },
            State::Unknown => ContainerState::Unknown,
            State::Exited => ContainerState::Exited(Exit {
                code: self.exit_code,
                started_at: time(self.started_at)?,
                finished_at: time(self.finished_at)?,
                reason: self.reason.clone(),
                message: self.message.clone(),
            }),
        };
        Ok(ContainerObservation {
            id: self.id.as_str().into(),
            sandbox: self.sandbox.as_str().into(),
            name: self.name.clone(),
            state,
            created_at: time(self.created_at)?,
            image: self.image.clone(),
            image_id: self.image_id.clone(),
            marks: ContainerMarks {
                hash: u64::from_str_radix(&self.hash, 16).ok(),
                restart_count: self.restart_count,
                ..ContainerMarks::default()
            },
            log_path: String::new(),
            resources: self.resources.map(Resources::view),
            user: self.user.as_ref().map(User::view),
        })
    }
}

impl Resources {
    /// A number that the runtime leaves at 0 is one that it does not tell.
    fn view(self) -> ObservedResources {
        let known = |number: i64| Some(number).filter(|number| *number != 0);
        ObservedResources {
            cpu_shares: known(self.shares),
            cpu_quota: known(self.quota),
            cpu_period: known(self.period),
            memory_limit: known(self.memory),
        }
    }
}

impl User {
    fn view(&self) -> ContainerUser {
        ContainerUser { uid: self.uid, gid: self.gid, supplemental_groups: self.supplemental_groups.clone() }
    }
}
