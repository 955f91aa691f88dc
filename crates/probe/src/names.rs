//! Host names of probes and hooks, resolved on a few separate threads.
//!
//! The C library's resolver cannot be interrupted: a name server that never answers occupies its thread for as long as
//! the resolver retries. So there is one lookup in flight for each name, however many probes need it, the number of
//! pending names is bounded, and a probe that times out leaves the lookup behind in its pool.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use rubelet_engine::blocking::{Joined, NAMES, TooMany};

/// Names being resolved or waiting at once; one more is refused. Most probes use an IP address, not a name.
const PENDING: usize = 64;

/// Resolves a name; empty if there is no such host. May block.
pub(crate) type Resolver = Arc<dyn Fn(&str) -> Vec<IpAddr> + Send + Sync>;

pub(crate) struct Names {
    joined: Joined<Arc<[IpAddr]>>,
    resolver: Resolver,
}

impl Names {
    /// Resolves names with this machine's C library.
    pub(crate) fn of_this_machine() -> Self {
        Self::new(Arc::new(|name| {
            let found = (name, 0).to_socket_addrs();
            found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
        }))
    }

    pub(crate) fn new(resolver: Resolver) -> Self {
        Self { joined: Joined::new(&NAMES, PENDING), resolver }
    }

    /// The addresses of `name`; empty if there is no such host.
    pub(crate) async fn look_up(&self, name: &str) -> Result<Arc<[IpAddr]>, TooMany> {
        let (resolver, wanted) = (Arc::clone(&self.resolver), name.to_owned());
        self.joined.ask(name, move || resolver(&wanted).into()).await
    }
}

#[cfg(test)]
mod tests;
