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
    /// The state, and how often the login manager was restarted.
    state: Arc<watch::Sender<(MachineState, u64)>>,
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
        Self { world: Arc::new(Mutex::new(world)), state: Arc::new(watch::Sender::new((MachineState::Up, 0))) }
    }
}

impl FakeMachine {
    /// `systemctl poweroff`: announces the shutdown. Without a delay the power goes at once.
    pub fn power_off(&self) {
        let mut world = self.world();
        self.state.send_modify(|state| state.0 = MachineState::GoingDown);
        world.off = world.held == 0;
    }

    /// Announces a second time what is announced already.
    pub fn announce_again(&self) {
        self.state.send_modify(|_| {});
    }

    /// Cancels the shutdown.
    pub fn cancel(&self) {
        self.world().off = false;
        self.state.send_modify(|state| state.0 = MachineState::Up);
    }

    /// The login manager is restarted: every connection is lost, and so is an announced shutdown that was delayed.
    pub fn restart_login_manager(&self) {
        self.state.send_modify(|state| *state = (MachineState::Up, state.1 + 1));
    }

    /// The machine boots again.
    pub fn boot(&self) {
        let mut world = self.world();
        (world.off, world.held) = (false, 0);
        self.state.send_modify(|state| *state = (MachineState::Up, state.1 + 1));
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
        let restarts = state.borrow().1;
        Ok(Box::new(FakeStates { state, restarts }))
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
        if self.state.borrow().0 == MachineState::GoingDown {
            return Err(ShutdownError::Begun);
        }
        world.held += 1;
        world.taken += 1;
        Ok(Box::new(FakeDelay { machine: self.clone() }))
    }
}

struct FakeStates {
    state: watch::Receiver<(MachineState, u64)>,
    restarts: u64,
}

#[async_trait]
impl MachineStates for FakeStates {
    async fn next(&mut self) -> Option<MachineState> {
        self.state.changed().await.ok()?;
        let (state, restarts) = *self.state.borrow_and_update();
        (restarts == self.restarts).then_some(state)
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
        if world.held == 0 && self.machine.state.borrow().0 == MachineState::GoingDown {
            world.off = true;
        }
    }
}
