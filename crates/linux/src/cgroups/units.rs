//! Slices of systemd, over D-Bus.
//!
//! Each step can be repeated: a unit that exists is as good as one made now, and a unit that is gone as good as one
//! stopped. So when systemd re-executes itself or the bus is restarted, a step is simply tried again. Processes in slices
//! do not notice either.

use std::sync::OnceLock;
use std::time::Duration;

use rubelet_core::backoff::Doubling;
use rubelet_core::qos::{
    CgroupPath, CgroupValues, CgroupVersion, UnitProperty, UnitValue, new_slice, slice_names, slice_values, v2_unset,
};
use rubelet_engine::ports::CgroupError;

use crate::dbus::{Bus, BusError, Call, Others, Reply, SignalRule, Signals, Type, Value};

const SYSTEMD: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

const UNIT_EXISTS: &str = "org.freedesktop.systemd1.UnitExists";
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// Deadline for a job of systemd. Slices start and stop at once, unless a unit in them does not stop.
/// upstream: opencontainers/cgroups systemd startUnit, stopUnit, as of v1.36
const JOB_WITHIN: Duration = Duration::from_secs(30);
/// Tries while systemd or the bus is away; a re-execution takes some hundred milliseconds.
const TRIES: u32 = 8;
const PAUSES: Doubling = Doubling::new(Duration::from_millis(50), Duration::from_secs(2));

/// systemd did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// A call failed.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// A job did not succeed.
    #[error("systemd's job ended with {0:?}")]
    Job(String),
    /// A job did not end.
    #[error("systemd's job did not end within {JOB_WITHIN:?}")]
    Unfinished,
    /// systemd answered in an unexpected form.
    #[error("systemd's answer to {0} has another form than expected")]
    Form(&'static str),
}

/// What an attempt came to.
enum Attempt<T> {
    Done(T),
    /// The connection or its other end went away: what happened is not known.
    Again(BusError),
}

/// A handle to systemd's units.
#[derive(Clone, Debug)]
pub struct Units {
    bus: Bus,
    version: std::sync::Arc<OnceLock<u32>>,
}

impl Units {
    /// The units of the systemd that `bus` reaches.
    pub fn new(bus: Bus) -> Self {
        Self { bus, version: std::sync::Arc::default() }
    }

    /// systemd's version. Fails if systemd cannot be reached.
    pub async fn version(&self) -> Result<u32, UnitError> {
        if let Some(version) = self.version.get() {
            return Ok(*version);
        }
        let get = Call::new(SYSTEMD, PATH, PROPERTIES, "Get").with([Value::str(MANAGER), Value::str("Version")]);
        let reply = self.call(&get).await?;
        let text = reply.body.first().map(Value::unboxed).and_then(Value::as_str).ok_or(UnitError::Form("Version"))?;
        let version = parse_version(text).ok_or(UnitError::Form("Version"))?;
        Ok(*self.version.get_or_init(|| version))
    }

    /// Makes the slice of `path`, without limits. One that is there stays as it is.
    pub(super) async fn start(&self, path: &CgroupPath, version: CgroupVersion) -> Result<(), CgroupError> {
        let (unit, _) = slice_names(path);
        let body = [
            Value::str(unit.as_str()),
            Value::str("replace"),
            properties(&new_slice(path, version)),
            Value::Array(auxiliary(), vec![]),
        ];
        let call = manager("StartTransientUnit").with(body);
        let result = self.finished_job(&unit, &call, UNIT_EXISTS).await;
        if let Err(UnitError::Job(_) | UnitError::Unfinished) = result {
            self.reset(&unit).await;
        }
        result.map_err(failed("start", unit))
    }

    /// Sets a slice's limits, until the next boot.
    pub(super) async fn set(
        &self,
        path: &CgroupPath,
        values: &CgroupValues,
        version: CgroupVersion,
    ) -> Result<(), CgroupError> {
        let (unit, _) = slice_names(path);
        let done = async {
            let wanted = slice_values(values, version, self.version().await?);
            if wanted.is_empty() {
                return Ok(());
            }
            let body = [Value::str(unit.as_str()), Value::Bool(true), properties(&wanted)];
            let call = manager("SetUnitProperties").with(body);
            self.call(&call).await.map(drop)
        };
        done.await.map_err(failed("set", unit))
    }

    /// Unsets what of cgroup v2 somebody set of a slice on v1, where it outranks what [`Units::set`] set.
    pub(super) async fn unset_v2(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        let (unit, _) = slice_names(path);
        let body = [Value::str(unit.as_str()), Value::Bool(true), properties(&v2_unset())];
        let done = self.call(&manager("SetUnitProperties").with(body)).await;
        done.map(drop).map_err(failed("set", unit))
    }

    /// Stops the slice of `path` and all units in it, and lets systemd forget it.
    pub(super) async fn stop(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        let (unit, _) = slice_names(path);
        let call = manager("StopUnit").with([Value::str(unit.as_str()), Value::str("replace")]);
        let result = match self.finished_job(&unit, &call, NO_SUCH_UNIT).await {
            // The caller removes the cgroup, and fails if that cannot be done.
            Err(UnitError::Job(result)) => {
                tracing::warn!(unit, result, "systemd did not stop the unit");
                Ok(())
            }
            other => other,
        };
        self.reset(&unit).await;
        result.map_err(failed("stop", unit))
    }

    /// Without it a failed unit stays loaded. Most units have not failed: that is the answer then.
    async fn reset(&self, unit: &str) {
        if let Err(err) = self.bus.call(manager("ResetFailedUnit").with([Value::str(unit)])).await {
            tracing::trace!(unit, %err, "Nothing to reset");
        }
    }

    /// Makes a call that starts a job, and waits for its end. An answer of `good_error` is as good as a job that
    /// succeeded.
    async fn job(&self, unit: &str, call: Call, good_error: &str) -> Result<Attempt<()>, UnitError> {
        let rule = SignalRule {
            sender: SYSTEMD.to_owned(),
            others: Others::Ignored,
            path: PATH.to_owned(),
            interface: MANAGER.to_owned(),
            member: "JobRemoved".to_owned(),
            arg: Some((2, unit.to_owned())),
        };
        let mut removed = match self.bus.subscribe(rule).await {
            Ok(signals) => signals,
            Err(err) => return attempt(Err(err)),
        };
        let reply = match self.bus.call(call).await {
            Ok(reply) => reply,
            Err(err) if err.name() == Some(good_error) => return Ok(Attempt::Done(())),
            Err(err) => return attempt(Err(err)),
        };
        let job = reply.body.first().and_then(Value::as_str).ok_or(UnitError::Form("a job"))?;
        match tokio::time::timeout(JOB_WITHIN, job_result(&mut removed, job)).await {
            Err(_) => Err(UnitError::Unfinished),
            // Signals were lost. The next attempt finds the unit there, or gone.
            Ok(None) => Ok(Attempt::Again(BusError::Lost { member: "JobRemoved".to_owned() })),
            Ok(Some(result)) if result == "done" => Ok(Attempt::Done(())),
            Ok(Some(result)) => Err(UnitError::Job(result)),
        }
    }

    /// A call, tried again while the bus or systemd is away.
    async fn call(&self, call: &Call) -> Result<Reply, UnitError> {
        let mut tries = 0;
        loop {
            match attempt(self.bus.call(call.clone()).await)? {
                Attempt::Done(reply) => return Ok(reply),
                Attempt::Again(err) if tries >= TRIES => return Err(err.into()),
                Attempt::Again(_) => tries += 1,
            }
            tokio::time::sleep(PAUSES.after(tries)).await;
        }
    }

    /// A job, tried again while the bus or systemd is away.
    async fn finished_job(&self, unit: &str, call: &Call, good_error: &str) -> Result<(), UnitError> {
        let mut tries = 0;
        loop {
            match self.job(unit, call.clone(), good_error).await? {
                Attempt::Done(()) => return Ok(()),
                Attempt::Again(err) if tries >= TRIES => return Err(err.into()),
                Attempt::Again(_) => tries += 1,
            }
            tokio::time::sleep(PAUSES.after(tries)).await;
        }
    }
}

/// How the job ended; `None` if signals were lost.
async fn job_result(removed: &mut Signals, job: &str) -> Option<String> {
    loop {
        let signal = removed.next().await?;
        let text = |at: usize| signal.body.get(at).and_then(Value::as_str);
        if text(1) == Some(job) {
            return text(3).map(str::to_owned);
        }
    }
}

/// Sorts out the failures after which another attempt may succeed.
fn attempt<T>(done: Result<T, BusError>) -> Result<Attempt<T>, UnitError> {
    match done {
        Ok(value) => Ok(Attempt::Done(value)),
        Err(err) if is_away(&err) => Ok(Attempt::Again(err)),
        Err(err) => Err(err.into()),
    }
}

/// The bus or systemd is being replaced.
fn is_away(err: &BusError) -> bool {
    match err {
        BusError::Lost { .. } => true,
        BusError::Answered { name, .. } => matches!(
            name.as_str(),
            "org.freedesktop.DBus.Error.NoReply"
                | "org.freedesktop.DBus.Error.ServiceUnknown"
                | "org.freedesktop.DBus.Error.NameHasNoOwner"
                | "org.freedesktop.DBus.Error.Disconnected"
        ),
        // Nobody listens for a moment while a bus is restarted; without a bus there is no socket.
        BusError::Connect { source, .. } => source.kind() != std::io::ErrorKind::NotFound,
        BusError::Timeout { .. } | BusError::Garbled { .. } | BusError::Unwritable { .. } | BusError::Busy { .. } => {
            false
        }
    }
}

fn manager(member: &str) -> Call {
    Call::new(SYSTEMD, PATH, MANAGER, member)
}

fn pair() -> Type {
    Type::Struct(vec![Type::Str, Type::Variant])
}

/// Other units to make at the same time: none.
fn auxiliary() -> Type {
    Type::Struct(vec![Type::Str, Type::Array(Box::new(pair()))])
}

fn properties(list: &[UnitProperty]) -> Value {
    let one = |property: &UnitProperty| {
        let value = match &property.value {
            UnitValue::Bool(on) => Value::Bool(*on),
            UnitValue::U64(number) => Value::U64(*number),
            UnitValue::Text(text) => Value::str(text.as_str()),
            UnitValue::Units(units) => Value::strs(units.iter().map(String::as_str)),
        };
        Value::Struct(vec![Value::str(property.name), value.boxed()])
    };
    Value::Array(pair(), list.iter().map(one).collect())
}

/// `252.39-1~deb12u1`, `v245`: the first number.
fn parse_version(text: &str) -> Option<u32> {
    let text = text.trim_start_matches(['"', 'v']);
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn failed(action: &'static str, unit: String) -> impl FnOnce(UnitError) -> CgroupError {
    move |err| CgroupError::Unit { action, unit, source: Box::new(err) }
}

#[cfg(test)]
mod tests;
