//! The socket holder: a child process that keeps the runtime's sockets open when the agent dies (ADR 13).
//!
//! [`HolderProcess`] is the agent's side: it starts the agent's own program again with the argument [`COMMAND`] and
//! sends it duplicates of sockets. [`hold`] is the holder's main loop. They communicate over a pair of sockets that
//! preserves message boundaries. Each message is the time for which the duplicates are to be kept after the agent's
//! end, and may carry one descriptor. The kernel closes the agent's side of the pair when the agent ends, however it
//! ends.
//!
//! The holder has one thread, reads nothing from disk, and never writes to a socket. It drops a duplicate as soon as
//! either side shut the connection down. It exits when the agent has ended and no socket is left or the time is over.

mod life;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rubelet_engine::ports::SocketHolder;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair,
};
use tracing::warn;

pub use life::{hold, main};

/// The argument that makes the program a socket holder.
pub const COMMAND: &str = "hold-runtime-sockets";
/// Buffer size for one descriptor beside a message.
const ANCILLARY: usize = rustix::cmsg_space!(ScmRights(1));
/// Length of a message: the seconds, as four bytes.
const MESSAGE: usize = size_of::<u32>();

/// A socket holder that runs beside this process while this value lives, and for the requested time after that.
#[derive(Debug)]
pub struct HolderProcess {
    control: OwnedFd,
    /// The time in every message.
    seconds: AtomicU32,
    /// `None` once its exit was noticed.
    child: Mutex<Option<Child>>,
    has_warned: AtomicBool,
}

impl HolderProcess {
    /// Starts `program` as the socket holder of this process. `/proc/self/exe` is the caller's own program, even if the
    /// file was replaced meanwhile.
    pub fn start(program: &Path) -> io::Result<Self> {
        let (control, theirs) = pair()?;
        let mut command = Command::new(program);
        // The holder's only connection to the agent is its standard input. It must not keep an inherited pipe of a
        // supervisor open.
        command.arg0("rubelet").arg(COMMAND).stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.env_clear().current_dir("/").spawn()?;
        Ok(Self {
            control,
            seconds: AtomicU32::new(0),
            child: Mutex::new(Some(child)),
            has_warned: AtomicBool::new(false),
        })
    }

    /// The holder's PID; `None` once its exit was noticed.
    pub fn pid(&self) -> Option<u32> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Child::id)
    }

    fn send(&self, socket: Option<BorrowedFd<'_>>) {
        let Err(err) = send(self.control.as_fd(), self.seconds.load(Ordering::Relaxed), socket) else { return };
        if let Some(mut child) =
            self.child.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| err == Errno::PIPE)
        {
            // The holder closed its side, so it has exited or will. If it is still running, it is reaped when this
            // process ends.
            let _ended = child.try_wait();
        }
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            warn!(
                %err,
                "The process that keeps runtime calls alive when rubelet dies does not answer: a kill of rubelet now \
                 cuts off the calls in flight. Restart rubelet to start that process again"
            );
        }
    }
}

impl SocketHolder for HolderProcess {
    fn hold(&self, socket: BorrowedFd<'_>) {
        self.send(Some(socket));
    }

    fn keep_after_end(&self, time: Duration) {
        // Rounded up to whole seconds: no call may last longer than its duplicates.
        let seconds = u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
        self.seconds.store(seconds, Ordering::Relaxed);
        self.send(None);
    }
}

/// The socket pair between an agent and its holder.
fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one message without waiting: a holder that does not read is of no use.
fn send(control: BorrowedFd<'_>, seconds: u32, socket: Option<BorrowedFd<'_>>) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets = socket.as_slice();
    if !sockets.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(sockets));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(control, &[IoSlice::new(&seconds.to_le_bytes())], &mut ancillary, flags).map(|_| ())
}
