//! A container runtime in memory that obeys CRI's laws, injects faults on request, and records the calls.
//!
//! It is a handle: clones share one world, so that the world outlives a kubelet that is killed and started again. Its
//! behaviour depends only on the calls, the seed and tokio's clock.
//!
//! A call has its effect halfway through its latency, so that an aborted call may have had its effect or not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rubelet_core::id::{ContainerId, PodUid};
use rubelet_core::launch::{ContainerConfig, HandlerFeatures, SandboxConfig};
use rubelet_core::observe::{ContainerStateKind, SandboxState};
use rubelet_engine::ports::{ExecOutput, ReadyCondition, RpcError, RpcErrorKind};
use tokio::sync::{broadcast, watch};

mod behaviour;
mod effects;
mod faults;
mod hints;
mod images;
mod laws;
pub(crate) mod marks;
mod ports;
mod view;
mod world;

pub use behaviour::Behaviour;
pub use faults::Faults;
pub use images::Pull;
pub use world::Call;

use faults::Fault;
use hints::Signal;
use world::{At, LateEffect, World, fail};

use crate::clock::TestClock;
use crate::files::FakePodLogs;
use crate::rng::SeededRng;

/// Duration of a mutating call.
const LATENCY: Duration = Duration::from_millis(2);
/// The caller's deadline of a call that hangs (CRI-02).
const DEADLINE: Duration = Duration::from_secs(120);
/// How long after its deadline a late call takes effect.
const LATE_BY: Duration = Duration::from_secs(2);
/// The client's deadline in a call that is late: short, for a simulation has many of them.
const LATE_DEADLINE: Duration = Duration::from_secs(1);
/// Hints that a slow reader may lag behind before it loses some.
const HINT_BACKLOG: usize = 1024;

/// A container runtime in memory.
#[derive(Clone)]
pub struct FakeRuntime(Arc<Inner>);

struct Inner {
    clock: TestClock,
    rng: SeededRng,
    world: Mutex<World>,
    settings: Mutex<Settings>,
    signals: broadcast::Sender<Signal>,
    changed: watch::Sender<u64>,
}

#[derive(Clone, Copy)]
struct Settings {
    faults: Faults,
    latency: Duration,
    hints: bool,
}

impl FakeRuntime {
    /// An empty runtime without faults.
    pub fn new(clock: TestClock) -> Self {
        Self::seeded(clock, 0)
    }

    /// An empty runtime whose faults, once they are set, follow from `seed`.
    pub fn seeded(clock: TestClock, seed: u64) -> Self {
        Self(Arc::new(Inner {
            clock,
            rng: SeededRng::new(seed),
            world: Mutex::new(World::new(clock)),
            settings: Mutex::new(Settings { faults: Faults::NONE, latency: LATENCY, hints: true }),
            signals: broadcast::channel(HINT_BACKLOG).0,
            changed: watch::channel(0).0,
        }))
    }

    /// Its clock.
    pub fn clock(&self) -> TestClock {
        self.0.clock
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.settings(|s| s.faults = faults);
    }

    /// Refuses single calls: after `skip` calls of `operation`, the next `times` fail with `Unavailable` and have no
    /// effect.
    pub fn refuse(&self, operation: &'static str, skip: u32, times: u32) {
        self.with(|world, _| world.refusals.insert(operation, (skip, times)));
    }

    /// Whether all refusals have been used up.
    pub fn has_refused_all(&self) -> bool {
        self.with(|world, _| world.refusals.is_empty())
    }

    /// Sets the duration of a mutating call; zero for a benchmark.
    pub fn set_latency(&self, latency: Duration) {
        self.settings(|s| s.latency = latency);
    }

    /// Whether it offers hints; if not, the call is `Unimplemented`, as with containerd 1.6.
    pub fn set_hints(&self, offered: bool) {
        self.settings(|s| s.hints = offered);
    }

    /// Sets where containers write their logs.
    pub fn write_logs_to(&self, logs: FakePodLogs) {
        self.with(|world, _| world.logs = Some(logs));
    }

    /// Scripts the containers that match `key`, one behaviour per attempt, the last one for all later attempts. The key
    /// is `pod/container`, a container's name or an image; the first match counts.
    pub fn script(&self, key: &str, behaviours: impl IntoIterator<Item = Behaviour>) {
        self.with(|world, _| world.scripts.insert(key.into(), behaviours.into_iter().collect()));
    }

    /// Scripts the result of commands in the containers called `container`.
    pub fn script_exec(&self, container: &str, takes: Duration, output: ExecOutput) {
        self.with(|world, _| world.exec_scripts.insert(container.into(), (takes, output)));
    }

    /// Makes sandboxes of the pod called `pod` fail with `message`, or succeed again.
    pub fn script_sandbox(&self, pod: &str, message: Option<&str>) {
        self.with(|world, _| match message {
            Some(message) => world.sandbox_errors.insert(pod.into(), message.into()),
            None => world.sandbox_errors.remove(pod),
        });
    }

    /// Scripts the pull of `image`.
    pub fn script_pull(&self, image: &str, pull: Pull) {
        self.with(|world, _| world.images.pulls.insert(image.into(), pull));
    }

    /// Makes inspections of `image` fail with `message`, or succeed again.
    pub fn script_inspection(&self, image: &str, message: Option<&str>) {
        self.with(|world, _| match message {
            Some(message) => world.images.broken.insert(image.into(), message.into()),
            None => world.images.broken.remove(image),
        });
    }

    /// Adds an image to the node and returns its id.
    pub fn add_image(&self, name: &str) -> String {
        self.with(|world, _| world.images.add(name))
    }

    /// Makes the network ready or not.
    pub fn set_network(&self, ready: bool, message: &str) {
        let reason = if ready { "" } else { "NetworkPluginNotReady" };
        let condition = ReadyCondition { ready, reason: reason.into(), message: message.into() };
        self.with(|world, _| world.network = condition);
    }

    /// Offers these handlers from now on; the empty name is the default one.
    pub fn set_handlers(&self, handlers: BTreeMap<String, HandlerFeatures>) {
        self.with(|world, _| world.handlers = handlers);
    }

    /// Makes `status` hang, as a runtime that is stuck as a whole does, or answer again.
    pub fn set_silent(&self, silent: bool) {
        self.with(|world, _| {
            world.silent = silent;
            world.dirty = true;
        });
    }

    /// Makes every call about this pod hang until `release` or its deadline.
    pub fn hang(&self, uid: &PodUid) {
        self.with(|world, _| world.hung.insert(uid.clone()));
    }

    /// Ends `hang`.
    pub fn release(&self, uid: &PodUid) {
        self.with(|world, _| {
            world.hung.remove(uid);
            world.dirty = true;
        });
    }

    /// An outage of this length: calls fail, streams end, containers keep running.
    pub fn go_away(&self, time: Duration) {
        self.with(|world, now| world.down_until = Some(now.saturating_add(time)));
        // Without a subscriber the send fails, which is no error.
        let _ = self.0.signals.send(Signal::Down);
    }

    /// Ends the running container `container` of the pod called `pod` from outside. Returns whether it was running.
    pub fn end_container(&self, pod: &str, container: &str, code: i32) -> bool {
        self.with(|world, now| {
            let id = world.find_running(pod, container);
            if let Some(id) = &id {
                world.end(now, id, code);
            }
            id.is_some()
        })
    }

    /// SIGKILL for every process of the pod with this UID, without the runtime. Returns how many are left.
    pub fn kill_all_of(&self, uid: &PodUid) -> usize {
        self.with(|world, now| world.kill_all_of(now, uid))
    }

    /// The next `times` calls that create a container or start one do not find the sandbox or container, though it
    /// exists.
    pub fn forget(&self, times: u32) {
        self.with(|world, _| world.forgetful = times);
    }

    /// Sends a spurious hint about the pod with this UID.
    pub fn hint(&self, uid: &PodUid) {
        self.with(|world, _| world.hint(uid.clone()));
    }

    /// The pod with this UID has no processes.
    pub fn is_still(&self, uid: &PodUid) -> bool {
        self.with(|world, _| world.is_still(uid))
    }

    /// Ends the ready sandbox of the pod called `pod` from outside, with its containers.
    pub fn end_sandbox(&self, pod: &str) {
        self.with(|world, now| {
            let ready = world.pods.values().flat_map(|pod| &pod.sandboxes);
            let ready = ready.filter(|(_, s)| s.config.name == pod && s.state == SandboxState::Ready);
            for id in ready.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
                world.stop_sandbox(now, &id);
            }
        });
    }

    /// The machine reboots: all objects stay, no process runs.
    pub fn reboot(&self) {
        self.with(World::power_cut);
        let _ = self.0.signals.send(Signal::Down);
    }

    /// The mutating calls for the pod called `pod`, one line each, in order of effect.
    pub fn calls(&self, pod: &str) -> Vec<String> {
        let all = self.log();
        all.into_iter().filter(|call| call.pod == pod).map(|call| call.line).collect()
    }

    /// The whole call log.
    pub fn log(&self) -> Vec<Call> {
        self.with(|world, _| world.log.clone())
    }

    /// The whole call log as text, for the report of a failure.
    pub fn timeline(&self) -> String {
        let lines = self.log().into_iter();
        lines.map(|c| format!("{:?} {} {}\n", c.at, c.pod, c.line)).collect()
    }

    /// The number of calls, by upstream's operation names.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.with(|world, _| world.counts.clone())
    }

    /// Broken laws: a container that ran twice at a time or was started twice, two ready sandboxes of a pod, two pods
    /// of one name at a time, a start out of the order of init containers. Must stay empty.
    pub fn violations(&self) -> Vec<String> {
        self.with(|world, _| world.violations.clone())
    }

    /// Names of the running containers of the pod called `pod`, in order of their start.
    pub fn running(&self, pod: &str) -> Vec<String> {
        self.with(|world, _| world.containers_of(pod, ContainerStateKind::Running))
    }

    /// Whether the pod called `pod` has containers, dead ones included.
    pub fn has_containers(&self, pod: &str) -> bool {
        self.with(|world, _| {
            let mut pods = world.pods.values().filter(|p| p.sandboxes.values().any(|s| s.config.name == pod));
            pods.any(|p| !p.containers.is_empty())
        })
    }

    /// The configuration of the newest container called `name` of the pod called `pod`.
    pub fn container_config(&self, pod: &str, name: &str) -> Option<ContainerConfig> {
        self.with(|world, _| {
            let pods = world.pods.values().filter(|p| p.sandboxes.values().any(|s| s.config.name == pod));
            let containers = pods.flat_map(|p| p.containers.values()).filter(|c| c.config.name == name);
            containers.max_by_key(|c| c.seq).map(|c| c.config.clone())
        })
    }

    /// The configuration of the newest sandbox of the pod called `pod`.
    pub fn sandbox_config(&self, pod: &str) -> Option<SandboxConfig> {
        self.with(|world, _| {
            let sandboxes = world.pods.values().flat_map(|p| p.sandboxes.values());
            let newest = sandboxes.filter(|s| s.config.name == pod).max_by_key(|s| s.seq);
            newest.map(|s| s.config.clone())
        })
    }

    /// The world in a few lines: `pod uid: sandbox#attempt Ready, app#0 Running`.
    pub fn world(&self) -> String {
        self.with(|world, _| world.describe())
    }

    fn settings<R>(&self, change: impl FnOnce(&mut Settings) -> R) -> R {
        change(&mut self.0.settings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn offers_hints(&self) -> bool {
        self.settings(|s| s.hints)
    }

    fn subscribe(&self) -> (broadcast::Receiver<Signal>, watch::Receiver<u64>) {
        (self.0.signals.subscribe(), self.0.changed.subscribe())
    }

    /// Accesses the world after all due effects, and wakes waiting calls.
    fn with<R>(&self, act: impl FnOnce(&mut World, At) -> R) -> R {
        let now = self.0.clock.elapsed();
        let lost = self.settings(|s| s.faults.hint_lost);
        let mut world = self.0.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.settle(now);
        let result = act(&mut world, now);
        for hint in std::mem::take(&mut world.hints) {
            if !self.0.rng.hits(lost) {
                // Without a subscriber the send fails, which is no error.
                let _ = self.0.signals.send(Signal::Hint(hint));
            }
        }
        let dirty = std::mem::take(&mut world.dirty);
        drop(world);
        if dirty {
            self.0.changed.send_modify(|version| *version += 1);
        }
        result
    }

    /// A read-only call.
    async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        uid: Option<PodUid>,
        look: impl FnOnce(&mut World, At) -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        self.call(operation, uid, None, Duration::ZERO, |world, now| Ok(look(world, now))).await
    }

    /// A mutating call; it reserves `name` while it is in flight.
    async fn change<T: Send + 'static>(
        &self,
        operation: &'static str,
        uid: Option<PodUid>,
        name: Option<String>,
        effect: impl FnOnce(&mut World, At) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let latency = self.settings(|s| s.latency);
        self.call(operation, uid, name, latency, effect).await
    }

    async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        uid: Option<PodUid>,
        name: Option<String>,
        latency: Duration,
        effect: impl FnOnce(&mut World, At) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let faults = self.settings(|s| s.faults);
        let mut fault = faults.draw(&self.0.rng);
        if fault == Fault::Late && name.is_none() {
            fault = Fault::LostReply;
        }
        self.with(|world, _| *world.counts.entry(operation).or_default() += 1);
        if let Some(uid) = &uid {
            self.wait_while_hung(operation, uid).await?;
        }
        let slow = if let Fault::Slow(by) = fault { by } else { Duration::ZERO };
        pause(latency / 2 + slow).await;
        let refused = self.with(|world, now| world.is_down(now) || world.refuses(operation));
        if fault == Fault::Refused || refused {
            return Err(fail(operation, RpcErrorKind::Unavailable, "connection refused"));
        }
        if fault == Fault::Late {
            let at = self.0.clock.elapsed() + LATE_DEADLINE + LATE_BY;
            let effect = Box::new(move |world: &mut World, at| drop(effect(world, at)));
            self.with(|world, _| world.schedule(at, LateEffect { reserved: name, effect }));
            pause(LATE_DEADLINE).await;
            return Err(fail(operation, RpcErrorKind::Timeout, "context deadline exceeded"));
        }
        let outcome = self.with(effect);
        pause(latency / 2).await;
        match fault {
            Fault::LostReply => Err(fail(operation, RpcErrorKind::Timeout, "context deadline exceeded")),
            Fault::Garbage => Err(fail(operation, RpcErrorKind::Garbage, "invalid wire type")),
            Fault::None | Fault::Slow(_) | Fault::Refused | Fault::Late => outcome,
        }
    }

    async fn wait_while_silent(&self) {
        let mut changed = self.0.changed.subscribe();
        while self.with(|world, _| world.silent) {
            // The sender lives as long as this runtime.
            let _ = changed.changed().await;
        }
    }

    async fn wait_while_hung(&self, operation: &'static str, uid: &PodUid) -> Result<(), RpcError> {
        let mut changed = self.0.changed.subscribe();
        let deadline = self.0.clock.elapsed() + DEADLINE;
        loop {
            changed.borrow_and_update();
            if !self.with(|world, _| world.hung.contains(uid)) {
                return Ok(());
            }
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                () = self.0.clock.sleep_until(deadline) => {
                    return Err(fail(operation, RpcErrorKind::Timeout, "context deadline exceeded"));
                }
            }
        }
    }
}

/// Yields, and takes `time`.
async fn pause(time: Duration) {
    if time.is_zero() { tokio::task::yield_now().await } else { tokio::time::sleep(time).await }
}

impl World {
    fn is_down(&mut self, now: At) -> bool {
        self.down_until.is_some_and(|until| now < until)
    }

    /// Whether this call of `operation` is to be refused.
    fn refuses(&mut self, operation: &'static str) -> bool {
        let Some((skip, times)) = self.refusals.get_mut(operation) else { return false };
        if let Some(left) = skip.checked_sub(1) {
            *skip = left;
            return false;
        }
        *times = times.saturating_sub(1);
        if *times == 0 {
            self.refusals.remove(operation);
        }
        true
    }

    fn find_running(&self, pod: &str, container: &str) -> Option<ContainerId> {
        self.sorted(pod)
            .into_iter()
            .rev()
            .find_map(|(id, name, kind)| (name == container && kind == ContainerStateKind::Running).then_some(id))
    }

    fn containers_of(&self, pod: &str, wanted: ContainerStateKind) -> Vec<String> {
        let all = self.sorted(pod).into_iter();
        all.filter(|(_, _, kind)| *kind == wanted).map(|(_, name, _)| name).collect()
    }

    /// Containers of the pod called `pod`, oldest first.
    fn sorted(&self, pod: &str) -> Vec<(ContainerId, String, ContainerStateKind)> {
        let of_name = |id| self.sandbox_pod.get(id).and_then(|uid| self.pods.get(uid)?.sandboxes.get(id));
        let all = self.pods.values().flat_map(|p| &p.containers);
        let mut all: Vec<_> = all.filter(|(_, c)| of_name(&c.sandbox).is_some_and(|s| s.config.name == pod)).collect();
        all.sort_by_key(|(_, c)| c.seq);
        all.into_iter().map(|(id, c)| (id.clone(), c.config.name.clone(), view::kind(&c.life))).collect()
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        for (uid, pod) in &self.pods {
            let sandboxes = pod.sandboxes.values().map(|s| format!("sandbox#{} {:?}", s.config.attempt, s.state));
            let containers = pod
                .containers
                .values()
                .map(|c| format!("{}#{} {:?}", c.config.name, c.config.attempt, view::kind(&c.life)));
            let parts: Vec<String> = sandboxes.chain(containers).collect();
            if !parts.is_empty() {
                text += &format!("{uid}: {}\n", parts.join(", "));
            }
        }
        text
    }
}
