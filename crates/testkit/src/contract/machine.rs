//! Laws of [`MachineShutdown`]: they hold on a machine that nobody shuts down meanwhile.

use std::time::Duration;

use rubelet_engine::ports::{MachineShutdown, MachineState};

/// Who follows the machine learns its state at once, and it stays up while nobody shuts it down.
pub async fn the_state_of_the_machine_comes_first(machine: &dyn MachineShutdown) {
    for _again in 0..2 {
        let mut states = machine.follow().await.expect("the machine can be followed");
        assert_eq!(states.next().await, Some(MachineState::Up));
        let more = tokio::time::timeout(Duration::from_millis(50), states.next()).await;
        assert!(more.is_err(), "nothing has changed: {more:?}");
    }
}

/// A delay can be taken while another is held, and again after it has ended.
pub async fn delays_are_independent(machine: &dyn MachineShutdown) {
    let first = machine.delay().await.expect("a delay");
    let second = machine.delay().await.expect("a second one");
    drop(first);
    drop(machine.delay().await.expect("a third one"));
    drop(second);
    drop(machine.delay().await.expect("a fourth one"));
}

/// The longest delay can be raised.
pub async fn the_longest_delay_can_be_raised(machine: &dyn MachineShutdown) {
    let more = machine.longest_delay().await.expect("the longest delay") + Duration::from_secs(7);
    machine.allow_delay(more).await.expect("a longer one");
    for _read in 0..50 {
        if machine.longest_delay().await.expect("the longest delay") >= more {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the longest delay did not become {more:?}");
}
