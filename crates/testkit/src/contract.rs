//! Contracts of the ports: laws that the engine relies on, as functions that panic when a law is broken.
//!
//! They run on the fakes in every build and on the real adapters in node tests, so that a passing simulation is
//! meaningful. A law gets its environment from its [`Rig`] or its arguments and leaves nothing behind.
#![expect(clippy::indexing_slicing, reason = "a law that does not hold panics")]

mod host;
mod images;
mod machine;
mod marks;
mod names;
mod rig;
mod running;
mod stopping;
mod usage;
mod view;
mod volumes;

pub use host::*;
pub use images::*;
pub use machine::*;
pub use marks::*;
pub use names::*;
pub use rig::*;
pub use running::*;
pub use stopping::*;
pub use usage::*;
pub use view::*;
pub use volumes::*;

use std::pin::Pin;

/// A law as a function pointer, so that a caller can iterate over all of them.
pub type Law = for<'a> fn(&'a Rig) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

macro_rules! laws {
    ($($name:ident),+ $(,)?) => {
        &[$((stringify!($name), |rig| Box::pin($name(rig)))),+]
    };
}

/// Every law of the runtime and its images, with its name.
pub const RUNTIME_LAWS: &[(&str, Law)] = laws![
    the_runtime_reports_version_and_status,
    inspect_of_unknown_is_empty,
    list_shows_created_objects,
    objects_without_our_labels_are_not_shown,
    newest_instances_come_first,
    hints_follow_changes,
    a_sandbox_name_is_unique,
    a_container_name_is_unique,
    a_removed_name_can_be_reused,
    a_container_runs_only_once_started,
    starting_twice_fails,
    start_of_unknown_is_not_found,
    a_container_needs_a_sandbox,
    a_command_that_does_not_exist_fails_to_start,
    exit_code_is_seen,
    exec_sync_reports_exit_code,
    exec_sync_reports_output,
    exec_sync_ends_in_time,
    a_session_needs_a_running_container,
    restart_count_and_hash_marks_roundtrip,
    stop_is_idempotent,
    stop_of_unknown_succeeds,
    remove_is_idempotent,
    a_container_that_obeys_sigterm_stops_before_its_grace_is_over,
    a_container_that_ignores_sigterm_is_killed_after_its_grace,
    stopping_a_sandbox_stops_its_containers,
    removing_a_sandbox_removes_its_containers,
    a_present_image_is_found,
    a_missing_image_is_none,
    removing_a_missing_image_succeeds,
    a_container_needs_its_image,
    image_usage_is_reported,
];

/// Checks every law of the runtime, one after another, and cleans up after each.
pub async fn check_runtime(rig: &Rig) {
    for (name, law) in RUNTIME_LAWS {
        rig.enter(name);
        law(rig).await;
        rig.clean().await;
    }
}
