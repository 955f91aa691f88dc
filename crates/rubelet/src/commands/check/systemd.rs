//! Checks systemd: whether it is PID 1 and answers over D-Bus, and whether logind delays a shutdown for long enough.

use std::path::Path;
use std::time::Duration;

use rubelet_core::shutdown::ShutdownPlan;
use rubelet_engine::chain::Chain;
use rubelet_engine::ports::{MachineShutdown as _, ShutdownError};
use rubelet_engine::task::TaskGroup;
use rubelet_linux::dbus::{Bus, Endpoint};
use rubelet_linux::host::KernelFiles;
use rubelet_linux::logind::Logind;
use rubelet_linux::preflight::{Finding, systemd_is_pid_1};
use tokio_util::sync::CancellationToken;

use super::runtime::ANSWER_WITHIN;
use crate::run::systemd::{bus_endpoints, endpoints, reach};

/// The oldest systemd with the property for a slice's CPUs on cgroup v2.
/// upstream: opencontainers/cgroups systemd unifiedResToSystemdProps, as of v1.36
const CPUSETS_SINCE: u32 = 244;
/// Where rubelet raises logind's delay, as upstream does (SHUT-01).
const DROP_IN: &str = "/etc/systemd/logind.conf.d/99-kubelet.conf";

/// What was seen of systemd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Systemd {
    /// Whether it is PID 1.
    pub(super) pid_1: bool,
    /// Its version over the system bus, or why it did not answer there.
    pub(super) bus: Result<u32, String>,
    /// The same over the bus or systemd's own socket; asked only if the bus alone did not do.
    pub(super) private: Option<Result<u32, String>>,
}

impl Systemd {
    pub(super) async fn look() -> Self {
        let pid_1 = systemd_is_pid_1(&KernelFiles::default());
        let bus = version(bus_endpoints()).await;
        let private = if bus.is_err() { Some(version(endpoints()).await) } else { None };
        Self { pid_1, bus, private }
    }

    /// Its version, over whichever connection answered.
    pub(super) fn answer(&self) -> Result<u32, &str> {
        let last = self.private.as_ref().unwrap_or(&self.bus);
        last.as_ref().copied().map_err(String::as_str)
    }

    #[cfg(test)]
    pub(super) fn nowhere() -> Self {
        Self { pid_1: false, bus: Err("no such socket".to_owned()), private: None }
    }
}

async fn version(endpoints: Vec<Endpoint>) -> Result<u32, String> {
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    let reached = match tokio::time::timeout(ANSWER_WITHIN, reach(endpoints, &mut tasks)).await {
        Ok(Ok((_, version))) => Ok(version),
        Ok(Err(err)) => Err(Chain(&err).to_string()),
        Err(_) => Err(format!("no answer within {ANSWER_WITHIN:?}")),
    };
    tasks.stop().await;
    reached
}

/// systemd itself. A machine without it is no problem for a node with the cgroupfs driver.
pub(super) fn finding(seen: &Systemd, driver_needs_it: bool) -> Finding {
    let name = "systemd";
    match (&seen.bus, seen.answer()) {
        (Ok(version), _) if driver_needs_it && *version < CPUSETS_SINCE => {
            let what = format!("{version}: on cgroup v2 it cannot limit the CPUs of a pod");
            Finding::warn(name, what, format!("install systemd {CPUSETS_SINCE} or later"))
        }
        (Ok(version), _) => Finding::ok(name, format!("{version}, over D-Bus")),
        (Err(why), Ok(version)) => {
            let what = format!("{version}, over its own socket only; D-Bus does not answer: {why}");
            Finding::warn(name, what, "`systemctl start dbus`: a graceful node shutdown needs D-Bus")
        }
        (Err(why), Err(_)) if seen.pid_1 => {
            let what = format!("it is PID 1, and D-Bus does not answer: {why}");
            Finding::warn(name, what, "install dbus and `systemctl start dbus`, and run rubelet as root")
        }
        (Err(_), Err(_)) => Finding::ok(name, "not PID 1 of this machine; the cgroupfs driver works without it"),
    }
}

/// How long logind delays a shutdown, against what the configuration asks for (SHUT-01).
pub(super) async fn shutdown(plan: &ShutdownPlan) -> Finding {
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    let logind = Logind::new(Bus::start(bus_endpoints(), &mut tasks));
    let late = || Err(ShutdownError::Failed(format!("no answer within {ANSWER_WITHIN:?}")));
    let granted = tokio::time::timeout(ANSWER_WITHIN, logind.longest_delay()).await.unwrap_or_else(|_| late());
    tasks.stop().await;
    judge_shutdown(plan.period(), granted.map_err(|err| Chain(&err).to_string()), Path::new(DROP_IN).exists())
}

fn judge_shutdown(period: Duration, granted: Result<Duration, String>, raised: bool) -> Finding {
    let name = "node-shutdown";
    match granted {
        Ok(granted) if granted >= period => {
            Finding::ok(name, format!("logind delays a shutdown for {granted:?}; {period:?} are configured"))
        }
        Ok(granted) if !raised => {
            let what = format!(
                "logind delays a shutdown for {granted:?}; rubelet raises it to {period:?} in {DROP_IN} at its start"
            );
            Finding::ok(name, what)
        }
        Ok(granted) => {
            let what = format!(
                "logind delays a shutdown for {granted:?} only, though {DROP_IN} exists; {period:?} are configured"
            );
            let mend = format!(
                "set InhibitDelayMaxSec={} in the last file of /etc/systemd/logind.conf.d, then `systemctl kill -s HUP \
                 systemd-logind`",
                period.as_secs()
            );
            Finding::warn(name, what, mend)
        }
        Err(why) => {
            let what =
                format!("logind does not answer: {why}; pods are not ended in order when the machine shuts down");
            let mend = "install and start systemd-logind and dbus, or set shutdownGracePeriod to 0s";
            Finding::warn(name, what, mend)
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests::lines;
    use super::*;

    #[test]
    fn systemd_is_judged_by_what_needs_it() {
        let seen = |pid_1, bus: Result<u32, &str>, private: Option<Result<u32, &str>>| Systemd {
            pid_1,
            bus: bus.map_err(str::to_owned),
            private: private.map(|private| private.map_err(str::to_owned)),
        };
        expect![[r#"
            Ok systemd: 252, over D-Bus
            Ok systemd: 239, over D-Bus
            Warn systemd: 239: on cgroup v2 it cannot limit the CPUs of a pod
              fix: install systemd 244 or later
            Warn systemd: 252, over its own socket only; D-Bus does not answer: refused
              fix: `systemctl start dbus`: a graceful node shutdown needs D-Bus
            Warn systemd: it is PID 1, and D-Bus does not answer: refused
              fix: install dbus and `systemctl start dbus`, and run rubelet as root
            Ok systemd: not PID 1 of this machine; the cgroupfs driver works without it
        "#]]
        .assert_eq(&lines(&[
            finding(&seen(true, Ok(252), None), true),
            finding(&seen(true, Ok(239), None), false),
            finding(&seen(true, Ok(239), None), true),
            finding(&seen(true, Err("refused"), Some(Ok(252))), true),
            finding(&seen(true, Err("refused"), Some(Err("no"))), false),
            finding(&Systemd::nowhere(), false),
        ]));
    }

    #[test]
    fn a_delay_that_is_too_short_is_raised_or_named() {
        let secs = Duration::from_secs;
        expect![[r#"
            Ok node-shutdown: logind delays a shutdown for 30s; 30s are configured
            Ok node-shutdown: logind delays a shutdown for 5s; rubelet raises it to 30s in /etc/systemd/logind.conf.d/99-kubelet.conf at its start
            Warn node-shutdown: logind delays a shutdown for 5s only, though /etc/systemd/logind.conf.d/99-kubelet.conf exists; 30s are configured
              fix: set InhibitDelayMaxSec=30 in the last file of /etc/systemd/logind.conf.d, then `systemctl kill -s HUP systemd-logind`
            Warn node-shutdown: logind does not answer: no bus; pods are not ended in order when the machine shuts down
              fix: install and start systemd-logind and dbus, or set shutdownGracePeriod to 0s
        "#]]
        .assert_eq(&lines(&[
            judge_shutdown(secs(30), Ok(secs(30)), false),
            judge_shutdown(secs(30), Ok(secs(5)), false),
            judge_shutdown(secs(30), Ok(secs(5)), true),
            judge_shutdown(secs(30), Err("no bus".to_owned()), false),
        ]));
    }

    #[tokio::test]
    async fn a_bus_that_is_not_there_is_named() {
        let why = version(vec![Endpoint::Bus("/nonexistent/bus".into())]).await.expect_err("nobody listens");
        assert!(why.contains("/nonexistent/bus"), "{why}");
    }
}
