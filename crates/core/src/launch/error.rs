//! Why a sandbox or container could not be configured.

/// Why a sandbox or container could not be configured. The text is what people see after
/// `CreateContainerConfigError`, spelt as upstream spells it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// RT-96: the spec asks for root though it forbids it.
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RunAsUserIsRoot {
        /// `name_namespace(uid)`.
        pod: String,
        /// Name.
        container: String,
    },
    /// RT-96: a name may be root's.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: {pod:?}, container: {container})"
    )]
    ImageUserNotNumeric {
        /// The image's user.
        user: String,
        /// `name_namespace(uid)`.
        pod: String,
        /// Name.
        container: String,
    },
    /// RT-96: the image runs as root.
    #[error("container has runAsNonRoot and image will run as root (pod: {pod:?}, container: {container})")]
    ImageRunsAsRoot {
        /// `name_namespace(uid)`.
        pod: String,
        /// Name.
        container: String,
    },
    /// RT-96: the image's number is no user's.
    #[error(
        "container has runAsNonRoot and image has an invalid user id ({uid}). (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive (pod: {pod:?}, container: {container})"
    )]
    ImageUserOutOfRange {
        /// The image's user.
        uid: i64,
        /// `name_namespace(uid)`.
        pod: String,
        /// Name.
        container: String,
    },
    /// RT-97: a profile of the node's is asked for but not named.
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    SeccompProfileUnnamed,
    /// RT-97: not one of the API's words. Upstream runs such a container unconfined.
    #[error("unknown seccomp profile type: {0:?}")]
    SeccompTypeUnknown(String),
    /// RT-97: a profile of the node's is asked for but not named.
    #[error("missing localhost apparmor profile name")]
    AppArmorProfileUnnamed,
    /// RT-97: not one of the API's words.
    #[error("unknown apparmor profile type: {0:?}")]
    AppArmorTypeUnknown(String),
    /// RT-81: not one of the API's words.
    #[error("unsupported supplementalGroupsPolicy: {0}")]
    GroupsPolicyUnknown(String),
    /// RT-82: a user namespace is asked of a runtime that has none.
    #[error("can't set `spec.hostUsers: false`, runtime does not support user namespaces")]
    UserNamespacesUnsupported,
    /// RT-82: a user namespace is asked of a handler that has none.
    #[error("can't set `spec.hostUsers: false`, RuntimeClass handler {0:?} does not support user namespaces")]
    HandlerUserNamespacesUnsupported(String),
    /// RT-82: a user namespace is asked for, but no ids were set aside.
    #[error("can't set `spec.hostUsers: false`, this node gives pods no user namespaces")]
    UserNamespaceMissing,
    /// The hostname could not be made (HN-01, HN-02).
    #[error(transparent)]
    Hostname(#[from] crate::hostname::HostnameError),
    /// A mount could not be made (section 7.11).
    #[error(transparent)]
    Mount(#[from] crate::container_mounts::MountError),
    /// Environment, command and arguments would be larger than anything that can be started.
    #[error(transparent)]
    TooLarge(#[from] crate::env::TooLarge),
}
