//! Slots for starting pods. More concurrent starts would make all of them slow, and the first pods should be ready long
//! before the last.
//!
//! A slot is held only while the runtime works. A job that waits for an image, a hook or the grace of a container
//! releases it, so that a slow registry delays only the pods that need it. Pods that are already starting, or have a
//! sandbox and only restart a container, have a queue of their own: a crashed container does not wait for a hundred new
//! pods.

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::job::{JobContext, JobError};

/// All slots of the node.
#[derive(Debug)]
pub(crate) struct StartSlots {
    new: Semaphore,
    under_way: Semaphore,
}

impl StartSlots {
    /// `each` for new pods, and as many for those under way; at least one.
    pub(crate) fn new(each: usize) -> Self {
        Self { new: Semaphore::new(each.max(1)), under_way: Semaphore::new(each.max(1)) }
    }

    /// A job's claim to a slot; none is taken yet.
    pub(crate) fn claim(&self, queue: Queue) -> StartSlot<'_> {
        StartSlot { slots: self, queue, held: None }
    }
}

/// Where a job waits for its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// With pods that have no sandbox yet.
    New,
    /// With pods that have one.
    UnderWay,
}

/// A job's claim to a slot. Dropping it releases the slot.
#[derive(Debug)]
pub(crate) struct StartSlot<'a> {
    slots: &'a StartSlots,
    queue: Queue,
    held: Option<SemaphorePermit<'a>>,
}

impl StartSlot<'_> {
    /// Waits for a slot, unless one is held.
    pub(crate) async fn take(&mut self, job: &JobContext) -> Result<(), JobError> {
        if self.held.is_some() {
            return Ok(());
        }
        let slots = match self.queue {
            Queue::New => &self.slots.new,
            Queue::UnderWay => &self.slots.under_way,
        };
        let slot = match slots.try_acquire() {
            Ok(slot) => Ok(slot),
            Err(_) => {
                job.step("a start slot: other pods are being started").await;
                slots.acquire().await
            }
        };
        self.held = Some(slot.map_err(|_| JobError::later("shutting down"))?);
        self.queue = Queue::UnderWay;
        Ok(())
    }

    /// Releases the slot for other jobs.
    pub(crate) fn release(&mut self) {
        self.held = None;
    }
}
