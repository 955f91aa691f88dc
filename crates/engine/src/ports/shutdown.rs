//! The shutdown of the machine, as its login manager announces it.

use std::time::Duration;

use async_trait::async_trait;

/// Announces shutdowns of the machine, and can be asked to delay them. Every method has a deadline of its own.
#[doc(alias = "dbusInhibiter")]
#[async_trait]
pub trait MachineShutdown: Send + Sync {
    /// Follows the machine from now on.
    async fn follow(&self) -> Result<Box<dyn MachineStates>, ShutdownError>;
    /// The longest delay that the machine grants.
    #[doc(alias = "CurrentInhibitDelay")]
    async fn longest_delay(&self) -> Result<Duration, ShutdownError>;
    /// Asks the machine to grant a longer one. It may take a moment until [`Self::longest_delay`] shows it.
    #[doc(alias = "OverrideInhibitDelay")]
    async fn allow_delay(&self, delay: Duration) -> Result<(), ShutdownError>;
    /// Delays every shutdown, but not one that has begun, until the answer is dropped.
    #[doc(alias = "InhibitShutdown")]
    async fn delay(&self) -> Result<Box<dyn ShutdownDelay>, ShutdownError>;
}

/// Whether the machine is about to go down, each time that this changes.
#[async_trait]
pub trait MachineStates: Send {
    /// The login manager's state at once, for the first call, and then each announcement and cancellation; `None` once the
    /// machine can't be followed any more. Cancel-safe.
    async fn next(&mut self) -> Option<MachineState>;
}

/// Delays the shutdown of the machine until dropped.
pub trait ShutdownDelay: Send {}

/// Whether the machine is about to go down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// It is not: the login manager said so when it was asked.
    Up,
    /// It is, as soon as nobody delays it: the login manager says so.
    #[doc(alias = "PrepareForShutdown")]
    GoingDown,
    /// It is, as a process of root announced. The login manager may know nothing of it.
    Announced,
    /// It is not any more: a shutdown was cancelled.
    Cancelled,
}

/// Why the machine's shutdown can't be followed or delayed. The text is for people only.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ShutdownError {
    /// Nobody on this machine announces shutdowns.
    #[error("{0}")]
    Absent(String),
    /// A shutdown has begun: it can no longer be delayed.
    #[error("the machine is going down already")]
    Begun,
    /// The request failed.
    #[error("{0}")]
    Failed(String),
}
