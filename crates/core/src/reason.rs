//! Reasons in a container's status, in upstream's spelling (PST-06).

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All variants, in this order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The reason in the API.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

reasons! {
    /// Why a container waits.
    WaitingReason {
        /// The container is not created yet.
        ContainerCreating = "ContainerCreating",
        /// Init containers come first.
        PodInitializing = "PodInitializing",
        /// The container ended too often too soon.
        CrashLoopBackOff = "CrashLoopBackOff",
        /// The image could not be pulled.
        ErrImagePull = "ErrImagePull",
        /// The image could not be pulled, and the next try comes after the back-off.
        ImagePullBackOff = "ImagePullBackOff",
        /// The runtime could not inspect the image.
        ImageInspectError = "ImageInspectError",
        /// The image is not present and must not be pulled.
        ErrImageNeverPull = "ErrImageNeverPull",
        /// The name of the image cannot be parsed.
        InvalidImageName = "InvalidImageName",
        /// The registry did not answer.
        RegistryUnavailable = "RegistryUnavailable",
        /// The image's signature is wrong.
        SignatureValidationFailed = "SignatureValidationFailed",
        /// Its configuration could not be made from the spec.
        CreateContainerConfigError = "CreateContainerConfigError",
        /// Resources could not be assigned before the container was created.
        PreCreateHookError = "PreCreateHookError",
        /// The runtime could not create the container.
        CreateContainerError = "CreateContainerError",
        /// Resources could not be assigned before the container was started.
        PreStartHookError = "PreStartHookError",
        /// Its postStart hook failed.
        PostStartHookError = "PostStartHookError",
        /// The runtime could not start the container.
        RunContainerError = "RunContainerError",
        /// A rule restarts every container of the pod.
        RestartingAllContainers = "RestartingAllContainers",
    }
}

/// Why a container could not be started. It is kept until the container starts, as the `waiting` state of its status
/// (SYNC-13).
#[doc(alias = "reasonCache")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// The reason.
    pub reason: WaitingReason,
    /// The message.
    pub message: String,
}
