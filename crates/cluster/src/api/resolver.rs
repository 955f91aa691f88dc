//! Resolves host names.
//!
//! The system's resolver blocks for as long as a nameserver does not answer, and cannot be cancelled. Lookups therefore run
//! on a few threads of their own, at most one per name; all callers for that name wait for it, each with a deadline. While
//! a name cannot be resolved, the last known addresses are used. The address that last worked comes first.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// Deadline of a lookup. The thread may take longer; its result is used by the next lookup.
const DEADLINE: Duration = Duration::from_secs(4);
/// Most concurrent lookups. The names are those of the server, perhaps a proxy, and a manifest URL.
const MOST_THREADS: usize = 4;
/// Most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

/// Looks up the addresses of a name. May block.
type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolves host names. Clones share threads and results.
#[derive(Clone)]
pub struct Resolver {
    lookup: Arc<Lookup>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Running lookups, by name.
    running: BTreeMap<String, watch::Receiver<Option<Found>>>,
    /// Last results, by name.
    known: BTreeMap<String, Known>,
}

#[derive(Default)]
struct Known {
    addresses: Vec<IpAddr>,
    /// The address that last worked.
    good: Option<IpAddr>,
}

type Found = Result<Vec<IpAddr>, Arc<io::Error>>;

impl Default for Resolver {
    /// Uses the system's resolver.
    fn default() -> Self {
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Resolver {
    /// Uses `lookup`, which is called on a thread where it may block.
    pub fn new(lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { lookup: Arc::new(lookup), state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses of a host, the preferred one first.
    pub(super) async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        let found = match self.running(host) {
            Ok(mut answer) => match tokio::time::timeout(DEADLINE, answer.wait_for(Option::is_some)).await {
                Ok(Ok(found)) => found.clone().unwrap_or_else(|| Ok(Vec::new())),
                Ok(Err(_)) => Err(Arc::new(io::Error::other("the lookup of the name panicked"))),
                Err(_) => Err(Arc::new(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("lookup of {host} timed out after {DEADLINE:?}: does the nameserver answer?"),
                ))),
            },
            Err(error) => Err(Arc::new(error)),
        };
        let mut state = self.state();
        match found {
            Ok(addresses) if !addresses.is_empty() => {
                let known = state.known.entry(host.to_owned()).or_default();
                known.addresses = addresses;
                Ok(known.preferred_first())
            }
            failed => match state.known.get(host) {
                Some(known) => Ok(known.preferred_first()),
                None => Err(match failed {
                    Ok(_) => io::Error::new(io::ErrorKind::NotFound, format!("the name {host} has no address")),
                    Err(error) => io::Error::new(error.kind(), error),
                }),
            },
        }
    }

    /// The running lookup of `host`, or a new one.
    fn running(&self, host: &str) -> io::Result<watch::Receiver<Option<Found>>> {
        let mut state = self.state();
        if let Some(answer) = state.running.get(host) {
            return Ok(answer.clone());
        }
        if state.running.len() >= MOST_THREADS {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{MOST_THREADS} lookups of other names are stuck: does the nameserver answer?"),
            ));
        }
        let (tell, answer) = watch::channel(None);
        let running = Running { resolver: self.clone(), host: host.to_owned() };
        std::thread::Builder::new().name("name-lookup".to_owned()).spawn(move || {
            let found = (running.resolver.lookup)(&running.host);
            let found = found.map(|mut addresses| {
                addresses.truncate(MOST_ADDRESSES);
                addresses
            });
            // Removed before the result is published: callers after that start a new lookup.
            drop(running);
            tell.send_replace(Some(found.map_err(Arc::new)));
        })?;
        state.running.insert(host.to_owned(), answer.clone());
        Ok(answer)
    }

    /// Connecting to this address of `host` succeeded.
    pub(super) fn worked(&self, host: &str, address: IpAddr) {
        if let Some(known) = self.state().known.get_mut(host) {
            known.good = Some(address);
        }
    }

    /// Connecting to this address failed.
    pub(super) fn failed(&self, host: &str, address: IpAddr) {
        if let Some(known) = self.state().known.get_mut(host) {
            known.good = known.good.filter(|good| *good != address);
        }
    }
}

impl Known {
    fn preferred_first(&self) -> Vec<IpAddr> {
        let mut addresses = self.addresses.clone();
        addresses.sort_by_key(|address| self.good != Some(*address));
        addresses
    }
}

/// A running lookup; removed when dropped.
struct Running {
    resolver: Resolver,
    host: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.resolver.state().running.remove(&self.host);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, mpsc};

    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[tokio::test]
    async fn an_ip_address_is_not_looked_up_and_the_address_that_worked_comes_first() {
        let resolver = Resolver::new(|name| if name == "api" { Ok(vec![ONE, TWO]) } else { Ok(Vec::new()) });
        assert_eq!(resolver.addresses("192.0.2.2").await.unwrap(), [TWO]);
        assert_eq!(resolver.addresses("::1").await.unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
        assert_eq!(resolver.addresses("api").await.unwrap(), [ONE, TWO]);
        resolver.worked("api", TWO);
        assert_eq!(resolver.addresses("api").await.unwrap(), [TWO, ONE]);
        resolver.failed("api", TWO);
        assert_eq!(resolver.addresses("api").await.unwrap(), [ONE, TWO]);
        assert_eq!(resolver.addresses("other").await.unwrap_err().to_string(), "the name other has no address");
    }

    #[tokio::test]
    async fn the_last_known_addresses_are_used_while_the_lookup_fails() {
        let calls = AtomicUsize::new(0);
        let resolver = Resolver::new(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(vec![ONE]),
            1 => Err(io::Error::other("no nameserver")),
            _ => Ok(vec![TWO]),
        });
        for expected in [ONE, ONE, TWO] {
            assert_eq!(resolver.addresses("api").await.unwrap(), [expected]);
        }
    }

    /// The nameserver never answers: every lookup blocks its thread.
    #[tokio::test(start_paused = true)]
    async fn a_silent_nameserver_blocks_one_thread_per_name_and_few_in_all() {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let (began, begins) = mpsc::channel();
        let hung = Arc::clone(&gate);
        let resolver = Resolver::new(move |name| {
            began.send(name.to_owned()).unwrap();
            let open = hung.0.lock().unwrap();
            drop(hung.1.wait_while(open, |open| !*open).unwrap());
            Ok(vec![ONE])
        });
        // Many lookups of one name, …
        for _ in 0..100 {
            let error = resolver.addresses("api").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        // … and of many names.
        for number in 0..100 {
            resolver.addresses(&format!("other-{number}")).await.unwrap_err();
        }
        let began: std::collections::BTreeSet<_> = (0..MOST_THREADS).map(|_| begins.recv().unwrap()).collect();
        assert_eq!(began.len(), MOST_THREADS, "one thread for each name");
        assert!(begins.try_recv().is_err(), "and no more");
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        // The threads end, and the name resolves again.
        while resolver.addresses("api").await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(resolver.addresses("api").await.unwrap(), [ONE]);
    }
}
