//! The machine's shutdown, as systemd's login manager announces it over D-Bus (SHUT-01, SHUT-02).
//!
//! Any user of the machine can send the login manager's signal, and a signal ends the node's pods. The bus knows a sender's
//! user only while the sender is connected, and programs that send one signal are gone before the bus can be asked. So the
//! bus itself is told to deliver this signal only if root sent it; as long as it is not, the login manager's signals alone
//! count (ADR 25).
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
use crate::dbus::{Bus, BusError, Call, Others, Reply, Signal, SignalRule, Signals, Value};

const SERVICE: &str = "org.freedesktop.login1";
const OBJECT: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// The bus itself.
const BUS: &str = "org.freedesktop.DBus";
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
/// Settings of the bus. A bus without this directory is not the system's.
const BUS_SETTINGS: &str = "/etc/dbus-1";
const BUS_DROP_INS: &str = "system.d";
const BUS_DROP_IN: &str = "kubelet-shutdown.conf";
/// Only root may send the signal. The rules of a user come after those for all.
const BUS_POLICY: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<!-- Written by the kubelet, which ends the pods of this node when a shutdown is announced: only root may announce one. -->
<busconfig>
  <policy context="default">
    <deny send_type="signal" send_interface="org.freedesktop.login1.Manager" send_member="PrepareForShutdown"/>
  </policy>
  <policy user="root">
    <allow send_type="signal" send_interface="org.freedesktop.login1.Manager" send_member="PrepareForShutdown"/>
  </policy>
</busconfig>
"#;

/// The login manager of this machine.
#[derive(Clone, Debug)]
pub struct Logind {
    bus: Bus,
    drop_ins: PathBuf,
    bus_settings: PathBuf,
}

impl Logind {
    /// The login manager on this bus, which is the system's.
    pub fn new(bus: Bus) -> Self {
        Self { bus, drop_ins: DROP_INS.into(), bus_settings: BUS_SETTINGS.into() }
    }

    async fn is_going_down(&self) -> Result<Option<MachineState>, ShutdownError> {
        let answer = self.property("PreparingForShutdown").await?.as_bool();
        Ok(answer.map(|going_down| if going_down { MachineState::GoingDown } else { MachineState::Up }))
    }

    /// Sees to it that only root can send the signal. Once the bus has said that it has read its settings anew, signals of
    /// others than the login manager are root's.
    async fn others(&self) -> Others {
        let dir = self.bus_settings.clone();
        let wrote = RECORDS.run("logind", move || write_policy(&dir).map_err(failed("write", &dir.join(BUS_DROP_INS))));
        let reload = Call::new(BUS, "/org/freedesktop/DBus", BUS, "ReloadConfig");
        let err = match wrote.await {
            Ok(()) => match self.bus.call(reload).await {
                Ok(_) => return Others::Trusted,
                Err(err) => Chain(&err).to_string(),
            },
            Err(err) => Chain(&err).to_string(),
        };
        tracing::info!(err, "The bus delivers a shutdown's signal of any user: only the login manager's counts");
        Others::Ignored
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
        // Without a login manager there is nothing to set up.
        self.is_going_down().await?;
        let rule = SignalRule {
            sender: SERVICE.to_owned(),
            others: self.others().await,
            path: OBJECT.to_owned(),
            interface: MANAGER.to_owned(),
            member: "PrepareForShutdown".to_owned(),
            arg: None,
        };
        // The signals first: one that is sent meanwhile repeats at most what the property says.
        let signals = self.bus.subscribe(rule).await.map_err(refused)?;
        let now = self.is_going_down().await?;
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
        announced(&self.signals.next().await?)
    }
}

fn announced(signal: &Signal) -> Option<MachineState> {
    let going_down = signal.body.first().and_then(Value::as_bool)?;
    Some(match (going_down, signal.is_of_service) {
        (true, true) => MachineState::GoingDown,
        (true, false) => MachineState::Announced,
        (false, _) => MachineState::Cancelled,
    })
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

/// Writes the settings of the bus, if they are others. The bus reads files only whose name ends in `.conf`.
fn write_policy(settings: &Path) -> std::io::Result<()> {
    std::fs::metadata(settings)?;
    let dir = settings.join(BUS_DROP_INS);
    let file = dir.join(BUS_DROP_IN);
    if std::fs::read(&file).is_ok_and(|text| text == BUS_POLICY.as_bytes()) {
        return Ok(());
    }
    std::fs::create_dir_all(&dir)?;
    let new = dir.join(format!("{BUS_DROP_IN}.new"));
    std::fs::write(&new, BUS_POLICY)?;
    std::fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbus::tests::fake::{FakeBus, FakeClient, Received};

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
    fn only_the_login_manager_s_own_announcement_is_its_state() {
        let seen = |is_of_service, body: &[Value]| announced(&Signal { is_of_service, body: body.to_vec() });
        assert_eq!(seen(true, &[Value::Bool(true)]), Some(MachineState::GoingDown));
        assert_eq!(seen(false, &[Value::Bool(true)]), Some(MachineState::Announced));
        assert_eq!(seen(true, &[Value::Bool(false)]), Some(MachineState::Cancelled));
        assert_eq!(seen(false, &[Value::Bool(false)]), Some(MachineState::Cancelled));
        assert_eq!(seen(false, &[Value::str("true")]), None);
        assert_eq!(seen(true, &[]), None);
    }

    /// Runs `client` with a login manager on a bus of which `script` is the other side, after the first question whether
    /// the machine is going down.
    async fn on_bus<T>(
        settings: &Path,
        script: impl FnOnce(&mut FakeClient) + Send + 'static,
        client: impl AsyncFnOnce(&Logind) -> T,
    ) -> T {
        let fake = FakeBus::new();
        let mut tasks = rubelet_engine::task::TaskGroup::new(&tokio_util::sync::CancellationToken::new());
        let bus = Bus::start(vec![crate::dbus::Endpoint::Bus(fake.path.clone())], &mut tasks);
        let server = std::thread::spawn(move || {
            let mut client = fake.accept();
            is_not_going_down(&mut client);
            script(&mut client);
        });
        let result = client(&Logind { bus, drop_ins: settings.into(), bus_settings: settings.into() }).await;
        tasks.stop().await;
        server.join().expect("the script was followed");
        result
    }

    fn is_not_going_down(client: &mut FakeClient) {
        let (call, body) = client.receive();
        assert_eq!(body, [Value::str(MANAGER), Value::str("PreparingForShutdown")]);
        client.reply(&call, &[Value::Variant(Box::new(Value::Bool(false)))]);
    }

    fn reloads(client: &mut FakeClient) -> Received {
        let (call, _) = client.receive();
        assert_eq!(call.member.as_deref(), Some("ReloadConfig"));
        call
    }

    const SIGNAL: (&str, &str, &str) = (OBJECT, MANAGER, "PrepareForShutdown");

    #[tokio::test]
    async fn a_signal_of_root_counts_once_the_bus_delivers_no_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("system.d/kubelet-shutdown.conf");
        let there = file.clone();
        let script = move |client: &mut FakeClient| {
            let reload = reloads(client);
            assert_eq!(std::fs::read_to_string(there).expect("a file"), BUS_POLICY, "the bus reads it now");
            client.reply(&reload, &[]);
            assert!(!client.accept_subscription(":1.2").contains("sender="));
            is_not_going_down(client);
            for (from, going_down) in [(":1.66", true), (":1.67", false), (":1.2", true)] {
                client.signal(from, SIGNAL, &[Value::Bool(going_down)]);
            }
        };
        on_bus(dir.path(), script, async |logind| {
            let mut states = logind.follow().await.expect("followed");
            for state in [MachineState::Up, MachineState::Announced, MachineState::Cancelled, MachineState::GoingDown] {
                assert_eq!(states.next().await, Some(state));
            }
        })
        .await;
        let files: Vec<_> = std::fs::read_dir(dir.path().join("system.d")).expect("a directory").collect();
        assert_eq!(files.len(), 1, "{files:?}");
    }

    #[tokio::test]
    async fn without_that_assurance_only_the_login_manager_s_signals_count() {
        let dir = tempfile::tempdir().expect("a directory");
        for has_settings in [true, false] {
            let settings = if has_settings { dir.path().to_owned() } else { dir.path().join("none") };
            let script = move |client: &mut FakeClient| {
                if has_settings {
                    let reload = reloads(client);
                    client.reply_error(&reload, "org.freedesktop.DBus.Error.AccessDenied");
                }
                assert!(client.accept_subscription(":1.2").contains("sender='org.freedesktop.login1'"));
                is_not_going_down(client);
                client.signal(":1.66", SIGNAL, &[Value::Bool(true)]);
                client.signal(":1.2", SIGNAL, &[Value::Bool(false)]);
            };
            on_bus(&settings, script, async |logind| {
                let mut states = logind.follow().await.expect("followed");
                assert_eq!(states.next().await, Some(MachineState::Up));
                assert_eq!(states.next().await, Some(MachineState::Cancelled), "another's does not count");
            })
            .await;
        }
        assert!(!dir.path().join("none").exists());
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

    /// The bus's own rule is what keeps other users from announcing a shutdown.
    #[tokio::test]
    async fn shut_01_node_systemd_only_root_and_the_login_manager_announce_a_shutdown() {
        crate::testing::needs_machine();
        let mut tasks = rubelet_engine::task::TaskGroup::new(&tokio_util::sync::CancellationToken::new());
        let logind = Logind::new(Bus::start(crate::dbus::Endpoint::system_bus(None), &mut tasks));
        let mut states = logind.follow().await.expect("followed");
        assert_eq!(states.next().await, Some(MachineState::Up));
        for (user, going_down) in [("65534", "true"), ("0", "true"), ("65534", "false"), ("0", "false")] {
            let as_user = ["--reuid", user, "--regid", user, "--clear-groups", "--"];
            let emit = ["busctl", "emit", OBJECT, MANAGER, "PrepareForShutdown", "b", going_down];
            let status = std::process::Command::new("setpriv").args(as_user).args(emit).status().expect("setpriv");
            assert!(status.success(), "the bus takes every signal, and delivers root's");
        }
        assert_eq!(states.next().await, Some(MachineState::Announced));
        assert_eq!(states.next().await, Some(MachineState::Cancelled));
        let more = tokio::time::timeout(Duration::from_secs(1), states.next()).await;
        assert!(more.is_err(), "{more:?}");
        drop(states);
        tasks.stop().await;
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
