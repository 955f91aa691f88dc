//! Why a sandbox or container could not be configured.

/// Why a sandbox or container could not be configured. The text is the message after
/// `CreateContainerConfigError`, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// RT-96: `runAsUser` is root, though `runAsNonRoot` is set.
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RunAsUserIsRoot {
        /// `name_namespace(uid)`.
        pod: String,
        /// Name.
        container: String,
    },
    /// RT-96: the image has a user name, which may be root's.
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
    /// RT-96: the user id of the image is invalid.
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
    /// RT-97: a profile on the node is requested without a name.
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    SeccompProfileUnnamed,
    /// RT-97: not a type in the API. Upstream runs such a container unconfined.
    #[error("unknown seccomp profile type: {0:?}")]
    SeccompTypeUnknown(String),
    /// RT-97: a profile on the node is requested without a name.
    #[error("missing localhost apparmor profile name")]
    AppArmorProfileUnnamed,
    /// RT-97: not a type in the API.
    #[error("unknown apparmor profile type: {0:?}")]
    AppArmorTypeUnknown(String),
    /// RT-81: not a policy in the API.
    #[error("unsupported supplementalGroupsPolicy: {0}")]
    GroupsPolicyUnknown(String),
    /// RT-82: the runtime does not support the requested user namespace.
    #[error("can't set `spec.hostUsers: false`, runtime does not support user namespaces")]
    UserNamespacesUnsupported,
    /// RT-82: the runtime handler does not support the requested user namespace.
    #[error("can't set `spec.hostUsers: false`, RuntimeClass handler {0:?} does not support user namespaces")]
    HandlerUserNamespacesUnsupported(String),
    /// RT-82: a user namespace is requested, but no ids are reserved.
    #[error("can't set `spec.hostUsers: false`, this node gives pods no user namespaces")]
    UserNamespaceMissing,
    /// The host name is invalid (HN-01, HN-02).
    #[error(transparent)]
    Hostname(#[from] crate::hostname::HostnameError),
    /// A mount is invalid (section 7.11).
    #[error(transparent)]
    Mount(#[from] crate::container_mounts::MountError),
    /// Environment, command and arguments are larger than the kernel accepts.
    #[error(transparent)]
    TooLarge(#[from] crate::env::TooLarge),
}
