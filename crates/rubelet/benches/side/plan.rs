//! How often, how many, how long.

use std::time::Duration;

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The longest that anything is waited for: upstream refreshes a ConfigMap within two minutes.
pub(crate) const PATIENCE: Duration = secs(180);

/// Between the end of a single pod and the next one, for remains to be removed.
pub(crate) const QUIET: Duration = Duration::from_millis(600);

/// How long the single pod `n` lives: not in step with anything that an agent does once per second.
pub(crate) fn between(n: usize) -> Duration {
    Duration::from_millis(100 + 130 * (u64::try_from(n).unwrap_or_default() % 8))
}

/// Which phases there are, and how large they are.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Pods that warm up the agent, the runtime and the kernel's caches.
    pub(crate) warm_up: usize,
    /// How often the agent is started on an empty node.
    pub(crate) starts: usize,
    /// Pods that are created and deleted one after another.
    pub(crate) singles: usize,
    /// Containers that are killed to see their exit in the status.
    pub(crate) exits: usize,
    /// Containers that are killed to see them restarted.
    pub(crate) restarts: usize,
    /// ConfigMap changes, as long as they are quick; there is always one.
    pub(crate) config_maps: usize,
    /// Resizes of one container.
    pub(crate) resizes: usize,
    /// Pods that are created, watched and deleted at once.
    pub(crate) bursts: Vec<Burst>,
    /// The node is left to itself for so long before it is watched idle.
    pub(crate) settle: Duration,
    /// How long it is watched.
    pub(crate) window: Duration,
    /// How long it is watched with the largest burst, where it matters most.
    pub(crate) long_window: Duration,
    /// How long it is watched while its pages are read.
    pub(crate) scrape_window: Duration,
    /// Kinds of probes, each on 100 pods.
    pub(crate) probes: Vec<Probing>,
}

/// So many pods at once.
#[derive(Clone, Debug)]
pub(crate) struct Burst {
    pub(crate) pods: usize,
    /// Each grace period makes one burst. The idle node is watched with the first.
    pub(crate) graces: Vec<u32>,
    /// Whether the node is watched idle.
    pub(crate) idle: bool,
    /// Whether the agent is killed and started again under them.
    pub(crate) restart: bool,
    /// Whether their end is measured. The last ones may as well go with the node.
    pub(crate) delete: bool,
}

/// What asks the containers every second whether they are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probing {
    Exec,
    Http,
}

impl Plan {
    pub(crate) fn full() -> Self {
        let burst =
            |pods, graces: &[u32], restart| Burst { pods, graces: graces.to_vec(), idle: true, restart, delete: true };
        Self {
            warm_up: 4,
            starts: 2,
            singles: 24,
            exits: 6,
            restarts: 8,
            config_maps: 5,
            resizes: 5,
            bursts: vec![burst(30, &[30, 1], false), burst(100, &[30, 1], true)],
            settle: secs(10),
            window: secs(15),
            long_window: secs(25),
            scrape_window: secs(60),
            probes: vec![Probing::Http, Probing::Exec],
        }
    }

    pub(crate) fn quick() -> Self {
        // How long 30 pods take at once varies most, so there are two bursts of them; the end of 100 is left to the node.
        let thirty = Burst { pods: 30, graces: vec![1, 1], idle: false, restart: false, delete: true };
        let hundred = Burst { pods: 100, graces: vec![30], idle: true, restart: true, delete: false };
        Self {
            warm_up: 3,
            starts: 1,
            singles: 7,
            exits: 5,
            restarts: 0,
            config_maps: 0,
            resizes: 2,
            bursts: vec![thirty, hundred],
            settle: secs(10),
            window: secs(8),
            long_window: secs(12),
            scrape_window: secs(30),
            probes: Vec::new(),
        }
    }
}
