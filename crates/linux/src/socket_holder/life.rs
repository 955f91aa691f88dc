//! The holder process: one thread, one loop, bounded memory.

use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recv, recvmsg};

use super::{ANCILLARY, COMMAND, MESSAGE};

/// The most sockets that are kept. An agent has two or three; beyond the limit the oldest are dropped.
const MAX_SOCKETS: usize = 16;
/// The process name that `ps` shows; the kernel takes 15 bytes.
const NAME: &str = "rubelet-holder";
/// How much of an unwanted answer is read at a time.
const DISCARD: usize = 4096;

/// Runs the holder of the agent at the other end of standard input until it is no longer needed.
pub fn main() -> ExitCode {
    close_inherited_descriptors();
    let _named = std::fs::write("/proc/self/comm", NAME);
    // Ctrl-C in a terminal is meant for the agent, which stops in good order. Fails only if this process already leads
    // a group.
    let _session = rustix::process::setsid();
    match hold(io::stdin().as_fd()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            // Visible to a person who runs the command by hand; the agent's holder has no standard error.
            let _said = writeln!(io::stderr(), "{COMMAND} is for rubelet's own use: standard input: {err}");
            ExitCode::from(2)
        }
    }
}

/// Closes all descriptors but the standard streams: a lock, a listening socket or a pipe of the agent's supervisor must
/// not outlive the agent because of the holder. Descriptors that rubelet opened are closed by `exec` already.
fn close_inherited_descriptors() {
    /// The first descriptor after the standard streams.
    const FIRST: libc::c_uint = 3;
    #[expect(unsafe_code, reason = "no safe wrapper exists")]
    // SAFETY: called first of all in a process with one thread, which has opened nothing yet: no value of ours owns a
    // descriptor that is closed here. Called by number, as the C library may be too old to have the call; a kernel
    // before 5.9 refuses it, and the supervisor's descriptors stay open.
    unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0);
    }
}

/// Keeps the sockets received over `control` while its other end lives, and for the last requested time after that.
pub fn hold(control: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let mut held: Vec<OwnedFd> = Vec::with_capacity(MAX_SOCKETS);
    let mut keep = Duration::ZERO;
    // The agent lives. Data on the sockets is the agent's to read: the holder only polls for a shutdown.
    loop {
        let mut fds: Vec<PollFd<'_>> = vec![PollFd::new(&control, PollFlags::IN)];
        fds.extend(held.iter().map(|socket| PollFd::new(socket, PollFlags::empty())));
        wait(&mut fds, None)?;
        let mut seen: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        let of_control = seen.remove(0);
        let mut ended = seen.into_iter().map(|seen| !seen.is_empty());
        held.retain(|_| !ended.next().unwrap_or_default());
        if of_control.is_empty() {
            continue;
        }
        match receive(control)? {
            Some((seconds, socket)) => {
                keep = Duration::from_secs(seconds.into());
                if held.len() == MAX_SOCKETS {
                    held.remove(0);
                }
                held.extend(socket);
            }
            None => break,
        }
    }
    hold_after_agent(held, keep)
}

/// The agent is gone: keeps the sockets for a while, and reads and discards incoming data, so that an answer without a
/// reader cannot block the runtime.
#[expect(clippy::disallowed_methods, reason = "this process has no engine, and so no clock of the engine")]
fn hold_after_agent(mut held: Vec<OwnedFd>, keep: Duration) -> rustix::io::Result<()> {
    let began = Instant::now();
    loop {
        let left = keep.saturating_sub(began.elapsed());
        if held.is_empty() || left.is_zero() {
            return Ok(());
        }
        let mut fds: Vec<PollFd<'_>> = held.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        wait(&mut fds, Some(left))?;
        let seen: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut seen = seen.into_iter();
        held.retain(|socket| !seen.next().unwrap_or_default() || discard(socket));
    }
}

/// Reads and discards what is there; `false` at the end of the stream.
fn discard(socket: &OwnedFd) -> bool {
    let mut bytes = [0_u8; DISCARD];
    match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((0, _)) => false,
        Ok(_) | Err(Errno::INTR | Errno::AGAIN) => true,
        Err(_) => false,
    }
}

fn wait(fds: &mut [PollFd<'_>], at_most: Option<Duration>) -> rustix::io::Result<()> {
    let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
    match poll(fds, at_most.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(err) => Err(err),
    }
}

/// The next message; `None` when the other end is closed and all its messages were read.
fn receive(control: BorrowedFd<'_>) -> rustix::io::Result<Option<(u32, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0_u8; MESSAGE];
    let got = loop {
        match recvmsg(control, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            got => break got?,
        }
    };
    if got.bytes == 0 {
        return Ok(None);
    }
    let socket = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    Ok(Some((u32::from_le_bytes(bytes), socket)))
}
