//! Checks the cgroup driver: the runtime's, containerd's configuration and ours must agree, and the systemd driver needs a
//! systemd that answers.

use rubelet_core::config;
use rubelet_engine::ports::CgroupDriver;
use rubelet_linux::preflight::Finding;

use super::systemd::Systemd;
use crate::run::systemd::MEND;

const NAME: &str = "cgroup-driver";

/// What the runtime answered to the question for its driver (`RuntimeConfig`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It uses this driver, which takes precedence over the configuration (BOOT-05).
    Reports(CgroupDriver),
    /// It runs, and cannot say: containerd before 2.0.
    Silent,
    /// It does not run.
    Down,
    /// The call failed.
    Failed(String),
}

/// What was read about the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DriverSeen {
    /// `cgroupDriver`.
    pub(super) configured: CgroupDriver,
    /// Where it was set; `None` if it is the default.
    pub(super) set_in: Option<String>,
    pub(super) runtime: Answer,
    /// containerd's configuration file and its driver, if it names one.
    pub(super) containerd: Option<(String, CgroupDriver)>,
}

pub(super) fn configured(driver: config::CgroupDriver) -> CgroupDriver {
    match driver {
        config::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
        config::CgroupDriver::Systemd => CgroupDriver::Systemd,
    }
}

impl DriverSeen {
    /// The driver that a run would use, and where it comes from.
    pub(super) fn effective(&self) -> (CgroupDriver, String) {
        match (&self.runtime, &self.containerd) {
            (Answer::Reports(driver), _) => (*driver, "as reported by the runtime".to_owned()),
            (Answer::Silent, _) => (
                self.configured,
                "as configured; the runtime does not report its driver, which must be the same".to_owned(),
            ),
            (Answer::Down | Answer::Failed(_), Some((file, driver))) => {
                (*driver, format!("by {file}; the runtime does not answer"))
            }
            (Answer::Down | Answer::Failed(_), None) => {
                (self.configured, "as configured; the runtime does not answer".to_owned())
            }
        }
    }

    /// Whether systemd is needed for it.
    pub(super) fn needs_systemd(&self) -> bool {
        self.effective().0 == CgroupDriver::Systemd
    }
}

pub(super) fn finding(seen: &DriverSeen, systemd: &Systemd) -> Finding {
    if let Answer::Failed(err) = &seen.runtime {
        return Finding::fail(
            NAME,
            format!("the runtime did not answer which driver it uses: {err}"),
            "see the runtime's log",
        );
    }
    let (driver, by) = seen.effective();
    let text = match driver {
        CgroupDriver::Cgroupfs => format!("cgroupfs, {by}"),
        CgroupDriver::Systemd => match systemd.answer() {
            Ok(version) => format!("systemd {version}, {by}"),
            Err(why) => {
                let pid_1 = if systemd.pid_1 { "" } else { "systemd is not PID 1, and " };
                return Finding::fail(NAME, format!("systemd, {by}; {pid_1}systemd does not answer: {why}"), MEND);
            }
        },
    };
    mismatch(seen, &text).unwrap_or_else(|| Finding::ok(NAME, text))
}

/// Two settings that differ, with the line to change.
fn mismatch(seen: &DriverSeen, text: &str) -> Option<Finding> {
    let own = |driver| {
        format!("write `cgroupDriver: {}` into {}", name(driver), seen.set_in.as_deref().unwrap_or("the configuration"))
    };
    let (configured, set) = (seen.configured, seen.set_in.is_some());
    match (&seen.runtime, &seen.containerd) {
        // A default that nobody wrote is no contradiction.
        (Answer::Reports(driver), _) if set && *driver != configured => {
            let what = format!("{text}; the configuration's {} has no effect", name(configured));
            Some(Finding::warn(NAME, what, own(*driver)))
        }
        (Answer::Silent, Some((file, driver))) if *driver != configured => {
            let what = format!(
                "{} by the configuration, {} by {file}: containers do not start",
                name(configured),
                name(*driver)
            );
            let mend =
                format!("{}, or `{}` into {file} and restart containerd", own(*driver), containerd_line(configured));
            Some(Finding::fail(NAME, what, mend))
        }
        (Answer::Down, Some((_, driver))) if set && *driver != configured => {
            let what = format!("{text}; the configuration says {}", name(configured));
            Some(Finding::warn(NAME, what, own(*driver)))
        }
        _ => None,
    }
}

fn name(driver: CgroupDriver) -> &'static str {
    match driver {
        CgroupDriver::Cgroupfs => "cgroupfs",
        CgroupDriver::Systemd => "systemd",
    }
}

fn containerd_line(driver: CgroupDriver) -> &'static str {
    match driver {
        CgroupDriver::Cgroupfs => "SystemdCgroup = false",
        CgroupDriver::Systemd => "SystemdCgroup = true",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests::lines;
    use super::*;

    const CGROUPFS: CgroupDriver = CgroupDriver::Cgroupfs;
    const SYSTEMD: CgroupDriver = CgroupDriver::Systemd;

    fn seen(configured: CgroupDriver, runtime: Answer) -> DriverSeen {
        DriverSeen { configured, set_in: Some("/k.yaml".to_owned()), runtime, containerd: None }
    }

    fn by_file(seen: DriverSeen, driver: CgroupDriver) -> DriverSeen {
        DriverSeen { containerd: Some(("/etc/containerd/config.toml".to_owned(), driver)), ..seen }
    }

    fn well() -> Systemd {
        Systemd { pid_1: true, bus: Ok(252), private: None }
    }

    #[test]
    fn a_driver_that_fits() {
        let default = DriverSeen { set_in: None, ..seen(CGROUPFS, Answer::Reports(SYSTEMD)) };
        expect![[r#"
            Ok cgroup-driver: cgroupfs, as reported by the runtime
            Ok cgroup-driver: systemd 252, as reported by the runtime
            Ok cgroup-driver: systemd 252, as reported by the runtime
            Ok cgroup-driver: cgroupfs, as configured; the runtime does not report its driver, which must be the same
            Ok cgroup-driver: systemd 252, by /etc/containerd/config.toml; the runtime does not answer
            Ok cgroup-driver: cgroupfs, as configured; the runtime does not answer
        "#]]
        .assert_eq(&lines(&[
            finding(&seen(CGROUPFS, Answer::Reports(CGROUPFS)), &Systemd::nowhere()),
            finding(&seen(SYSTEMD, Answer::Reports(SYSTEMD)), &well()),
            finding(&default, &well()),
            finding(&by_file(seen(CGROUPFS, Answer::Silent), CGROUPFS), &well()),
            finding(&by_file(seen(SYSTEMD, Answer::Down), SYSTEMD), &well()),
            finding(&seen(CGROUPFS, Answer::Down), &Systemd::nowhere()),
        ]));
    }

    #[test]
    fn a_mismatch_names_the_line_to_change() {
        expect![[r#"
            Warn cgroup-driver: systemd 252, as reported by the runtime; the configuration's cgroupfs has no effect
              fix: write `cgroupDriver: systemd` into /k.yaml
            Fail cgroup-driver: cgroupfs by the configuration, systemd by /etc/containerd/config.toml: containers do not start
              fix: write `cgroupDriver: systemd` into /k.yaml, or `SystemdCgroup = false` into /etc/containerd/config.toml and restart containerd
            Warn cgroup-driver: cgroupfs, by /etc/containerd/config.toml; the runtime does not answer; the configuration says systemd
              fix: write `cgroupDriver: cgroupfs` into /k.yaml
            Fail cgroup-driver: the runtime did not answer which driver it uses: no such call
              fix: see the runtime's log
        "#]]
        .assert_eq(&lines(&[
            finding(&seen(CGROUPFS, Answer::Reports(SYSTEMD)), &well()),
            finding(&by_file(seen(CGROUPFS, Answer::Silent), SYSTEMD), &well()),
            finding(&by_file(seen(SYSTEMD, Answer::Down), CGROUPFS), &well()),
            finding(&seen(SYSTEMD, Answer::Failed("no such call".to_owned())), &well()),
        ]));
    }

    #[test]
    fn the_systemd_driver_fails_without_systemd_even_while_the_runtime_is_down() {
        let no_bus =
            Systemd { pid_1: true, bus: Err("refused".to_owned()), private: Some(Err("not there".to_owned())) };
        let private = Systemd { private: Some(Ok(257)), ..no_bus.clone() };
        let short = |finding: Finding| Finding { mend: finding.mend.chars().take(39).collect(), ..finding };
        expect![[r#"
            Fail cgroup-driver: systemd, as configured; the runtime does not answer; systemd is not PID 1, and systemd does not answer: no such socket
              fix: the systemd cgroup driver needs systemd
            Fail cgroup-driver: systemd, by /etc/containerd/config.toml; the runtime does not answer; systemd is not PID 1, and systemd does not answer: no such socket
              fix: the systemd cgroup driver needs systemd
            Fail cgroup-driver: systemd, as reported by the runtime; systemd does not answer: not there
              fix: the systemd cgroup driver needs systemd
            Ok cgroup-driver: systemd 257, as reported by the runtime
        "#]]
        .assert_eq(&lines(&[
            short(finding(&seen(SYSTEMD, Answer::Down), &Systemd::nowhere())),
            short(finding(&by_file(seen(CGROUPFS, Answer::Down), SYSTEMD), &Systemd::nowhere())),
            short(finding(&seen(SYSTEMD, Answer::Reports(SYSTEMD)), &no_bus)),
            finding(&seen(SYSTEMD, Answer::Reports(SYSTEMD)), &private),
        ]));
    }
}
