//! Image names, pull policies, and the messages about pulls (section 8.1).

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use crate::config::GoDuration;
use crate::reason::WaitingReason;

mod reference;
#[cfg(test)]
mod tests;

pub use reference::{ImageName, ImageNameError};

/// When an image is pulled.
#[doc(alias = "imagePullPolicy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PullPolicy {
    /// Pull at each start.
    Always,
    /// Pull if the image is not present.
    IfNotPresent,
    /// Never pull.
    Never,
}

impl PullPolicy {
    /// The policy of a container; without one, the API's default: `Always` for the tag `latest`, else
    /// `IfNotPresent`.
    pub fn of(container: &Container) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            Some("IfNotPresent") => Self::IfNotPresent,
            _ => Self::by_default(container.image.as_deref().unwrap_or_default()),
        }
    }

    /// The API's default for an image. A name that cannot be parsed has no tag, and so is not pulled at each start.
    /// upstream: v1/defaults.go SetDefaults_Container (v1.36)
    pub fn by_default(image: &str) -> Self {
        match ImageName::parse(image) {
            Ok(name) if name.is_latest() => Self::Always,
            Ok(_) | Err(_) => Self::IfNotPresent,
        }
    }

    /// The policy as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }

    /// Whether [`should_pull`] needs to know if the image is present.
    pub const fn asks_presence(self) -> bool {
        !matches!(self, Self::Always)
    }
}

/// What to do about an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullDecision {
    /// Use the image that is present.
    UsePresent,
    /// Pull it.
    Pull,
    /// It is not present and must not be pulled.
    Refuse,
}

/// Whether an image has to be pulled, given whether it is present (IMG-02).
pub const fn should_pull(policy: PullPolicy, present: bool) -> PullDecision {
    match (policy, present) {
        (PullPolicy::Always, _) | (PullPolicy::IfNotPresent, false) => PullDecision::Pull,
        (PullPolicy::IfNotPresent | PullPolicy::Never, true) => PullDecision::UsePresent,
        (PullPolicy::Never, false) => PullDecision::Refuse,
    }
}

/// The message of the event `Pulling` (IMG-03).
pub fn pulling(image: &str) -> String {
    format!("Pulling image {image:?}")
}

/// The message of the event `Pulled` after a pull: `took` is the pull itself, `waited` includes the queue (IMG-03).
pub fn pulled(image: &str, took: Duration, waited: Duration, size: u64) -> String {
    format!(
        "Successfully pulled image {image:?} in {} ({} including waiting). Image size: {size} bytes.",
        rounded(took),
        rounded(waited)
    )
}

/// The message of the event `Pulled` for an image that was present (IMG-03). Upstream goes on, " and can be accessed by
/// the pod", where it has checked the pod's credentials (gate `KubeletEnsureSecretPulledImages`); nothing checks them here.
pub fn already_present(image: &str) -> String {
    format!("Container image {image:?} already present on machine")
}

/// The message of the event `Failed` (IMG-03).
pub fn pull_failed(image: &str, err: &str) -> String {
    format!("Failed to pull image {image:?}: {err}")
}

/// The message of the event `BackOff`; with the last failure, the message of the container's status (IMG-03, IMG-04).
pub fn back_off(image: &str, last: Option<(WaitingReason, &str)>) -> String {
    match last {
        None => format!("Back-off pulling image {image:?}"),
        Some((reason, message)) => format!("Back-off pulling image {image:?}: {reason}: {message}"),
    }
}

/// The message of event and status for an image that must not be pulled (IMG-02).
pub fn never_pulled(image: &str) -> String {
    format!("Container image {image:?} is not present with pull policy of Never")
}

/// The message of the event `InspectFailed` and of the status if the runtime could not inspect the image.
pub fn inspect_failed(image: &str, err: &str) -> String {
    format!("Failed to inspect image {image:?}: {err}")
}

/// The message of the event `InspectFailed` and of the status for a name that cannot be parsed (IMG-01).
pub fn invalid_name(err: &ImageNameError) -> String {
    format!("Failed to apply default image tag {:?}: {err}", err.image)
}

/// The reason and message of a pull that failed: the runtime marks two kinds by how its text begins (IMG-04).
///
/// upstream: images/image_manager.go evalCRIPullErr (v1.36)
#[doc(alias = "evalCRIPullErr")]
pub fn pull_failure(image: &str, err: &str) -> (WaitingReason, String) {
    let kinds = [
        (WaitingReason::RegistryUnavailable, "the registry is unavailable"),
        (WaitingReason::SignatureValidationFailed, "the signature validation failed"),
    ];
    for (reason, why) in kinds {
        if let Some(rest) = err.strip_prefix(reason.as_str()) {
            return (reason, format!("image pull failed for {image} because {why}{rest}"));
        }
    }
    (WaitingReason::ErrImagePull, err.to_owned())
}

/// Cut to milliseconds and written as Go writes it: `1m2.5s`, `250ms`, `0s`.
fn rounded(duration: Duration) -> GoDuration {
    GoDuration::millis(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}
