//! How long the node took from its boot to being ready. upstream: util/node_startup_latency_tracker.go (v1.36)

use std::time::Duration;

use rubelet_core::time::Instant;

use super::histogram::{Seconds, number};

/// Times since the start of this process. As upstream, all but the first attempt count only for a node whose object this
/// process has made.
#[derive(Debug, Default)]
pub(crate) struct NodeStartup {
    /// How long the machine was up when the process began.
    uptime: Seconds,
    attempted: Seconds,
    registered: Seconds,
    ready: Seconds,
}

impl NodeStartup {
    pub(super) fn machine_was_up(&self, uptime: Duration) {
        self.uptime.set(uptime);
    }

    /// The node's object is about to be made.
    pub(crate) fn attempted(&self, now: Instant) {
        self.attempted.set_once(now.since(Instant::START));
    }

    /// The node's object was made.
    pub(crate) fn registered(&self, now: Instant) {
        self.registered.set_once(now.since(Instant::START));
    }

    /// The node was reported as ready.
    pub(crate) fn ready(&self, now: Instant) {
        if !self.registered.get().is_zero() {
            self.ready.set_once(now.since(Instant::START));
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        let [uptime, attempted, registered, ready] =
            [&self.uptime, &self.attempted, &self.registered, &self.ready].map(Seconds::get);
        // Zero until the time has come that ends it.
        let until = |end: Duration, took: Duration| if end.is_zero() { Duration::ZERO } else { took };
        let total = if uptime.is_zero() { Duration::ZERO } else { uptime.saturating_add(ready) };
        for (name, help, took) in [
            ("duration", "From the machine's boot to the node being ready.", until(ready, total)),
            (
                "post_registration_duration",
                "From the node's registration to its being ready.",
                until(ready, ready.saturating_sub(registered)),
            ),
            (
                "pre_kubelet_duration",
                "From the machine's boot to the start of this process.",
                until(registered, uptime),
            ),
            (
                "pre_registration_duration",
                "From the start of this process to the first attempt to register the node.",
                until(registered, attempted),
            ),
            (
                "registration_duration",
                "From the first attempt to register the node to its registration.",
                until(registered, registered.saturating_sub(attempted)),
            ),
        ] {
            let name = format!("kubelet_node_startup_{name}_seconds");
            number(out, (&name, "gauge"), help, took.as_secs_f64());
        }
    }
}
