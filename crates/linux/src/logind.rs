//! The machine's shutdown, as systemd's login manager announces it over D-Bus (SHUT-01, SHUT-02).
//!
//! upstream: nodeshutdown/systemd/inhibit_linux.go (v1.36)

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rubelet_engine::blocking::RECORDS;
use rubelet_engine::chain::Chain;
use rubelet_engine::ports::{MachineShutdown, MachineState, MachineStates, ShutdownDelay, ShutdownError};

use crate::beneath::failed;
use crate::dbus::{Bus, BusError, Call, Reply, SignalRule, Signals, Value};

const SERVICE: &str = "org.freedesktop.login1";
const OBJECT: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// The answer to a request for a delay once the shutdown has begun.
const IN_PROGRESS: &str = "org.freedesktop.login1.OperationInProgress";
/// Answers of the bus that say that there is no login manager.
const NOBODY: [&str; 3] = [
    "org.freedesktop.DBus.Error.ServiceUnknown",
    "org.freedesktop.DBus.Error.NameHasNoOwner",
    "org.freedesktop.systemd1.NoSuchUnit",
];
/// Settings of the login manager beside its own file, which stays as it is.
const DROP_INS: &str = "/etc/systemd/logind.conf.d";
const DROP_IN: &str = "99-kubelet.conf";
const SIGHUP: i32 = 1;

/// The login manager of this machine.
#[derive(Clone, Debug)]
pub struct Logind {
    bus: Bus,
    drop_ins: PathBuf,
}

impl Logind {
    /// The login manager on this bus, which is the system's.
    pub fn new(bus: Bus) -> Self {
        Self { bus, drop_ins: DROP_INS.into() }
    }

    async fn property(&self, name: &str) -> Result<Value, ShutdownError> {
        let call = Call::new(SERVICE, OBJECT, PROPERTIES, "Get").with([Value::str(MANAGER), Value::str(name)]);
        let Reply { body, .. } = self.bus.call(call).await.map_err(refused)?;
        let value = body.first().map(|value| value.unboxed().clone());
        value.ok_or_else(|| ShutdownError::Failed(format!("the login manager has no value of {name}")))
    }
}

#[async_trait]
impl MachineShutdown for Logind {
    async fn follow(&self) -> Result<Box<dyn MachineStates>, ShutdownError> {
        let rule = SignalRule {
            sender: SERVICE.to_owned(),
            path: OBJECT.to_owned(),
            interface: MANAGER.to_owned(),
            member: "PrepareForShutdown".to_owned(),
            arg: None,
        };
        // The signals first: one that is sent meanwhile repeats at most what the property says.
        let signals = self.bus.subscribe(rule).await.map_err(refused)?;
        let now = state(self.property("PreparingForShutdown").await?.as_bool());
        Ok(Box::new(LogindStates { signals, first: now }))
    }

    async fn longest_delay(&self) -> Result<Duration, ShutdownError> {
        let micros = self.property("InhibitDelayMaxUSec").await?.as_u64();
        let garbled = || ShutdownError::Failed("the login manager's InhibitDelayMaxUSec is no number".to_owned());
        micros.map(Duration::from_micros).ok_or_else(garbled)
    }

    async fn allow_delay(&self, delay: Duration) -> Result<(), ShutdownError> {
        let dir = self.drop_ins.clone();
        let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        let wrote =
            RECORDS.run("logind", move || write_drop_in(&dir, seconds).map_err(failed("write", &dir.join(DROP_IN))));
        wrote.await.map_err(|err| ShutdownError::Failed(Chain(&err).to_string()))?;
        let arguments = [Value::str("systemd-logind.service"), Value::str("all"), Value::I32(SIGHUP)];
        let reload = Call::new(
            "org.freedesktop.systemd1",
            "/org/freedesktop/systemd1",
            "org.freedesktop.systemd1.Manager",
            "KillUnit",
        );
        self.bus.call(reload.with(arguments)).await.map(drop).map_err(refused)
    }

    async fn delay(&self) -> Result<Box<dyn ShutdownDelay>, ShutdownError> {
        let why = "Kubelet needs time to handle node shutdown";
        let arguments = ["shutdown", "kubelet", why, "delay"].map(Value::str);
        let call = Call::new(SERVICE, OBJECT, MANAGER, "Inhibit").with(arguments);
        let lock = self.bus.call(call).await.map_err(refused)?.into_fd();
        let lock =
            lock.ok_or_else(|| ShutdownError::Failed("the login manager's lock has no descriptor".to_owned()))?;
        Ok(Box::new(InhibitLock { _open: lock }))
    }
}

/// The lock is held for as long as this descriptor is open.
struct InhibitLock {
    _open: OwnedFd,
}

impl ShutdownDelay for InhibitLock {}

struct LogindStates {
    signals: Signals,
    /// The state when the signals were subscribed to.
    first: Option<MachineState>,
}

#[async_trait]
impl MachineStates for LogindStates {
    async fn next(&mut self) -> Option<MachineState> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        // A signal without a truth value ends the stream: whoever follows it asks anew.
        let signal = self.signals.next().await?;
        state(signal.body.first().and_then(Value::as_bool))
    }
}

fn state(going_down: Option<bool>) -> Option<MachineState> {
    going_down.map(|going_down| if going_down { MachineState::GoingDown } else { MachineState::Up })
}

fn refused(err: BusError) -> ShutdownError {
    match (&err, err.name()) {
        (_, Some(IN_PROGRESS)) => ShutdownError::Begun,
        (BusError::Connect { .. }, _) => ShutdownError::Absent(Chain(&err).to_string()),
        (_, Some(name)) if NOBODY.contains(&name) => ShutdownError::Absent(Chain(&err).to_string()),
        _ => ShutdownError::Failed(Chain(&err).to_string()),
    }
}

fn write_drop_in(dir: &Path, seconds: u64) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join(DROP_IN), format!("# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // SHUT-01
    #[test]
    fn the_drop_in_is_upstreams() {
        let dir = tempfile::tempdir().expect("a directory");
        let drop_ins = dir.path().join("systemd/logind.conf.d");
        for seconds in [30, 45] {
            write_drop_in(&drop_ins, seconds).expect("written");
            let text = std::fs::read_to_string(drop_ins.join("99-kubelet.conf")).expect("a file");
            assert_eq!(text, format!("# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds}\n"));
        }
    }

    #[test]
    fn answers_of_the_bus_are_told_apart() {
        let answered = |name: &str| {
            let (member, message) = ("Inhibit".to_owned(), "why".to_owned());
            refused(BusError::Answered { member, name: name.to_owned(), message })
        };
        assert_eq!(answered(IN_PROGRESS), ShutdownError::Begun);
        assert!(matches!(answered("org.freedesktop.DBus.Error.ServiceUnknown"), ShutdownError::Absent(_)));
        assert!(matches!(answered("org.freedesktop.DBus.Error.AccessDenied"), ShutdownError::Failed(_)));
        let connect = BusError::Connect { address: "a".to_owned(), source: std::io::ErrorKind::NotFound.into() };
        assert!(matches!(refused(connect), ShutdownError::Absent(_)));
    }

    /// In a machine with systemd (`tests/machine`), with `RUBELET_LOGIND_TESTS=1`; `poweroff` instead of `1` shuts the
    /// machine down at the end. Anywhere else there is nothing to test.
    #[tokio::test]
    async fn a_real_login_manager_obeys_the_contract() {
        use rubelet_testkit::contract;
        let Ok(wish) = std::env::var("RUBELET_LOGIND_TESTS") else { return };
        let mut tasks = rubelet_engine::task::TaskGroup::new(&tokio_util::sync::CancellationToken::new());
        let logind = Logind::new(Bus::start(crate::dbus::Endpoint::system_bus(None), &mut tasks));
        contract::the_state_of_the_machine_comes_first(&logind).await;
        contract::delays_are_independent(&logind).await;
        contract::the_longest_delay_can_be_raised(&logind).await;
        if wish == "poweroff" {
            let mut states = logind.follow().await.expect("followed");
            let delay = logind.delay().await.expect("a delay");
            assert_eq!(states.next().await, Some(MachineState::Up));
            let asked = std::process::Command::new("systemctl").arg("poweroff").status().expect("systemctl");
            assert!(asked.success());
            assert_eq!(states.next().await, Some(MachineState::GoingDown));
            // Whoever starts now learns it at once, and comes too late for a delay.
            let mut late = logind.follow().await.expect("followed");
            assert_eq!(late.next().await, Some(MachineState::GoingDown));
            assert_eq!(logind.delay().await.err(), Some(ShutdownError::Begun));
            drop(delay);
        }
        tasks.stop().await;
    }
}
