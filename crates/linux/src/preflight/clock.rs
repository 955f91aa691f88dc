//! Whether the machine's clock is kept in time: certificates, tokens and leases are judged by it.

use std::io;
use std::path::Path;

use super::Finding;

/// systemd-timesyncd makes this file once it has set the clock.
const TIMESYNCD: &str = "/run/systemd/timesync/synchronized";

/// Whether the clock is synchronized, as the kernel or systemd-timesyncd reports it.
pub(super) fn finding() -> Finding {
    judge(kernel_is_synchronized(), Path::new(TIMESYNCD).exists())
}

fn judge(kernel: io::Result<bool>, timesyncd: bool) -> Finding {
    let mend = "install and start chrony or systemd-timesyncd (`timedatectl set-ntp true`); a machine whose host sets its \
                clock needs neither";
    match kernel {
        Ok(true) => Finding::ok("time-sync", "the clock is synchronized"),
        Ok(false) | Err(_) if timesyncd => Finding::ok("time-sync", "the clock was synchronized by systemd-timesyncd"),
        Ok(false) => {
            let what = "the kernel's clock is not synchronized: if it runs wrong, certificates and tokens are refused";
            Finding::warn("time-sync", what, mend)
        }
        Err(err) => Finding::warn("time-sync", format!("the state of the kernel's clock cannot be read: {err}"), mend),
    }
}

/// upstream: adjtimex(2), `STA_UNSYNC`
fn kernel_is_synchronized() -> io::Result<bool> {
    #[expect(unsafe_code, reason = "no safe wrapper exists")]
    // SAFETY: `timex` consists of numbers only, for which zeroes are valid values. With `modes` zero the call changes
    // nothing and writes into the struct that it gets, which outlives it.
    let (state, status) = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut timex), timex.status)
    };
    if state < 0 { Err(io::Error::last_os_error()) } else { Ok(status & libc::STA_UNSYNC == 0) }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::super::tests::check;
    use super::*;

    #[test]
    fn a_clock_that_nobody_sets_is_a_warning() {
        check(&judge(Ok(true), false), Grade::Ok, "the clock is synchronized");
        check(&judge(Ok(false), true), Grade::Ok, "by systemd-timesyncd");
        check(&judge(Ok(false), false), Grade::Warn, "is not synchronized");
        check(&judge(Err(io::ErrorKind::PermissionDenied.into()), false), Grade::Warn, "cannot be read");
    }

    #[test]
    fn this_machines_clock_can_be_read_without_being_set() {
        let found = finding();
        assert_ne!(found.grade, Grade::Fail, "{found:?}");
    }
}
