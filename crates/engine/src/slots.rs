//! Slots for what is being started. More starts at once would only make all of them late: the first pods are to be ready
//! long before the last.
//!
//! A slot is for work of the runtime alone: whoever waits for something else (an image, a hook, a container that takes
//! its grace to stop) gives it back, so that a slow registry holds up nobody who does not need it. Pods that are already
//! under way, or have a sandbox and only restart a container, queue apart from new ones: a crashed container does not
//! wait for a hundred new pods.

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
    /// With pods that have nothing here yet.
    New,
    /// With pods that have.
    UnderWay,
}

/// A job's claim to a slot. Dropping it gives the slot back.
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
        // From here on the pod is under way.
        self.queue = Queue::UnderWay;
        Ok(())
    }

    /// Lets another have it.
    pub(crate) fn give_back(&mut self) {
        self.held = None;
    }
}
