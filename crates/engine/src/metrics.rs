//! The metrics of the engine. Names, types, labels and buckets are upstream's (section 28); the few that are ours begin with
//! `rubelet_`.
//!
//! Each series is an atomic at a fixed place, so that counting takes no lock, allocation or lookup. The number of pods of
//! each kind is not kept here: the sync loop counts them on request ([`Census`]), and the prober keeps the counts of each
//! probe ([`ProbeCounts`]).
//! upstream: kubelet/metrics/metrics.go, prober/prober_manager.go (v1.36)

mod census;
mod histogram;
mod polls;
mod probes;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use rubelet_core::pod::Role;
use rubelet_core::reason::WaitingReason;
use rubelet_core::resize::{Change, Requested, Requirement, Resized};
use rubelet_core::shutdown::ShutdownTimes;

pub use census::{Census, Split, Working};
pub(crate) use probes::Tally;
pub use probes::{ProbeCounts, write_probes};

use crate::task::Polls;
use histogram::{Counter, Histogram, Scale, USUAL, Unit, head, sample};

/// Upper bounds of how long pods take to start: half a second to an hour.
static POD_START: Scale = Scale {
    bounds: &[
        500_000,
        1_000_000,
        2_000_000,
        3_000_000,
        4_000_000,
        5_000_000,
        6_000_000,
        8_000_000,
        10_000_000,
        20_000_000,
        30_000_000,
        45_000_000,
        60_000_000,
        120_000_000,
        180_000_000,
        240_000_000,
        300_000_000,
        360_000_000,
        480_000_000,
        600_000_000,
        900_000_000,
        1_200_000_000,
        1_800_000_000,
        2_700_000_000,
        3_600_000_000,
    ],
    unit: Unit::Seconds,
};
/// Upper bounds of how long a resize takes, in milliseconds.
static RESIZE: Scale = Scale {
    bounds: &[10, 50, 100, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000],
    unit: Unit::Plain,
};
static CONTAINERS: Scale = Scale { bounds: &[1, 2, 4, 8, 16], unit: Unit::Plain };
static JOB: Scale = USUAL;

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

labels! {
    /// The kind of a job.
    Operation {
        Create = "create",
        Update = "update",
        Sync = "sync",
        Kill = "kill",
        Terminated = "terminated",
    }
}

labels! {
    /// Why deferred resizes were tried again.
    Trigger {
        PodResized = "pod_resized",
        PodUpdated = "pod_updated",
        PodsAdded = "pods_added",
        PodsRemoved = "pods_removed",
        PodTerminated = "pod_terminated",
        Periodic = "periodic_retry",
    }
}

labels! {
    /// Why an image was removed.
    Collected {
        Age = "age",
        Space = "space",
    }
}

const CONTAINER_TYPES: [&str; 3] = ["container", "init_container", "ephemeral_container"];

/// All counts since the start of the process.
#[derive(Debug)]
pub struct Metrics {
    jobs: [Histogram; Operation::ALL.len()],
    worker_start: Histogram,
    start: Histogram,
    start_total: Histogram,
    start_sli: Histogram,
    containers_per_pod: Histogram,
    started_pods: Counter,
    started_pods_errors: Counter,
    started: [Counter; CONTAINER_TYPES.len()],
    start_errors: [[Counter; WaitingReason::ALL.len()]; CONTAINER_TYPES.len()],
    orphans: Counter,
    http_fallbacks: Counter,
    sleeps_cut: Counter,
    images: [Counter; Collected::ALL.len()],
    resizes: ResizeMetrics,
    shutdown: ShutdownMetrics,
    polls: Arc<Polls>,
}

/// When the last graceful shutdown of the machine began and ended, in seconds since the epoch.
#[derive(Debug, Default)]
struct ShutdownMetrics {
    /// The series are there: graceful shutdown by priority is on.
    shown: AtomicBool,
    start: AtomicI64,
    end: AtomicI64,
}

#[derive(Debug)]
struct ResizeMetrics {
    requested: [[[Counter; Change::ALL.len()]; Requirement::ALL.len()]; Resized::ALL.len()],
    succeeded: Histogram,
    failed: Histogram,
    /// Swap is the only reason so far.
    infeasible: Counter,
    accepted: [Counter; Trigger::ALL.len()],
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            jobs: std::array::from_fn(|_| Histogram::new(&JOB)),
            worker_start: Histogram::new(&JOB),
            start: Histogram::new(&POD_START),
            start_total: Histogram::new(&POD_START),
            start_sli: Histogram::new(&POD_START),
            containers_per_pod: Histogram::new(&CONTAINERS),
            started_pods: Counter::default(),
            started_pods_errors: Counter::default(),
            started: Default::default(),
            start_errors: std::array::from_fn(|_| std::array::from_fn(|_| Counter::default())),
            orphans: Counter::default(),
            http_fallbacks: Counter::default(),
            sleeps_cut: Counter::default(),
            images: Default::default(),
            resizes: ResizeMetrics {
                requested: Default::default(),
                succeeded: Histogram::new(&RESIZE),
                failed: Histogram::new(&RESIZE),
                infeasible: Counter::default(),
                accepted: Default::default(),
            },
            shutdown: ShutdownMetrics::default(),
            polls: Polls::here(),
        }
    }
}

impl Metrics {
    /// A job ended.
    pub(crate) fn job_ended(&self, operation: Operation, took: Duration) {
        if let Some(jobs) = self.jobs.get(operation as usize) {
            jobs.took(took);
        }
    }

    /// The first job for a pod with this many containers starts, `waited` after the pod was first seen.
    pub(crate) fn first_job(&self, containers: usize, waited: Duration) {
        self.worker_start.took(waited);
        self.containers_per_pod.observe(u64::try_from(containers).unwrap_or(u64::MAX));
    }

    /// A pod turned to `Running`, `took` after it was first seen.
    pub(crate) fn pod_running(&self, took: Duration) {
        self.start.took(took);
    }

    /// The API shows every container of a pod as started, `took` after the pod was created. `own` is that time without
    /// pulls and init containers; `None` for a pod that upstream excludes because of its volumes.
    pub(crate) fn pod_shown_started(&self, took: Duration, own: Option<Duration>) {
        self.start_total.took(took);
        if let Some(own) = own {
            self.start_sli.took(own);
        }
    }

    /// A sandbox was created, or could not be.
    pub(crate) fn pod_started(&self, succeeded: bool) {
        self.started_pods.add();
        if !succeeded {
            self.started_pods_errors.add();
        }
    }

    /// A container was started, or failed to. A container in back-off was not tried, and does not count.
    pub(crate) fn container_started(&self, role: Role, failure: Option<WaitingReason>) {
        if failure == Some(WaitingReason::CrashLoopBackOff) {
            return;
        }
        let kind = match role {
            Role::Regular => 0,
            Role::Init | Role::Sidecar => 1,
            Role::Ephemeral => 2,
        };
        if let Some(started) = self.started.get(kind) {
            started.add();
        }
        let errors = self.start_errors.get(kind);
        if let Some(errors) = failure.and_then(|reason| errors.and_then(|list| list.get(reason as usize))) {
            errors.add();
        }
    }

    /// The runtime has an unknown pod.
    pub(crate) fn orphan_found(&self) {
        self.orphans.add();
    }

    /// An HTTPS hook was sent again over HTTP.
    pub(crate) fn hook_fell_back(&self) {
        self.http_fallbacks.add();
    }

    /// A sleep hook was ended early.
    pub(crate) fn sleep_cut(&self) {
        self.sleeps_cut.add();
    }

    /// An unused image was removed.
    pub(crate) fn image_collected(&self, why: Collected) {
        if let Some(counter) = self.images.get(why as usize) {
            counter.add();
        }
    }

    /// A resize of a container was requested.
    pub(crate) fn resize_requested(&self, requested: Requested) {
        let Requested { resource, requirement, change } = requested;
        let of_resource = self.resizes.requested.get(resource as usize);
        let of_requirement = of_resource.and_then(|list| list.get(requirement as usize));
        if let Some(counter) = of_requirement.and_then(|list| list.get(change as usize)) {
            counter.add();
        }
    }

    /// A resize was actuated, or failed.
    pub(crate) fn resize_done(&self, succeeded: bool, took: Duration) {
        let histogram = if succeeded { &self.resizes.succeeded } else { &self.resizes.failed };
        histogram.observe(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    /// A resize is infeasible.
    pub(crate) fn resize_infeasible(&self) {
        self.resizes.infeasible.add();
    }

    /// A deferred resize was allocated.
    pub(crate) fn deferred_accepted(&self, trigger: Trigger) {
        if let Some(counter) = self.resizes.accepted.get(trigger as usize) {
            counter.add();
        }
    }

    /// A graceful shutdown of the machine began or ended.
    pub(crate) fn set_shutdown_times(&self, times: ShutdownTimes) {
        let seconds = |time: Option<Timestamp>| time.map_or(0, Timestamp::as_second);
        self.shutdown.start.store(seconds(times.start), Ordering::Relaxed);
        self.shutdown.end.store(seconds(times.end), Ordering::Relaxed);
        self.shutdown.shown.store(true, Ordering::Relaxed);
    }

    /// The poll times of tasks, on the thread that created these metrics.
    pub fn polls(&self) -> &Polls {
        &self.polls
    }

    /// Writes all metrics in Prometheus' text format. As upstream, a series with labels appears with its first count.
    pub fn write(&self, out: &mut String) {
        self.write_pods(out);
        self.write_containers(out);
        let images = Collected::ALL.iter().zip(&self.images);
        let images = images.map(|(why, counter)| (format!("reason=\"{}\"", why.as_str()), counter.get()));
        counted(out, "kubelet_image_garbage_collected_total", "Unused images that were removed.", images);
        self.write_resizes(out);
        self.write_shutdown(out);
        polls::write(&self.polls, out);
    }

    fn write_shutdown(&self, out: &mut String) {
        if !self.shutdown.shown.load(Ordering::Relaxed) {
            return;
        }
        let [start, end] = [&self.shutdown.start, &self.shutdown.end].map(|time| time.load(Ordering::Relaxed));
        for (name, help, value) in [
            ("kubelet_graceful_shutdown_end_time_seconds", "When the last graceful shutdown ended.", end),
            ("kubelet_graceful_shutdown_start_time_seconds", "When the last graceful shutdown began.", start),
        ] {
            head(out, name, "gauge", help);
            sample(out, name, "", u64::try_from(value).unwrap_or_default());
        }
    }

    fn write_pods(&self, out: &mut String) {
        let plain = |out: &mut String, name: &str, help: &str, histogram: &Histogram| {
            head(out, name, "histogram", help);
            histogram.write(out, name, "");
        };
        let per_pod = "kubelet_containers_per_pod_count";
        plain(out, per_pod, "Containers of each pod that was started.", &self.containers_per_pod);
        counter(out, "kubelet_orphaned_runtime_pods_total", "Unknown pods found in the runtime.", &self.orphans);
        plain(out, "kubelet_pod_start_duration_seconds", "From seeing a pod to its running, in seconds.", &self.start);
        // Upstream makes these two with an empty set of labels: they appear with their first count.
        let sli = "kubelet_pod_start_sli_duration_seconds";
        let total = "kubelet_pod_start_total_duration_seconds";
        if !self.start_sli.is_empty() {
            plain(out, sli, "From creating a pod to its start, without pulls and init containers.", &self.start_sli);
        }
        if !self.start_total.is_empty() {
            plain(out, total, "From creating a pod to its start, in seconds.", &self.start_total);
        }
        let jobs = "kubelet_pod_worker_duration_seconds";
        if self.jobs.iter().any(|histogram| !histogram.is_empty()) {
            head(out, jobs, "histogram", "How long one job for a pod took, by operation.");
        }
        for (operation, histogram) in Operation::ALL.iter().zip(&self.jobs).filter(|(_, h)| !h.is_empty()) {
            histogram.write(out, jobs, &format!("operation_type=\"{}\"", operation.as_str()));
        }
        let began = "kubelet_pod_worker_start_duration_seconds";
        plain(out, began, "From seeing a pod to its first job, in seconds.", &self.worker_start);
        counter(out, "kubelet_started_pods_total", "Pods that were started.", &self.started_pods);
        counter(out, "kubelet_started_pods_errors_total", "Starts of pods that failed.", &self.started_pods_errors);
    }

    fn write_containers(&self, out: &mut String) {
        let fell_back = "kubelet_lifecycle_handler_http_fallbacks_total";
        counter(out, fell_back, "HTTPS hooks that were sent again over HTTP.", &self.http_fallbacks);
        let cut = "kubelet_sleep_action_terminated_early_total";
        counter(out, cut, "Sleep hooks that were ended early.", &self.sleeps_cut);
        let kinds = || CONTAINER_TYPES.iter().map(|kind| format!("container_type=\"{kind}\""));
        let started = kinds().zip(&self.started).map(|(labels, counter)| (labels, counter.get()));
        counted(out, "kubelet_started_containers_total", "Containers that were started.", started);
        let errors = kinds().zip(&self.start_errors).flat_map(|(kind, list)| {
            let of_kind = move |(reason, counter): (&WaitingReason, &Counter)| {
                (format!("code=\"{reason}\",{kind}"), counter.get())
            };
            WaitingReason::ALL.iter().zip(list).map(of_kind)
        });
        counted(out, "kubelet_started_containers_errors_total", "Starts of containers that failed.", errors);
    }

    fn write_resizes(&self, out: &mut String) {
        let mut requested = Vec::new();
        for (resource, list) in Resized::ALL.iter().zip(&self.resizes.requested) {
            for (requirement, list) in Requirement::ALL.iter().zip(list) {
                for (change, counter) in Change::ALL.iter().zip(list) {
                    let (change, requirement, resource) = (change.as_str(), requirement.as_str(), resource.as_str());
                    let labels =
                        format!("operation=\"{change}\",requirement=\"{requirement}\",resource=\"{resource}\"");
                    requested.push((labels, counter.get()));
                }
            }
        }
        let name = "kubelet_container_requested_resizes_total";
        counted(out, name, "Resizes of containers that were requested.", requested);
        let accepted = Trigger::ALL.iter().zip(&self.resizes.accepted);
        let accepted = accepted.map(|(why, counter)| (format!("retry_trigger=\"{}\"", why.as_str()), counter.get()));
        let name = "kubelet_pod_deferred_accepted_resizes_total";
        counted(out, name, "Deferred resizes that were allocated later.", accepted);
        let infeasible = [("reason_detail=\"swap_limitation\"".to_owned(), self.resizes.infeasible.get())];
        counted(out, "kubelet_pod_infeasible_resizes_total", "Infeasible resizes.", infeasible);
        let took = "kubelet_pod_resize_duration_milliseconds";
        let both = [("false", &self.resizes.failed), ("true", &self.resizes.succeeded)];
        if both.iter().any(|(_, histogram)| !histogram.is_empty()) {
            head(out, took, "histogram", "How long resizes took, in milliseconds.");
        }
        for (success, histogram) in both.into_iter().filter(|(_, histogram)| !histogram.is_empty()) {
            histogram.write(out, took, &format!("success=\"{success}\""));
        }
    }
}

fn counter(out: &mut String, name: &str, help: &str, counter: &Counter) {
    head(out, name, "counter", help);
    sample(out, name, "", counter.get());
}

/// A counter with labels: only series that were counted appear.
fn counted(out: &mut String, name: &str, help: &str, series: impl IntoIterator<Item = (String, u64)>) {
    let mut first = true;
    for (labels, value) in series.into_iter().filter(|(_, value)| *value > 0) {
        if std::mem::take(&mut first) {
            head(out, name, "counter", help);
        }
        sample(out, name, &labels, value);
    }
}
