//! Carries out a pod's plan on the container runtime, step by step, and reports every step. Decides nothing.

mod credentials;
mod env;
pub(crate) mod handler;
mod image;
mod kill;
mod resize;
mod sandbox;
mod start;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::SandboxId;
use rubelet_core::launch::SandboxConfig;
use rubelet_core::lifecycle::{Grace, Retry, Subject};
use rubelet_core::observe::PodObservation;
use rubelet_core::plan::{PodPlan, SandboxPlan, StartContainer};
use rubelet_core::pod::Role;
use rubelet_core::reason::StartFailure;

pub(crate) use kill::{OnFailure, force_kill_pod, kill_pod, remove_sandbox};

use crate::job::{JobContext, PodMemory};
use crate::node::Node;
use crate::ports::EventKind;
use crate::slots::{Queue, StartSlot};

/// Carries out plans for one pod.
#[doc(alias = "kubeGenericRuntimeManager")]
pub(crate) struct PodRuntime<'a> {
    pub(crate) node: &'a Node,
    pub(crate) pod: &'a Arc<Pod>,
    pub(crate) job: &'a JobContext,
    /// The path of each volume.
    pub(crate) volumes: &'a BTreeMap<String, PathBuf>,
}

/// The result of carrying out a plan.
#[derive(Debug, Default)]
pub(crate) struct SyncReport {
    /// The runtime was asked to change something: look again.
    pub(crate) acted: bool,
    /// Why containers could not be started, by name.
    pub(crate) failures: BTreeMap<String, StartFailure>,
    /// Why a resize could not be actuated.
    pub(crate) resize_problem: Option<String>,
    /// Why the plan could not be carried out whole, if it could not.
    pub(crate) problem: Option<String>,
    /// When to try again.
    pub(crate) retry: Retry,
    /// When the first back-off of a container ends.
    pub(crate) again_in: Option<Duration>,
}

/// A container that was not started.
pub(crate) struct NotStarted {
    pub(crate) failure: StartFailure,
    pub(crate) retry: Retry,
}

/// The sandbox that containers are started in.
pub(crate) struct LiveSandbox {
    pub(crate) id: SandboxId,
    pub(crate) config: SandboxConfig,
    pub(crate) ips: Vec<std::net::IpAddr>,
}

impl PodRuntime<'_> {
    /// Carries out `plan`, in the order of its fields (RT-01 … RT-09).
    pub(crate) async fn carry_out(
        &self,
        plan: &PodPlan,
        seen: &Arc<PodObservation>,
        memory: &mut PodMemory,
    ) -> SyncReport {
        // Containers that this plan does not start keep the start failure that they have.
        let mut report = SyncReport { failures: kept_failures(plan, self.pod, memory), ..SyncReport::default() };
        if let Err(problem) = self.stop_planned(plan, seen, &mut report).await {
            report.fail(problem, Retry::Later);
            return report;
        }
        // Stops need no slot. Starts do: only so many pods start at a time.
        let mut slot = self.node.starts.claim(match &plan.sandbox {
            SandboxPlan::Create { replaces: false, .. } => Queue::New,
            SandboxPlan::Create { .. } | SandboxPlan::Keep(_) | SandboxPlan::None => Queue::UnderWay,
        });
        let sandbox = match &plan.sandbox {
            SandboxPlan::None => return report,
            SandboxPlan::Keep(id) => self.kept_sandbox(id, seen),
            SandboxPlan::Create { attempt, replaces } => {
                report.acted = true;
                let made = self.new_sandbox(*attempt, *replaces, memory, &mut slot).await;
                self.node.metrics.pod_started(made.is_ok());
                if self.pod.spec.as_ref().is_some_and(|spec| spec.host_users == Some(false)) {
                    self.node.metrics.user_namespace(made.is_ok());
                }
                if made.is_ok() {
                    // The status shows the pod's addresses before images are pulled, which may take long (RT-05).
                    let _stopping = self.job.publish(memory).await;
                }
                made
            }
        };
        match sandbox {
            Ok(sandbox) => {
                report.acted |= !plan.resize.is_empty();
                let resized = self.resize(&plan.resize, &sandbox.id, memory).await;
                self.start_all(&plan.start, &sandbox, memory, &mut slot, &mut report).await;
                if let Err(problem) = resized {
                    report.resize_problem = Some(problem.clone());
                    report.fail(problem, Retry::Later);
                }
            }
            Err((problem, retry)) => report.fail(problem, retry),
        }
        report
    }

    /// Steps 2 and 3: stops and removes the containers that the plan names, or stops the whole pod.
    async fn stop_planned(&self, plan: &PodPlan, seen: &PodObservation, report: &mut SyncReport) -> Result<(), String> {
        if plan.kill_pod {
            report.acted = true;
            if matches!(plan.sandbox, SandboxPlan::Create { replaces: true, .. }) {
                let message = "Pod sandbox changed, it will be killed and re-created.";
                self.job.emit(self.pod, None, EventKind::Normal, "SandboxChanged", message).await;
            }
            let subject = Subject::Pod(Arc::clone(self.pod));
            let grace = Grace::secs(self.pod_grace());
            let problems = kill_pod(self.node, &subject, seen, grace, OnFailure::StopSandboxes, self.job).await;
            if !problems.is_empty() {
                return Err(problems.join("; "));
            }
        }
        for victim in &plan.kill {
            report.acted = true;
            kill::kill_one(self, victim, seen).await?;
        }
        for id in &plan.remove {
            report.acted = true;
            self.node.ports.runtime.remove_container(id).await.map_err(|err| err.to_string())?;
        }
        Ok(())
    }

    fn pod_grace(&self) -> i64 {
        self.pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds).unwrap_or(30)
    }

    /// Steps 7 to 9: starts containers. One that cannot be started does not hold back the others, except that init
    /// containers start in order (RT-08, RT-09).
    async fn start_all(
        &self,
        starts: &[StartContainer],
        sandbox: &LiveSandbox,
        memory: &mut PodMemory,
        slot: &mut StartSlot<'_>,
        report: &mut SyncReport,
    ) {
        let secrets = if starts.is_empty() { Vec::new() } else { self.pull_secrets().await };
        for start in starts {
            let Some(name) = container_name(self.pod, start) else { continue };
            let started = self.start(start, sandbox, &secrets, memory, slot).await;
            let failure = started.as_ref().err().map(|not| not.failure.reason);
            self.node.metrics.container_started(start.role, failure);
            match started {
                Ok(()) => {
                    report.acted = true;
                    report.failures.remove(&name);
                }
                Err(NotStarted { failure, retry }) => {
                    report.note_failure(&name, failure, retry);
                    if start.role == Role::Init {
                        return;
                    }
                }
            }
        }
    }

    /// Publishes the containers that were started, so that their status is written and their probes begin before an image
    /// is pulled, which may take long. This is not done before a postStart hook: until the hook has ended, its container
    /// does not count as running (HOOK-02).
    pub(crate) async fn show_started(&self, memory: &mut PodMemory) {
        // If this look fails, the look at the end of the job makes up for it.
        if self.job.look(memory).await.is_ok() {
            let _stopping = self.job.publish(memory).await;
        }
    }
}

impl SyncReport {
    pub(crate) fn fail(&mut self, problem: impl Into<String>, retry: Retry) {
        self.problem = Some(problem.into());
        self.retry = retry;
    }

    /// A back-off is not a failure of the job: the job waits for its end. Other failures are retried after the usual pause.
    fn note_failure(&mut self, name: &str, failure: StartFailure, retry: Retry) {
        match retry {
            Retry::In(wait) => {
                self.again_in = Some(self.again_in.map_or(wait, |other| other.min(wait)));
            }
            Retry::Soon | Retry::Later => {
                self.acted = true;
                self.fail(
                    format!("failed to start container \"{name}\": {}: {}", failure.reason, failure.message),
                    retry,
                );
            }
        }
        self.failures.insert(name.to_owned(), failure);
    }
}

/// Name of the container that is to be started.
pub(crate) fn container_name(pod: &Pod, start: &StartContainer) -> Option<String> {
    rubelet_core::launch::container_of(pod, start).map(|c| c.name.clone())
}

/// The start failures of containers that this plan does not start.
fn kept_failures(plan: &PodPlan, pod: &Pod, memory: &PodMemory) -> BTreeMap<String, StartFailure> {
    let mut kept = memory.failures.clone();
    for start in &plan.start {
        if let Some(name) = container_name(pod, start) {
            kept.remove(&name);
        }
    }
    kept
}
