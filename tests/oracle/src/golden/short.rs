//! A case in short words: a pod's spec, and what a runtime shows of it as `a exited 1`. Made into questions that both sides read.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rubelet_core::hash::container_hash;
use rubelet_core::observe::PodObservation;
use rubelet_core::plan::ProbeView;
use rubelet_core::pod::PodExt as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::allocation;
use crate::case::observation::{EPOCH, Observation};
use crate::case::probes::Probes;
use crate::function::read;

const SECOND: i64 = 1_000_000_000;
/// The gate without which a whole pod does not restart, and the one that it depends on.
const RULES: &str = "ContainerRestartRules";
const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";

/// One case.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Case {
    /// What the case shows.
    pub name: String,
    /// The pod's spec.
    pub spec: PodSpec,
    /// The pod's annotations.
    pub annotations: BTreeMap<String, String>,
    /// The pod has been deleted.
    pub deleted: bool,
    /// The pod's generation.
    pub generation: Option<i64>,
    /// Newest first.
    pub sandboxes: Vec<Sandbox>,
    /// Newest first: `a running`, `a created`, `a unknown`, `a exited 1 OOMKilled`; then words: `changed` (another
    /// definition), `unmarked` (no hash), `ago=SECS` since it started or ended.
    pub containers: Vec<String>,
    /// Results of liveness probes: `container: success`, `failure` or `unknown`.
    pub liveness: BTreeMap<String, String>,
    /// Results of readiness probes.
    pub readiness: BTreeMap<String, String>,
    /// Results of startup probes.
    pub startup: BTreeMap<String, String>,
    /// Gates that are off.
    pub off: Vec<String>,
    /// The status decided before.
    pub previous: Option<PodStatus>,
    /// The status that the API server shows.
    pub api: Option<PodStatus>,
    /// Why containers could not be started: `container: "Reason: message"`.
    pub failures: BTreeMap<String, String>,
    /// Empty, `terminating`, `terminal` or `finished`.
    pub ending: String,
    /// Addresses of the node.
    pub host_ips: Vec<String>,
    /// The spec whose resources are actuated, if it is not the pod's own.
    pub actuated: Option<PodSpec>,
    /// Which resources are actuated is not known.
    pub actuated_unknown: bool,
    /// The question itself, where the function's own words are short enough; then nothing else is said.
    pub question: Map<String, Value>,
    /// Our answer, where a stated difference changes the whole of it. No other case has it.
    pub ours: Map<String, Value>,
}

/// A sandbox.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Sandbox {
    /// It is ready.
    pub ready: bool,
    /// Its number.
    pub attempt: u32,
    /// Its addresses.
    pub ips: Vec<String>,
    /// It is on the node's network.
    pub host_network: bool,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self { ready: true, attempt: 0, ips: vec!["10.0.0.1".into()], host_network: false }
    }
}

/// Short, for the report of a failed property.
impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let json = |value: serde_json::Result<String>| value.unwrap_or_default();
        writeln!(f, "{{ spec: {}", json(serde_json::to_string(&self.spec)))?;
        writeln!(f, "  deleted: {}, off: {:?}, ending: {:?}", self.deleted, self.off, self.ending)?;
        writeln!(f, "  sandboxes: {:?}", self.sandboxes)?;
        writeln!(f, "  containers: {:?}", self.containers)?;
        writeln!(f, "  liveness: {:?}, readiness: {:?}, startup: {:?}", self.liveness, self.readiness, self.startup)?;
        write!(f, "  previous: {} }}", json(serde_json::to_string(&self.previous)))
    }
}

/// `secs` after the hour in which everything happens.
pub fn at(secs: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanos(secs))).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn nanos(secs: i64) -> i64 {
    EPOCH + secs * SECOND
}

impl Case {
    /// The pod `web`. As the API server would, it sets a restart policy, and an image where none is given.
    pub fn pod(&self) -> Pod {
        let mut spec = self.spec.clone();
        spec.restart_policy.get_or_insert_with(|| "Always".into());
        for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
            container.image.get_or_insert_with(|| "img".into());
        }
        let mut pod = Pod { spec: Some(spec), status: self.api.clone(), ..Pod::default() };
        pod.metadata.name = Some("web".into());
        pod.metadata.namespace = Some("default".into());
        pod.metadata.uid = Some("uid-1".into());
        pod.metadata.annotations = Some(self.annotations.clone());
        pod.metadata.generation = self.generation;
        if self.deleted {
            pod.metadata.deletion_timestamp = Some(Time(at(900)));
        }
        pod
    }

    /// What the runtime shows, as core sees it.
    ///
    /// # Errors
    /// If the words of a container are none.
    pub fn seen(&self, pod: &Pod) -> anyhow::Result<PodObservation> {
        read::<Observation>(&self.observation(pod)?)?.view(pod)
    }

    /// Results of probes, as core sees them.
    ///
    /// # Errors
    /// If a probed container was not seen.
    pub fn probes(&self, seen: &PodObservation) -> anyhow::Result<ProbeView> {
        Ok(read::<Probes>(&self.results(seen)?)?.view())
    }

    /// The question for `computePodActions`.
    ///
    /// # Errors
    /// If a word of the case means nothing.
    pub fn plan_question(&self) -> anyhow::Result<Value> {
        let pod = self.pod();
        let mut question = self.question(&pod)?;
        let actuated = Self { spec: self.actuated.clone().unwrap_or_else(|| self.spec.clone()), ..Self::default() };
        if !self.actuated_unknown {
            question["actuated"] = allocation::settled(&serde_json::to_value(actuated.pod())?);
        }
        Ok(question)
    }

    /// The question for `generateAPIPodStatus`.
    ///
    /// # Errors
    /// If a word of the case means nothing.
    pub fn status_question(&self) -> anyhow::Result<Value> {
        let mut question = self.question(&self.pod())?;
        let failures = self.failures.iter().map(|(name, text)| {
            let (reason, message) = text.split_once(": ").unwrap_or((text, ""));
            (name.clone(), json!({ "reason": reason, "message": message }))
        });
        question["failures"] = failures.collect::<Map<_, _>>().into();
        question["terminal"] = (self.ending == "terminal").into();
        question["hostIPs"] = json!(self.host_ips);
        question["recursiveReadOnly"] = true.into();
        if let Some(previous) = &self.previous {
            question["previous"] = serde_json::to_value(previous)?;
        }
        Ok(question)
    }

    /// The question that the case holds.
    ///
    /// # Errors
    /// If it holds none.
    pub fn own_question(&self) -> anyhow::Result<Value> {
        ensure!(!self.question.is_empty(), "it has no question");
        Ok(self.question.clone().into())
    }

    fn question(&self, pod: &Pod) -> anyhow::Result<Value> {
        let seen = self.seen(pod)?;
        let mut off: Vec<&str> = self.off.iter().map(String::as_str).collect();
        if off.contains(&RULES) {
            off.push(RESTART_ALL);
        }
        let gates: Map<String, Value> = off.into_iter().map(|gate| (gate.to_owned(), false.into())).collect();
        let (observation, probes) = (self.observation(pod)?, self.results(&seen)?);
        Ok(json!({ "pod": pod, "observation": observation, "probes": probes, "gates": gates }))
    }

    fn observation(&self, pod: &Pod) -> anyhow::Result<Value> {
        let id = |sandbox: &Sandbox| format!("sandbox.{}", sandbox.attempt);
        let sandboxes = (0..).zip(&self.sandboxes).map(|(place, sandbox)| {
            json!({
                "id": id(sandbox), "attempt": sandbox.attempt, "ready": sandbox.ready,
                "createdAt": nanos(100 - place), "hostNetwork": sandbox.host_network, "ips": sandbox.ips,
            })
        });
        let newest = self.sandboxes.first().map_or_else(|| "sandbox.0".to_owned(), id);
        let mut containers = Vec::new();
        for (place, text) in self.containers.iter().enumerate() {
            let older = self.containers.iter().skip(place + 1).filter(|other| name_of(other) == name_of(text)).count();
            let mut container = container(pod, text, older).with_context(|| format!("read {text:?}"))?;
            container["sandbox"] = newest.as_str().into();
            container["createdAt"] = (nanos(800) - i64::try_from(place)?).into();
            containers.push(container);
        }
        Ok(json!({ "sandboxes": sandboxes.collect::<Vec<_>>(), "containers": containers }))
    }

    /// By the id of the instance that is probed.
    fn results(&self, seen: &PodObservation) -> anyhow::Result<Value> {
        let mut all = Map::new();
        for (kind, results) in
            [("liveness", &self.liveness), ("readiness", &self.readiness), ("startup", &self.startup)]
        {
            let mut by_id = Map::new();
            for (name, result) in results {
                let id = &seen.current(name).with_context(|| format!("{name} is probed and not there"))?.id;
                by_id.insert(id.as_str().to_owned(), result.as_str().into());
            }
            all.insert(kind.to_owned(), by_id.into());
        }
        Ok(all.into())
    }
}

fn name_of(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// The instance after `older` others of one container.
fn container(pod: &Pod, text: &str, older: usize) -> anyhow::Result<Value> {
    let words: Vec<&str> = text.split(' ').collect();
    let [name, state, rest @ ..] = words.as_slice() else { bail!("it has a name and a state") };
    let ago = rest.iter().find_map(|word| word.strip_prefix("ago=")).map_or(Ok(100), str::parse)?;
    let definition = pod.init().iter().chain(pod.regular()).find(|c| c.name == *name);
    let hash = match definition.map(container_hash) {
        _ if rest.contains(&"unmarked") => String::new(),
        _ if rest.contains(&"changed") => "1".to_owned(),
        Some(hash) => format!("{hash:x}"),
        None => String::new(),
    };
    let mut instance = json!({
        "id": format!("{name}.{older}"), "name": name, "state": state, "image": "img", "imageID": "sha256:img", "hash": hash,
        "restartCount": older,
    });
    match *state {
        "created" | "unknown" => {}
        "running" => instance["startedAt"] = nanos(1_000 - ago).into(),
        "exited" => {
            let code: i32 = rest.first().context("it has an exit code")?.parse()?;
            let given = rest.get(1).filter(|word| word.starts_with(char::is_uppercase));
            instance["exitCode"] = code.into();
            instance["reason"] = given.copied().unwrap_or(if code == 0 { "Completed" } else { "Error" }).into();
            instance["startedAt"] = nanos(900 - ago).into();
            instance["finishedAt"] = nanos(1_000 - ago).into();
        }
        other => bail!("no such state: {other}"),
    }
    Ok(instance)
}
