//! Measuring the node, so that a file system that hangs delays nothing else.

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::eviction::{Observations, PageCache};
use rubelet_core::time::Instant;
use rubelet_core::usage::{NodeDisks, NodeUsage};
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::ports::{Detail, Unmeasured, UsageReader, Wanted};
use crate::task::timed;

/// How long a look waits for the disks. A look at disks that takes longer goes on, and the next look has it.
const DISK_PATIENCE: Duration = Duration::from_millis(300);
/// How long a look at cgroups may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// A look at disks older than this says nothing of the disks now.
const DISKS_KEPT: Duration = Duration::from_secs(60);

/// Measures.
pub(super) struct Looks {
    reader: Arc<dyn UsageReader>,
    clock: Clock,
    memory: u64,
    cache: PageCache,
    disks: Option<(NodeDisks, Instant)>,
    /// The look at disks in flight: never more than one.
    in_flight: JoinSet<(Result<NodeDisks, Unmeasured>, Instant)>,
}

/// One look.
pub(super) struct Look {
    pub(super) usage: Arc<NodeUsage>,
    pub(super) seen: Observations,
}

/// What a look is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Whether the node is short of something: as cheap as can be.
    Watch,
    /// How much memory each pod uses.
    WeighMemory,
    /// How much of the disks each pod uses.
    WeighDisks,
    /// How many processes each pod has.
    WeighProcesses,
}

impl Looks {
    pub(super) fn new(reader: Arc<dyn UsageReader>, clock: Clock, memory: u64, cache: PageCache) -> Self {
        Self { reader, clock, memory, cache, disks: None, in_flight: JoinSet::new() }
    }

    /// Measures the node anew. Nobody who is short of memory waits for a disk.
    pub(super) async fn look(&mut self, purpose: Purpose) -> Result<Look, Unmeasured> {
        let reader = Arc::clone(&self.reader);
        let measuring = tokio::time::timeout(PATIENCE, measure(reader.as_ref(), purpose));
        let answer = match purpose {
            Purpose::Watch | Purpose::WeighDisks => tokio::join!(measuring, self.look_at_disks()).0,
            Purpose::WeighMemory | Purpose::WeighProcesses => measuring.await,
        };
        let usage = answer.unwrap_or_else(|_| Err(Unmeasured(format!("no answer within {PATIENCE:?}"))))?;
        let now = self.clock.mono();
        let known = self.disks.filter(|(_, at)| now.since(*at) < DISKS_KEPT);
        let (disks, at) = known.unwrap_or((NodeDisks::default(), now));
        let seen = Observations::of(&usage, (&disks, at), self.memory, self.cache);
        Ok(Look { usage, seen })
    }

    /// Waits for the answer to a question of this look. One that is late already is taken when it comes.
    async fn look_at_disks(&mut self) {
        if let Some(Ok(late)) = self.in_flight.try_join_next() {
            self.learn(late);
        }
        if !self.in_flight.is_empty() {
            return;
        }
        let (reader, clock) = (Arc::clone(&self.reader), self.clock.clone());
        self.in_flight.spawn(timed("eviction-disks", async move {
            let at = clock.mono();
            (reader.disks(Duration::ZERO).await, at)
        }));
        if let Ok(Some(Ok(answer))) = tokio::time::timeout(DISK_PATIENCE, self.in_flight.join_next()).await {
            self.learn(answer);
        }
    }

    fn learn(&mut self, (disks, at): (Result<NodeDisks, Unmeasured>, Instant)) {
        if let Ok(disks) = disks {
            self.disks = Some((disks, at));
        }
    }
}

async fn measure(reader: &dyn UsageReader, purpose: Purpose) -> Result<Arc<NodeUsage>, Unmeasured> {
    let (detail, disks) = match purpose {
        Purpose::Watch => return reader.node().await,
        Purpose::WeighMemory => (Detail::Usage, false),
        Purpose::WeighDisks => (Detail::Usage, true),
        Purpose::WeighProcesses => (Detail::Everything, false),
    };
    reader.usage(Wanted { detail, networks: false, disks, max_age: Duration::ZERO }).await
}
