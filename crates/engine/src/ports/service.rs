//! The service manager that started this process.

/// Takes messages about the state of this process. Never waits, and a message that cannot be sent is lost.
#[doc(alias = "SdNotify")]
pub trait ServiceManager: Send + Sync {
    /// Sends one. Returns whether it was taken: `false` if there is no service manager, or it does not read.
    fn notify(&self, message: &ServiceMessage<'_>) -> bool;
}

/// The state of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceMessage<'a> {
    /// It is started.
    Ready,
    /// It ends.
    Stopping,
    /// One line for people.
    Status(&'a str),
    /// It is well.
    Watchdog,
}
