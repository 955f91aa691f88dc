//! Words that users see in a container's status, spelt as upstream spells them (PST-06).

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All of them, in this order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word as it stands in the API.
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
        /// Nothing of it exists yet.
        ContainerCreating = "ContainerCreating",
        /// Init containers come first.
        PodInitializing = "PodInitializing",
        /// It ended too often too soon.
        CrashLoopBackOff = "CrashLoopBackOff",
        /// The image could not be pulled.
        ErrImagePull = "ErrImagePull",
        /// The image could not be pulled some time ago, and the next try is later.
        ImagePullBackOff = "ImagePullBackOff",
        /// The runtime could not say whether the image is there.
        ImageInspectError = "ImageInspectError",
        /// The image is not there and may not be pulled.
        ErrImageNeverPull = "ErrImageNeverPull",
        /// The image's name cannot be read.
        InvalidImageName = "InvalidImageName",
        /// The registry did not answer.
        RegistryUnavailable = "RegistryUnavailable",
        /// The image's signature is wrong.
        SignatureValidationFailed = "SignatureValidationFailed",
        /// Its configuration could not be made from the spec.
        CreateContainerConfigError = "CreateContainerConfigError",
        /// Resources could not be assigned before it was made.
        PreCreateHookError = "PreCreateHookError",
        /// The runtime could not make it.
        CreateContainerError = "CreateContainerError",
        /// Resources could not be assigned before it was started.
        PreStartHookError = "PreStartHookError",
        /// Its postStart hook failed.
        PostStartHookError = "PostStartHookError",
        /// The runtime could not start it.
        RunContainerError = "RunContainerError",
        /// A rule restarts every container of the pod.
        RestartingAllContainers = "RestartingAllContainers",
    }
}

/// Why a container could not be started, kept until it can: it becomes the `waiting` state of its status (SYNC-13).
#[doc(alias = "reasonCache")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// The word.
    pub reason: WaitingReason,
    /// The sentence.
    pub message: String,
}
