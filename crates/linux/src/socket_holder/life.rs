//! The holder's own life: one thread, one loop, no allocation that grows.

use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recv, recvmsg};

use super::{ANCILLARY, COMMAND, MESSAGE};

/// The most sockets that are kept. An agent has two or three; of more, the newest count.
const MOST_SOCKETS: usize = 16;
/// What `ps` shows as the name of the process; the kernel takes 15 bytes.
const NAME: &str = "rubelet-holder";
/// How much of an answer that nobody waits for is read at a time.
const DISCARD: usize = 4096;

/// Is the holder of the agent behind standard input, until it is no longer needed.
pub fn main() -> ExitCode {
    close_what_was_inherited();
    // For people only.
    let _named = std::fs::write("/proc/self/comm", NAME);
    // A terminal's Ctrl-C is meant for the agent, which stops in good order. Fails only if we lead a group already.
    let _session = rustix::process::setsid();
    match hold(io::stdin().as_fd()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            // Of use to a person who tries it by hand; the agent's holder has no such stream.
            let _said = writeln!(io::stderr(), "{COMMAND} is for rubelet's own use: standard input: {err}");
            ExitCode::from(2)
        }
    }
}

/// Closes all but the standard streams: a lock, a listening socket or a pipe of the agent's supervisor must not outlive
/// the agent because of us. What rubelet opens itself is closed by `exec` already.
fn close_what_was_inherited() {
    /// The first that is no standard stream.
    const FIRST: libc::c_uint = 3;
    #[expect(unsafe_code, reason = "no safe wrapper exists")]
    // SAFETY: called first of all in a process with one thread, which has opened nothing yet: no value of ours owns a
    // descriptor that is closed here. Called by number, as the C library may be too old to know the call; a kernel before
    // 5.9 refuses it, and what the supervisor left open then stays open.
    unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0);
    }
}

/// Keeps the sockets that come over `control` while its other end lives, and for the time that was last asked for after
/// that.
pub fn hold(control: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let mut held: Vec<OwnedFd> = Vec::with_capacity(MOST_SOCKETS);
    let mut keep = Duration::ZERO;
    // The agent lives. What comes over the sockets is the agent's to read: we only look whether they were shut down.
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
                if held.len() == MOST_SOCKETS {
                    held.remove(0);
                }
                held.extend(socket);
            }
            None => break,
        }
    }
    outlive(held, keep)
}

/// The agent is gone: keeps the sockets for a while, and reads away what comes, so that an answer that nobody waits for
/// cannot block the runtime.
#[expect(clippy::disallowed_methods, reason = "this process has no engine, and so no clock of the engine")]
fn outlive(mut held: Vec<OwnedFd>, keep: Duration) -> rustix::io::Result<()> {
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

/// Reads away what has come; `false` if nothing more will.
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

/// The next message; `None` when the other end is closed and everything it sent was read.
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
