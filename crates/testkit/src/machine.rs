//! A machine that can be told to go down, as its login manager sees it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rubelet_engine::ports::{MachineShutdown, MachineState, MachineStates, ShutdownDelay, ShutdownError};
use tokio::sync::watch;

/// A machine and its login manager. It goes down when a shutdown was announced and nobody delays it, or when the longest
/// delay is over. Clones share one machine.
#[derive(Clone)]
pub struct FakeMachine {
    world: Arc<Mutex<World>>,
    state: Arc<watch::Sender<Announcements>>,
}

/// What has been announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Announcements {
    /// The login manager has begun a shutdown.
    is_going_down: bool,
    /// How often the login manager was restarted.
    restarts: u64,
    /// What root announced last, and how often it announced something.
    root: (MachineState, u64),
}

impl Announcements {
    /// The login manager's answer when it is asked.
    fn asked(self) -> MachineState {
        if self.is_going_down { MachineState::GoingDown } else { MachineState::Up }
    }

    /// The last signal, for a follower who had seen `before`.
    fn signal(self, before: Self) -> MachineState {
        if self.is_going_down && !before.is_going_down {
            MachineState::GoingDown
        } else if self.root.1 != before.root.1 {
            self.root.0
        } else if self.is_going_down {
            MachineState::GoingDown
        } else {
            MachineState::Cancelled
        }
    }
}

struct World {
    longest: Duration,
    /// A longer delay is asked for, and this login manager does not grant it.
    stubborn: bool,
    absent: bool,
    held: u32,
    taken: u32,
    /// The power went: nobody delayed the shutdown any more.
    off: bool,
}

impl Default for FakeMachine {
    fn default() -> Self {
        let world =
            World { longest: Duration::from_secs(5), stubborn: false, absent: false, held: 0, taken: 0, off: false };
        let state = Announcements { is_going_down: false, restarts: 0, root: (MachineState::Cancelled, 0) };
        Self { world: Arc::new(Mutex::new(world)), state: Arc::new(watch::Sender::new(state)) }
    }
}

impl FakeMachine {
    /// `systemctl poweroff`: announces the shutdown. Without a delay the power goes at once.
    pub fn power_off(&self) {
        let mut world = self.world();
        self.state.send_modify(|state| state.is_going_down = true);
        world.off = world.held == 0;
    }

    /// Announces a second time what is announced already.
    pub fn announce_again(&self) {
        self.state.send_modify(|_| {});
    }

    /// Cancels the shutdown.
    pub fn cancel(&self) {
        self.world().off = false;
        self.state.send_modify(|state| state.is_going_down = false);
    }

    /// A process of root announces a shutdown of which the login manager knows nothing, or that one is off.
    pub fn announce_by_root(&self, is_going_down: bool) {
        let state = if is_going_down { MachineState::Announced } else { MachineState::Cancelled };
        self.state.send_modify(|now| now.root = (state, now.root.1 + 1));
    }

    /// The login manager is restarted: every connection is lost, and so is an announced shutdown that was delayed.
    pub fn restart_login_manager(&self) {
        self.forget();
    }

    fn forget(&self) {
        self.state.send_modify(|state| (state.is_going_down, state.restarts) = (false, state.restarts + 1));
    }

    /// The machine boots again.
    pub fn boot(&self) {
        let mut world = self.world();
        (world.off, world.held) = (false, 0);
        self.forget();
    }

    /// Nobody announces shutdowns on this machine, or somebody does again.
    pub fn set_absent(&self, absent: bool) {
        self.world().absent = absent;
    }

    /// The login manager grants no longer delay than it does now.
    pub fn set_stubborn(&self) {
        self.world().stubborn = true;
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.world().off
    }

    /// How many delays are held now.
    pub fn held(&self) -> u32 {
        self.world().held
    }

    /// How many delays were taken since the start.
    pub fn taken(&self) -> u32 {
        self.world().taken
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn present(&self) -> Result<MutexGuard<'_, World>, ShutdownError> {
        let world = self.world();
        if world.absent { Err(ShutdownError::Absent("no login manager".to_owned())) } else { Ok(world) }
    }
}

#[async_trait]
impl MachineShutdown for FakeMachine {
    async fn follow(&self) -> Result<Box<dyn MachineStates>, ShutdownError> {
        drop(self.present()?);
        let mut state = self.state.subscribe();
        state.mark_changed();
        let seen = *state.borrow();
        Ok(Box::new(FakeStates { state, seen, is_first: true }))
    }

    async fn longest_delay(&self) -> Result<Duration, ShutdownError> {
        Ok(self.present()?.longest)
    }

    async fn allow_delay(&self, delay: Duration) -> Result<(), ShutdownError> {
        let mut world = self.present()?;
        if !world.stubborn {
            world.longest = delay;
        }
        Ok(())
    }

    async fn delay(&self) -> Result<Box<dyn ShutdownDelay>, ShutdownError> {
        let mut world = self.present()?;
        if self.state.borrow().is_going_down {
            return Err(ShutdownError::Begun);
        }
        world.held += 1;
        world.taken += 1;
        Ok(Box::new(FakeDelay { machine: self.clone() }))
    }
}

struct FakeStates {
    state: watch::Receiver<Announcements>,
    seen: Announcements,
    is_first: bool,
}

#[async_trait]
impl MachineStates for FakeStates {
    async fn next(&mut self) -> Option<MachineState> {
        self.state.changed().await.ok()?;
        let now = *self.state.borrow_and_update();
        let before = std::mem::replace(&mut self.seen, now);
        if now.restarts != before.restarts {
            return None;
        }
        if std::mem::take(&mut self.is_first) { Some(now.asked()) } else { Some(now.signal(before)) }
    }
}

struct FakeDelay {
    machine: FakeMachine,
}

impl ShutdownDelay for FakeDelay {}

impl Drop for FakeDelay {
    fn drop(&mut self) {
        let mut world = self.machine.world();
        world.held = world.held.saturating_sub(1);
        if world.held == 0 && self.machine.state.borrow().is_going_down {
            world.off = true;
        }
    }
}
