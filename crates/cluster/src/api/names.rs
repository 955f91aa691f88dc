//! The addresses of names.
//!
//! The system's resolver blocks, for as long as a nameserver that does not answer makes it, and cannot be stopped. So
//! lookups run on few threads of their own: one for each name at a time, which all who ask for that name wait for, each
//! with a deadline. What was found last serves while a name cannot be looked up, and the address that last worked comes
//! first.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// How long a lookup is waited for; the thread may take longer, and what it finds serves the next time.
const DEADLINE: Duration = Duration::from_secs(4);
/// Most lookups at a time: there is a server, perhaps a proxy, and a URL of manifests.
const MOST_THREADS: usize = 4;
/// Most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

/// Asks the system, or whatever stands for it, for the addresses of a name. It may block.
type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Looks up names. Clones share their threads and what they know.
#[derive(Clone)]
pub struct Names {
    lookup: Arc<Lookup>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Lookups that run, by name.
    running: BTreeMap<String, watch::Receiver<Option<Found>>>,
    /// What is known of each name.
    known: BTreeMap<String, Known>,
}

#[derive(Default)]
struct Known {
    addresses: Vec<IpAddr>,
    /// The one that last worked.
    good: Option<IpAddr>,
}

type Found = Result<Vec<IpAddr>, Arc<io::Error>>;

impl Default for Names {
    /// As the system finds them.
    fn default() -> Self {
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

impl Names {
    /// As `lookup` finds them. It is called on a thread where it may block.
    pub fn new(lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { lookup: Arc::new(lookup), state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses of a host, the best first.
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
                    format!("the name {host} was not found within {DEADLINE:?}: does the nameserver answer?"),
                ))),
            },
            Err(error) => Err(Arc::new(error)),
        };
        let mut state = self.state();
        match found {
            Ok(addresses) if !addresses.is_empty() => {
                let known = state.known.entry(host.to_owned()).or_default();
                known.addresses = addresses;
                Ok(known.best_first())
            }
            failed => match state.known.get(host) {
                Some(known) => Ok(known.best_first()),
                None => Err(match failed {
                    Ok(_) => io::Error::new(io::ErrorKind::NotFound, format!("the name {host} has no address")),
                    Err(error) => io::Error::new(error.kind(), error),
                }),
            },
        }
    }

    /// The lookup of `host` that runs, or one that begins now.
    fn running(&self, host: &str) -> io::Result<watch::Receiver<Option<Found>>> {
        let mut state = self.state();
        if let Some(answer) = state.running.get(host) {
            return Ok(answer.clone());
        }
        if state.running.len() >= MOST_THREADS {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{MOST_THREADS} lookups of other names do not end: does the nameserver answer?"),
            ));
        }
        let (tell, answer) = watch::channel(None);
        let running = Running { names: self.clone(), host: host.to_owned() };
        std::thread::Builder::new().name("name-lookup".to_owned()).spawn(move || {
            let found = (running.names.lookup)(&running.host);
            let found = found.map(|mut addresses| {
                addresses.truncate(MOST_ADDRESSES);
                addresses
            });
            // No longer running before its answer is there: whoever asks after that asks anew.
            drop(running);
            tell.send_replace(Some(found.map_err(Arc::new)));
        })?;
        state.running.insert(host.to_owned(), answer.clone());
        Ok(answer)
    }

    /// A connection to this address of `host` came about.
    pub(super) fn worked(&self, host: &str, address: IpAddr) {
        if let Some(known) = self.state().known.get_mut(host) {
            known.good = Some(address);
        }
    }

    /// None came about to this address.
    pub(super) fn failed(&self, host: &str, address: IpAddr) {
        if let Some(known) = self.state().known.get_mut(host) {
            known.good = known.good.filter(|good| *good != address);
        }
    }
}

impl Known {
    fn best_first(&self) -> Vec<IpAddr> {
        let mut addresses = self.addresses.clone();
        addresses.sort_by_key(|address| self.good != Some(*address));
        addresses
    }
}

/// A lookup that runs, until dropped.
struct Running {
    names: Names,
    host: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.names.state().running.remove(&self.host);
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
    async fn an_address_is_not_looked_up_and_the_one_that_worked_comes_first() {
        let names = Names::new(|name| if name == "api" { Ok(vec![ONE, TWO]) } else { Ok(Vec::new()) });
        assert_eq!(names.addresses("192.0.2.2").await.unwrap(), [TWO]);
        assert_eq!(names.addresses("::1").await.unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
        assert_eq!(names.addresses("api").await.unwrap(), [ONE, TWO]);
        names.worked("api", TWO);
        assert_eq!(names.addresses("api").await.unwrap(), [TWO, ONE]);
        names.failed("api", TWO);
        assert_eq!(names.addresses("api").await.unwrap(), [ONE, TWO]);
        assert_eq!(names.addresses("other").await.unwrap_err().to_string(), "the name other has no address");
    }

    #[tokio::test]
    async fn what_was_found_last_serves_while_the_name_cannot_be_looked_up() {
        let calls = AtomicUsize::new(0);
        let names = Names::new(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(vec![ONE]),
            1 => Err(io::Error::other("no nameserver")),
            _ => Ok(vec![TWO]),
        });
        for expected in [ONE, ONE, TWO] {
            assert_eq!(names.addresses("api").await.unwrap(), [expected]);
        }
    }

    /// The nameserver never answers: every lookup blocks its thread.
    #[tokio::test(start_paused = true)]
    async fn a_nameserver_that_never_answers_takes_one_thread_for_a_name_and_few_in_all() {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let (began, begins) = mpsc::channel();
        let hung = Arc::clone(&gate);
        let names = Names::new(move |name| {
            began.send(name.to_owned()).unwrap();
            let open = hung.0.lock().unwrap();
            drop(hung.1.wait_while(open, |open| !*open).unwrap());
            Ok(vec![ONE])
        });
        // However often it is asked for, …
        for _ in 0..100 {
            let error = names.addresses("api").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        // … and however many names there are.
        for number in 0..100 {
            names.addresses(&format!("other-{number}")).await.unwrap_err();
        }
        let began: std::collections::BTreeSet<_> = (0..MOST_THREADS).map(|_| begins.recv().unwrap()).collect();
        assert_eq!(began.len(), MOST_THREADS, "one thread for each name");
        assert!(begins.try_recv().is_err(), "and no more");
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        // Those threads end, and the name can be looked up again.
        while names.addresses("api").await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(names.addresses("api").await.unwrap(), [ONE]);
    }
}
