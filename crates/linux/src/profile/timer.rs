//! The kernel's timer that interrupts the process whenever it has used so much CPU time.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use super::capture::{Block, take};
use super::registers::Registers;

/// The timer, while it runs.
pub(super) struct Timer(());

impl Timer {
    /// Starts it: from now on, `take` is called in the thread that uses CPU time.
    pub(super) fn start(every: Duration) -> io::Result<Self> {
        static HANDLER: OnceLock<i32> = OnceLock::new();
        // The handler stays: a signal that comes after the end of a profile would end the process without it.
        match *HANDLER.get_or_init(|| handle().map_or_else(|err| err.raw_os_error().unwrap_or(libc::EINVAL), |()| 0)) {
            0 => set(every).map(|()| Self(())),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // Nothing is left to be done about an error, and there is none: the same call has worked before.
        let _stopped = set(Duration::ZERO);
    }
}

fn set(every: Duration) -> io::Result<()> {
    let micros = libc::suseconds_t::from(i32::try_from(every.as_micros()).unwrap_or(i32::MAX));
    let every = libc::timeval { tv_sec: 0, tv_usec: micros };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    #[expect(unsafe_code, reason = "no safe wrapper exists")]
    // SAFETY: the kernel reads one structure, which outlives the call, and writes none.
    let result = unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn handle() -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe wrapper exists")]
    // SAFETY: zeros are a valid `sigaction`. The handler does only what is allowed in one: it works on atomics and on a slot
    // that it owns, makes one system call, and leaves `errno` as it was. System calls that it interrupts go on (SA_RESTART), but
    // for those that wait with a timeout, which every caller repeats.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_signal(_signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    #[expect(unsafe_code, reason = "the kernel's arguments are pointers")]
    // SAFETY: with SA_SIGINFO the third argument is the context of the interrupted thread, which nothing changes until the
    // handler returns. The address of `errno` is that of this thread, always.
    unsafe {
        let errno = *libc::__errno_location();
        take(&Registers::of(&*context.cast::<libc::ucontext_t>()), Block::default());
        *libc::__errno_location() = errno;
    }
}
