//! Why a call failed.

use std::io;
use std::time::Duration;

use super::write::Unwritable;

/// A call or a subscription failed.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// No endpoint could be connected to.
    #[error("connect to D-Bus at {address}")]
    Connect {
        /// Where the last attempt went.
        address: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The connection died before the reply came. The call may have had its effect.
    #[error("lost the D-Bus connection while {member} was under way")]
    Lost {
        /// What was called.
        member: String,
    },
    /// The reply did not come in time. The call may have its effect yet.
    #[error("wait {within:?} for a reply to {member}")]
    Timeout {
        /// What was called.
        member: String,
        /// For how long.
        within: Duration,
    },
    /// The other side answered with an error.
    #[error("{member} answered {name}: {message}")]
    Answered {
        /// What was called.
        member: String,
        /// The error's name, such as `org.freedesktop.systemd1.UnitExists`.
        name: String,
        /// Its text, for people.
        message: String,
    },
    /// The reply is not well-formed or too long.
    #[error("read the reply to {member}")]
    Garbled {
        /// What was called.
        member: String,
    },
    /// The call cannot be written as a message.
    #[error("write the call of {member}")]
    Unwritable {
        /// What was called.
        member: String,
        /// Why not.
        #[source]
        source: Unwritable,
    },
    /// Too many calls are waiting for their replies.
    #[error("call {member}: too many calls are waiting")]
    Busy {
        /// What was called.
        member: String,
    },
}

impl BusError {
    /// The name of the error with which the other side answered.
    pub fn name(&self) -> Option<&str> {
        if let Self::Answered { name, .. } = self { Some(name) } else { None }
    }
}
