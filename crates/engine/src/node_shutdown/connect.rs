//! Follows the machine and delays its shutdown.

use std::time::Duration;

use rubelet_core::backoff::Doubling;
use tracing::info;

use super::Connection;
use crate::ports::{MachineShutdown, ShutdownError};

/// Pauses before the longest delay is read again after it was changed.
/// upstream: nodeshutdown_manager_linux.go start (v1.36)
const SETTLES: Doubling = Doubling::new(Duration::from_millis(100), Duration::MAX);
/// How often it is read.
const READS: u32 = 5;

/// Follows the machine, sees to it that `period` is granted, and takes the delay. Follows it first: a shutdown that begins
/// meanwhile is not missed.
pub(super) async fn connect(machine: &dyn MachineShutdown, period: Duration) -> Result<Connection, ShutdownError> {
    let states = machine.follow().await?;
    let granted = machine.longest_delay().await?;
    if granted < period {
        allow(machine, granted, period).await?;
    }
    let delay = match machine.delay().await {
        Ok(delay) => Some(delay),
        // The state that comes first is that the machine goes down: the pods end in what time there is.
        Err(ShutdownError::Begun) => None,
        Err(err) => return Err(err),
    };
    Ok(Connection { states, delay })
}

async fn allow(machine: &dyn MachineShutdown, granted: Duration, period: Duration) -> Result<(), ShutdownError> {
    info!(?granted, ?period, "The machine does not wait as long as pods may need: raising its longest delay");
    machine.allow_delay(period).await?;
    let mut now = granted;
    for read in 1..=READS {
        now = machine.longest_delay().await?;
        if now >= period {
            return Ok(());
        }
        tokio::time::sleep(SETTLES.after(read)).await;
    }
    let text = format!("the machine waits no longer than {now:?} at its shutdown, and {period:?} are configured");
    Err(ShutdownError::Failed(text))
}
