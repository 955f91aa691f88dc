//! Cases of the golden files and of properties, and what core decides of them.
#![allow(dead_code, reason = "each test binary uses its part of it")]

pub(crate) mod any;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use rubelet_core::inputs::{NodeInputs, PodInputs};
use rubelet_core::observe::PodObservation;
use rubelet_core::plan::{PlanGates, ProbeView};
use rubelet_core::pod::PodExt;
use rubelet_core::reason::{StartFailure, WaitingReason};
use rubelet_core::resize::{ResizeDecision, ResizeProgress};
use rubelet_core::status::{EndProgress, normalise, pod_status};
pub(crate) use rubelet_oracle::golden::{Case, Sandbox, at};

/// What core sees and decides of a case.
pub(crate) trait World {
    /// What the runtime shows.
    fn look(&self, pod: &Pod) -> PodObservation;
    /// Results of probes.
    fn verdicts(&self, seen: &PodObservation) -> ProbeView;
    /// The node.
    fn node<'a>(&self, host_ips: &'a [IpAddr]) -> NodeInputs<'a>;
    /// The status, which is decided again from itself: that changes nothing.
    fn status(&self) -> PodStatus;
}

impl World for Case {
    fn look(&self, pod: &Pod) -> PodObservation {
        self.seen(pod).expect("the case can be read")
    }

    fn verdicts(&self, seen: &PodObservation) -> ProbeView {
        self.probes(seen).expect("a probed container exists")
    }

    fn node<'a>(&self, host_ips: &'a [IpAddr]) -> NodeInputs<'a> {
        let on = |gate: &str| !self.off.iter().any(|off| off == gate);
        let gates = PlanGates {
            container_restart_rules: on("ContainerRestartRules"),
            restart_all_containers: on("RestartAllContainersOnContainerExits"),
            resize_init_containers: on("InPlacePodVerticalScalingInitContainers"),
        };
        NodeInputs { runtime_name: "containerd", host_ips, recursive_read_only: true, gates }
    }

    fn status(&self) -> PodStatus {
        let pod = self.pod();
        let previous = self.previous.clone().unwrap_or_default();
        let seen = self.look(&pod);
        let probes = self.verdicts(&seen);
        let status = decide(self, &pod, &previous, &seen, &probes, at(1_000));
        if self.ending == "finished" {
            // It is decided once.
            return status;
        }
        // After a restart of all containers, the next status shows once more what was cleared away, and the one after
        // that does not.
        let said = |c: &PodCondition| c.type_ == "AllContainersRestarting" && c.status == "True";
        let restarted = previous.conditions.iter().flatten().any(said);
        let settled = if restarted { decide(self, &pod, &status, &seen, &probes, at(1_500)) } else { status.clone() };
        let again = decide(self, &pod, &settled, &seen, &probes, at(2_000));
        let text = |status| serde_saphyr::to_string(status).expect("a status can be written");
        assert!(again == settled, "{}: decided\n{}\nthen\n{}", self.name, text(&settled), text(&again));
        status
    }
}

fn decide(
    case: &Case,
    pod: &Pod,
    previous: &PodStatus,
    seen: &PodObservation,
    probes: &ProbeView,
    now: Timestamp,
) -> PodStatus {
    let failures: BTreeMap<String, StartFailure> = case
        .failures
        .iter()
        .map(|(name, text)| {
            let (reason, message) = text.split_once(": ").unwrap_or((text, ""));
            let reason = WaitingReason::ALL.iter().copied().find(|r| r.as_str() == reason).expect("a reason");
            (name.clone(), StartFailure { reason, message: message.to_owned() })
        })
        .collect();
    let host_ips: Vec<_> = case.host_ips.iter().map(|ip| ip.parse().expect("an address")).collect();
    // As after a restart.
    let (decision, progress) = (ResizeDecision::of(previous), ResizeProgress::of(previous));
    let (shared, probes) = (Arc::new(pod.clone()), Arc::new(probes.clone()));
    let inputs = PodInputs {
        failures: &failures,
        resize_pending: decision.pending.as_ref(),
        resize_progress: progress.condition(),
        end: match case.ending.as_str() {
            "" | "terminating" => EndProgress::MayRun,
            "terminal" => EndProgress::Stopped,
            "finished" => EndProgress::Finished,
            other => panic!("no such ending: {other}"),
        },
        ..PodInputs::new(&shared, &probes, case.node(&host_ips))
    };
    let mut status = pod_status(&inputs, seen, previous, now);
    normalise(pod, &mut status);
    status
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
