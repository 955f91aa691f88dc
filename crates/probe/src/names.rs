//! Names of hosts that probes and hooks ask, looked up on a few threads of their own.
//!
//! The C library's resolver cannot be interrupted: a name server that never answers keeps its thread for as long as the
//! resolver tries. So one lookup is in flight for each name, however many ask for it, only so many names are pending,
//! and a probe that runs out of time leaves the lookup behind in its pool.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use rubelet_engine::blocking::{Joined, NAMES, TooMany};

/// Names that are looked up or wait for it at once; one more is refused. Most probes ask an address, not a name.
const PENDING: usize = 64;

/// Finds the addresses of a name; none if there is no such host. May block.
pub(crate) type Resolver = Arc<dyn Fn(&str) -> Vec<IpAddr> + Send + Sync>;

pub(crate) struct Names {
    joined: Joined<Arc<[IpAddr]>>,
    resolver: Resolver,
}

impl Names {
    /// Names as this machine's C library resolves them.
    pub(crate) fn of_this_machine() -> Self {
        Self::new(Arc::new(|name| {
            let found = (name, 0).to_socket_addrs();
            found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
        }))
    }

    pub(crate) fn new(resolver: Resolver) -> Self {
        Self { joined: Joined::new(&NAMES, PENDING), resolver }
    }

    /// The addresses of `name`; none if there is no such host.
    pub(crate) async fn look_up(&self, name: &str) -> Result<Arc<[IpAddr]>, TooMany> {
        let (resolver, wanted) = (Arc::clone(&self.resolver), name.to_owned());
        self.joined.ask(name, move || resolver(&wanted).into()).await
    }
}

#[cfg(test)]
mod tests;
