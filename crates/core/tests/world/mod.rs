//! A small world for golden rows and properties: pods and observations from short text, plans as text.
#![allow(dead_code, reason = "each test binary uses its part of it")]

pub(crate) mod any;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rubelet_core::hash::container_hash;
use rubelet_core::id::PodRef;
use rubelet_core::inputs::{NodeInputs, PodInputs};
use rubelet_core::launch::NamespaceMode;
use rubelet_core::observe::{
    ContainerMarks, ContainerObservation, ContainerState, Exit, PodObservation, SandboxObservation, SandboxState,
};
use rubelet_core::plan::{PodPlan, ProbeView, SandboxPlan, Verdict};
use rubelet_core::pod::PodExt;
use rubelet_core::reason::{StartFailure, WaitingReason};
use rubelet_core::resize::{PodAllocation, ResizeContainer, ResizeDecision, ResizeProgress};
use rubelet_core::status::{EndProgress, normalise, pod_status};
use rubelet_core::time::Instant;
use serde::Deserialize;

/// The moment at which rows look at the world.
pub(crate) fn now() -> Timestamp {
    at(1_000)
}

/// `secs` after the hour at which rows begin.
pub(crate) fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + secs).expect("in range")
}

/// One case of a golden file.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Case {
    /// What the case shows.
    pub(crate) name: String,
    /// The pod's spec.
    pub(crate) spec: PodSpec,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) deleted: bool,
    pub(crate) generation: Option<i64>,
    /// Newest first; `ready`, `notready`, each with options.
    pub(crate) sandboxes: Vec<Sandbox>,
    /// `name state …`, newest first.
    pub(crate) containers: Vec<String>,
    /// `container: verdict`.
    pub(crate) liveness: BTreeMap<String, String>,
    pub(crate) readiness: BTreeMap<String, String>,
    pub(crate) startup: BTreeMap<String, String>,
    /// Gates that are off.
    pub(crate) off: Vec<String>,
    /// The status decided before.
    pub(crate) previous: PodStatus,
    /// The status that the API had.
    pub(crate) api: Option<PodStatus>,
    /// `container: "Reason: message"`.
    pub(crate) failures: BTreeMap<String, String>,
    /// `no`, `terminating` or `terminal`.
    pub(crate) ending: String,
    /// Addresses of the node.
    pub(crate) host_ips: Vec<String>,
    /// The status before is what this case decides, from the containers named here.
    pub(crate) before: Vec<String>,
    /// The spec whose resources are actuated.
    pub(crate) actuated: Option<PodSpec>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Sandbox {
    pub(crate) ready: bool,
    pub(crate) attempt: u32,
    pub(crate) ips: Vec<String>,
    pub(crate) host_network: bool,
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

impl Case {
    pub(crate) fn pod(&self) -> Pod {
        let mut pod = pod(self.spec.clone());
        pod.metadata.annotations = Some(self.annotations.clone());
        pod.metadata.generation = self.generation;
        pod.status = self.api.clone();
        if self.deleted {
            pod.metadata.deletion_timestamp = Some(Time(at(900)));
        }
        pod
    }

    /// The actuated resources of the pod.
    pub(crate) fn actuated(&self) -> Option<PodAllocation> {
        self.actuated.clone().map(|spec| PodAllocation::actuated(&pod(spec)))
    }

    pub(crate) fn seen(&self, pod: &Pod) -> PodObservation {
        let mut seen = PodObservation::nothing(PodRef::of(pod), Instant::START);
        for sandbox in &self.sandboxes {
            seen.sandboxes.push(SandboxObservation {
                id: format!("sandbox.{}", sandbox.attempt).into(),
                attempt: sandbox.attempt,
                state: if sandbox.ready { SandboxState::Ready } else { SandboxState::NotReady },
                created_at: at(i64::from(sandbox.attempt)),
                network: if sandbox.host_network { NamespaceMode::Node } else { NamespaceMode::Pod },
                ips: sandbox.ips.iter().map(|ip| ip.parse().expect("an address")).collect(),
                runtime_handler: String::new(),
            });
        }
        for (place, text) in self.containers.iter().enumerate() {
            let older = self.containers.iter().skip(place + 1).filter(|t| name_of(t) == name_of(text));
            let count = u32::try_from(older.count()).expect("few");
            seen.containers.push(container(pod, text, count));
        }
        seen
    }

    pub(crate) fn probes(&self, seen: &PodObservation) -> ProbeView {
        let view = |from: &BTreeMap<String, String>| {
            from.iter()
                .map(|(name, verdict)| {
                    let id = seen.current(name).expect("a probed container exists").id.clone();
                    let verdict = match verdict.as_str() {
                        "success" => Verdict::Success,
                        "failure" => Verdict::Failure,
                        "unknown" => Verdict::Unknown,
                        other => panic!("no such verdict: {other}"),
                    };
                    (id, verdict)
                })
                .collect()
        };
        ProbeView { liveness: view(&self.liveness), readiness: view(&self.readiness), startup: view(&self.startup) }
    }

    /// The status of the case. If it names containers `before`, theirs is decided first and is the previous one.
    pub(crate) fn status(&self) -> PodStatus {
        let pod = self.pod();
        let mut previous = self.previous.clone();
        if !self.before.is_empty() {
            let earlier = Self { containers: self.before.clone(), before: Vec::new(), ..self.clone() };
            let seen = earlier.seen(&pod);
            previous = self.decide(&pod, &previous, &seen, &ProbeView::default(), at(500));
        }
        let seen = self.seen(&pod);
        let probes = self.probes(&seen);
        let status = self.decide(&pod, &previous, &seen, &probes, now());
        if self.ending == "finished" {
            // It is decided once.
            return status;
        }
        // After a restart of all containers, the next status shows once more what was cleared away, and the one after
        // that does not.
        let said = |c: &PodCondition| c.type_ == "AllContainersRestarting" && c.status == "True";
        let restarted = previous.conditions.iter().flatten().any(said);
        let settled = if restarted { self.decide(&pod, &status, &seen, &probes, at(1_500)) } else { status.clone() };
        // Deciding again from one's own answer changes nothing.
        let again = self.decide(&pod, &settled, &seen, &probes, at(2_000));
        let text = |status| serde_saphyr::to_string(status).expect("a status can be written");
        assert!(again == settled, "{}: decided\n{}\nthen\n{}", self.name, text(&settled), text(&again));
        status
    }

    fn decide(
        &self,
        pod: &Pod,
        previous: &PodStatus,
        seen: &PodObservation,
        probes: &ProbeView,
        now: Timestamp,
    ) -> PodStatus {
        let failures: BTreeMap<String, StartFailure> = self
            .failures
            .iter()
            .map(|(name, text)| {
                let (reason, message) = text.split_once(": ").unwrap_or((text, ""));
                (name.clone(), StartFailure { reason: waiting_reason(reason), message: message.to_owned() })
            })
            .collect();
        let host_ips: Vec<_> = self.host_ips.iter().map(|ip| ip.parse().expect("an address")).collect();
        // As after a restart.
        let (decision, progress) = (ResizeDecision::of(previous), ResizeProgress::of(previous));
        let (shared, probes) = (Arc::new(pod.clone()), Arc::new(probes.clone()));
        let inputs = PodInputs {
            failures: &failures,
            resize_pending: decision.pending.as_ref(),
            resize_progress: progress.condition(),
            end: match self.ending.as_str() {
                "" | "terminating" => EndProgress::MayRun,
                "terminal" => EndProgress::Stopped,
                "finished" => EndProgress::Finished,
                other => panic!("no such ending: {other}"),
            },
            ..PodInputs::new(&shared, &probes, self.node(&host_ips))
        };
        let mut status = pod_status(&inputs, seen, previous, now);
        normalise(pod, &mut status);
        status
    }

    pub(crate) fn node<'a>(&self, host_ips: &'a [IpAddr]) -> NodeInputs<'a> {
        NodeInputs { runtime_name: "containerd", host_ips, recursive_read_only: true, gates: self.gates() }
    }

    pub(crate) fn gates(&self) -> rubelet_core::plan::PlanGates {
        rubelet_core::plan::PlanGates {
            container_restart_rules: !self.off.iter().any(|g| g == "ContainerRestartRules"),
            restart_all_containers: !self.off.iter().any(|g| g == "RestartAllContainersOnContainerExits"),
            resize_init_containers: !self.off.iter().any(|g| g == "InPlacePodVerticalScalingInitContainers"),
        }
    }
}

/// The pod `web` with this spec; images that are not given are `img`.
pub(crate) fn pod(mut spec: PodSpec) -> Pod {
    let init = spec.init_containers.iter_mut().flatten();
    for container in spec.containers.iter_mut().chain(init) {
        container.image.get_or_insert_with(|| "img".into());
    }
    let mut pod = Pod { spec: Some(spec), ..Pod::default() };
    pod.metadata.name = Some("web".into());
    pod.metadata.namespace = Some("default".into());
    pod.metadata.uid = Some("uid-1".into());
    pod
}

fn name_of(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

fn waiting_reason(word: &str) -> WaitingReason {
    use WaitingReason::{CrashLoopBackOff, ErrImagePull, ImagePullBackOff, RunContainerError};
    let known = [CrashLoopBackOff, ErrImagePull, ImagePullBackOff, RunContainerError];
    known.into_iter().find(|r| r.as_str() == word).expect("a reason that rows use")
}

/// The phase and the conditions in short: one line each.
pub(crate) fn show_phase(status: &PodStatus) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", status.phase.as_deref().unwrap_or_default());
    if let Some(reason) = &status.reason {
        let _ = writeln!(out, "  {reason}: {}", status.message.as_deref().unwrap_or_default());
    }
    for condition in status.conditions.iter().flatten() {
        let _ = write!(out, "  {}={}", condition.type_, condition.status);
        if let Some(reason) = &condition.reason {
            let _ = write!(out, " {reason}");
        }
        if let Some(message) = &condition.message {
            let _ = write!(out, ": {message}");
        }
        out.push('\n');
    }
    out
}

/// `a running`, `a created`, `a unknown`, `a exited 1 OOMKilled`; then words: `changed`, `unmarked`, `old` (of the
/// sandbox before), `ago=SECS` since it started or ended.
fn container(pod: &Pod, text: &str, count: u32) -> ContainerObservation {
    let mut words = text.split(' ');
    let name = words.next().expect("a name");
    let state = words.next().expect("a state");
    let rest: Vec<&str> = words.collect();
    let ago = rest.iter().find_map(|w| w.strip_prefix("ago=")).map_or(100, |w| w.parse().expect("seconds"));
    let state = match state {
        "created" => ContainerState::Created,
        "running" => ContainerState::Running { started_at: at(1_000 - ago) },
        "unknown" => ContainerState::Unknown,
        "exited" => {
            let code = rest.first().expect("a code").parse().expect("a number");
            let reason = rest.get(1).filter(|w| w.starts_with(char::is_uppercase));
            ContainerState::Exited(Exit {
                code,
                started_at: at(900 - ago),
                finished_at: at(1_000 - ago),
                reason: reason.map_or(if code == 0 { "Completed" } else { "Error" }, |r| r).to_owned(),
                message: String::new(),
            })
        }
        other => panic!("no such state: {other}"),
    };
    let hash = pod.init().iter().chain(pod.regular()).find(|c| c.name == name).map(container_hash);
    let hash = if rest.contains(&"changed") { Some(1) } else { hash };
    ContainerObservation {
        id: format!("{name}.{count}").into(),
        sandbox: "sandbox.0".into(),
        name: name.into(),
        state,
        created_at: at(800 + i64::from(count)),
        image: "img".into(),
        image_id: "sha256:img".into(),
        marks: ContainerMarks {
            hash: hash.filter(|_| !rest.contains(&"unmarked")),
            restart_count: count,
            ..ContainerMarks::default()
        },
        log_path: String::new(),
        resources: None,
        user: None,
    }
}

/// A plan, one step per line, in the order in which it is carried out.
pub(crate) fn show_plan(pod: &Pod, plan: &PodPlan) -> String {
    let mut out = String::new();
    if plan.kill_pod {
        out.push_str("kill pod\n");
    }
    for kill in &plan.kill {
        let _ = writeln!(out, "kill {} ({:?}): {}", kill.id, kill.reason, kill.message);
    }
    for id in &plan.remove {
        let _ = writeln!(out, "remove {id}");
    }
    match &plan.sandbox {
        SandboxPlan::None => {}
        SandboxPlan::Keep(id) => {
            let _ = writeln!(out, "keep {id}");
        }
        SandboxPlan::Create { attempt, replaces } => {
            let _ = writeln!(out, "create sandbox.{attempt}{}", if *replaces { ", replacing one" } else { "" });
        }
    }
    let resize = |out: &mut String, what: &str, list: &[ResizeContainer]| {
        for one in list {
            let lower = one.lower_memory_limit().filter(|_| what == "memory");
            let lower = lower.map(|bytes| format!(", down to {bytes} bytes")).unwrap_or_default();
            let _ = writeln!(out, "resize {what} of {}{lower}", one.id);
        }
    };
    resize(&mut out, "memory", &plan.resize.memory);
    resize(&mut out, "cpu", &plan.resize.cpu);
    if plan.resize.pod {
        out.push_str("resize the pod's cgroup\n");
    }
    for start in &plan.start {
        let _ = writeln!(out, "start {} ({:?})", name_at(pod, *start), start.role);
    }
    out
}

/// The name of the container that `start` means.
pub(crate) fn name_at(pod: &Pod, start: rubelet_core::plan::StartContainer) -> &str {
    use rubelet_core::pod::Role;
    let name = match start.role {
        Role::Init | Role::Sidecar => pod.init().get(start.index).map(|c| &c.name),
        Role::Regular => pod.regular().get(start.index).map(|c| &c.name),
        Role::Ephemeral => pod.ephemeral().get(start.index).map(|c| &c.name),
    };
    name.expect("a plan names containers of the spec")
}
