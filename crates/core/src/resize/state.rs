//! The state of a pod's resize, in two halves with one writer each (RSZ-06).
//!
//! The sync loop decides whether a resize is allocated ([`ResizeDecision`]); the pod's job actuates what was allocated
//! ([`ResizeProgress`]). A job reads the decision as a snapshot, and the loop reads the progress when the job has ended.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

/// The condition of a resize that is not allocated.
pub const RESIZE_PENDING: &str = "PodResizePending";
/// The condition of a resize that is allocated and not actuated.
pub const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";
/// The node has no room for the resize now.
pub const DEFERRED: &str = "Deferred";
/// The node can never allocate the resize.
pub const INFEASIBLE: &str = "Infeasible";
/// The runtime or the kernel refused to actuate the resize.
pub const ERROR: &str = "Error";

/// Content of a resize condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeCondition {
    /// `Deferred`, `Infeasible`, `Error`, or empty.
    pub reason: String,
    /// The message of the condition.
    pub message: String,
    /// `metadata.generation` of the pod that requested the resize.
    pub generation: i64,
}

/// The decisions about a pod's resizes. Written by the sync loop only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeDecision {
    /// Why the resize that the spec requests is not allocated, if it is not.
    pub pending: Option<ResizeCondition>,
    /// The resize allocated last by this process.
    allocated: AllocatedResize,
}

/// Identifies a resize that was allocated: two may have the same generation, for only the API server counts generations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AllocatedResize {
    number: u64,
    generation: i64,
}

impl ResizeDecision {
    /// The decision shown by `status`: after a restart nothing else is left of it.
    #[doc(alias = "BackfillPodResizeConditions")]
    pub fn of(status: &PodStatus) -> Self {
        Self { pending: condition(status, RESIZE_PENDING), ..Self::default() }
    }

    /// The resize of this generation is allocated, so that none is pending.
    pub fn allocate(&mut self, generation: i64) {
        self.pending = None;
        self.allocated = AllocatedResize { number: self.allocated.number.saturating_add(1), generation };
    }
}

/// How far the allocated resources of a pod are actuated. Written by the pod's job only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeProgress {
    condition: Option<ResizeCondition>,
    /// The last allocated resize that the job has begun to actuate.
    begun: AllocatedResize,
}

impl ResizeProgress {
    /// The progress shown by `status`: after a restart nothing else is left of it.
    #[doc(alias = "BackfillPodResizeConditions")]
    pub fn of(status: &PodStatus) -> Self {
        Self { condition: condition(status, RESIZE_IN_PROGRESS), ..Self::default() }
    }

    /// The condition of the resize in progress.
    pub fn condition(&self) -> Option<&ResizeCondition> {
        self.condition.as_ref()
    }

    /// The condition that the status shows: an allocated resize that no job has begun with has just begun.
    pub fn shown(&self, decision: &ResizeDecision) -> Option<Cow<'_, ResizeCondition>> {
        if self.begun == decision.allocated {
            return self.condition.as_ref().map(Cow::Borrowed);
        }
        let generation = decision.allocated.generation;
        Some(Cow::Owned(ResizeCondition { generation, ..ResizeCondition::default() }))
    }

    /// Begins with the resize that was allocated last. The error of an earlier resize is over then.
    pub fn begin(&mut self, decision: &ResizeDecision) {
        if self.begun != decision.allocated {
            self.condition = self.shown(decision).map(Cow::into_owned);
            self.begun = decision.allocated;
        }
    }

    /// Running containers lack allocated resources. An error stays shown until the resize is complete.
    pub fn go_on(&mut self, generation: i64) {
        self.condition.get_or_insert_with(|| ResizeCondition { generation, ..ResizeCondition::default() });
    }

    /// All running containers have the allocated resources. Returns the condition of the resize that is complete by that.
    pub fn complete(&mut self) -> Option<ResizeCondition> {
        self.condition.take()
    }

    /// The runtime or the kernel refused. Returns whether the error differs from the one before.
    pub fn fail(&mut self, generation: i64, message: &str) -> bool {
        let before = self.condition.get_or_insert_default();
        if before.reason == ERROR && before.message == message {
            return false;
        }
        *before = ResizeCondition { reason: ERROR.to_owned(), message: message.to_owned(), generation };
        true
    }
}

fn condition(status: &PodStatus, name: &str) -> Option<ResizeCondition> {
    let content = |of: &PodCondition| ResizeCondition {
        reason: of.reason.clone().unwrap_or_default(),
        message: of.message.clone().unwrap_or_default(),
        generation: of.observed_generation.unwrap_or_default(),
    };
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions.iter().find(|c| c.type_ == name && c.status == "True").map(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(type_: &str, status: &str) -> PodStatus {
        let condition = PodCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some("Deferred".into()),
            message: Some("no room".into()),
            observed_generation: Some(4),
            ..PodCondition::default()
        };
        PodStatus { conditions: Some(vec![PodCondition::default(), condition]), ..PodStatus::default() }
    }

    fn condition(reason: &str, message: &str, generation: i64) -> ResizeCondition {
        ResizeCondition { reason: reason.into(), message: message.into(), generation }
    }

    // RSZ-06; upstream: status_manager_test.go TestBackfillPodResizeConditions (v1.36)
    #[test]
    fn rsz_06_after_a_restart_the_status_shows_where_a_resize_stands() {
        let deferred = condition("Deferred", "no room", 4);
        for (type_, status, pending, progress) in [
            (RESIZE_PENDING, "True", Some(&deferred), None),
            (RESIZE_PENDING, "False", None, None),
            (RESIZE_IN_PROGRESS, "True", None, Some(&deferred)),
            (RESIZE_IN_PROGRESS, "False", None, None),
            ("Ready", "True", None, None),
        ] {
            let status = shown(type_, status);
            assert_eq!(ResizeDecision::of(&status).pending.as_ref(), pending, "{type_}");
            assert_eq!(ResizeProgress::of(&status).condition(), progress, "{type_}");
        }
    }

    // RSZ-06
    #[test]
    fn rsz_06_an_allocated_resize_is_shown_as_begun_before_a_job_begins_with_it() {
        let mut decision = ResizeDecision::of(&shown(RESIZE_PENDING, "True"));
        let mut progress = ResizeProgress::default();
        assert_eq!(progress.shown(&decision), None);
        decision.allocate(5);
        assert_eq!(decision.pending, None, "what is allocated is not pending");
        assert_eq!(progress.shown(&decision).as_deref(), Some(&condition("", "", 5)));
        assert_eq!(progress.condition(), None);
        progress.begin(&decision);
        assert_eq!(progress.condition(), Some(&condition("", "", 5)));

        assert!(progress.fail(5, "busy"), "the first error");
        assert!(!progress.fail(5, "busy"), "the same error again");
        assert!(progress.fail(5, "full"), "another error");
        assert_eq!(progress.condition(), Some(&condition(ERROR, "full", 5)));
        progress.begin(&decision);
        progress.go_on(6);
        assert_eq!(progress.shown(&decision).as_deref(), Some(&condition(ERROR, "full", 5)), "an error stays shown");

        // The next resize, of the same generation: the error of the one before is over.
        decision.allocate(5);
        assert_eq!(progress.shown(&decision).as_deref(), Some(&condition("", "", 5)));
        progress.begin(&decision);
        assert_eq!(progress.complete(), Some(condition("", "", 5)));
        assert_eq!((progress.complete(), progress.shown(&decision)), (None, None));
        progress.go_on(6);
        assert_eq!(progress.condition(), Some(&condition("", "", 6)));
    }

    #[test]
    fn a_message_that_is_no_error_does_not_hide_the_first_error() {
        let mut progress = ResizeProgress::of(&shown(RESIZE_IN_PROGRESS, "True"));
        assert!(progress.fail(7, "no room"));
        assert_eq!(progress.condition(), Some(&condition(ERROR, "no room", 7)));
    }
}
