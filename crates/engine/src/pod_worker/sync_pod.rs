//! The sync job: makes a pod as its spec says. It looks, decides, acts, and looks again (section 6.1). Every step can be
//! repeated: a job may be dropped anywhere, because the next one begins with a look.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::gc::{PodFate, prune_dead};
use rubelet_core::inputs::{PodInputs, Rest};
use rubelet_core::lifecycle::{JobEnd, Retry};
use rubelet_core::observe::PodObservation;
use rubelet_core::plan::{PodPlan, SandboxPlan, StartContainer, plan_pod};
use rubelet_core::pod::PodExt;
use rubelet_core::resize::{PodAllocation, completed, failed, in_progress};
use rubelet_core::status::{DEADLINE_EXCEEDED, DEADLINE_MESSAGE, deadline_left, is_terminal};
use rubelet_core::volumes::{MountEvents, setting_up};
use tracing::{debug, warn};

use crate::chain::Chain;
use crate::job::{JobContext, JobError, JobResult, PodMemory, PodSnapshot};
use crate::node::Node;
use crate::node_now::NodeNow;
use crate::ports::{CgroupState, EventKind, FileError};
use crate::removal::{DeadContainer, RemoveError, remove_container};
use crate::runtime::{PodRuntime, SyncReport, container_name, handler};
use crate::volumes::{MountAllError, Mounted};
use crate::{resources, volumes};

/// Runs the job.
#[doc(alias = "SyncPod")]
pub(super) async fn run(snapshot: PodSnapshot, memory: PodMemory, job: JobContext) -> JobResult {
    let uid = job.pod.uid.clone();
    let Some(pod) = snapshot.subject.pod().cloned() else {
        // Only a pod with a spec is synced; the life cycle of an orphan begins with `Terminating`.
        return JobResult { uid, end: JobEnd::Failed(Retry::Later), memory: Some(memory), problem: None };
    };
    let status = Arc::clone(&snapshot.status);
    let mut sync = SyncPod { node: &job.node, pod, job: &job, snapshot, memory, status };
    let (end, problem) = tokio::select! {
        biased;
        // WORK-04: no container may start from here on, and no call that hangs may delay the end of the pod.
        () = job.must_end() => (JobEnd::Failed(Retry::Soon), None),
        result = sync.sync() => match result {
            Ok(end) => (end, None),
            Err(err) => (JobEnd::Failed(err.retry), Some(err.problem)),
        },
    };
    JobResult { uid, end, memory: Some(sync.memory), problem }
}

struct SyncPod<'a> {
    node: &'a Node,
    pod: Arc<Pod>,
    job: &'a JobContext,
    snapshot: PodSnapshot,
    memory: PodMemory,
    /// The status last written, as far as this job knows.
    status: Arc<PodStatus>,
}

impl SyncPod<'_> {
    async fn sync(&mut self) -> Result<JobEnd, JobError> {
        self.memory.resize.begin(&self.snapshot.resize);
        let before = self.memory.seen.clone();
        let seen = self.look().await?;
        self.memory.handler = handler::of_status(self.node, &self.pod, &seen).await;
        if let Some(before) = before.filter(|before| before.shows_the_same_as(&seen))
            && self.rests()
        {
            // Keeps the older of two equal observations: on an idle node the heap then does not change.
            self.memory.seen = Some(before);
            return Ok(self.rest_on(&seen).await);
        }
        self.watch_resize(&seen).await;
        let before = Arc::clone(&self.status);
        self.write_status().await?;
        if is_terminal(&self.status) {
            return Ok(JobEnd::Synced { looked_at: seen.at, again_in: None, terminal: true });
        }
        let plan = plan_pod(&self.inputs(&self.node.now()), &seen);
        if plan.is_empty() && self.memory.set_up.is_some() {
            // The status is an input of the next status. Only if it did not change is it known that it will not change
            // again.
            let settled = Arc::ptr_eq(&before, &self.status);
            self.memory.rest = settled.then(|| Rest::on(&self.inputs(&self.node.now()), &self.status)).flatten();
            self.memory.failures.clear();
            return Ok(self.rest_on(&seen).await);
        }
        // Boxed: most looks end before this, and their future should not hold the space for all of `act`.
        Box::pin(self.act(plan, seen)).await
    }

    /// The inputs of the plan. The sync loop decides the status from its own, which may be newer.
    fn inputs<'a>(&'a self, now: &'a NodeNow) -> PodInputs<'a> {
        self.snapshot.inputs(self.node, now, &self.pod, &self.memory, self.memory.resize.condition())
    }

    /// The inputs are those of the last empty plan, and the active deadline has not passed.
    fn rests(&self) -> bool {
        let holds = |rest: &Rest| rest.holds(&self.inputs(&self.node.now()), &self.status);
        let overdue = || self.deadline_left().is_some_and(|left| left.is_zero());
        self.memory.rest.as_ref().is_some_and(holds) && !overdue()
    }

    /// Ends a job whose plan is empty: only the cgroup and volumes are brought up to date.
    async fn rest_on(&mut self, seen: &PodObservation) -> JobEnd {
        self.keep_objects();
        self.keep_cgroup().await;
        self.refresh().await;
        self.at_rest(seen, None)
    }

    /// Keeps the watches of config maps and secrets that the pod uses.
    fn keep_objects(&self) {
        if let Some(cluster) = &self.node.ports.cluster {
            cluster.objects.keep(&self.pod);
        }
    }

    /// Sets the limits of the pod's cgroup again, if somebody changed them. Upstream leaves them so until the pod ends.
    async fn keep_cgroup(&self) {
        match resources::keep_pod(self.node, &self.pod).await {
            Ok(CgroupState::Differs(values)) => {
                let changed = values.join("; ");
                warn!(changed, "Somebody changed the limits of the pod's cgroup: they are set again");
            }
            Ok(CgroupState::AsWanted | CgroupState::Missing(_)) => {}
            Err(err) => warn!(err = %Chain(&err), "The limits of the pod's cgroup cannot be set; it is tried again"),
        }
    }

    /// Carries out `plan`.
    async fn act(&mut self, plan: PodPlan, seen: Arc<PodObservation>) -> Result<JobEnd, JobError> {
        self.keep_objects();
        let starts = !plan.start.is_empty() || matches!(plan.sandbox, SandboxPlan::Create { .. });
        if starts {
            self.network_gate().await?;
        }
        let mounted = self.set_up(&seen).await?;
        let runtime = PodRuntime { node: self.node, pod: &self.pod, job: self.job, volumes: &mounted };
        let report = runtime.carry_out(&plan, &seen, &mut self.memory).await;
        self.after(&plan, report, seen).await
    }

    /// Looks again after the plan was carried out, so that the status shows the result without waiting for an event.
    ///
    /// No event may follow for a long time: a sidecar that has started lets the next container start, and a container that
    /// ended before this look causes no further event. So if the new observation leads to another plan, the next job
    /// starts at once.
    async fn after(
        &mut self,
        done: &PodPlan,
        report: SyncReport,
        before: Arc<PodObservation>,
    ) -> Result<JobEnd, JobError> {
        self.memory.failures = report.failures;
        let seen = if report.acted { self.look().await? } else { before };
        self.prune(&seen).await;
        self.watch_resize(&seen).await;
        if let Some(problem) = &report.resize_problem {
            self.resize_failed(problem).await;
        }
        self.write_status().await?;
        if is_terminal(&self.status) {
            return Ok(JobEnd::Synced { looked_at: seen.at, again_in: None, terminal: true });
        }
        match report.problem {
            Some(problem) => Err(JobError { retry: report.retry, problem }),
            None => {
                let next = if report.acted { self.next_step(done, &seen) } else { None };
                Ok(self.at_rest(&seen, [report.again_in, next].into_iter().flatten().min()))
            }
        }
    }

    /// Notes whether the running containers have the allocated resources, and emits an event when a resize is completed
    /// (RSZ-06, RSZ-10).
    async fn watch_resize(&mut self, seen: &PodObservation) {
        // Without a record, the containers are assumed to have the allocated resources: a lost record must not restart
        // them.
        let actuated = self.memory.actuated.get_or_insert_with(|| Arc::new(PodAllocation::actuated(&self.pod)));
        if in_progress(&self.pod, seen, actuated) {
            self.memory.resize.go_on(self.pod.metadata.generation.unwrap_or_default());
        } else if let Some(done) = self.memory.resize.complete() {
            self.emit(EventKind::Normal, "ResizeCompleted", completed(&self.pod, done.generation)).await;
        }
    }

    async fn resize_failed(&mut self, problem: &str) {
        let generation = self.pod.metadata.generation.unwrap_or_default();
        if self.memory.resize.fail(generation, problem) {
            self.emit(EventKind::Warning, "ResizeError", failed(&self.pod, generation, problem)).await;
        }
    }

    /// When to carry out the plan that follows from the new observation; `None` if it is empty but for containers that
    /// wait for a back-off (SYNC-14).
    fn next_step(&self, done: &PodPlan, seen: &PodObservation) -> Option<Duration> {
        let mut next = plan_pod(&self.inputs(&self.node.now()), seen);
        // The same plan again means that carrying it out had no effect: a pause keeps the job from spinning.
        let pause = if next == *done { self.node.settings.pace.soon } else { Duration::ZERO };
        let waits = |start: &StartContainer| {
            container_name(&self.pod, start).is_some_and(|name| self.memory.failures.contains_key(&name))
        };
        next.start.retain(|start| !waits(start));
        // The pod was stopped just now, and its status shows it: no second stop.
        next.kill_pod = false;
        (!next.is_empty()).then_some(pause)
    }

    /// Removes dead instances beyond those that are kept, so that a crash loop does not fill the disk (LOOP-09, GC-05).
    async fn prune(&self, seen: &PodObservation) {
        for id in prune_dead(seen, &self.node.settings.gc, PodFate::MayRun) {
            let Some(dead) = seen.containers.iter().find(|c| c.id == id) else { continue };
            match remove_container(self.node, DeadContainer::seen(&self.job.pod, dead)).await {
                Ok(()) => {}
                Err(RemoveError::Runtime(err)) => {
                    debug!(container = %dead.name, %err, "Could not remove a dead container");
                }
                Err(err) => warn!(container = %dead.name, err = %Chain(&err), "A dead container left its log"),
            }
        }
    }

    fn at_rest(&self, seen: &PodObservation, again_in: Option<Duration>) -> JobEnd {
        let deadline = self.deadline_left();
        let volumes = self.memory.volumes.due_in(self.node.clock.now());
        let again_in = [again_in, deadline, volumes].into_iter().flatten().min();
        JobEnd::Synced { looked_at: seen.at, again_in, terminal: false }
    }

    fn deadline_left(&self) -> Option<Duration> {
        let started = self.status.start_time.as_ref().map(|t| t.0);
        deadline_left(&self.pod, started, self.node.clock.wall())
    }

    async fn look(&mut self) -> Result<Arc<PodObservation>, JobError> {
        match self.job.look(&mut self.memory).await {
            Ok(seen) => Ok(seen),
            Err(err) => {
                let failed = JobError::unseen(&err);
                self.emit(EventKind::Warning, "FailedSync", failed.problem.clone()).await;
                Err(failed)
            }
        }
    }

    /// Publishes the job's memory; the sync loop decides and writes the status (SYNC-02 … SYNC-04).
    async fn write_status(&mut self) -> Result<(), JobError> {
        let status = self.job.publish(&self.memory).await?;
        if status.reason.as_deref() == Some(DEADLINE_EXCEEDED) && self.status.reason != status.reason {
            self.emit(EventKind::Normal, DEADLINE_EXCEEDED, DEADLINE_MESSAGE).await;
        }
        self.status = status;
        Ok(())
    }

    /// Fails while the pod network is not ready, except for pods on the host network (SYNC-05).
    async fn network_gate(&self) -> Result<(), JobError> {
        let problem = self.node.now().runtime.network_problem();
        let Some(problem) = problem.filter(|_| !self.pod.host_network()) else { return Ok(()) };
        let message = format!("network is not ready: {problem}");
        self.emit(EventKind::Warning, "NetworkNotReady", message.clone()).await;
        Err(JobError::soon(message))
    }

    /// Makes the pod's cgroup, directories and volumes, and returns the path of each volume (SYNC-07, SYNC-09, SYNC-10).
    /// The restart of a container does not make them again.
    async fn set_up(&mut self, seen: &PodObservation) -> Result<Arc<BTreeMap<String, PathBuf>>, JobError> {
        if let Some(mounted) = self.memory.set_up.clone()
            && !seen.is_stopped()
            // A new ephemeral container may mount a volume that no other container mounts.
            && volumes::has_all(&self.pod, &mounted)
        {
            self.refresh().await;
            return Ok(mounted);
        }
        self.job.step(setting_up(&self.pod)).await;
        match self.make_ready().await? {
            Ok(mounted) => {
                self.memory.volumes.well(mounted.renew_at);
                let paths = Arc::new(mounted.paths);
                self.memory.set_up = Some(Arc::clone(&paths));
                Ok(paths)
            }
            Err(err) => {
                let emitted = self.emit_mount_problems(&err.problems).await;
                if emitted == MountEvents::Timeout {
                    let timeout = MountAllError {
                        unmounted: err.unmounted.clone(),
                        problems: vec!["context deadline exceeded".to_owned()],
                    };
                    self.emit(EventKind::Warning, "FailedMount", timeout.to_string()).await;
                }
                let retry = self.memory.volumes.due_in(self.node.clock.now()).map_or(Retry::Later, Retry::In);
                Err(JobError { retry, problem: err.to_string() })
            }
        }
    }

    /// Makes the cgroup while the volumes are mounted, because both take time: a volume may need a token from the API
    /// server, and cgroup v1 has a dozen hierarchies.
    async fn make_ready(&self) -> Result<Result<Mounted, MountAllError>, JobError> {
        let volumes = async {
            self.node.ports.dirs.make(&self.job.pod.uid).await?;
            Ok::<_, FileError>(volumes::mount_all(self.node, &self.pod).await)
        };
        let (cgroup, mounted) = tokio::join!(resources::ensure_pod(self.node, &self.pod), volumes);
        if let Err(err) = cgroup {
            let message = format!("unable to ensure pod container exists: {}", Chain(&err));
            self.emit(EventKind::Warning, "FailedCreatePodContainer", message.clone()).await;
            return Err(JobError::later(message));
        }
        match mounted {
            Ok(mounted) => Ok(mounted),
            Err(err) => {
                let message = format!("error making pod data directories: {}", Chain(&err));
                self.emit(EventKind::Warning, "Failed", message.clone()).await;
                Err(JobError::later(message))
            }
        }
    }

    /// Brings volumes up to date whose content may have changed (VOL-06). A failure is emitted as an event and tried again;
    /// the pod goes on with the old content.
    async fn refresh(&mut self) {
        let Some(refreshed) = volumes::refresh(self.node, &self.pod).await else { return };
        if refreshed.problems.is_empty() {
            self.memory.volumes.well(refreshed.renew_at);
        } else {
            self.emit_mount_problems(&refreshed.problems).await;
        }
    }

    /// Emits a `FailedMount` event for each problem, unless the same problems were emitted a moment ago.
    async fn emit_mount_problems(&mut self, problems: &[String]) -> MountEvents {
        let due = self.memory.volumes.failed(problems, self.node.clock.mono());
        if due != MountEvents::Nothing {
            for problem in problems {
                self.emit(EventKind::Warning, "FailedMount", problem.clone()).await;
            }
        }
        due
    }

    async fn emit(&self, kind: EventKind, reason: &'static str, message: impl Into<String>) {
        self.job.emit(&self.pod, None, kind, reason, message).await;
    }
}
